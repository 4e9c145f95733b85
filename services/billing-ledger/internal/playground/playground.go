// Package playground serves visitors without a key at the platform's expense.
//
// A visitor has a session, which gateways open for the network that the visitor comes from.
// The secret of a session is in a cookie of the visitor's browser, and its SHA-256 is all
// that is stored. A session is good for SessionLife, in its own network alone.
//
// An account of the platform pays. It is opened at first need, with a key whose text nobody
// has, and has no limits of rate, concurrency or models. On each day (UTC) on which a
// visitor comes it is given what it lacks of the day's budget. The same budget is the
// account's own cap of the day, so that no admission passes it, however many race.
//
// One holder may have many networks: an IPv6 /48 has 65,536 of /64. So a wider network has bounds, too, by which it
// can neither spend a day's budget nor fill the table of sessions.
//
// Bounds: MaxOfNetwork live sessions of a network, MaxOpenings sessions of a wider network within SessionLife,
// MaxSessions in all; the visits of package limit, and WiderNetworks times as many of a wider network, at most
// limit.MaxVisits.
package playground

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
)

// The bounds of sessions, and of the active keys of the account that pays.
const (
	SessionLife  = time.Hour
	MaxOfNetwork = 16
	MaxOpenings  = WiderNetworks * MaxOfNetwork
	MaxSessions  = 100_000
	MaxKeys      = 8
)

// WiderNetworks is of how many networks a wider network has the visits and the openings, so that one of its
// networks alone cannot use them up for the others.
const WiderNetworks = 16

// LeastLeft is what must be left of a day's budget for a visit. With less, most chats would be refused
// at admission, after they took a visit.
const LeastLeft = 2 * money.USD / 100

// name is the name of the account that pays and of its key, as operators read it.
const name = "playground"

// WiderName is in the meta data of a refusal that is about the wider network.
const WiderName = "wider_network"

// BudgetName is the name of the budget in a refusal; see hold.LimitName.
const BudgetName = "playground_budget"

// ErrFull is the error of a store that has MaxSessions sessions.
var ErrFull = errors.New("there are too many sessions of visitors")

// NetworkFullError is the error of a store for a network with MaxOfNetwork live sessions.
type NetworkFullError struct {
	// Wait is the time until the first of them ends.
	Wait time.Duration
}

// Error says how long to wait.
func (e *NetworkFullError) Error() string {
	return fmt.Sprintf("the network has %d sessions, for another %s", MaxOfNetwork, e.Wait)
}

// Secret is the SHA-256 of a session's secret.
type Secret [sha256.Size]byte

// Session asks for a session of a network.
type Session struct {
	Network limit.Address
	Secret  Secret
	// Held is the session that the visitor already has; zero for none.
	Held Secret
	// Wider is the network around Network; zero for none.
	Wider limit.Address
}

// Opening is one of the openings of a session's wider network. It reports whether there is such a network.
func (s Session) Opening() (v limit.Visit, counted bool) {
	// Its visits are counted under the hash itself.
	key := sha256.Sum256(append([]byte("openings of sessions:"), s.Wider[:]...))
	return limit.Visit{Address: key, Limit: MaxOpenings, Window: SessionLife}, s.Wider != limit.Address{}
}

// widerVisit is one of the visits of the wider network of a visit.
func widerVisit(of limit.Visit, wider limit.Address) limit.Visit {
	return limit.Visit{Address: wider, Limit: min(of.Limit*WiderNetworks, limit.MaxVisits), Window: of.Window}
}

// Opened is a visitor's session.
type Opened struct {
	// New reports whether it is the session that was asked for, and not the held one.
	New       bool
	ExpiresAt time.Time
}

// Payer is the account and the key that pay.
type Payer struct {
	Account ids.AccountID
	Key     ids.KeyID
}

// Day is how the playground stands today.
type Day struct {
	Payer Payer
	// Open reports whether the account has a key, today's budget and its credit.
	Open bool
	// Spent reports whether less than LeastLeft of the budget is left. The budget begins anew at ResetsAt, after Wait.
	Spent    bool
	ResetsAt time.Time
	Wait     time.Duration
}

// Opening has what a store may need to open a day.
type Opening struct {
	Account account.Draft
	Key     key.Key
	Entry   ids.EntryID
	Budget  money.NanoUSD
}

// Store keeps sessions and the account that pays.
type Store interface {
	// OpenVisitorSession keeps a session for SessionLife, unless the held one is live, and counts it for
	// Session.Opening. It fails with ErrFull, with a NetworkFullError, and with rate_limit_exceeded for the wider
	// network.
	OpenVisitorSession(ctx context.Context, s Session) (Opened, error)
	// HasVisitorSession reports whether a session of a network is live.
	HasVisitorSession(ctx context.Context, network limit.Address, secret Secret) (bool, error)
	// PlaygroundDay reads how the playground stands with a budget.
	PlaygroundDay(ctx context.Context, budget money.NanoUSD) (Day, error)
	// OpenPlaygroundDay opens the account if there is none, gives it a key if it has no
	// active one, and gives it what it lacks of the budget. A repeat changes nothing.
	OpenPlaygroundDay(ctx context.Context, o Opening) error
}

