// Package quote has the prices of coins.
//
// A price is good when at least two sources have stated it within the last 5 minutes, they differ by at most 3 %, and
// it is within 20 % of every price of the last hour. Otherwise there is none, and whatever needs it waits. The price is
// the middle between the lowest and the highest of the sources. In development prices may be fixed.
package quote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

// The rule.
const (
	// MinSources is how many sources a price needs.
	MinSources = 2
	// MaxAge is how old what a source said may be.
	MaxAge = 5 * time.Minute
	// MaxSpread is the most that sources differ, in percent of the lowest.
	MaxSpread = 3
	// MaxMove is the most that a price differs from those of an hour, in percent.
	MaxMove = 20
	// Window is the time in which a price moves by at most MaxMove.
	Window = time.Hour
)

// ErrNone says that there is no price now that is good.
var ErrNone = errors.New("there is no price")

// Said is what a source said.
type Said struct {
	Source string
	Rate   money.NanoUSD
	At     time.Time
}

// Store keeps what sources said. Its clock is the database's.
type Store interface {
	// Add adds what a source said now.
	Add(ctx context.Context, token, source string, rate money.NanoUSD) error
	// Said returns what was said of a token within a time, newest first, and what time it is.
	Said(ctx context.Context, token string, within time.Duration) ([]Said, time.Time, error)
}

// Source states prices.
type Source interface {
	// Name is of 1 to 20 bytes.
	Name() string
	// Rate returns the price of one whole coin.
	Rate(ctx context.Context) (money.NanoUSD, error)
}

// Keeper has prices. It is safe for concurrent use.
type Keeper struct {
	store   Store
	sources map[string][]Source
	fixed   map[string]money.NanoUSD

	mu   sync.Mutex
	last map[string]money.NanoUSD
}

// NewKeeper makes a keeper. Both sources and fixed prices are by the name of a token in the books.
func NewKeeper(store Store, sources map[string][]Source, fixed map[string]money.NanoUSD) *Keeper {
	return &Keeper{store: store, sources: sources, fixed: fixed, last: map[string]money.NanoUSD{}}
}

// Fetch asks all sources, and stores what they say. A source that does not answer keeps no other waiting.
func (k *Keeper) Fetch(ctx context.Context) error {
	var faults []error
	for token, sources := range k.sources {
		for _, s := range sources {
			rate, err := s.Rate(ctx)
			if err == nil {
				err = k.store.Add(ctx, token, s.Name(), rate)
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("the price of %s from %s: %w", token, s.Name(), err))
			}
		}
	}
	return errors.Join(faults...)
}

// Quote returns the price of a chain's coin. It implements sending.Quotes, and fails with ErrNone.
func (k *Keeper) Quote(ctx context.Context, id chain.ID) (sending.Quote, error) {
	token := id.Token(chain.Coin)
	said, now, err := k.store.Said(ctx, token, Window)
	if err != nil {
		return sending.Quote{}, err
	}
	if rate, ok := k.fixed[token]; ok {
		k.remember(token, rate)
		return sending.Quote{Rate: rate, Source: "fixed", At: now}, nil
	}
	q, err := Judge(said, now)
	if err != nil {
		return sending.Quote{}, fmt.Errorf("the price of %s: %w", token, err)
	}
	k.remember(token, q.Rate)
	return q, nil
}

// Last returns the last price of a coin that was good, however old; 0 for none. It values what is too small to matter.
func (k *Keeper) Last(id chain.ID) money.NanoUSD {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last[id.Token(chain.Coin)]
}

func (k *Keeper) remember(token string, rate money.NanoUSD) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last[token] = rate
}

// Judge returns the price that follows from what sources said, newest first.
func Judge(said []Said, now time.Time) (sending.Quote, error) {
	latest := map[string]Said{}
	for _, s := range said {
		if _, newer := latest[s.Source]; !newer && now.Sub(s.At) <= MaxAge {
			latest[s.Source] = s
		}
	}
	if len(latest) < MinSources {
		return sending.Quote{}, fmt.Errorf("%w: %d sources of the last %v, and %d are needed", ErrNone, len(latest), MaxAge,
			MinSources)
	}
	var names []string
	var low, high money.NanoUSD
	at := now
	for _, s := range latest {
		names = append(names, s.Source)
		if low == 0 || s.Rate < low {
			low = s.Rate
		}
		high = max(high, s.Rate)
		if s.At.Before(at) {
			at = s.At
		}
	}
	if beyond(low, high, MaxSpread) {
		return sending.Quote{}, fmt.Errorf("%w: sources differ by more than %d %%", ErrNone, MaxSpread)
	}
	rate := low + (high-low)/2
	for _, s := range said {
		if now.Sub(s.At) <= Window && (beyond(s.Rate, rate, MaxMove) || beyond(rate, s.Rate, MaxMove)) {
			return sending.Quote{}, fmt.Errorf("%w: it moved by more than %d %% within an hour", ErrNone, MaxMove)
		}
	}
	slices.Sort(names)
	source := strings.Join(names, "+")
	return sending.Quote{Rate: rate, Source: source[:min(len(source), 64)], At: at}, nil
}

// beyond reports whether b is more than percent above a.
func beyond(a, b money.NanoUSD, percent int64) bool {
	return b > a && (b-a) > a/100*money.NanoUSD(percent)+a%100*money.NanoUSD(percent)/100
}
