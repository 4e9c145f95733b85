package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// KeyClaim is the right to run a request.
type KeyClaim struct {
	keeper *Keeper
	ask    Ask

	mu sync.Mutex
	// granted is when the last question was put that was answered with the
	// claim; zero once it is known to be lost.
	granted time.Time
}

// reliedOnFor is how long a claim is relied on after it was granted: half of
// billing-ledger's lease.
const reliedOnFor = 30 * time.Second

// EnsureHeld is nil while the claim is certain to be this request's. One that was not
// granted for a while is asked for again: a gateway that stood still may find
// that another runs the request by now. Its fault is one to try again after.
func (c *KeyClaim) EnsureHeld(ctx context.Context) error {
	c.mu.Lock()
	age, known := c.keeper.deps.Clock.Now().Sub(c.granted), !c.granted.IsZero()
	c.mu.Unlock()
	if known && age <= reliedOnFor {
		return nil
	}
	granted, err := c.askAgain(ctx)
	switch f, _ := fault.As(err); {
	case f != nil && f.Kind == fault.Canceled:
		return err
	case err != nil:
		return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable,
			"The claim of the Idempotency-Key could not be renewed. Try again in a moment.").After(longestPause)
	case !granted:
		return fault.Wrap(errLost, fault.Unavailable, fault.ServiceUnavailable,
			"Another request with this Idempotency-Key has taken over. Try again in a moment.").After(longestPause)
	}
	return nil
}

// askAgain asks for the claim that was granted before.
func (c *KeyClaim) askAgain(ctx context.Context) (granted bool, err error) {
	asked := c.keeper.deps.Clock.Now()
	resp, err := c.keeper.claim(ctx, c.ask)
	if err != nil {
		return false, err
	}
	granted = resp.GetState() == billingv1.KeyClaim_KEY_CLAIM_GRANTED
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !granted:
		c.granted = time.Time{}
	case asked.After(c.granted):
		c.granted = asked
	}
	return granted, nil
}

// errLost ends a request whose claim has passed to another.
var errLost = errors.New("the claim of the idempotency key was lost")

// Hold renews the claim until release is called, which waits for a renewal under
// way. The context that it returns ends, with a cause, when the claim has passed
// to another request: a gateway that stood still for a minute may lose it, and
// must not run what another runs.
func (c *KeyClaim) Hold(ctx context.Context) (held context.Context, release func()) {
	held, lose := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		ticker := time.NewTicker(c.keeper.cfg.RenewInterval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				// A renewal outlives a client that leaves, lest it come after the end.
				if !c.renew(context.WithoutCancel(ctx)) {
					lose(errLost)
					return
				}
			}
		}
	})
	return held, sync.OnceFunc(func() {
		close(stop)
		renewing.Wait()
	})
}

// renew is false when the claim is lost. One that could not be renewed is not:
// what runs has a hold, and nobody is given the claim while that is open.
func (c *KeyClaim) renew(ctx context.Context) bool {
	granted, err := c.askAgain(ctx)
	if err != nil {
		c.keeper.deps.Log.WarnContext(ctx, "the claim of an idempotency key could not be renewed",
			"request_id", c.ask.RequestID, "error", err)
		return true
	}
	return granted
}

// End is how a claim ends.
type End int

// A request may have been answered with what is kept; answered, and not kept; or
// have cost nothing as far as the gateway knows, which billing-ledger compares
// with what it knows.
const (
	NotKept End = iota
	Kept
	Forgotten
)

// finishTries is how often the end of a claim is told. One that is not heard of
// lapses; then billing-ledger decides by what became of the request, and no
// answer is kept.
const finishTries = 3

// Finish ends the claim; answer is what is kept, for Kept. An answer that cannot
// be kept is not.
func (c *KeyClaim) Finish(ctx context.Context, end End, answer *Answer) {
	ctx = context.WithoutCancel(ctx)
	var sealed []byte
	if end == Kept {
		var err error
		if sealed, err = seal(c.ask, answer, c.keeper.deps.Random); err != nil {
			c.keeper.deps.Log.DebugContext(ctx, "an answer is not kept", "request_id", c.ask.RequestID, "error", err)
			end = NotKept
		}
	}
	for try := 1; ; try++ {
		err := c.tell(ctx, end, sealed)
		if err == nil {
			return
		}
		if try == finishTries {
			c.keeper.deps.Log.WarnContext(ctx, "the end of an idempotency key's claim could not be told", "request_id",
				c.ask.RequestID, "error", err)
			return
		}
	}
}

func (c *KeyClaim) tell(ctx context.Context, end End, sealed []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.keeper.cfg.CallTimeout)
	defer cancel()
	return c.keeper.finish(ctx, c.ask, endToProto(end), sealed)
}

func endToProto(end End) billingv1.KeyEnd {
	switch end {
	case Kept:
		return billingv1.KeyEnd_KEY_END_ANSWERED
	case Forgotten:
		return billingv1.KeyEnd_KEY_END_FORGOTTEN
	case NotKept:
	}
	return billingv1.KeyEnd_KEY_END_NOT_KEPT
}
