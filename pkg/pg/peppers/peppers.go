// Package peppers keeps which peppers the hashes of a schema were made with.
//
// The schema has a table pepper(number, fingerprint, since, given_up_at), which begins with number 1
// and no fingerprint. Number 1 is the pepper of all hashes that are older than the table. A service
// enrols its peppers at its start: a pepper that is met for the first time gets the next number.
// Beside each hash stands the number of its pepper, so hashes of a pepper can be counted, and a
// service that lacks a pepper of which hashes are left does not start. Only fingerprints are
// stored, which say nothing of the peppers.
package peppers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/pg"
)

// Registry is the table of one schema.
type Registry struct {
	// Service is the program with the subcommand "peppers" for the schema.
	Service string
	// InUse is a query of (pepper smallint, hashes bigint): how many hashes of each pepper still
	// count.
	InUse string
}

// Known is a pepper of the table.
type Known struct {
	Number apikey.Number
	// Fingerprint is nil for a first pepper with which no service has started yet.
	Fingerprint []byte
	Since       time.Time
	// GivenUp reports whether the hashes that are left of the pepper count for nothing.
	GivenUp bool
	// Hashes is how many hashes of the pepper still count.
	Hashes int64
}

// ErrUnknownNumber is the error for a number of no pepper, of the newest, or of one that was given up.
var ErrUnknownNumber = errors.New("no pepper that may be given up has this number")

// ErrInUse is the error for a pepper that has hashes while no newer pepper has any.
var ErrInUse = errors.New("no newer pepper has a hash yet, so this pepper is in use")

// ErrPreviousFirst is the error for a schema that meets its peppers for the first time, two at once:
// nothing says with which of them its hashes were made.
var ErrPreviousFirst = errors.New("start once with the pepper that was used until now alone, without a previous one")

// Enrol returns the peppers of the settings with their numbers. It fails when hashes of another
// pepper still count, and when a pepper was given up.
func (r Registry) Enrol(
	ctx context.Context, db *pgxpool.Pool, current, previous apikey.Pepper,
) (apikey.Peppers, error) {
	nothing := func(context.Context, pgx.Tx, apikey.Peppers) error { return nil }
	return r.EnrolThen(ctx, db, current, previous, nothing)
}

// EnrolThen is Enrol for a service that keeps something under its peppers. It calls its argument then
// in the transaction that enrols, so a pepper is not enrolled where then fails. The transaction may run
// more than once. Other replicas that start wait for the transaction.
func (r Registry) EnrolThen(
	ctx context.Context, db *pgxpool.Pool, current, previous apikey.Pepper,
	then func(context.Context, pgx.Tx, apikey.Peppers) error,
) (apikey.Peppers, error) {
	var enrolled apikey.Peppers
	err := pg.InTx(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if err := lock(ctx, tx); err != nil {
			return err
		}
		known, err := r.list(ctx, tx)
		if err != nil {
			return err
		}
		t := &table{tx: tx, known: known}
		if err := t.first(ctx, current, previous); err != nil {
			return err
		}
		n, err := t.number(ctx, current)
		if err != nil {
			return err
		}
		var m apikey.Number
		if !previous.IsZero() {
			if m, err = t.number(ctx, previous); err != nil {
				return err
			}
		}
		enrolled = apikey.Numbered(current, n, previous, m)
		if err := r.missing(t.known, n, m); err != nil {
			return err
		}
		return then(ctx, tx, enrolled)
	})
	if err != nil {
		return apikey.Peppers{}, fmt.Errorf("%s: enrol the pepper: %w", r.Service, err)
	}
	return enrolled, nil
}

// missing fails when hashes count whose pepper is not among the numbers.
func (r Registry) missing(known []Known, accepted ...apikey.Number) error {
	var errs []error
	for _, k := range known {
		if k.Hashes > 0 && !k.GivenUp && !slices.Contains(accepted, k.Number) {
			errs = append(errs, fmt.Errorf("%d hashes are of pepper %d (fingerprint %x), which is not set: set it as the "+
				"previous pepper (SVC_PEPPER_PREVIOUS), or give these hashes up for good with \"%s peppers -give-up %d\"",
				k.Hashes, k.Number, k.Fingerprint, r.Service, k.Number))
		}
	}
	return errors.Join(errs...)
}

