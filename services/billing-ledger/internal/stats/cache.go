package stats

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
)

const (
	// every is the time between two readings.
	every   = time.Minute
	keptFor = time.Hour
	// A reading that failed is tried again after firstPause, twice that, and so on up to every.
	firstPause = 5 * time.Second
	// patience bounds a reading.
	patience = 30 * time.Second
)

// Store reads sums.
type Store interface {
	// FoldedUntil returns up to when reports are in the sums.
	FoldedUntil(ctx context.Context) (time.Time, error)
	// Groups calls add with the sums of a window of whole hours, each of a model or a provider
	// in an hour, of those where requests of at least so many accounts were served in the
	// window.
	Groups(ctx context.Context, w Window, accounts int, add func(*Group)) error
	// Accounts counts the accounts that had paid requests served in the hours that begin in a
	// window. It may count too few where it would have to read too much.
	Accounts(ctx context.Context, w Window) (int, error)
	// OfService returns the sums of the whole service, by the beginning of their spans. Days of
	// fewer than LeastAccounts accounts are left out.
	OfService(ctx context.Context, span Span, from time.Time) (map[time.Time]*Sum, error)
}

// Cache answers gateways. It is safe for concurrent use. Run reads the sums in the
// background, so no caller waits for the database. Where they cannot be read, the last answer
// is given until it is an hour old.
type Cache struct {
	store Store
	clock clock.Clock
	log   *slog.Logger

	// Of Run alone: the groups of the models and the providers, which are read once an hour.
	groupsOf Window
	groups   gathering

	begun chan struct{} // closed after the first reading
	once  sync.Once
	mu    sync.Mutex
	last  *Answer // nil for none
	made  time.Time
}

// NewCache makes a cache that has read nothing yet.
func NewCache(store Store, clk clock.Clock, log *slog.Logger) *Cache {
	return &Cache{store: store, clock: clk, log: log, begun: make(chan struct{})}
}

// Run reads the sums until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	for pause := firstPause; ; {
		wait := every
		if err := c.Look(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "the figures of the service could not be summed up", "error", err, "wait", pause)
			wait, pause = pause, min(2*pause, every)
		} else {
			pause = firstPause
		}
		if clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// Look reads the sums once. It is never called twice at once.
func (c *Cache) Look(ctx context.Context) error {
	defer c.once.Do(func() { close(c.begun) })
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now := c.clock.Now()
	made, err := c.read(ctx)
	if err != nil {
		return err
	}
	// The groups are read last, because they take the longest. Without them, the last ones stand.
	err = c.readGroups(ctx, LastHours(made.MadeAt, 24*time.Hour))
	made.Models, made.Providers = c.groups.models(), c.groups.providers()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.made = made, now
	return err
}

// Answer returns the figures. The caller must not change them. It waits only for the first
// reading of the process.
func (c *Cache) Answer(ctx context.Context) (*Answer, error) {
	if err := c.awaitBegun(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// An age below zero is of a clock that was set back. The fold may be behind, too.
	now := c.clock.Now()
	if age := now.Sub(c.made); c.last != nil && age >= 0 && age < keptFor && now.Sub(c.last.MadeAt) < keptFor {
		return c.last, nil
	}
	return nil, unavailable(nil)
}

// awaitBegun waits for the first reading. A caller whose ctx has ended waits no longer, but is
// answered where the reading is over, because a select picks any of what is ready.
func (c *Cache) awaitBegun(ctx context.Context) error {
	select {
	case <-c.begun:
		return nil
	default:
	}
	select {
	case <-c.begun:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

func unavailable(cause error) error {
	return fault.Wrap(cause, fault.Unavailable, fault.ServiceUnavailable,
		"the figures of the service cannot be summed up now").After(firstPause)
}

func (c *Cache) read(ctx context.Context) (*Answer, error) {
	at, err := c.store.FoldedUntil(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask how far the sums are: %w", err)
	}
	a := &Answer{MadeAt: at}
	day, hour := Last(at, 24*time.Hour), Last(at, time.Hour)
	sums, err := c.store.OfService(ctx, FiveMinutes, day.Before().From)
	if err != nil {
		return nil, fmt.Errorf("sum up the last two days: %w", err)
	}
	var all Sum
	var lastHour, dayBefore int64
	for begin, s := range sums {
		switch {
		case day.has(begin):
			all.Add(s)
		case day.Before().has(begin):
			dayBefore += s.Requests
		}
		if hour.has(begin) {
			lastHour += s.Requests
		}
	}
	// Nothing is known of the accounts of a part of an hour, but that of now has only begun.
	before := Window{From: day.Before().From, Until: Hour.Start(day.From)}
	if err := c.show(ctx, map[Window]func(){
		day:    func() { a.LastDay = figuresOf(&all) },
		before: func() { a.DayBefore = rounded(dayBefore) },
		hour:   func() { a.LastHour = rounded(lastHour) },
	}); err != nil {
		return nil, err
	}
	if sums, err = c.store.OfService(ctx, Day, Day.Start(at).AddDate(0, 0, 1-Days)); err != nil {
		return nil, fmt.Errorf("sum up the last days: %w", err)
	}
	a.Days = daysOf(at, sums)
	return a, nil
}

func rounded(n int64) *int64 {
	n = Rounded(n)
	return &n
}

// show shows what is of a window with enough accounts. Everything else is withheld.
func (c *Cache) show(ctx context.Context, windows map[Window]func()) error {
	for w, shown := range windows {
		accounts, err := c.store.Accounts(ctx, w)
		if err != nil {
			return fmt.Errorf("count accounts: %w", err)
		}
		if accounts >= LeastAccounts {
			shown()
		}
	}
	return nil
}

// readGroups reads the sums of models and providers, unless they are there. The sums of hours
// that are over do not change. Where they cannot be read, those there are kept for an hour.
func (c *Cache) readGroups(ctx context.Context, w Window) error {
	if c.groups != nil && w == c.groupsOf {
		return nil
	}
	groups := gathering{}
	if err := c.store.Groups(ctx, w, LeastAccounts, groups.add); err != nil {
		if w.Until.Sub(c.groupsOf.Until) > keptFor {
			c.groups = nil
		}
		return fmt.Errorf("sum up models and providers: %w", err)
	}
	c.groups, c.groupsOf = groups, w
	return nil
}
