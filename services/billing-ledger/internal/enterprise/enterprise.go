// Package enterprise has what operators agree with an account: rates, places and tokens of a
// day over all of its keys, a discount, and priority while providers are busy. See the
// specification's enterprise arrangement.
//
// Terms of a category replace the default rate that each key has there. A rate is counted as a
// key's is (package limit), tokens by the estimate of their admission, which settling corrects,
// in the day (UTC) of the admission. Admission decides under the lock on the account's wallet,
// so all of it is exact over replicas.
//
// A discount lowers what a request is charged and nothing else: neither its list price nor what
// its provider earns. It is rounded down, once for each request, so what is charged is rounded
// up and is never nothing. The platform bears it, on e:discount. Admission pins it.
//
// An account asks for terms by a contact, which an operator reads and answers by e-mail. Nobody
// else sees it.
package enterprise

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Bounds of terms. A discount is in hundredths of a percent.
const (
	MaxDiscount  = money.Discount(9000)
	MaxPerMinute = 1_000_000
	MaxTokens    = 1_000_000_000_000
)

// Category is what bounds all keys of an account in a category. 0 is the default, which bounds
// each key alone.
type Category struct {
	// RequestsPerMinute may be limit.Unlimited.
	RequestsPerMinute  int32
	ConcurrentRequests int32
	TokensPerDay       int64
}

// Terms are what was agreed.
type Terms struct {
	// RequestsPerMinute bounds all keys and categories together; 0 is no bound.
	RequestsPerMinute int32
	Categories        map[limit.Class]Category
	Discount          money.Discount
	// Priority lets requests wait ahead of others for a provider that is busy.
	Priority bool
	// Note says why; empty for an account of which nothing was ever agreed.
	Note string
}

// Validate refuses terms without a meaning.
func (t Terms) Validate() error {
	switch {
	case t.RequestsPerMinute < 0 || t.RequestsPerMinute > MaxPerMinute:
		return invalid("requests_per_minute", "must be from 0 to %d", MaxPerMinute)
	case t.Discount < 0 || t.Discount > MaxDiscount:
		return invalid("discount_basis_points", "must be from 0 to %d", MaxDiscount)
	case !account.ValidLabel(t.Note, 1, account.MaxMemo):
		return invalid("note", "must have 1 to %d printable characters", account.MaxMemo)
	}
	for class, c := range t.Categories {
		if err := c.validate(class); err != nil {
			return err
		}
	}
	return nil
}

func (c Category) validate(class limit.Class) error {
	switch {
	case class == limit.ZeroPriced:
		return invalid("categories.category", "is unknown")
	case c.RequestsPerMinute < limit.Unlimited || c.RequestsPerMinute > MaxPerMinute:
		return invalid("categories.requests_per_minute", "must be from -1 to %d", MaxPerMinute)
	case c.ConcurrentRequests < 0 || c.ConcurrentRequests > MaxPerMinute:
		return invalid("categories.concurrent_requests", "must be from 0 to %d", MaxPerMinute)
	case c.TokensPerDay < 0 || c.TokensPerDay > MaxTokens:
		return invalid("categories.tokens_per_day", "must be from 0 to %d", int64(MaxTokens))
	case c.TokensPerDay > 0 && class.Unit() != money.Token:
		return invalid("categories.tokens_per_day", "must be 0 for a category without tokens")
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, field+" "+format, args...).On(field)
}

// Store keeps terms.
type Store interface {
	// SetTerms replaces the terms of an account, with an entry in the audit log where they
	// differ. Of an unknown account it returns account.ErrNotFound.
	SetTerms(ctx context.Context, id ids.AccountID, terms Terms) error
	// Terms returns account.ErrNotFound for an unknown account.
	Terms(ctx context.Context, id ids.AccountID) (Terms, error)
}

// Agreements answers operators.
type Agreements struct{ Store Store }

// Set replaces the terms of an account.
func (a *Agreements) Set(ctx context.Context, id ids.AccountID, terms Terms) error {
	if err := terms.Validate(); err != nil {
		return err
	}
	return explain(a.Store.SetTerms(ctx, id, terms), "set the terms of an account")
}

// Get returns the terms of an account.
func (a *Agreements) Get(ctx context.Context, id ids.AccountID) (Terms, error) {
	terms, err := a.Store.Terms(ctx, id)
	return terms, explain(err, "read the terms of an account")
}

func explain(err error, attempted string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, account.ErrNotFound):
		return account.NotFound()
	}
	return fmt.Errorf("%s: %w", attempted, err)
}
