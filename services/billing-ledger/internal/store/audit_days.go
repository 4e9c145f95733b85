package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/seal"
)

// Names of the invariants of closed days.
const (
	daysSealed = "every sealed day is as it was sealed"
	daysSummed = "balances of sealed days are what was recorded"
)

// auditDays hashes every sealed day again, follows the chain of roots, and sums the
// balances again.
func auditDays(ctx context.Context, tx pgx.Tx, facts *audit.Facts) error {
	days, err := readSeals(ctx, tx, time.Time{}, farDay)
	if err != nil {
		return err
	}
	i := audit.Invariant{Name: daysSealed, Checked: int64(len(days))}
	var last seal.Day
	for n, d := range days {
		computed, err := digest(ctx, tx, d.Day, d.Version)
		if err != nil {
			return err
		}
		date := d.Day.Format(time.DateOnly)
		switch computed = seal.Chain(computed, last.Root); {
		case n > 0 && !d.Day.Equal(last.Day.AddDate(0, 0, 1)):
			i.Found(fmt.Sprintf("day %s follows %s", date, last.Day.Format(time.DateOnly)))
		case computed.Counts != d.Counts:
			i.Found(fmt.Sprintf("day %s: sealed with %+v, and has %+v", date, d.Counts, computed.Counts))
		case computed.Digest != d.Digest:
			i.Found(fmt.Sprintf("day %s: a row is not as it was sealed", date))
		case computed.Root != d.Root || d.Previous != last.Root:
			i.Found(fmt.Sprintf("day %s: its root does not follow from the day before", date))
		}
		last = d
		if err := auditUnsealed(ctx, tx, d, &i); err != nil {
			return err
		}
	}
	if len(days) > 0 {
		var before int64
		if err := tx.QueryRow(ctx,
			`SELECT (SELECT count(*) FROM entry WHERE at < $1) + (SELECT count(*) FROM usage_settlement WHERE settled_at < $1)`,
			days[0].Day).Scan(&before); err != nil {
			return fmt.Errorf("look for rows before the first seal: %w", err)
		}
		if before > 0 {
			i.Found(fmt.Sprintf("%d rows are of days before the first seal", before))
		}
		facts.Seal = last.Root[:]
	}
	facts.Invariants = append(facts.Invariants, i)
	var kept int64
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM balance_snapshot`).Scan(&kept); err != nil {
		return fmt.Errorf("count balances: %w", err)
	}
	return runCheck(ctx, tx, facts, daysSummed, kept, snapshotDrift, len(days) > 0 || kept > 0)
}

// unsealed lists what the seals of earlier versions leave out: the last version that leaves it
// out, and the rows that a day of such a version cannot have.
var unsealed = []struct {
	until     int16
	rows, are string
}{
	{1, `unit <> 0`, "not in tokens"},
	{2, `vendor OR cached_rate <> 0`, "of vendors"},
}

// auditUnsealed finds rows of a sealed day that are of a kind that did not exist when the day's
// version was in use. The seal of that version leaves out the columns that show the kind.
func auditUnsealed(ctx context.Context, tx pgx.Tx, d seal.Day, i *audit.Invariant) error {
	for _, u := range unsealed {
		if d.Version > u.until {
			continue
		}
		var others int64
		if err := tx.QueryRow(ctx,
			`SELECT count(*) FROM usage_settlement WHERE settled_at >= $1 AND settled_at < $2 AND (`+u.rows+`)`,
			d.Day, d.Day.AddDate(0, 0, 1)).Scan(&others); err != nil {
			return fmt.Errorf("look for rows that are %s on a day of version %d: %w", u.are, d.Version, err)
		}
		if others > 0 {
			i.Found(fmt.Sprintf("day %s: %d rows are %s, and there were no such rows when it was sealed",
				d.Day.Format(time.DateOnly), others, u.are))
		}
	}
	return nil
}

// farDay is after every day that is sealed.
var farDay = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
