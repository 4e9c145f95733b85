package gate

import (
	"time"

	"svc.internal/pkg/address"
	v1 "svc.internal/services/provider-hub/internal/dialect/v1"
	"svc.internal/services/provider-hub/internal/session"
)

// Config bounds sockets and their sessions in time and number. The zero value of a
// field stands for its default.
type Config struct {
	// Session bounds sessions of both dialects, and V1 those of dialect v1.
	Session session.Config
	V1      v1.Config
	// SessionTimeout is how long an agent of v2 may be without a heartbeat: 30 s.
	SessionTimeout time.Duration
	// PingInterval is the pause between pings, 15 s; a pong, or any other sign
	// of life, is due within PongTimeout, 5 s, and two that miss it end the
	// session.
	PingInterval time.Duration
	PongTimeout  time.Duration
	// ProbeTimeout is how long an agent may be silent behind a ping that a
	// waiting request asked for before the session ends: 2.5 s, and the time that
	// what was sent just before takes on a slow link, at most PongTimeout more.
	ProbeTimeout time.Duration
	// WriteTimeout bounds one write to the socket: 10 s.
	WriteTimeout time.Duration
	// HeldBudget bounds what the streams of all sessions hold together that
	// was not taken, in bytes: 1 GiB, which is the whole window of 4,096 streams of
	// v2, of which one provider has an eighth, because consumers in league with it
	// need not read. Beyond it, a stream of which more arrives is given up, and its
	// request made elsewhere.
	HeldBudget int64
	// Addresses finds out where an agent dials from; nil trusts no proxy.
	Addresses *address.Finder
	// MaxSockets bounds the sockets of this hub, registered or not: 10,000.
	// MaxWaiting bounds those that are not registered: 4,096. Beyond half of it,
	// addresses that had a live session within the last minute are refused, an
	// address or /64 of IPv6 has a quarter of it, or 64, and those are closed early
	// that were refused for their key.
	MaxSockets int
	MaxWaiting int
	// HandshakeRate and HandshakeBurst shape registrations a second: 200 and
	// 400. Those beyond wait for their turn, of which each network that waits
	// has as many as any other.
	HandshakeRate  float64
	HandshakeBurst int
	// MaxAdmissions bounds the key look-ups under way: 32. Each may take
	// AdmitTimeout, 5 s.
	MaxAdmissions int
	AdmitTimeout  time.Duration
	// ReconnectSpread is over how long at most agents of v2 are told to come
	// back when the hub shuts down, 5 ms for each, and over how long at most
	// those of v1 are closed then: 20 s. CloseRate is how many of these are closed
	// a second: 500.
	ReconnectSpread time.Duration
	CloseRate       float64
	// LargeBudget bounds what messages of more than 64 KiB may hold together
	// while they are read, in bytes: 256 MiB, of which one provider has an eighth.
	// A message must have arrived within LargeTimeout, 60 s, whatever its size.
	LargeBudget  int64
	LargeTimeout time.Duration
}

// WithDefaults fills what is zero.
func (c Config) WithDefaults() Config {
	fill(&c.Session.RegisterTimeout, 10*time.Second)
	fill(&c.Session.RefuseHold, 2*time.Second)
	fill(&c.Session.HeartbeatInterval, 10*time.Second)
	fill(&c.Session.CancelGrace, 10*time.Second)
	fill(&c.Session.StreamWindow, 256<<10)
	fill(&c.Session.ConnWindow, 8<<20)
	fill(&c.V1.SessionTimeout, 95*time.Second)
	fill(&c.V1.RefuseHold, 30*time.Second)
	fill(&c.V1.MinAge, 2100*time.Millisecond)
	fill(&c.V1.Patience, 5*time.Minute)
	fill(&c.V1.MaxTotal, 300*time.Second)
	fill(&c.SessionTimeout, 30*time.Second)
	fill(&c.PingInterval, 15*time.Second)
	fill(&c.PongTimeout, 5*time.Second)
	fill(&c.ProbeTimeout, 2500*time.Millisecond)
	fill(&c.WriteTimeout, 10*time.Second)
	fill(&c.HeldBudget, 1<<30)
	fill(&c.MaxSockets, 10_000)
	fill(&c.MaxWaiting, 4096)
	fill(&c.HandshakeRate, 200)
	fill(&c.HandshakeBurst, 400)
	fill(&c.MaxAdmissions, 32)
	fill(&c.AdmitTimeout, 5*time.Second)
	fill(&c.ReconnectSpread, 20*time.Second)
	fill(&c.CloseRate, 500)
	fill(&c.LargeBudget, 256<<20)
	fill(&c.LargeTimeout, 60*time.Second)
	return c
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
