package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Field is a value with its name.
type Field struct {
	Key string
	// Value is a string, an integer, a bool or a list of strings. Read from JSON it is a
	// string, a json.Number, a bool or an []any.
	Value any
}

// Row is what is known of one thing: a JSON object that keeps the order of its keys.
type Row []Field

// Get is the value of a key, nil when there is none.
func (r Row) Get(key string) any {
	for i := range r {
		if r[i].Key == key {
			return r[i].Value
		}
	}
	return nil
}

// Text is the value of a key as it is printed.
func (r Row) Text(key string) string {
	switch v := r.Get(key).(type) {
	case nil:
		return ""
	case []any:
		return printList(v)
	case []string:
		return strings.Join(v, ",")
	default:
		return fmt.Sprint(v)
	}
}

func printList(list []any) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ",")
}

// MarshalJSON implements json.Marshaler.
func (r Row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		for _, v := range []any{f.Key, f.Value} {
			text, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			b.Write(text)
			b.WriteByte(':')
		}
		b.Truncate(b.Len() - 1) // the colon behind the value
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Row) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(err, fmt.Errorf("control: %.20q is no object", text))
	}
	var row Row
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return err
		}
		row = append(row, Field{Key: key.(string), Value: v}) // of an object's key it is one
	}
	*r = row
	return nil
}
