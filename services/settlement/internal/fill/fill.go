// Package fill takes up from billing-ledger the requests whose usage settlement
// never heard.
//
// A hub forgets usage once billing-ledger has settled it, whether or not
// settlement has a line of it, because a settlement that stands still must not
// stop the market. The stream holds usage for settlement meanwhile. What the
// stream loses (its store is wiped, or it is full), a pass of the Filler finds:
// it walks through what the ledger has settled since the last pass, in the order
// of settling, adds a line for each request that has none, and overrules each
// line that says something else than the ledger settled: a hub can tell two
// stories, or tell of another's request before its hub does.
//
// Where lines and accruals go on to differ, a second walk of the same list looks
// back (see [Filler.Differ]). It has what the first walk leaves of a pass, so the
// first always comes to the present.
//
// A filled line rests on the ledger's word alone. So it is marked as such and
// counted apart: it is not a second evidence source. Usage that comes after all confirms
// it.
package fill

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/reconcile"
)

// MaxPages bounds what a pass reads for both walks: 200 pages of 1,000 requests.
const MaxPages = 200

// lookBack is how much is walked through at the start of a process.
const lookBack = time.Hour

// Cursor is where a walk goes on: at a watermark of the ledger's, or at a time.
type Cursor struct {
	Since     time.Time
	Watermark string
}

// Page is a part of what the ledger has settled. Bad are requests that it has
// settled and that cannot become a line.
type Page struct {
	Lines []earning.Line
	Bad   []ids.RequestID
	Next  Cursor
	More  bool
}

// Ledger lists what billing-ledger has settled.
type Ledger interface {
	Settled(ctx context.Context, from Cursor, settledFor time.Duration) (Page, error)
}

// Outcome is what a pass did: how many lines were added, which were overruled by
// what the ledger settled, and which are held out, because it settled nothing.
type Outcome struct {
	Filled              int
	Corrected, Excluded []ids.RequestID
}

// Store keeps the lines.
type Store interface {
	// Fill adds the lines that are missing, and has the ledger's word take the
	// place of what else counts of a request, be it held out.
	Fill(ctx context.Context, lines []earning.Line) (Outcome, error)
	// Suspects lists requests behind one in the order of their ids, at most
	// limit: those with a line in one of the slots that the ledger has never
	// overruled.
	Suspects(ctx context.Context, slots []reconcile.Slot, after ids.RequestID, limit int) ([]ids.RequestID, error)
	// Exclude has the lines of these requests count for nothing, but for those
	// that the ledger has overruled since, and returns which. All that it does
	// before an error stands.
	Exclude(ctx context.Context, requests []ids.RequestID) ([]ids.RequestID, error)
}

// Filler fills gaps. It is not safe for concurrent use; of several processes,
// each may have its own.
type Filler struct {
	Ledger Ledger
	Store  Store
	// After is how long a request must have been settled, so that its usage had
	// the time to come by itself.
	After time.Duration

	cursor Cursor
	walk   *walk // nil: none is under way
	began  time.Time
	known  map[reconcile.Slot]persistent
	limit  int // suspects of a walk; 0 is maxSuspects
}

// Pass walks through what was settled since the last pass, and then looks back,
// if there is reason to. It ends early, and goes on there with the next pass,
// after MaxPages pages or at an error.
func (f *Filler) Pass(ctx context.Context, now time.Time) (Outcome, error) {
	if f.cursor == (Cursor{}) {
		f.cursor.Since = now.Add(-lookBack - f.After)
	}
	var all Outcome
	left, err := f.forward(ctx, &all)
	if err == nil && left > 0 && f.walk != nil {
		err = f.back(ctx, left, &all)
	}
	return all, err
}

// forward walks to the present and returns how many pages are left then.
func (f *Filler) forward(ctx context.Context, all *Outcome) (left int, err error) {
	for left = MaxPages; left > 0; {
		page, err := f.turn(ctx, f.cursor, all)
		if err != nil {
			return 0, err
		}
		f.cursor = page.Next
		left--
		if !page.More {
			break
		}
	}
	return left, nil
}

// turn reads a page and has the book take it up.
func (f *Filler) turn(ctx context.Context, from Cursor, all *Outcome) (Page, error) {
	page, err := f.Ledger.Settled(ctx, from, f.After)
	if err != nil {
		return Page{}, fmt.Errorf("list what is settled: %w", err)
	}
	if len(page.Lines) > 0 {
		filled, err := f.Store.Fill(ctx, page.Lines)
		if err != nil {
			return Page{}, fmt.Errorf("fill %d lines: %w", len(page.Lines), err)
		}
		all.Filled += filled.Filled
		all.Corrected = append(all.Corrected, filled.Corrected...)
	}
	return page, nil
}
