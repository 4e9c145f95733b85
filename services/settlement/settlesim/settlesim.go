// Package settlesim makes settlement for a simulator: the real consumer of usage
// and the real rules of earnings, on tables in memory that do what package store
// does in PostgreSQL, and a bus that the simulator provides. Nothing here runs
// by itself.
package settlesim

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/events"
	"svc.internal/services/settlement/internal/fill"
	"svc.internal/services/settlement/internal/reconcile"
)

// Bus is a connection to NATS.
type Bus = events.Bus

// Line is what a provider earned with one request.
type Line = earning.Line

// Database is settlement's tables behind a connection that may fail. Fate, when
// set, is asked at each transaction whether it happens, and whether its caller
// hears of it.
type Database struct {
	Fate func() (happens, heard bool)

	lines     map[ids.RequestID]Line
	corrected map[ids.RequestID]Line // by the ledger's word, the first time
	rulings   map[ids.RequestID][]ruling
	confirmed map[ids.RequestID]bool
	rejected  []earning.Rejected
}

// ruling is what the ledger's books were found to say of a line: another line,
// or that nothing is settled.
type ruling struct {
	settled bool
	line    Line
}

// NewDatabase makes an empty one.
func NewDatabase() *Database {
	return &Database{lines: map[ids.RequestID]Line{}, corrected: map[ids.RequestID]Line{},
		rulings: map[ids.RequestID][]ruling{}, confirmed: map[ids.RequestID]bool{}}
}

// Line is what counts of a request; false when nothing was earned.
func (d *Database) Line(r ids.RequestID) (Line, bool) {
	if all := d.rulings[r]; len(all) > 0 {
		last := all[len(all)-1]
		return last.line, last.settled
	}
	if l, ok := d.corrected[r]; ok {
		return l, true
	}
	l, ok := d.lines[r]
	return l, ok
}

// Count is the number of requests with a line that counts, and of events put
// aside.
func (d *Database) Count() (lines, rejected int) {
	for r := range d.lines {
		if _, counts := d.Line(r); counts {
			lines++
		}
	}
	return lines, len(d.rejected)
}

var errAway = errors.New("the database cannot be reached")

// Add implements events.Ledger.
func (d *Database) Add(_ context.Context, b earning.Batch) (earning.Outcome, error) {
	happens, heard := true, true
	if d.Fate != nil {
		happens, heard = d.Fate()
	}
	if !happens {
		return earning.Outcome{}, errAway
	}
	out := d.add(b)
	if !heard {
		return earning.Outcome{}, errAway
	}
	return out, nil
}

// Fill implements fill.Store.
func (d *Database) Fill(_ context.Context, lines []Line) (fill.Outcome, error) {
	happens, heard := true, true
	if d.Fate != nil {
		happens, heard = d.Fate()
	}
	if !happens {
		return fill.Outcome{}, errAway
	}
	missing := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool {
		_, stands := d.lines[l.RequestID]
		return stands
	})
	for _, l := range missing {
		l.EvidenceSource = earning.Ledger
		d.lines[l.RequestID] = l
	}
	out := fill.Outcome{Filled: len(missing)}
	for _, l := range lines {
		if stands, counts := d.Line(l.RequestID); !counts || differ(stands, l) {
			d.overrule(l)
			out.Corrected = append(out.Corrected, l.RequestID)
		}
	}
	if !heard {
		return fill.Outcome{}, errAway
	}
	return out, nil
}

// overrule puts the ledger's word in the place of a line: once as a correction,
// then as rulings.
func (d *Database) overrule(l Line) {
	if d.spoken(l.RequestID) {
		d.rulings[l.RequestID] = append(d.rulings[l.RequestID], ruling{true, l})
		return
	}
	d.corrected[l.RequestID] = l
}

// spoken reports whether the ledger has overruled the line of a request.
func (d *Database) spoken(r ids.RequestID) bool {
	_, corrected := d.corrected[r]
	return corrected || len(d.rulings[r]) > 0
}

