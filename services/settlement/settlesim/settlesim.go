// Package settlesim makes settlement for a simulator: the real consumer of usage
// and the real rules of earnings, on tables in memory that do what package store
// does in PostgreSQL, and a bus that the simulator provides. Nothing here runs
// by itself.
package settlesim

import (
	"context"
	"errors"
	"log/slog"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
	"svc.internal/services/settlement/internal/events"
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
	corrected map[ids.RequestID]Line
	rejected  []earning.Rejected
}

// NewDatabase makes an empty one.
func NewDatabase() *Database {
	return &Database{lines: map[ids.RequestID]Line{}, corrected: map[ids.RequestID]Line{}}
}

// Line is what counts of a request; false when nothing was earned.
func (d *Database) Line(r ids.RequestID) (Line, bool) {
	if l, ok := d.corrected[r]; ok {
		return l, true
	}
	l, ok := d.lines[r]
	return l, ok
}

// Count is the number of requests with a line, and of events put aside.
func (d *Database) Count() (lines, rejected int) { return len(d.lines), len(d.rejected) }

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

func (d *Database) add(b earning.Batch) (out earning.Outcome) {
	for _, l := range b.Lines {
		first, stands := d.lines[l.RequestID]
		switch {
		case !stands:
			d.lines[l.RequestID] = l
		case first.Witness == earning.Hub && l.Witness == earning.Hub &&
			(first.ProviderID != l.ProviderID || first.Attempt != l.Attempt || first.Payout != l.Payout):
			out.Differing = append(out.Differing, l.RequestID)
		}
	}
	for _, l := range b.Rulings {
		first, stands := d.lines[l.RequestID]
		_, done := d.corrected[l.RequestID]
		if stands && !done && first.Witness != l.Witness && (first.ProviderID != l.ProviderID || first.Payout != l.Payout) {
			d.corrected[l.RequestID] = l
			out.Corrected = append(out.Corrected, l.RequestID)
		}
	}
	d.rejected = append(d.rejected, b.Rejected...)
	return out
}

// Settlement is one process of settlement.
type Settlement struct{ consumer *events.Consumer }

// Start starts a process on db.
func Start(db *Database, conn Bus) *Settlement {
	return &Settlement{events.NewConsumer(conn, db, slog.New(slog.DiscardHandler))}
}

// Handle records a batch of usage; after an error it is to come again.
func (s *Settlement) Handle(ctx context.Context, batch []bus.Msg) error {
	return s.consumer.Handle(ctx, batch)
}
