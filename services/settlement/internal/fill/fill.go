// Package fill makes lines, from what billing-ledger has settled, for requests whose
// usage never reached settlement.
//
// A hub forgets usage once billing-ledger has settled it, whether or not settlement has a
// line for it, because a settlement that stands still must not stop the market. The NATS
// stream keeps the usage for settlement meanwhile, but may lose it, because its store is
// wiped or full. So a pass of the Filler walks through what the ledger has settled since
// the last pass, in the order of settling. It adds a line for each request that has none.
// It overrules each line that differs from what the ledger settled, because a hub can
// report a request twice, or report another hub's request before that hub does.
//
// Where lines and accruals stay different, a second walk of the same list looks back
// (see [Filler.Differ]). The second walk gets the pages of a pass that the first leaves
// over, so the first walk always reaches the present.
//
// A filled line rests on the ledger's word alone, which is not a second evidence source.
// So filled lines are marked and counted apart. Usage that comes after all confirms the
// line.
package fill

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/reconcile"
)

// MaxPages bounds what the two walks of a pass read together: 200 pages of 1,000
// requests.
const MaxPages = 200

// lookBack is how far before its start a process begins to walk.
const lookBack = time.Hour

// Cursor is where a walk continues: at a watermark of the ledger, or at a time while
// there is no watermark.
type Cursor struct {
	Since     time.Time
	Watermark string
}

// Page is a part of what the ledger has settled. Bad names requests that it has settled
// and that cannot become a line.
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

// Outcome is what a pass did. Filled counts the lines that were added. Corrected names
// the requests that now count as the ledger settled them, and Excluded the requests that
// count for nothing because the ledger settled no such request.
type Outcome struct {
	Filled              int
	Corrected, Excluded []ids.RequestID
}

// Store keeps the lines.
type Store interface {
	// Fill adds the lines that are missing. The ledger's word takes the place of
	// whatever else counts for a request, and an excluded line counts again.
	Fill(ctx context.Context, lines []earning.Line) (Outcome, error)
	// Suspects lists, in the order of their ids, requests that have a line in one of
	// the slots, if the ledger has never overruled that line. It begins behind the id
	// after and lists at most limit requests.
	Suspects(ctx context.Context, slots []reconcile.Slot, after ids.RequestID, limit int) ([]ids.RequestID, error)
	// Exclude makes the lines of these requests count for nothing, except lines that
	// the ledger has overruled meanwhile. It returns the requests whose lines no
	// longer count, also those before an error.
	Exclude(ctx context.Context, requests []ids.RequestID) ([]ids.RequestID, error)
}

// Filler fills gaps. It is not safe for concurrent use. Several processes may each have
// one.
type Filler struct {
	Ledger Ledger
	Store  Store
	// After is how long ago a request must have been settled, so that its usage had
	// time to come by itself.
	After time.Duration

	cursor Cursor
	walk   *walk // the walk back that is under way; nil for none
	began  time.Time
	known  map[reconcile.Slot]persistent
	limit  int // the most suspects of a walk; 0 means maxSuspects
}

// Pass walks through what was settled since the last pass, and then goes on with a walk
// back if one is under way. It ends early after MaxPages pages, or at an error; the next
// pass continues there.
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

// forward walks to the present and returns how many pages of the pass are left.
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

// turn reads a page and stores its lines.
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
