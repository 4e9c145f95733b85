// Package natsserver runs a NATS server with JetStream inside this process, for
// a laptop, a demo and tests. Services link package bus alone.
package natsserver

import (
	"crypto/rand"
	"crypto/tls"
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
	// tlsTimeout is how long a client may take to prove its identity.
	tlsTimeout = 5 * time.Second
)

// Config is how an embedded server runs.
type Config struct {
	// StoreDir keeps the streams. It is required, and for one server only.
	StoreDir string
	// Private takes connections of this process alone (bus.Config.InProcess): there is no
	// socket.
	Private bool
	// Secret admits clients with the bus.Password of an identity, and allows each what
	// the table allows that identity. Without Secret and TLS, every client that reaches
	// the socket may do everything: that is for tests.
	Secret string
	// TLS, when set, admits clients whose certificate names an identity, and allows each
	// what the table allows it. It must verify clients.
	TLS *tls.Config
	// Host to listen on; empty means 127.0.0.1.
	Host string
	// Port to listen on; 0 means a free one.
	Port int
	// MaxStore bounds, in bytes, the space that all streams may reserve; 0 means 8 GiB.
	MaxStore int64
	// Log gets the server's warnings and errors; nil means no log.
	Log *slog.Logger
}

// Server is a NATS server with JetStream inside this process, in place of a NATS cluster.
// It installs no signal handler and writes nothing to standard output.
type Server struct {
	server *server.Server
	cfg    Config
	inside string // the password of this process's own connections
	stop   sync.Once
}

// Start returns when the server takes connections.
func Start(cfg Config) (*Server, error) {
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
	if cfg.TLS != nil && cfg.TLS.ClientAuth != tls.RequireAndVerifyClientCert {
		return nil, errors.New("start NATS server: TLS must verify its clients")
	}
	inside := rand.Text()
	options := &server.Options{
		Host: cfg.Host, Port: port, DontListen: cfg.Private,
		JetStream: true, StoreDir: cfg.StoreDir,
		JetStreamMaxStore: cfg.MaxStore, JetStreamMaxMemory: maxMemory,
		MaxPayload: maxPayload,
		NoSigs:     true, NoLog: true,
	}
	if cfg.TLS != nil {
		options.TLSConfig, options.TLSVerify, options.TLSTimeout = cfg.TLS, true, tlsTimeout.Seconds()
	}
	if cfg.Secret != "" || cfg.TLS != nil {
		options.CustomClientAuthentication = doorman{inside: inside, secret: cfg.Secret}
	}
	ns, err := server.NewServer(options)
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
	return &Server{server: ns, cfg: cfg, inside: inside}, nil
}

// URL returns where clients connect.
func (s *Server) URL() string { return s.server.ClientURL() }

// Listens reports whether there is a socket.
func (s *Server) Listens() bool { return s.server.Addr() != nil }

// Config returns the configuration that the server runs with, its port included: Start
// with it after Stop is a restart.
func (s *Server) Config() Config { return s.cfg }

// InProcessConn makes a connection of this process, without a socket.
func (s *Server) InProcessConn() (net.Conn, error) {
	conn, err := s.server.InProcessConn()
	if err != nil {
		return nil, fmt.Errorf("connect inside the process: %w", err)
	}
	return conn, nil
}

// Inside returns the user of this process's own connections and its password.
func (s *Server) Inside() (user, password string) { return insideUser, s.inside }

// Stop ends the server and returns when its streams are on disk. Further calls
// do nothing.
func (s *Server) Stop() {
	s.stop.Do(func() {
		s.server.Shutdown()
		s.server.WaitForShutdown()
	})
}

// serverLog passes on what an operator must see. Fatalf only logs, because the server
// library does not end the process.
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
