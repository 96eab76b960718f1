package control

import "github.com/roce-xdp/roce-xdp/internal/buildinfo"

// SocketName is the name of the socket in a daemon's runtime directory.
const SocketName = "control.sock"

// Kinds are those of Resources, in the order in which they are counted. All but ctx
// and client are rdma(8)'s; ctx is what that calls an open device, and client is the same
// with its process and what it uses.
var Kinds = []string{"pd", "cq", "qp", "cm_id", "mr", "ctx", "srq", "client"}

// Source is the daemon as the socket shows it. Its methods are safe for concurrent use.
type Source interface {
	Links() []Row
	// Resources are the objects of a kind, or their numbers for an empty kind.
	Resources(kind string) []Row
	Statistics() ([]Row, error)
	Health() Health
	Reload() (Reloaded, error)
}

// States of a device.
const (
	StateOpen = "open"
	StateGone = "gone" // the interface does not exist; it is opened when it comes back
)

// Health tells whether the daemon does all of its work.
type Health struct {
	Status  string         `json:"status"` // ok, degraded or stopping
	PID     int            `json:"pid"`
	Seconds int64          `json:"uptime_seconds"`
	Devices []DeviceHealth `json:"devices"`
	// Problems are others than those of devices, in words: whose memory a worker waits for.
	Problems []string       `json:"problems,omitempty"`
	Build    buildinfo.Info `json:"build"`
}

// Values of Health.Status.
const (
	StatusOK       = "ok"
	StatusDegraded = "degraded"
	StatusStopping = "stopping"
)

// DeviceHealth is the state of one device.
type DeviceHealth struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Error string `json:"error,omitempty"` // why it is not open
}

// Reloaded tells what became of a change of the configuration.
type Reloaded struct {
	Changes []string `json:"changes"` // made
	Pending []string `json:"pending"` // that wait for the daemon to be started again
}
