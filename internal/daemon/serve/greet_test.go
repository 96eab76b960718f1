package serve

import (
	"errors"
	"testing"

	"github.com/roce-xdp/roce-xdp/internal/proto"
)

func TestHello(t *testing.T) {
	r := newRig(t, Config{Name: "roce-xdp test"})
	for _, tt := range []struct {
		name  string
		hello proto.Hello
		want  proto.Status
	}{
		{"ours alone", *goodHello(), proto.StatusOK},
		{"newer ones too", proto.Hello{Magic: proto.Magic, MinVersion: proto.Version, MaxVersion: proto.Version + 9}, proto.StatusOK},
		{"older ones too", proto.Hello{Magic: proto.Magic, MaxVersion: proto.Version}, proto.StatusOK},
		{"newer ones only", proto.Hello{Magic: proto.Magic, MinVersion: proto.Version + 1, MaxVersion: proto.Version + 9}, proto.StatusVersion},
		{"older ones only", proto.Hello{Magic: proto.Magic, MaxVersion: proto.MinVersion - 1}, proto.StatusVersion},
		{"none", proto.Hello{Magic: proto.Magic, MinVersion: 2, MaxVersion: 1}, proto.StatusVersion},
		{"not ours", proto.Hello{Magic: 1, MinVersion: 1, MaxVersion: 1}, proto.StatusProtocol},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := r.dial(t)
			if tt.want != proto.StatusOK {
				w.refused(tt.want, proto.OpHello, &tt.hello)
				return
			}
			var rep proto.HelloReply
			w.must(proto.OpHello, &tt.hello, &rep)
			if rep.Version != proto.Version || rep.Devices != 1 || proto.Text(rep.Daemon[:]) != "roce-xdp test" {
				t.Errorf("reply %+v", rep)
			}
			w.refused(proto.StatusProtocol, proto.OpHello, goodHello())
		})
	}
}

func TestPolicy(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limits  Limits
		err     error
		hello   proto.Status
		devices uint32
		open    proto.Status
	}{
		{"everybody", Limits{}, nil, proto.StatusOK, 1, proto.StatusOK},
		{"nobody", Limits{}, errors.New("user 7 is not in group rdma"), proto.StatusPermission, 0, 0},
		{"this device", Limits{Devices: []string{"mem0"}}, nil, proto.StatusOK, 1, proto.StatusOK},
		{"another device", Limits{Devices: []string{"eth9"}}, nil, proto.StatusOK, 0, proto.StatusPermission},
		{"no device", Limits{Devices: []string{}}, nil, proto.StatusOK, 0, proto.StatusPermission},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{Policy: func(Cred) (Limits, error) { return tt.limits, tt.err }})
			w := r.dial(t)
			if tt.hello != proto.StatusOK {
				w.refused(tt.hello, proto.OpHello, goodHello())
				return
			}
			w.must(proto.OpHello, goodHello(), &proto.HelloReply{})
			var list proto.DevicesReply
			w.must(proto.OpDevices, &proto.Page{}, &list)
			if list.Total != tt.devices || list.Count != tt.devices {
				t.Errorf("%d devices, want %d", list.Total, tt.devices)
			}
			if tt.devices == 1 && (proto.Text(list.Entry[0].Name[:]) != "mem0" || list.Entry[0].NodeGUID == 0 || list.Entry[0].State == 0) {
				t.Errorf("device %+v", list.Entry[0])
			}
			if tt.open != proto.StatusOK {
				w.refused(tt.open, proto.OpOpen, openOf("mem0"))
				return
			}
			w.must(proto.OpOpen, openOf("mem0"), &proto.OpenReply{})
			w.refused(proto.StatusProtocol, proto.OpOpen, openOf("mem0"))
		})
	}
}

// The kernel says who connects: this process.
func TestPolicyLearnsWhoAsks(t *testing.T) {
	asked := make(chan Cred, 1)
	r := newRig(t, Config{Policy: func(c Cred) (Limits, error) { asked <- c; return Limits{}, nil }})
	r.greet(t)
	want := selfCred(t)
	if got := <-asked; got.PID != want.PID || got.UID != want.UID || got.GID != want.GID {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTooManyClients(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  Config
	}{
		{"of a user", Config{Policy: func(Cred) (Limits, error) { return Limits{Clients: 2}, nil }}},
		{"of all", Config{MaxClients: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.cfg)
			first := r.greet(t)
			r.greet(t)
			r.dial(t).refused(proto.StatusLimit, proto.OpHello, goodHello())
			first.close()
			waitFor(t, "room", func() bool {
				w := r.dial(t)
				defer w.close()
				return w.call(proto.OpHello, goodHello(), &proto.HelloReply{}) == nil
			})
		})
	}
}

func TestNoSuchDevice(t *testing.T) {
	w := newRig(t, Config{}).greet(t)
	w.refused(proto.StatusNoDevice, proto.OpOpen, openOf("eth9"))
	w.refused(proto.StatusProtocol, proto.OpAllocPD, &proto.Empty{})
	w.refused(proto.StatusProtocol, proto.OpCMOpen, &proto.Empty{})
	w.must(proto.OpOpen, openOf("mem0"), &proto.OpenReply{})
	w.refused(proto.StatusProtocol, proto.OpCMInfo, &proto.CMID{ID: 1})
}