// table is the table of a transaction that has its lock.
type table struct {
	tx    pgx.Tx
	known []Known
}

// first names the first pepper, where no service has started yet.
func (t *table) first(ctx context.Context, current, previous apikey.Pepper) error {
	if len(t.known) == 0 || t.known[0].Fingerprint != nil {
		return nil
	}
	if !previous.IsZero() {
		return ErrPreviousFirst
	}
	f := current.Fingerprint()
	t.known[0].Fingerprint = f[:]
	if _, err := t.tx.Exec(ctx, `UPDATE pepper SET fingerprint = $2 WHERE number = $1`, t.known[0].Number,
		f[:]); err != nil {
		return fmt.Errorf("name the first pepper: %w", err)
	}
	return nil
}

// number returns the number of a pepper, and gives one to a pepper that has none.
func (t *table) number(ctx context.Context, p apikey.Pepper) (apikey.Number, error) {
	f := p.Fingerprint()
	next := apikey.Number(1)
	for _, k := range t.known {
		if slices.Equal(k.Fingerprint, f[:]) {
			if k.GivenUp {
				return 0, fmt.Errorf("pepper %d (fingerprint %x) was given up and is not used again", k.Number, f)
			}
			return k.Number, nil
		}
		next = max(next, k.Number+1)
	}
	if _, err := t.tx.Exec(ctx, `INSERT INTO pepper (number, fingerprint) VALUES ($1, $2)`, next, f[:]); err != nil {
		return 0, fmt.Errorf("number a pepper: %w", err)
	}
	t.known = append(t.known, Known{Number: next, Fingerprint: f[:]})
	return next, nil
}

// lock has the starts of replicas take turns.
func lock(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext(current_schema || '.pepper'))`); err != nil {
		return fmt.Errorf("lock the peppers: %w", err)
	}
	return nil
}

// List lists all peppers by their numbers.
func (r Registry) List(ctx context.Context, db *pgxpool.Pool) (known []Known, err error) {
	err = pg.InTx(ctx, db, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		known, err = r.list(ctx, tx)
		return err
	})
	return known, err
}

func (r Registry) list(ctx context.Context, tx pgx.Tx) ([]Known, error) {
	rows, err := tx.Query(ctx, `SELECT p.number, p.fingerprint, p.since, p.given_up_at IS NOT NULL, coalesce(u.hashes, 0)
		FROM pepper p LEFT JOIN (`+r.InUse+`) u ON u.pepper = p.number ORDER BY p.number`)
	if err != nil {
		return nil, fmt.Errorf("list the peppers: %w", err)
	}
	known, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Known])
	if err != nil {
		return nil, fmt.Errorf("list the peppers: %w", err)
	}
	return known, nil
}

// GiveUp lets the hashes that are left of a pepper count for nothing, for ever. Services start
// without the pepper from then on, and never again with it. Until its restart a service still accepts
// them. The newest pepper is ErrUnknownNumber, and the pepper in use is ErrInUse.
func (r Registry) GiveUp(ctx context.Context, db *pgxpool.Pool, number apikey.Number) error {
	return pg.InTx(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if err := lock(ctx, tx); err != nil {
			return err
		}
		known, err := r.list(ctx, tx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(known, func(k Known) bool { return k.Number == number && !k.GivenUp })
		if i < 0 || i == len(known)-1 {
			return ErrUnknownNumber
		}
		newer := func(k Known) bool { return k.Hashes > 0 }
		if known[i].Hashes > 0 && !slices.ContainsFunc(known[i+1:], newer) {
			return ErrInUse
		}
		if _, err := tx.Exec(ctx, `UPDATE pepper SET given_up_at = now() WHERE number = $1`, number); err != nil {
			return fmt.Errorf("give a pepper up: %w", err)
		}
		return nil
	})
}
