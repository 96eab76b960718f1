package transport

import (
	"testing"
	"time"
)

func TestRTTMeter(t *testing.T) {
	var m rttMeter
	if m.known() {
		t.Error("known without a sample")
	}
	m.sample(0) // a clock too coarse to see it
	if !m.known() {
		t.Error("a round trip in no time is a round trip")
	}
	m = rttMeter{}
	m.sample(100)
	if m.mean != 100 || m.timeout() != 400 || m.patience() != 1600 {
		t.Errorf("after one sample of 100: mean %d, timeout %d, patience %d", m.mean, m.timeout(), m.patience())
	}
	for range 100 {
		m.sample(100)
	}
	if m.mean != 100 || m.timeout() < 200 || m.timeout() > 220 {
		t.Errorf("steady at 100: mean %d, timeout %d", m.mean, m.timeout())
	}
	// One that is ten times as long is no loss, and is remembered.
	if m.patience() < 10*100 {
		t.Errorf("steady at 100, patience %d", m.patience())
	}
	m.sample(1000)
	if m.patience() < 4*1000 {
		t.Errorf("after a peak of 1000, patience %d", m.patience())
	}
	for range 300 {
		m.sample(100)
	}
	if m.patience() > 18*100 {
		t.Errorf("the peak is not forgotten: patience %d", m.patience())
	}
	for range 100 {
		m.sample(time.Second)
	}
	if m.mean < 990*time.Millisecond {
		t.Errorf("steady at a second, mean %v", m.mean)
	}
}
