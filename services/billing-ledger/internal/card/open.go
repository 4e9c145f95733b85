package card

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

const (
	// Lifetime is how long a page can be paid.
	Lifetime = time.Hour
	// maxReturnURL bounds an address, in bytes.
	maxReturnURL = 1024
	// processorTimeout bounds one call of the processor.
	processorTimeout = 10 * time.Second
)

// Checkouts opens checkouts.
type Checkouts struct {
	Store     CheckoutStore
	Processor Processor
}

// OpenCollateral opens a page on which a provider pays collateral. A repeat returns the
// same checkout. The row is committed before the processor is asked, so that no session is
// without its checkout; the processor makes one session for a checkout, however often it
// is asked.
func (s *Checkouts) OpenCollateral(ctx context.Context, c Checkout) (Checkout, error) {
	c.Purpose, c.Fee, c.Processor, c.Livemode = Collateral, 0, s.Processor.Name(), s.Processor.Livemode()
	if err := c.check(); err != nil {
		return Checkout{}, err
	}
	stands, err := s.Store.Open(ctx, c, Lifetime)
	switch {
	case errors.Is(err, ErrTooMany):
		return Checkout{}, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"A provider has at most %d open checkouts.", MaxOpen).After(Lifetime / MaxOpen)
	case errors.Is(err, ErrNoAccount):
		return Checkout{}, fault.New(fault.NotFound, fault.AccountNotFound, "there is no such account").On("account_id")
	case err != nil:
		return Checkout{}, err
	case !stands.same(c):
		return Checkout{}, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the checkout has other contents").On("checkout_id")
	case stands.SessionID != "" || stands.State != Created:
		return stands, nil
	}
	return s.begin(ctx, stands)
}

// begin has the processor make the page of a checkout.
func (s *Checkouts) begin(ctx context.Context, c Checkout) (Checkout, error) {
	session, err := s.Processor.CreateSession(ctx, Order{
		Checkout: c, Lifetime: Lifetime, Description: fmt.Sprintf("Collateral of provider %s", c.Provider),
	})
	if err != nil {
		return Checkout{}, unavailable(err)
	}
	if why := mismatch(c, session); why != "" {
		return Checkout{}, fmt.Errorf("the card processor made another session than was asked for: %s", why)
	}
	crash.At("billing.card.session_made")
	return s.Store.SetSession(ctx, c.ID, session)
}

func unavailable(err error) error {
	return fault.Wrap(err, fault.Unavailable, fault.ProcessorUnavailable,
		"The card processor does not answer.").After(5 * time.Second)
}

func (c Checkout) check() error {
	switch {
	case c.ID.IsZero():
		return invalid("checkout_id", "is malformed")
	case c.Provider.IsZero():
		return invalid("provider_id", "is malformed")
	case c.Amount < MinAmount || c.Amount > MaxAmount:
		return invalid("amount_cents", "must be %d to %d", MinAmount, MaxAmount)
	}
	to, err := url.Parse(c.ReturnURL)
	if err != nil || len(c.ReturnURL) > maxReturnURL || to.Host == "" || to.User != nil ||
		to.Scheme != "https" && (c.Livemode || to.Scheme != "http") {
		return invalid("return_url", "must be an https address of at most %d bytes", maxReturnURL)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}

// noCheckout is the fault for a checkout that does not exist.
func noCheckout() error {
	return fault.New(fault.NotFound, fault.CheckoutNotFound, "there is no such checkout").On("checkout_id")
}

// Get reads a checkout.
func (s *Checkouts) Get(ctx context.Context, id CheckoutID) (Checkout, error) {
	c, err := s.Store.Checkout(ctx, id)
	if errors.Is(err, ErrNoCheckout) {
		return Checkout{}, noCheckout()
	}
	return c, err
}

// MaxListed bounds a list.
const MaxListed = 1000

// Payments lists the paid collateral of a provider.
func (s *Checkouts) Payments(ctx context.Context, provider ids.ProviderID) ([]Payment, error) {
	return s.Store.Payments(ctx, provider, MaxListed)
}

// Changes lists what happened behind a number.
func (s *Checkouts) Changes(ctx context.Context, after int64) ([]Change, error) {
	if after < 0 {
		return nil, invalid("after", "must not be below 0")
	}
	return s.Store.Changes(ctx, after, MaxListed)
}
