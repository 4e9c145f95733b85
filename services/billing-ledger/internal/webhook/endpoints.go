package webhook

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// maxLowAt is the highest balance that an account can have.
const maxLowAt = 1_000_000_000 * money.USD

// Endpoints does what owners ask for.
type Endpoints struct {
	Store  Store
	Sealer *Sealer
	Clock  clock.Clock
	Random io.Reader
	// Development lets http to loopback pass.
	Development bool
	// Wake begins the deliverer's next look at once.
	Wake func()
}

// Create adds an endpoint and returns its secret.
func (s *Endpoints) Create(ctx context.Context, e Endpoint) (Endpoint, Secret, error) {
	if len(e.Kinds) == 0 {
		e.Kinds = accountevent.Kinds()
	}
	if err := s.check(&e); err != nil {
		return Endpoint{}, Secret{}, err
	}
	var err error
	if e.ID, err = ids.New[kind](s.Clock.Now(), s.Random); err != nil {
		return Endpoint{}, Secret{}, err
	}
	var secret Secret
	secret, e.Secret = s.Sealer.make(e.ID)
	made, err := s.Store.AddWebhook(ctx, e)
	if err != nil {
		return Endpoint{}, Secret{}, err
	}
	return made, secret, nil
}

// check checks what an owner says of an endpoint.
func (s *Endpoints) check(e *Endpoint) error {
	if err := CheckURL(e.URL, s.Development); err != nil {
		return err
	}
	if !utf8.ValidString(e.Description) || utf8.RuneCountInString(e.Description) > MaxDescription ||
		strings.ContainsFunc(e.Description, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fault.New(fault.Invalid, fault.InvalidValue, "description must have at most %d printable characters",
			MaxDescription).On("description")
	}
	for _, k := range e.Kinds {
		if !slices.Contains(accountevent.Kinds(), k) {
			return fault.New(fault.Invalid, fault.InvalidValue, "kinds must be of %s", names(accountevent.Kinds())).On("kinds")
		}
	}
	slices.Sort(e.Kinds)
	e.Kinds = slices.Compact(e.Kinds)
	return nil
}

func names(kinds []accountevent.Kind) string {
	text := make([]string, len(kinds))
	for i, k := range kinds {
		text[i] = string(k)
	}
	return strings.Join(text, ", ")
}

// List lists an account's endpoints, and below which balance it is told so.
func (s *Endpoints) List(ctx context.Context, account ids.AccountID) ([]Endpoint, money.NanoUSD, error) {
	list, err := s.Store.Webhooks(ctx, account)
	if err != nil {
		return nil, 0, err
	}
	low, err := s.Store.LowAt(ctx, account)
	return list, money.NanoUSD(low), err
}

// Change changes what is given.
func (s *Endpoints) Change(ctx context.Context, account ids.AccountID, id ID, c Change) (Endpoint, error) {
	return s.Store.ChangeWebhook(ctx, account, id, func(e *Endpoint, _ time.Time) error {
		if c.URL != nil {
			e.URL = *c.URL
		}
		if c.Description != nil {
			e.Description = *c.Description
		}
		if len(c.Kinds) > 0 {
			e.Kinds = c.Kinds
		}
		switch {
		case c.Enabled == nil:
		case !*c.Enabled && e.Note == Enabled:
			e.Note = ByOwner
		case *c.Enabled && e.Note != Enabled:
			e.Note, e.Failures, e.FailingSince = Enabled, 0, time.Time{}
		}
		return s.check(e)
	})
}

// Delete removes an endpoint.
func (s *Endpoints) Delete(ctx context.Context, account ids.AccountID, id ID) error {
	return s.Store.DeleteWebhook(ctx, account, id)
}

// Rotate gives an endpoint another secret. The former secret signs too, for Overlap. While MaxFormer
// former secrets sign, Rotate refuses a further change, because the change would end the overlap of one
// of them, and a receiver that still has that secret would refuse deliveries.
func (s *Endpoints) Rotate(ctx context.Context, account ids.AccountID, id ID) (Endpoint, Secret, error) {
	secret, sealed := s.Sealer.make(id)
	e, err := s.Store.ChangeWebhook(ctx, account, id, func(e *Endpoint, now time.Time) error {
		if len(e.Former) >= MaxFormer {
			return fault.New(fault.Precondition, fault.TransitionNotAllowed,
				"%d former secrets of the webhook still sign, one of them until %s. Change the secret after that.", MaxFormer,
				e.Former[MaxFormer-1].Until.UTC().Format(time.RFC3339))
		}
		e.Former = append([]Former{{e.Secret, now.Add(Overlap)}}, e.Former...)
		e.Secret = sealed
		return nil
	})
	if err != nil {
		return Endpoint{}, Secret{}, err
	}
	return e, secret, nil
}

// Deliveries lists what was sent to an endpoint, newest first, and the place behind the page;
// more reports whether there is another page.
func (s *Endpoints) Deliveries(
	ctx context.Context, account ids.AccountID, id ID, behind Place, limit int,
) (list []Delivery, more bool, err error) {
	list, err = s.Store.Deliveries(ctx, account, id, behind, limit+1)
	if err != nil || len(list) <= limit {
		return list, false, err
	}
	return list[:limit], true, nil
}

// Test sends a test event.
func (s *Endpoints) Test(ctx context.Context, account ids.AccountID, id ID) (accountevent.ID, error) {
	event, err := accountevent.NewID(s.Clock.Now(), s.Random)
	if err != nil {
		return accountevent.ID{}, err
	}
	wait, err := s.Store.TestWebhook(ctx, account, id, event)
	switch {
	case err != nil:
		return accountevent.ID{}, err
	case wait > 0:
		return accountevent.ID{}, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"A webhook is tested at most every %s.", TestPause).After(wait)
	}
	s.Wake()
	return event, nil
}

// SetLow says below which balance an account is told so; 0 for none.
func (s *Endpoints) SetLow(ctx context.Context, account ids.AccountID, low money.NanoUSD) error {
	if low < 0 || low > maxLowAt {
		return fault.New(fault.Invalid, fault.InvalidValue, "balance_low_usd must be 0 to %s", maxLowAt).On("balance_low_usd")
	}
	return s.Store.SetLowAt(ctx, account, int64(low))
}
