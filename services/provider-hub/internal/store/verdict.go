package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/provider"
)

// ChangeByVerdict implements provider.Store. The verdict and the keys are written before
// the account moves, because the database asks for the verdict when the status changes
// and ends the removal when the status rejected is left.
func (s *Store) ChangeByVerdict(
	ctx context.Context, id ids.ProviderID, verdict provider.VerdictID, now time.Time,
	apply func(*provider.Account, *provider.Verdict) ([]provider.Entry, error),
) (provider.Account, error) {
	var a provider.Account
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var err error
		if a, err = locked(ctx, tx, id); err != nil {
			return err
		}
		before := a
		v, err := verdictOf(ctx, tx, id, verdict)
		if err != nil {
			return err
		}
		was := v.State
		entries, err := apply(&a, &v)
		if err != nil {
			return err
		}
		if err := keepVerdict(ctx, tx, before.Status, a, v, was, now); err != nil {
			return err
		}
		if err := keepChange(ctx, tx, before, &a, entries); err != nil || v.State == was {
			return err
		}
		// What the verdicts that are left say is read, because apply does not know them.
		a, err = scanKept(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = $1`, id))
		return err
	})
	return a, missing(owned(err), "change provider by a verdict")
}

// verdictOf reads what is kept of a verdict against an account whose row is locked.
func verdictOf(
	ctx context.Context, tx pgx.Tx, id ids.ProviderID, verdict provider.VerdictID,
) (v provider.Verdict, err error) {
	v.ID = verdict
	if err := tx.QueryRow(ctx, `
		SELECT count(*) FROM provider_expulsion
		WHERE provider_id = $1 AND verdict_id <> $2 AND over_at IS NULL AND reversed_at IS NULL`,
		id, verdict).Scan(&v.Others); err != nil {
		return provider.Verdict{}, fmt.Errorf("count verdicts: %w", err)
	}
	err = tx.QueryRow(ctx, `
		SELECT provider_id <> $2,
			CASE WHEN reversed_at IS NOT NULL THEN 'reversed' WHEN over_at IS NOT NULL THEN 'over' ELSE 'stands' END
		FROM provider_expulsion WHERE verdict_id = $1`, verdict, id).Scan(&v.Elsewhere, &v.State)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return provider.Verdict{}, fmt.Errorf("read a verdict: %w", err)
	}
	return v, nil
}

// keepVerdict writes what became of a verdict that was in a state before.
func keepVerdict(ctx context.Context, tx pgx.Tx, from provider.Status, a provider.Account, v provider.Verdict,
	was provider.VerdictState, now time.Time,
) error {
	if v.State == was {
		return nil
	}
	switch v.State {
	case provider.VerdictStands:
		return begin(ctx, tx, from, a, v, now)
	case provider.VerdictWasReversed:
		return reverse(ctx, tx, a, v, now)
	case provider.VerdictUnknown, provider.VerdictOver:
	}
	return fmt.Errorf("a verdict does not become %q from %q", v.State, was)
}

// begin keeps a verdict that begins to stand, and revokes the good keys in its name.
func begin(
	ctx context.Context, tx pgx.Tx, from provider.Status, a provider.Account, v provider.Verdict, now time.Time,
) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO provider_expulsion (verdict_id, provider_id, from_status, reason, expelled_at)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`, v.ID, a.ID, from, a.Removal.Reason, now)
	if err != nil {
		return fmt.Errorf("insert a verdict: %w", err)
	}
	if tag.RowsAffected() == 0 { // another provider's, at the same time
		return provider.VerdictElsewhere()
	}
	if _, err := tx.Exec(ctx, `
		UPDATE provider_key SET revoked_at = $3, expelled_by = $2
		WHERE provider_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $3)`,
		a.ID, v.ID, now); err != nil {
		return fmt.Errorf("revoke the keys of a provider: %w", err)
	}
	return nil
}

// reverse keeps the reversal of a verdict. The last one of a removal gives the keys back
// that its verdicts revoked. A removal that does not end with the status ends here.
func reverse(ctx context.Context, tx pgx.Tx, a provider.Account, v provider.Verdict, now time.Time) error {
	b := &pgx.Batch{}
	b.Queue(`UPDATE provider_expulsion SET reversed_at = $2 WHERE verdict_id = $1`, v.ID, now)
	if !a.Removal.Any() {
		b.Queue(`
			UPDATE provider_key SET revoked_at = NULL, expelled_by = NULL
			WHERE provider_id = $1 AND (expires_at IS NULL OR expires_at > $2)
				AND expelled_by IN (SELECT verdict_id FROM provider_expulsion WHERE provider_id = $1 AND over_at IS NULL)`,
			a.ID, now)
	}
	if !a.Removal.Any() && a.Status == provider.Rejected {
		b.Queue(`UPDATE provider_expulsion SET over_at = $2 WHERE provider_id = $1 AND over_at IS NULL`, a.ID, now)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("reverse a verdict: %w", err)
	}
	return nil
}
