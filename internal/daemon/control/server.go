package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/roce-xdp/roce-xdp/internal/buildinfo"
	"github.com/roce-xdp/roce-xdp/internal/shm"
)

const (
	// headerTimeout is how long a client may take over its request, so that a stuck one
	// holds nothing for long.
	headerTimeout = 10 * time.Second
	maxHeader     = 16 << 10 // bytes
)

// Server answers at a socket.
type Server struct {
	source Source
	allow  func(*shm.Cred) bool
	http   *http.Server
}

// NewServer makes a server. allow says whom it answers.
func NewServer(source Source, allow func(*shm.Cred) bool, log *slog.Logger) *Server {
	s := &Server{source: source, allow: allow}
	s.http = &http.Server{
		Handler:           s.checked(s.routes()),
		ConnContext:       withPeer,
		ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve answers at l until Close.
func (s *Server) Serve(l *net.UnixListener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close ends it, with the listener and every connection.
func (s *Server) Close() error { return s.http.Close() }

// peerKey is the key of the peer's credentials in a connection's context.
type peerKey struct{}

// withPeer asks who has connected. Who cannot be told gets no credentials.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if u, ok := c.(*net.UnixConn); ok {
		if cred, err := shm.CredOf(u); err == nil {
			return context.WithValue(ctx, peerKey{}, &cred)
		}
	}
	return ctx
}

// checked lets those to h whom the server answers.
func (s *Server) checked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cred, ok := r.Context().Value(peerKey{}).(*shm.Cred)
		if !ok || !s.allow(cred) {
			answerError(w, http.StatusForbidden, errors.New("only root, the daemon's user and its control group may use this socket"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/link", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.source.Links()) })
	mux.HandleFunc("GET /v1/resource", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.source.Resources("")) })
	mux.HandleFunc("GET /v1/resource/{kind}", s.resource)
	mux.HandleFunc("GET /v1/statistic", s.statistic)
	mux.HandleFunc("GET /v1/health", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.source.Health()) })
	mux.HandleFunc("GET /v1/ready", s.ready)
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, _ *http.Request) { answer(w, buildinfo.Get()) })
	mux.HandleFunc("POST /v1/reload", s.reload)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answerError(w, http.StatusNotFound, fmt.Errorf("there is no %s %s", r.Method, r.URL.Path))
	})
	return mux
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if !slices.Contains(Kinds, kind) {
		answerError(w, http.StatusNotFound, fmt.Errorf("there are no resources %q, but %s", kind, strings.Join(Kinds, ", ")))
		return
	}
	answer(w, s.source.Resources(kind))
}

func (s *Server) statistic(w http.ResponseWriter, _ *http.Request) {
	rows, err := s.source.Statistics()
	if err != nil {
		answerError(w, http.StatusInternalServerError, err)
		return
	}
	answer(w, rows)
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	h := s.source.Health()
	status := http.StatusOK
	if h.Status != StatusOK {
		status = http.StatusServiceUnavailable
	}
	answerWith(w, status, h)
}

func (s *Server) reload(w http.ResponseWriter, _ *http.Request) {
	done, err := s.source.Reload()
	if err != nil {
		answerError(w, http.StatusUnprocessableEntity, err)
		return
	}
	answer(w, done)
}

// failure is the answer of a request that failed.
type failure struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, v any) { answerWith(w, http.StatusOK, v) }

func answerError(w http.ResponseWriter, status int, err error) {
	answerWith(w, status, failure{Error: err.Error()})
}

func answerWith(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil { // of the values of this package only a bug could be the cause
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer has no JSON form"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone does not read it
}