// Suspects implements fill.Store.
func (d *Database) Suspects(
	_ context.Context, slots []reconcile.Slot, after ids.RequestID, limit int,
) ([]ids.RequestID, error) {
	var suspects []ids.RequestID
	for id, l := range d.lines {
		if !d.spoken(id) && bytes.Compare(id[:], after[:]) > 0 &&
			slices.Contains(slots, reconcile.Slot{Day: l.Day(), ProviderID: l.ProviderID}) {
			suspects = append(suspects, id)
		}
	}
	slices.SortFunc(suspects, func(a, b ids.RequestID) int { return bytes.Compare(a[:], b[:]) })
	return suspects[:min(len(suspects), limit)], nil
}

// Exclude implements fill.Store.
func (d *Database) Exclude(_ context.Context, requests []ids.RequestID) (held []ids.RequestID, _ error) {
	for _, id := range requests {
		if _, stands := d.lines[id]; stands && !d.spoken(id) {
			d.rulings[id] = []ruling{{}}
			held = append(held, id)
		}
	}
	return held, nil
}

// differ reports whether two lines differ in anything but the evidence source.
func differ(a, b Line) bool {
	a.EvidenceSource, a.Settled = b.EvidenceSource, b.Settled
	return a != b
}

// Filled is the number of lines that rest on the ledger's word alone.
func (d *Database) Filled() int {
	n := 0
	for id, l := range d.lines {
		if l.EvidenceSource == earning.Ledger && !d.confirmed[id] {
			n++
		}
	}
	return n
}

func (d *Database) add(b earning.Batch) (out earning.Outcome) {
	for _, l := range b.Lines {
		first, stands := d.lines[l.RequestID]
		switch {
		case !stands:
			d.lines[l.RequestID] = l
		case first.EvidenceSource == earning.Ledger && !l.Settled && first.ProviderID == l.ProviderID &&
			first.Payout == l.Payout:
			d.confirmed[l.RequestID] = true
		case first.EvidenceSource == earning.Hub && l.EvidenceSource == earning.Hub &&
			(first.ProviderID != l.ProviderID || first.Attempt != l.Attempt || first.Payout != l.Payout):
			out.Differing = append(out.Differing, l.RequestID)
		}
	}
	for _, l := range b.Rulings {
		first, stands := d.lines[l.RequestID]
		if stands && !d.spoken(l.RequestID) && differ(first, l) {
			d.overrule(l)
			out.Corrected = append(out.Corrected, l.RequestID)
		}
	}
	d.rejected = append(d.rejected, b.Rejected...)
	return out
}

// EvidenceSource is by whose word a request is settled.
type EvidenceSource = earning.EvidenceSource

// Ledger lists what billing-ledger has settled.
type Ledger = fill.Ledger

// Mark is where a Ledger is asked to go on.
type Mark = fill.Cursor

// Page is what a Ledger answers.
type Page = fill.Page

// The evidence sources by which billing-ledger settles.
const (
	Hub     = earning.Hub
	Gateway = earning.Gateway
	Receipt = earning.WorkReceipt
)

// FillAfter and FillInterval are how long a request must have been settled before
// its line is filled in, and the pause between two passes.
const (
	FillAfter    = 2 * time.Minute
	FillInterval = time.Minute
)

// Settlement is one process of settlement.
type Settlement struct {
	consumer *events.Consumer
	filler   *fill.Filler
}

// Start starts a process on db.
func Start(db *Database, conn Bus, ledger Ledger) *Settlement {
	return &Settlement{
		consumer: events.NewConsumer(conn, db, slog.New(slog.DiscardHandler)),
		filler:   &fill.Filler{Ledger: ledger, Store: db, After: FillAfter},
	}
}

// Fill makes a pass of the filler, as it is done every FillInterval.
func (s *Settlement) Fill(ctx context.Context, now time.Time) error {
	_, err := s.filler.Pass(ctx, now)
	return err
}

// Handle records a batch of usage; after an error it is to come again.
func (s *Settlement) Handle(ctx context.Context, batch []bus.Msg) error {
	return s.consumer.Handle(ctx, batch)
}
