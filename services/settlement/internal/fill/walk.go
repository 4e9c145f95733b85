package fill

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/reconcile"
)

// walkInterval is the least time from the start of one walk back to the start of the
// next.
const walkInterval = time.Hour

// maxSuspects bounds the lines that a walk looks for in the ledger, because they take
// memory: 16 MB. The next walk looks for the rest.
const maxSuspects = 1_000_000

const day = 24 * time.Hour

// persistent is a difference that has had the same sums since a time.
type persistent struct {
	lines, accruals reconcile.Sum
	since           time.Time
	// walked reports whether a walk has begun since then, and searched whether that
	// walk looked for the slot's lines in the ledger.
	walked, searched bool
}

// walk goes once more through what the ledger has settled since a time.
type walk struct {
	since  time.Time
	cursor Cursor
	// The lines of slots are looked for in the ledger. suspects are their requests,
	// in order, and seen reports for each whether the ledger has it.
	slots    []reconcile.Slot
	behind   ids.RequestID // where the suspects begin
	suspects []ids.RequestID
	seen     []bool
	loaded   bool
}

func newWalk(since time.Time, slots []reconcile.Slot, behind ids.RequestID) *walk {
	return &walk{since: since, cursor: Cursor{Since: since}, slots: slots, behind: behind, loaded: len(slots) == 0}
}

// Differ takes the differences that persist. Where one is new, the next passes walk back
// to a day before the first of them, because a process that was away for longer than
// lookBack has missed what was settled before, and because a transaction may have
// committed behind the walk.
//
// A slot is a reason once for the same sums, because what a walk could not mend needs a
// person and not another walk. A walk that has reached the present excludes the lines
// whose requests it did not meet. It looks for the lines of a slot only once their day is
// over and the slot has kept its sums for After, because until then usage is under way.
// If the ledger settles such a request later, the walk forward meets it, because the
// walk forward is never ahead of a walk back that ends.
func (f *Filler) Differ(differences []reconcile.Difference, now time.Time) {
	known := make(map[reconcile.Slot]persistent, len(differences))
	var reason, search []reconcile.Slot
	first := now.Add(-f.After)
	for _, d := range differences {
		s, ok := f.known[d.Slot]
		if !ok || s.lines != d.Lines || s.accruals != d.Accruals {
			s = persistent{lines: d.Lines, accruals: d.Accruals, since: now}
		}
		known[d.Slot] = s
		final := over(d.Day, now.Add(-f.After)) && now.Sub(s.since) >= f.After
		// A line too many is no reason to walk while usage may be under way.
		if final && !s.searched || !s.walked && d.Lines.Requests <= d.Accruals.Requests {
			reason = append(reason, d.Slot)
			first = earlier(first, d.Day)
			if final {
				search = append(search, d.Slot)
			}
		}
	}
	f.known = known
	if len(reason) == 0 || f.walk != nil || !f.began.IsZero() && now.Sub(f.began) < walkInterval {
		return
	}
	f.began, f.walk = now, newWalk(first.Add(-day), search, ids.RequestID{})
	for _, slot := range reason {
		s := known[slot]
		s.walked = true
		known[slot] = s
	}
	for _, slot := range search {
		s := known[slot]
		s.searched = true
		known[slot] = s
	}
}

// over reports whether no request of a day can begin any more: the day is past, or it is
// further ahead than clocks differ.
func over(d, now time.Time) bool {
	return !now.Before(d.Add(day)) || d.After(now.Add(day))
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// back continues the walk back for at most left pages.
func (f *Filler) back(ctx context.Context, left int, all *Outcome) error {
	w := f.walk
	if !w.loaded {
		suspects, err := f.Store.Suspects(ctx, w.slots, w.behind, f.part())
		if err != nil {
			return fmt.Errorf("list the requests that the ledger may not have: %w", err)
		}
		w.suspects, w.seen, w.loaded = suspects, make([]bool, len(suspects)), true
	}
	for ; left > 0; left-- {
		page, err := f.turn(ctx, w.cursor, all)
		if err != nil {
			return err
		}
		w.cursor = page.Next
		w.see(page)
		if !page.More {
			return f.arrive(ctx, all)
		}
	}
	return nil
}

// see notes which suspects the ledger has.
func (w *walk) see(page Page) {
	one := func(id ids.RequestID) {
		if i, found := slices.BinarySearchFunc(w.suspects, id, compare); found {
			w.seen[i] = true
		}
	}
	for _, l := range page.Lines {
		one(l.RequestID)
	}
	for _, id := range page.Bad {
		one(id)
	}
}

// arrive ends a walk that has reached the present. After an error the next pass
// continues the walk, so that no line is excluded whose request was settled meanwhile.
func (f *Filler) arrive(ctx context.Context, all *Outcome) error {
	w := f.walk
	var absent []ids.RequestID
	for i, id := range w.suspects {
		if !w.seen[i] {
			absent = append(absent, id)
		}
	}
	if len(absent) > 0 {
		held, err := f.Store.Exclude(ctx, absent)
		all.Excluded = append(all.Excluded, held...)
		if err != nil {
			return fmt.Errorf("hold out %d lines: %w", len(absent), err)
		}
	}
	f.walk = nil
	if n := len(w.suspects); n > 0 && n == f.part() {
		f.walk = newWalk(w.since, w.slots, w.suspects[n-1])
	}
	return nil
}

func (f *Filler) part() int {
	if f.limit > 0 {
		return f.limit
	}
	return maxSuspects
}

func compare(a, b ids.RequestID) int { return bytes.Compare(a[:], b[:]) }
