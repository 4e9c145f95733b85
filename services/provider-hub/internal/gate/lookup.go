package gate

import (
	"context"
	"math/rand/v2"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/fault"
	"svc.internal/services/provider-hub/internal/session"
)

// enrol looks up the credential of a registration and finishes the registration. It runs
// in a goroutine of its own, so that the reader is not delayed.
func (c *socket) enrol(shown session.Credential) {
	ctx, cancel := c.life()
	defer cancel()
	grant, err := c.lookUp(ctx, shown)
	switch {
	case ctx.Err() != nil || c.gate.queue.over():
		return // the socket is closed, or the hub is about to close it
	case err != nil:
		c.session.Shut(c.refusal(err))
		return
	}
	c.shut(c.session.Admit(grant))
}

// life is a context that ends with the socket.
func (c *socket) life() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	c.lookUps.Go(func() {
		select {
		case <-c.session.Done():
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// Pauses between look-ups that failed for a temporary reason.
const (
	firstPause = 500 * time.Millisecond
	maxPause   = 15 * time.Second
)

// lookUp waits for its turn and checks a credential. It repeats that within the dialect's
// patience while keys cannot be looked up.
func (c *socket) lookUp(ctx context.Context, shown session.Credential) (session.Grant, error) {
	// A text that cannot be a key takes nobody's turn and costs no look-up.
	if err := c.gate.registrar.Check(shown); err != nil {
		return session.Grant{}, err
	}
	if err := c.gate.queue.turn(ctx, network(c.from)); err != nil {
		return session.Grant{}, err
	}
	began := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		grant, err := c.gate.queue.admit(ctx, c.gate.cfg.AdmitTimeout, shown)
		if err == nil || !passes(err) || ctx.Err() != nil {
			return grant, err
		}
		rest := pause/2 + rand.N(pause/2) //nolint:gosec // spreads load, guards nothing
		if time.Since(began)+rest > c.dialect.Patience {
			return session.Grant{}, err
		}
		if err := c.gate.queue.pause(ctx, rest); err != nil {
			return session.Grant{}, err
		}
	}
}

// passes reports whether an error may be temporary.
func passes(err error) bool {
	f, ok := fault.As(err)
	if !ok {
		return true
	}
	switch f.Kind {
	case fault.Internal, fault.Unavailable, fault.Timeout, fault.Canceled:
		return true
	default:
		return false
	}
}

// refusal is the refusal that an agent gets for a failed look-up.
func (c *socket) refusal(err error) *session.CloseReason {
	refused := func(code, message string) *session.CloseReason {
		return session.Refused(c.gate.cfg.Session, code, message)
	}
	f, ok := fault.As(err)
	if !ok || passes(err) {
		return refused(agentwire.CodeTryLater, "the hub cannot check keys now")
	}
	switch {
	case f.Reason == fault.KeyRevoked:
		return refused(agentwire.CodeKeyRevoked, f.Message)
	case f.Reason == fault.AccountFrozen, f.Kind == fault.Denied:
		return refused(agentwire.CodeSuspended, f.Message)
	case f.Kind == fault.Exhausted:
		return refused(agentwire.CodeTooManySessions, f.Message)
	default:
		return refused(agentwire.CodeInvalidKey, f.Message)
	}
}
