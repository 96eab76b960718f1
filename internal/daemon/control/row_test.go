package control

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRowJSON(t *testing.T) {
	r := Row{{"ifname", "a\"b"}, {"zebra", uint64(1<<64 - 1)}, {"alpha", true}, {"gids", []string{"x", "y"}}}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	// The order is that of the row.
	const want = `{"ifname":"a\"b","zebra":18446744073709551615,"alpha":true,"gids":["x","y"]}`
	if string(text) != want {
		t.Fatalf("%s, want %s", text, want)
	}
	var back Row
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != want {
		t.Errorf("%s, %v", again, err)
	}
	for _, key := range []string{"ifname", "zebra", "alpha", "gids", "nothing"} {
		if r.Text(key) != back.Text(key) {
			t.Errorf("%s is %q and then %q", key, r.Text(key), back.Text(key))
		}
	}
	if d := cmp.Diff("18446744073709551615", back.Text("zebra")); d != "" {
		t.Error(d)
	}
	if text, err := json.Marshal(Row{}); err != nil || string(text) != "{}" {
		t.Errorf("an empty row is %s, %v", text, err)
	}
}

func TestRowRefusals(t *testing.T) {
	for _, text := range []string{`[]`, `7`, `"x"`, `{"a":1,}`, `{"a"`, `null`} {
		var r Row
		if err := json.Unmarshal([]byte(text), &r); err == nil && text != "null" {
			t.Errorf("%s is %v", text, r)
		}
	}
	if _, err := json.Marshal(Row{{"f", func() {}}}); err == nil {
		t.Error("a function has a JSON form")
	}
}
