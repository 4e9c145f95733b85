// Package fill takes up from billing-ledger the requests whose usage settlement
// never heard.
//
// A hub forgets usage once billing-ledger has settled it, whether or not
// settlement has a line of it, because a settlement that stands still must not
// stop the market. The stream holds usage for settlement meanwhile. What the
// stream loses (its store is wiped, or it is full), a pass of the Filler finds:
// it walks through what the ledger has settled since the last pass, in the order
// of settling, and adds a line for each request that has none.
//
// A filled line rests on the ledger's word alone. So it is marked as such and
// counted apart: it is no second witness. Usage that comes after all confirms
// it.
package fill

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
)

// MaxPages bounds a pass: 200 pages of 1,000 requests.
const MaxPages = 200

// rewindInterval is the least time between two rewinds: what still differs after
// the first needs a person, not another walk.
const rewindInterval = time.Hour

// lookBack is how much is walked through at the start of a process.
const lookBack = time.Hour

// Mark is where a walk goes on: at a watermark of the ledger's, or at a time.
type Mark struct {
	Since     time.Time
	Watermark string
}

// Page is a part of what the ledger has settled.
type Page struct {
	Lines []earning.Line
	Next  Mark
	More  bool
}

// Ledger lists what billing-ledger has settled.
type Ledger interface {
	Settled(ctx context.Context, from Mark, settledFor time.Duration) (Page, error)
}

// Outcome is what came of a page: how many lines were added, and which lines of
// another witness were corrected to what the ledger says.
type Outcome struct {
	Filled    int
	Corrected []ids.RequestID
}

// Book adds the lines that are missing.
type Book interface {
	Fill(ctx context.Context, lines []earning.Line) (Outcome, error)
}

// Filler fills gaps. It is not safe for concurrent use.
type Filler struct {
	Ledger Ledger
	Book   Book
	// After is how long a request must have been settled, so that its usage had
	// the time to come by itself.
	After time.Duration

	mark    Mark
	rewound time.Time
}

// Pass walks through what was settled since the last pass. It ends early, and
// goes on there with the next pass, after MaxPages pages or at an error.
func (f *Filler) Pass(ctx context.Context, now time.Time) (Outcome, error) {
	if f.mark == (Mark{}) {
		f.mark.Since = now.Add(-lookBack - f.After)
	}
	var all Outcome
	for range MaxPages {
		page, err := f.Ledger.Settled(ctx, f.mark, f.After)
		if err != nil {
			return all, fmt.Errorf("list what is settled: %w", err)
		}
		if len(page.Lines) > 0 {
			filled, err := f.Book.Fill(ctx, page.Lines)
			if err != nil {
				return all, fmt.Errorf("fill %d lines: %w", len(page.Lines), err)
			}
			all.Filled += filled.Filled
			all.Corrected = append(all.Corrected, filled.Corrected...)
		}
		f.mark = page.Next
		if !page.More {
			break
		}
	}
	return all, nil
}

// Rewind has the next pass begin a day before the given day, at which lines and
// accruals differ: a process that was away for longer than lookBack has missed
// what was settled before, and a transaction may have committed behind the walk.
// Within rewindInterval of the last rewind it does nothing.
func (f *Filler) Rewind(day, now time.Time) {
	if !f.rewound.IsZero() && now.Sub(f.rewound) < rewindInterval {
		return
	}
	f.rewound = now
	f.mark = Mark{Since: day.AddDate(0, 0, -1)}
}
