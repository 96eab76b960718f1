package bpf

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestModeText(t *testing.T) {
	for _, c := range []struct {
		text string
		want Mode
	}{
		{"auto", ModeAuto}, {"native", ModeNative}, {"generic", ModeGeneric},
		{"drv", ModeNative}, {"xdpdrv", ModeNative}, {"skb", ModeGeneric}, {"xdpgeneric", ModeGeneric},
	} {
		got, err := ParseMode(c.text)
		if err != nil || got != c.want {
			t.Errorf("ParseMode(%q) is %v, %v; want %v", c.text, got, err, c.want)
		}
		if again, err := ParseMode(got.String()); err != nil || again != got {
			t.Errorf("ParseMode(%q) is %v, %v", got.String(), again, err)
		}
	}
	for _, text := range []string{"", "Native", "hw", "Mode(7)"} {
		if m, err := ParseMode(text); err == nil || !strings.Contains(err.Error(), "native") {
			t.Errorf("ParseMode(%q) is %v, %v; want an error that names the modes", text, m, err)
		}
	}
	if got := Mode(7).String(); got != "Mode(7)" {
		t.Errorf("Mode(7) prints as %q", got)
	}
}

func TestActionText(t *testing.T) {
	for text, want := range map[string]Action{"drop": ActionDrop, "pass": ActionPass} {
		got, err := ParseAction(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseAction(%q) is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "Drop", "redirect"} {
		if a, err := ParseAction(text); err == nil {
			t.Errorf("ParseAction(%q) is %v, want an error", text, a)
		}
	}
	if got := Action(9).String(); got != "Action(9)" {
		t.Errorf("Action(9) prints as %q", got)
	}
	if got := Action(9).xdp(); got != xdpDrop {
		t.Errorf("an unknown action is XDP action %d, want drop", got)
	}
}

// TestTextMarshalling is how configuration files and JSON see both types.
func TestTextMarshalling(t *testing.T) {
	type config struct {
		Mode   Mode
		Action Action
	}
	want := config{ModeGeneric, ActionPass}
	text, err := json.Marshal(want)
	check(t, err)
	if string(text) != `{"Mode":"generic","Action":"pass"}` {
		t.Errorf("marshalled as %s", text)
	}
	var got config
	check(t, json.Unmarshal(text, &got))
	if got != want {
		t.Errorf("came back as %+v, want %+v", got, want)
	}
	for _, bad := range []string{`{"Mode":"fast"}`, `{"Action":"eat"}`} {
		c := want
		if err := json.Unmarshal([]byte(bad), &c); err == nil || c != want {
			t.Errorf("%s: %+v, %v; want an error and no change", bad, c, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    *Options
		want Options
		err  error
	}{
		{"nil", nil, Options{Queues: DefaultQueues}, nil},
		{"zero", &Options{}, Options{Queues: DefaultQueues}, nil},
		{"one queue", &Options{Queues: 1, NoSocket: ActionPass}, Options{Queues: 1, NoSocket: ActionPass}, nil},
		{"most queues", &Options{Queues: maxQueues}, Options{Queues: maxQueues}, nil},
		{"too many queues", &Options{Queues: maxQueues + 1}, Options{}, ErrRange},
		{"negative queues", &Options{Queues: -1}, Options{}, ErrRange},
		{"bad UnknownQPN", &Options{UnknownQPN: 2}, Options{}, ErrRange},
		{"bad NoSocket", &Options{NoSocket: 2}, Options{}, ErrRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.o.withDefaults()
			if !errors.Is(err, c.err) || err == nil && got != c.want {
				t.Errorf("%+v, %v; want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
}

// TestLoadBadOptions fails before anything needs a privilege.
func TestLoadBadOptions(t *testing.T) {
	s, err := Load(&Options{Queues: -5})
	wantErr(t, err, ErrRange, "bpf: load:", "-5 queues")
	if s != nil {
		t.Error("a Steer came with the error")
	}
}

func TestVerdictText(t *testing.T) {
	for v := range Verdict(VerdictCount) {
		if answerOf(v) == 0 {
			t.Errorf("verdict %q does not begin with pass, drop or redirect", v)
		}
	}
	if got := Verdict(VerdictCount).String(); got != "Verdict(15)" && VerdictCount == 15 {
		t.Errorf("the verdict behind the last prints as %q", got)
	}
	if got := Verdict(1 << 31).Help(); got != "" {
		t.Errorf("a verdict that does not exist has help %q", got)
	}
}

func TestOpError(t *testing.T) {
	err := opError("attach", "eth0 (native)", ErrBusy)
	if got, want := err.Error(), "bpf: attach eth0 (native): "+ErrBusy.Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := opError("close", "", ErrBusy).Error(), "bpf: close: "+ErrBusy.Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var op *OpError
	if !errors.As(err, &op) || op.Op != "attach" || !errors.Is(err, ErrBusy) {
		t.Errorf("%#v does not unwrap", err)
	}
	if err := opError("attach", "x", nil); err != nil {
		t.Errorf("an error out of nothing: %v", err)
	}
}

func TestPinPath(t *testing.T) {
	for name, want := range map[string]string{
		"eth0":     "/sys/fs/bpf/roce-xdp/eth0",
		"eth0.100": "/sys/fs/bpf/roce-xdp/eth0%2E100",
	} {
		if got := PinPath(name); got != want {
			t.Errorf("PinPath(%q) is %q, want %q", name, got, want)
		}
	}
}
