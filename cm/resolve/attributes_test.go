package resolve

import (
	"bytes"
	"testing"
)

// The attribute of 9 bytes would be aligned to 12, which are not there.
func TestAttributesNotAligned(t *testing.T) {
	b := []byte{9, 0, 3, 0, 1, 2, 3, 4, 5}
	attrs, err := Attributes(b)
	if err != nil || len(attrs) != 1 || attrs[0].Attr.Type != 3 || !bytes.Equal(attrs[0].Value, b[4:]) {
		t.Errorf("%+v, %v", attrs, err)
	}
	// A length beyond the message must stay an error.
	if attrs, err := Attributes([]byte{10, 0, 3, 0, 1, 2, 3, 4}); err == nil {
		t.Errorf("a length beyond the message: %+v", attrs)
	}
}
