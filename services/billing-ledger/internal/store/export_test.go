package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/seal"
)

// DigestOf is a day's digest of a version.
func (s *Store) DigestOf(ctx context.Context, day time.Time, version int16) (d seal.Day, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		d, err = digest(ctx, tx, day, version)
		return err
	})
	return d, err
}

// SelectRelated reads which accounts of requests and which providers have one owner.
const SelectRelated = selectRelated

// The statements of Passbook.Fold that make series and lines.
const (
	InsertSeries       = insertSeries
	InsertLinesOfBooks = insertLinesOfBooks
)

// The statements of Store.Settled and Store.FirstSettled.
const (
	SumSettled   = sumSettled
	FirstSettled = firstSettled
)

// AdmitPlainIn decides the plain reservations in the transaction of conn and writes what they
// change, and has admit_requests do so with the others. It returns which were plain.
func (s *Store) AdmitPlainIn(
	ctx context.Context, conn *pgx.Conn, reservations []hold.Reservation,
) (decisions []hold.Decision, plain []int, err error) {
	b := s.newPlainBatch(reservations)
	decisions = make([]hold.Decision, len(reservations))
	batch := &pgx.Batch{}
	securePlain(batch)
	b.read(batch, s.limits)
	if err := sendAll(ctx, conn, batch); err != nil {
		return nil, nil, err
	}
	decided := b.decide(decisions)
	batch = &pgx.Batch{}
	b.write(batch, decisions, decided)
	if err := sendAll(ctx, conn, batch); err != nil {
		return nil, nil, err
	}
	left := b.left(decided)
	var others []hold.Reservation
	for _, i := range left {
		others = append(others, reservations[i])
	}
	if len(left) == 0 {
		return decisions, decided, nil
	}
	whole, err := s.AdmitWholeIn(ctx, conn, others)
	for n, d := range whole {
		decisions[left[n]] = d
	}
	return decisions, decided, err
}

// AdmitWholeIn has admit_requests decide all reservations in the transaction of conn.
func (s *Store) AdmitWholeIn(
	ctx context.Context, conn *pgx.Conn, reservations []hold.Reservation,
) ([]hold.Decision, error) {
	rows, err := conn.Query(ctx, admitClaims, s.admitArgs(reservations)...)
	if err != nil {
		return nil, err
	}
	return s.scanDecisions(rows, len(reservations))
}

// AdmitWhole has admit_requests decide all reservations.
func (s *Store) AdmitWhole(ctx context.Context, reservations []hold.Reservation) ([]hold.Decision, error) {
	decisions := make([]hold.Decision, len(reservations))
	places := make([]int, len(reservations))
	for i := range places {
		places[i] = i
	}
	return decisions, s.admitWhole(ctx, reservations, places, decisions)
}