// Visitors answers gateways.
type Visitors struct {
	Store  Store
	Visits *limit.Visitors
	// Openings reads what is left while a session is opened, and bounds how many are opened at a
	// time. It has places of its own, so that visits do not wait for the opening of sessions.
	Openings *limit.Visitors
	Accounts *account.Accounts
	Keys     *key.Keys
	Clock    clock.Clock
	Random   io.Reader
	// Budget is what requests of a day may cost; 0 switches the playground off.
	Budget money.NanoUSD
}

// Open gives a visitor a session, and says what is left of the visits of its network. It
// takes no visit.
func (v *Visitors) Open(
	ctx context.Context, s Session, visit limit.Visit,
) (opened Opened, left limit.VisitsLeft, err error) {
	if v.Budget == 0 {
		return opened, left, switchedOff()
	}
	if left, err = v.Openings.Left(ctx, visit); err != nil {
		return opened, left, err
	}
	err = v.Openings.Calls.Do(ctx, func() (err error) {
		opened, err = v.Store.OpenVisitorSession(ctx, s)
		return err
	})
	var full *NetworkFullError
	f, _ := fault.As(err)
	switch {
	case f != nil && f.Reason == fault.RateLimitExceeded:
		return opened, left, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"Too many playground sessions were opened from your network (at most %d an hour). Try again later.",
			MaxOpenings).After(max(f.RetryAfter, time.Second)).With(WiderName, "true")
	case errors.As(err, &full):
		return opened, left, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"Too many playground sessions are open from your network (at most %d). Try again later.",
			MaxOfNetwork).After(max(full.Wait, time.Second))
	case errors.Is(err, ErrFull):
		return opened, left, fault.New(fault.Unavailable, fault.ServiceUnavailable,
			"the playground is full; try again in a minute").After(time.Minute)
	case err != nil:
		return opened, left, fmt.Errorf("open a session of a visitor: %w", err)
	}
	return opened, left, nil
}

// Visit takes one of the visits of a network for the owner of a live session, and one of its wider network unless
// that is zero, and says who pays for it. A refusal takes no visit, but where the wider network has none left: then
// the network loses one, and nobody else.
func (v *Visitors) Visit(
	ctx context.Context, secret Secret, visit limit.Visit, wider limit.Address,
) (payer Payer, left limit.VisitsLeft, err error) {
	if v.Budget == 0 {
		return payer, left, switchedOff()
	}
	err = v.Visits.Calls.Do(ctx, func() error {
		live, err := v.Store.HasVisitorSession(ctx, visit.Address, secret)
		if err != nil {
			return fmt.Errorf("look for a visitor's session: %w", err)
		}
		if !live {
			return fault.New(fault.Unauthenticated, fault.InvalidSession, "there is no such session of this network")
		}
		payer, err = v.payer(ctx)
		return err
	})
	if err != nil {
		return Payer{}, left, err
	}
	left, err = v.Visits.Take(ctx, visit)
	if err != nil || wider == (limit.Address{}) {
		return payer, left, err
	}
	around, err := v.Visits.Take(ctx, widerVisit(visit, wider))
	if f, ok := fault.As(err); ok && f.Reason == fault.RateLimitExceeded {
		return payer, left, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"The networks around yours have used all of their %d playground requests of an hour.",
			widerVisit(visit, wider).Limit).
			After(f.RetryAfter).With(WiderName, "true")
	}
	if around.Remaining < left.Remaining {
		left = around
	}
	return payer, left, err
}

// payer returns who pays today, and opens the day if nobody has.
func (v *Visitors) payer(ctx context.Context) (Payer, error) {
	day, err := v.Store.PlaygroundDay(ctx, v.Budget)
	if err == nil && !day.Open {
		if err = v.openDay(ctx); err == nil {
			day, err = v.Store.PlaygroundDay(ctx, v.Budget)
		}
	}
	switch {
	case err != nil:
		return Payer{}, fmt.Errorf("look for who pays for visitors: %w", err)
	case !day.Open:
		// Since the day was opened, a replica with another budget opened it with that one, or an operator
		// revoked the key.
		return Payer{}, fault.New(fault.Unavailable, fault.ServiceUnavailable, "the playground cannot be paid for right now")
	case day.Spent:
		at := day.ResetsAt.UTC().Format(time.RFC3339)
		return Payer{}, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"today's playground budget is used up; it resets at %s", at).After(max(day.Wait, time.Second)).
			With(hold.LimitName, BudgetName).With(hold.ResetsAt, at)
	}
	return day.Payer, nil
}

func (v *Visitors) openDay(ctx context.Context) error {
	draft, err := v.Accounts.Draft(name)
	if err != nil {
		return err
	}
	// Nobody has the text of the key: the gateways are told its id.
	issued, _, err := v.Keys.Draft(key.IssueRequest{Account: draft.ID, Name: name})
	if err != nil {
		return err
	}
	entry, err := ids.NewEntry(v.Clock.Now(), v.Random)
	if err != nil {
		return fmt.Errorf("make an entry id: %w", err)
	}
	return v.Store.OpenPlaygroundDay(ctx, Opening{Account: draft, Key: issued, Entry: entry, Budget: v.Budget})
}

func switchedOff() error {
	return fault.New(fault.Unavailable, fault.ServiceUnavailable, "the playground is switched off")
}
