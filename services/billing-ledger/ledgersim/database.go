package ledgersim

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/memstore"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Faults are the faults that a test may plant, to prove that the simulator notices them.
type Faults struct {
	// EarlyAck acknowledges a batch as settled before it is committed.
	EarlyAck bool
	// NoPrimaryKey settles a request again each time that its usage arrives.
	NoPrimaryKey bool
	// PinWithoutSlice writes holds and takes nothing from their slices.
	PinWithoutSlice bool
	// TicketIgnored writes no hold from a ticket.
	TicketIgnored bool
}

// Database is the ledger's tables behind a connection that may fail. Fate, when set,
// decides for each transaction whether it happens and whether its caller gets the answer.
type Database struct {
	*memstore.Store
	Fate func() (happens, heard bool)
	// FromMemory counts the requests that were admitted from slices, and FromTickets the holds that were written
	// from tickets, because their owner had not written them.
	FromMemory, FromTickets int

	faults Faults
	staged []func()
}

// NewDatabase makes an empty database; now is its clock.
func NewDatabase(now func() time.Time, concurrent int, faults Faults) *Database {
	d := &Database{Store: memstore.New(now, concurrent, memstore.Terms{Lease: Lease, Orphan: OrphanFor, MaxHold: MaxHold}),
		faults: faults}
	d.Faults.NoPrimaryKey, d.Faults.PinWithoutSlice = faults.NoPrimaryKey, faults.PinWithoutSlice
	// The accounts of a history have little credit.
	d.SliceTerms.Share, d.SliceTerms.Least = 2, 0
	return d
}

// Commit commits what was acknowledged early. Lose drops it, as the death of the process
// does.
func (d *Database) Commit() {
	for _, apply := range d.staged {
		apply()
	}
	d.staged = nil
}

// Lose drops what was acknowledged early; see Commit.
func (d *Database) Lose() { d.staged = nil }

// time returns the time of the database's clock.
func (d *Database) time() (time.Time, error) {
	return transact(d, func() (time.Time, error) { return d.Now(), nil })
}

// transact runs one transaction as Fate decides.
func transact[T any](d *Database, tx func() (T, error)) (T, error) {
	var none T
	happens, heard := true, true
	if d.Fate != nil {
		happens, heard = d.Fate()
	}
	if !happens {
		return none, unavailable()
	}
	out, err := tx()
	if !heard {
		return none, unavailable()
	}
	return out, err
}

func exec(d *Database, tx func() error) error {
	_, err := transact(d, func() (struct{}, error) { return struct{}{}, tx() })
	return err
}

// Admit implements hold.Decider.
func (d *Database) Admit(ctx context.Context, claims []hold.Reservation) ([]hold.Decision, error) {
	return transact(d, func() ([]hold.Decision, error) { return d.Store.Admit(ctx, claims) })
}

// Conclude implements hold.ReportStore.
func (d *Database) Conclude(
	ctx context.Context, all []hold.RequestReport,
) (released int, unwritten []ids.RequestID, err error) {
	err = exec(d, func() (err error) {
		released, unwritten, err = d.Store.Conclude(ctx, all)
		return err
	})
	return released, unwritten, err
}

// Renew implements hold.Leases.
func (d *Database) Renew(ctx context.Context, all []hold.Renewal) (lapsed, unwritten []ids.RequestID, err error) {
	err = exec(d, func() (err error) {
		lapsed, unwritten, err = d.Store.Renew(ctx, all)
		return err
	})
	return lapsed, unwritten, err
}

// ExpireHolds closes holds that are over and of which nothing was served.
func (d *Database) ExpireHolds(ctx context.Context, asOf time.Time, limit int) (int, error) {
	return transact(d, func() (int, error) { return d.Store.ExpireHolds(ctx, asOf, limit) })
}

// ReclaimSlices gives back what stranded slices have.
func (d *Database) ReclaimSlices(ctx context.Context, asOf time.Time, limit int) (int, error) {
	return transact(d, func() (int, error) { return d.Store.ReclaimSlices(ctx, asOf, limit) })
}

type opened struct {
	cases  []orphan.Case
	failed int
}

// OpenReviews implements orphan.Store.
func (d *Database) OpenReviews(ctx context.Context, limit int) ([]orphan.Case, int, error) {
	o, err := transact(d, func() (o opened, err error) {
		o.cases, o.failed, err = d.Store.OpenReviews(ctx, limit)
		return o, err
	})
	return o.cases, o.failed, err
}

// SettledReviews implements orphan.Store.
func (d *Database) SettledReviews(ctx context.Context, limit int) ([]orphan.Publication, error) {
	return transact(d, func() ([]orphan.Publication, error) { return d.Store.SettledReviews(ctx, limit) })
}

// Settle implements usage.Store.
func (d *Database) Settle(
	ctx context.Context, requests []ids.RequestID, providers []ids.ProviderID,
	decide func(usage.Snapshot) (usage.Effects, []usage.Reject),
) error {
	return exec(d, func() error {
		if d.faults.EarlyAck {
			d.staged = append(d.staged, func() { _ = d.Store.Settle(ctx, requests, providers, decide) })
			return d.Preview(requests, decide)
		}
		return d.Store.Settle(ctx, requests, providers, decide)
	})
}

// Quarantine implements usage.Store.
func (d *Database) Quarantine(ctx context.Context, rejects []usage.Reject) error {
	return exec(d, func() error { return d.Store.Quarantine(ctx, rejects) })
}
