package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	readyTimeout    = 10 * time.Second
	defaultMaxStore = 8 << 30
	maxMemory       = 64 << 20
	maxPayload      = 1 << 20
)

// ServerConfig says how an embedded server runs.
type ServerConfig struct {
	// StoreDir keeps the streams. It is required, and for one server only.
	StoreDir string
	// Host to listen on; empty means 127.0.0.1.
	Host string
	// Port to listen on; 0 means a free one.
	Port int
	// MaxStore bounds, in bytes, what all streams may reserve; 0 means 8 GiB.
	MaxStore int64
	// Log hears of the server's warnings and errors; nil means no log.
	Log *slog.Logger
}

// Server is a NATS server with JetStream inside this process: what a laptop, a
// demo and a test use instead of a NATS cluster. It installs no signal handler
// and writes nothing to standard output.
type Server struct {
	server *server.Server
	cfg    ServerConfig
	stop   sync.Once
}

// StartServer returns when the server takes connections.
func StartServer(cfg ServerConfig) (*Server, error) {
	if cfg.StoreDir == "" {
		return nil, errors.New("start NATS server: no store folder given")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	if cfg.MaxStore == 0 {
		cfg.MaxStore = defaultMaxStore
	}
	port := cfg.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	ns, err := server.NewServer(&server.Options{
		Host: cfg.Host, Port: port,
		JetStream: true, StoreDir: cfg.StoreDir,
		JetStreamMaxStore: cfg.MaxStore, JetStreamMaxMemory: maxMemory,
		MaxPayload: maxPayload,
		NoSigs:     true, NoLog: true,
	})
	if err != nil {
		return nil, fmt.Errorf("configure NATS server: %w", err)
	}
	ns.SetLoggerV2(serverLog{cfg.Log}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(readyTimeout) {
		ns.Shutdown()
		ns.WaitForShutdown()
		return nil, fmt.Errorf("start NATS server: not ready within %s (is port %d free?)", readyTimeout, cfg.Port)
	}
	if addr, ok := ns.Addr().(*net.TCPAddr); ok {
		cfg.Port = addr.Port
	}
	return &Server{server: ns, cfg: cfg}, nil
}

// URL is where clients connect.
func (s *Server) URL() string { return s.server.ClientURL() }

// Config is what the server runs with, its port included: StartServer with it
// after Stop is a restart.
func (s *Server) Config() ServerConfig { return s.cfg }

// Stop ends the server and returns when its streams are on disk. Further calls
// do nothing.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	})
}

// serverLog passes on what an operator must see. Fatalf only tells: the server
// library leaves the process alone.
type serverLog struct{ log *slog.Logger }

func (serverLog) Noticef(string, ...any) {}
func (serverLog) Debugf(string, ...any)  {}
func (serverLog) Tracef(string, ...any)  {}

func (l serverLog) Warnf(format string, v ...any) {
	l.log.Warn("NATS server: " + fmt.Sprintf(format, v...))
}

func (l serverLog) Errorf(format string, v ...any) {
	l.log.Error("NATS server: " + fmt.Sprintf(format, v...))
}

func (l serverLog) Fatalf(format string, v ...any) { l.Errorf(format, v...) }
