// Package revalue brings the coins that the books have to the rate of the day.
//
// Each UTC day a coin is valued once: as soon as there is a good price (package quote) on that day. The difference to
// what its units stand for in the books is one entry of billing-ledger (line 17, a:crypto ↔ e:fx_revaluation), whose
// business id is the coin and the day. Where nothing changes there is none. A day without a price waits, and is never
// valued once it is over: the next day's revaluation has all of the difference.
//
// The books count for themselves. What they have is read first, and they refuse a revaluation of anything else, because
// a deposit or a payout may have moved the coin meanwhile; the next pass reads again. A repeat is answered with the
// first entry of the day, and what the books say that they did is what is kept here. So a process may die at any place,
// and two may work at once.
package revalue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
)

// Holding is what the books have of a coin.
type Holding struct {
	Token string
	// Units are of 10^-9 coins, and Booked is what they stand for.
	Units  int64
	Booked money.NanoUSD
	// Last is the last revaluation in the books; nil for none.
	Last *Revaluation
}

// Revaluation is how a coin was valued on a day.
type Revaluation struct {
	Day           time.Time
	Token         string
	Units         int64
	Booked, Worth money.NanoUSD
	Quote         chain.Quote
	// Entry is zero where nothing changed.
	Entry ids.EntryID
}

// ErrMoved is the error where the books have something else than what is revalued, or the day is over.
var ErrMoved = errors.New("the coin moved")

// Books is billing-ledger.
type Books interface {
	// Holdings returns what the books have of all tokens.
	Holdings(ctx context.Context) ([]Holding, error)
	// Revalue posts a revaluation once for each day and coin, or returns ErrMoved.
	Revalue(ctx context.Context, r Revaluation) error
}

// Quotes has prices. Without a good one it fails with an error that package quote explains.
type Quotes interface {
	Quote(ctx context.Context, id chain.ID) (chain.Quote, error)
}

// Store keeps what was valued.
type Store interface {
	// Days returns the UTC day that it is by the database's clock, and the last day on which each coin was valued.
	Days(ctx context.Context) (today time.Time, last map[string]time.Time, err error)
	// Keep keeps a revaluation, once for each day and coin.
	Keep(ctx context.Context, r Revaluation) error
}

// Revaluer values the coins of chains.
type Revaluer struct {
	Chains []chain.ID
	Store  Store
	Books  Books
	Quotes Quotes
	Log    *slog.Logger
	// told is the last day of which the log says that a coin waits for a price.
	told map[chain.ID]time.Time
}

// Pass values the coins that are not valued today. It returns for how many days each coin that the books have has not
// been valued: 0 for one that is. What fails keeps no other coin waiting.
func (r *Revaluer) Pass(ctx context.Context) (behind map[chain.ID]int, err error) {
	today, last, err := r.Store.Days(ctx)
	if err != nil {
		return nil, err
	}
	holdings, err := r.Books.Holdings(ctx)
	if err != nil {
		return nil, err
	}
	of := map[string]Holding{}
	for _, h := range holdings {
		of[h.Token] = h
	}
	behind = map[chain.ID]int{}
	var failed error
	for _, id := range r.Chains {
		h := of[id.Token(chain.Coin)]
		valued, err := r.value(ctx, id, today, last[h.Token], h)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("revalue the coin of chain %s: %w", id, err))
		}
		switch {
		case valued:
			behind[id] = 0
		case last[h.Token].IsZero():
			behind[id] = 1
		default:
			behind[id] = int(today.Sub(last[h.Token]) / (24 * time.Hour))
		}
	}
	return behind, failed
}

// value values a coin that was last valued on a day, and reports whether it is valued today.
func (r *Revaluer) value(ctx context.Context, id chain.ID, today, last time.Time, h Holding) (bool, error) {
	// The books may have a revaluation whose answer was lost, or another process's.
	if h.Last != nil && h.Last.Day.After(last) {
		if err := r.Store.Keep(ctx, *h.Last); err != nil {
			return false, err
		}
		last = h.Last.Day
	}
	if !last.Before(today) || h.Units == 0 && h.Booked == 0 {
		return true, nil
	}
	quote, err := r.Quotes.Quote(ctx, id)
	if err != nil {
		r.wait(ctx, id, today, err)
		return false, nil
	}
	worth, err := Worth(h.Units, quote.Rate)
	if err != nil {
		return false, err
	}
	made := Revaluation{Day: today, Token: h.Token, Units: h.Units, Booked: h.Booked, Worth: worth, Quote: quote}
	if worth == h.Booked {
		return true, r.Store.Keep(ctx, made)
	}
	if err := r.Books.Revalue(ctx, made); err != nil {
		if errors.Is(err, ErrMoved) {
			return false, nil
		}
		return false, err
	}
	crash.At("settlement.revaluation.posted")
	return r.keepPosted(ctx, today, h.Token)
}

// keepPosted keeps the revaluation that the books have of today. Another process's may have been the first.
func (r *Revaluer) keepPosted(ctx context.Context, today time.Time, token string) (bool, error) {
	holdings, err := r.Books.Holdings(ctx)
	if err != nil {
		return false, err
	}
	for _, h := range holdings {
		if h.Token == token && h.Last != nil && h.Last.Day.Equal(today) {
			return true, r.Store.Keep(ctx, *h.Last)
		}
	}
	return false, errors.New("the books have no revaluation of today although they took one")
}

// wait says once a day why a coin is not valued.
func (r *Revaluer) wait(ctx context.Context, id chain.ID, today time.Time, why error) {
	if r.told[id].Equal(today) {
		return
	}
	if r.told == nil {
		r.told = map[chain.ID]time.Time{}
	}
	r.told[id] = today
	r.Log.WarnContext(ctx, "a coin waits for its price of the day, and is not revalued before", "chain", id.String(),
		"day", today.Format(time.DateOnly), "error", why)
}

// unitsOfCoin is how many units of the books a coin has.
const unitsOfCoin = 1_000_000_000

// Worth returns what units of a coin are worth, rounded half to even. Units below zero are worth as much less than
// nothing.
func Worth(units int64, rate money.NanoUSD) (money.NanoUSD, error) {
	exact := new(big.Int).Mul(big.NewInt(units), big.NewInt(int64(rate)))
	worth, rest := new(big.Int).QuoRem(new(big.Int).Abs(exact), big.NewInt(unitsOfCoin), new(big.Int))
	switch half := rest.Int64() * 2; {
	case half > unitsOfCoin, half == unitsOfCoin && worth.Bit(0) == 1:
		worth.Add(worth, big.NewInt(1))
	}
	if exact.Sign() < 0 {
		worth.Neg(worth)
	}
	if !worth.IsInt64() {
		return 0, money.ErrOverflow
	}
	return money.NanoUSD(worth.Int64()), nil
}
