// Package bustest gives each test a NATS server of its own, with JetStream, in the test's
// process. The server is ready in milliseconds and stops when the test ends.
package bustest

import (
	"context"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
)

const timeout = time.Minute

// New returns a connection, without a socket, to a fresh server.
func New(t testing.TB) *bus.Conn {
	t.Helper()
	return connect(t, bus.Config{Name: t.Name(), InProcess: NewServer(t)})
}

// NewServer returns a fresh server with its store in t.TempDir. A test may stop it and
// start another from its Config to see what survives.
func NewServer(t testing.TB) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatalf("start NATS server: %v", err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Connect returns a further connection to s, over TCP. It survives a restart of the
// server on the same port.
func Connect(t testing.TB, s *natsserver.Server) *bus.Conn {
	t.Helper()
	return connect(t, bus.Config{Name: t.Name(), URL: s.URL()})
}

func connect(t testing.TB, cfg bus.Config) *bus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c, err := bus.Connect(ctx, cfg)
	if err != nil {
		t.Fatalf("connect to NATS server: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}
