package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// KeyClaim is the right to run the request of an Idempotency-Key.
type KeyClaim struct {
	keeper *Keeper
	ask    Ask

	mu sync.Mutex
	// granted is when billing-ledger was last asked a question that it answered with the
	// claim; zero once the claim is known to be lost.
	granted time.Time
}

// reliedOnFor is how long after its grant a claim is relied on: half of billing-ledger's
// lease.
const reliedOnFor = 30 * time.Second

// EnsureHeld returns nil while the claim is certain to be this request's. A claim that
// was granted longer ago than reliedOnFor is asked for again, because a gateway that
// stood still may find that another gateway runs the request by now. Its fault is one to
// try again after.
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

// askAgain asks for a claim that was granted before.
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

// errLost ends a request whose claim has passed to another request.
var errLost = errors.New("the claim of the idempotency key was lost")

// Hold renews the claim until release is called. release waits for a renewal under way.
// The context that Hold returns ends, with a cause, when the claim has passed to another
// request: a gateway that stood still for a minute may lose the claim, and must not run
// the request that another gateway runs.
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
				// A renewal outlives a client that leaves, because it must not arrive
				// after the end of the claim.
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

// renew reports whether the claim may still be held; false when it is lost. A claim that
// could not be renewed is not lost, because the running request has a hold and nobody is
// given the claim while that hold is open.
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

// The ends of a claim: the request was answered and the answer is kept; it was answered
// and nothing is kept; or it cost nothing as far as the gateway knows, which
// billing-ledger compares with what it knows.
const (
	NotKept End = iota
	Kept
	Forgotten
)

// finishTries is how often the end of a claim is sent. A claim whose end does not arrive
// lapses. billing-ledger then decides by the hold of the request, and no answer is kept.
const finishTries = 3

// Finish ends the claim. answer is the answer to keep, for Kept; an answer that cannot be
// kept is dropped.
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
