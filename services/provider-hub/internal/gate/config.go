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
	// Session bounds sessions of both dialects. V1 also bounds sessions of dialect v1.
	Session session.Config
	V1      v1.Config
	// SessionTimeout is how long an agent of v2 may be without a heartbeat: 30 s.
	SessionTimeout time.Duration
	// PingInterval is the pause between pings, 15 s. A pong, or any other sign of life,
	// is due within PongTimeout, 5 s. Two pings without one end the session.
	PingInterval time.Duration
	PongTimeout  time.Duration
	// ProbeTimeout is how long an agent may be silent after a ping that a waiting request
	// asked for before the session ends: 2.5 s, and the time that earlier bytes take on a
	// slow link, at most PongTimeout more.
	ProbeTimeout time.Duration
	// WriteTimeout bounds one write to the socket: 10 s.
	WriteTimeout time.Duration
	// HeldBudget bounds the bytes that the streams of all sessions hold because nobody
	// has taken them: 1 GiB, which is the whole window of 4,096 streams of v2. One
	// provider has an eighth of it, because consumers in league with a provider need not
	// read. Beyond it, a stream of which more arrives is given up, and its request is
	// retried elsewhere.
	HeldBudget int64
	// Addresses finds the address that an agent dials from; nil trusts no proxy.
	Addresses *address.Finder
	// MaxSockets bounds the sockets of this hub, registered or not: 10,000. MaxWaiting
	// bounds the sockets that are not registered: 4,096. From half of MaxWaiting on,
	// addresses that had a live session within the last minute are refused, an address or
	// /64 of IPv6 has a quarter of MaxWaiting or 64, whichever is more, and refused
	// sockets that were never registered are closed early.
	MaxSockets int
	MaxWaiting int
	// HandshakeRate and HandshakeBurst shape registrations a second: 200 and 400. Further
	// registrations wait for their turn, and each network that waits has as many turns as
	// any other.
	HandshakeRate  float64
	HandshakeBurst int
	// MaxAdmissions bounds the key look-ups under way: 32. Each may take
	// AdmitTimeout, 5 s.
	MaxAdmissions int
	AdmitTimeout  time.Duration
	// ReconnectSpread bounds the time over which agents of v2 are asked to come back when
	// the hub shuts down, 5 ms for each, and the time over which sockets of v1 are closed
	// then: 20 s. CloseRate is how many sockets of v1 are closed a second: 500.
	ReconnectSpread time.Duration
	CloseRate       float64
	// LargeBudget bounds the bytes of messages of more than 64 KiB while they are read:
	// 256 MiB, of which one provider has an eighth. A message must have arrived within
	// LargeTimeout, 60 s, whatever its size.
	LargeBudget  int64
	LargeTimeout time.Duration
}

// WithDefaults fills fields that are zero.
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
