package card

import (
	"context"
	"crypto/sha256"
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
	// maxPlan bounds the name of a plan, in bytes.
	maxPlan = 64
)

// Checkouts opens checkouts.
type Checkouts struct {
	Store      CheckoutStore
	Processors Processors
	// Tariff says what a card processor keeps of what is paid for credit.
	Tariff Tariff
}

// OpenCollateral opens a page on which a provider pays collateral. A repeat returns the
// same checkout. The row is committed before the processor is asked, so that no session is
// without its checkout; the processor makes one session for a checkout, however often it
// is asked.
func (s *Checkouts) OpenCollateral(ctx context.Context, c Checkout) (Checkout, error) {
	c.Purpose, c.Fee, c.Plan = Collateral, 0, ""
	return s.open(ctx, c)
}

// OpenTopUp opens a page on which a consumer buys credit, with the fee beside it. What is promised
// of OpenCollateral holds for it too.
func (s *Checkouts) OpenTopUp(ctx context.Context, c Checkout) (Checkout, error) {
	c.Purpose, c.Provider, c.Plan = TopUp, ids.ProviderID{}, ""
	if err := c.checkAmount(); err != nil {
		return Checkout{}, err
	}
	c.Fee = s.Tariff.Fee(c.Amount)
	return s.open(ctx, c)
}

// OpenPlan opens a page on which a consumer subscribes to a plan, at its price a month. What is
// promised of OpenCollateral holds for it too.
func (s *Checkouts) OpenPlan(ctx context.Context, c Checkout) (Checkout, error) {
	c.Purpose, c.Provider, c.Fee = PlanPurpose, ids.ProviderID{}, 0
	return s.open(ctx, c)
}

func (s *Checkouts) open(ctx context.Context, c Checkout) (Checkout, error) {
	c.Processor, c.Livemode = s.Processors.Default.Name(), s.Processors.Default.Livemode()
	if err := c.check(); err != nil {
		return Checkout{}, err
	}
	stands, err := s.Store.Open(ctx, c, Lifetime)
	switch {
	case errors.Is(err, ErrTooMany):
		return Checkout{}, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"At most %d checkouts may be open.", MaxOpen).After(Lifetime / MaxOpen)
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

// CheckoutOf is the checkout that an account asks for under an Idempotency-Key: one for each key,
// for ever.
func CheckoutOf(account ids.AccountID, purpose Purpose, key string) CheckoutID {
	return CheckoutID(named("checkout " + account.String() + " " + string(purpose) + " " + key))
}

// named is the id that a text always has.
func named(text string) [16]byte {
	sum := sha256.Sum256([]byte(text))
	id := [16]byte(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: made of something else
	return id
}

// description is what a page says is paid for.
func (c Checkout) description() string {
	switch c.Purpose {
	case TopUp:
		return fmt.Sprintf("Credit of $%d.%02d, and a processing fee of $%d.%02d", c.Amount/100, c.Amount%100, c.Fee/100,
			c.Fee%100)
	case PlanPurpose:
		return fmt.Sprintf("Plan %.64s, $%d.%02d a month", c.Plan, c.Amount/100, c.Amount%100)
	case Collateral:
	}
	return fmt.Sprintf("Collateral of provider %s", c.Provider)
}

// begin has the processor make the page of a checkout.
func (s *Checkouts) begin(ctx context.Context, c Checkout) (Checkout, error) {
	p, err := s.Processors.Of(c.Processor)
	if err != nil {
		return Checkout{}, err
	}
	session, err := p.CreateSession(ctx, Order{Checkout: c, Lifetime: Lifetime, Description: c.description()})
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
	case c.Purpose == Collateral && c.Provider.IsZero():
		return invalid("provider_id", "is malformed")
	case c.Purpose != Collateral && c.Account.IsZero():
		return invalid("account_id", "is malformed")
	case c.Purpose == PlanPurpose && (c.Plan == "" || len(c.Plan) > maxPlan):
		return invalid("plan", "is no plan")
	}
	if err := c.checkAmount(); err != nil {
		return err
	}
	return checkReturnURL(c.ReturnURL, c.Livemode)
}

// CheckReturnURL refuses an address to which the page of a new checkout may not lead.
func (s *Checkouts) CheckReturnURL(address string) error {
	return checkReturnURL(address, s.Processors.Default.Livemode())
}

func checkReturnURL(address string, livemode bool) error {
	to, err := url.Parse(address)
	if err != nil || len(address) > maxReturnURL || to.Host == "" || to.User != nil ||
		to.Scheme != "https" && (livemode || to.Scheme != "http") {
		return invalid("return_url", "must be an https address of at most %d bytes", maxReturnURL)
	}
	return nil
}

func (c Checkout) checkAmount() error {
	if c.Amount < MinAmount || c.Amount > MaxAmount {
		return invalid("amount_cents", "must be %d to %d", MinAmount, MaxAmount)
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

// OfAccount reads a checkout of an account. Another account's is not found.
func (s *Checkouts) OfAccount(ctx context.Context, account ids.AccountID, id CheckoutID) (Checkout, error) {
	c, err := s.Get(ctx, id)
	if err == nil && (c.Account != account || c.Purpose == Collateral) {
		return Checkout{}, noCheckout()
	}
	return c, err
}

// MaxPage bounds a page of an account's checkouts.
const MaxPage = 100

// Page lists the checkouts of an account, the newest first, made before a checkout, or all. more
// reports whether there are more.
func (s *Checkouts) Page(
	ctx context.Context, account ids.AccountID, before CheckoutID, limit int,
) (page []Checkout, more bool, err error) {
	if limit < 1 || limit > MaxPage {
		return nil, false, invalid("limit", "must be 1 to %d", MaxPage)
	}
	if page, err = s.Store.OfAccount(ctx, account, before, limit+1); err != nil {
		return nil, false, err
	}
	if len(page) > limit {
		return page[:limit], true, nil
	}
	return page, false, nil
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
