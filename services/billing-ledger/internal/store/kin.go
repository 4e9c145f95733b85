package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/usageseal"
	"svc.internal/services/billing-ledger/internal/kin"
)

// Mark keeps marks, each once: a repeat changes nothing. The marks of an account become those of
// its user's provider, too (mark_own_provider). Mark waits for whoever links a provider to the
// user, so it is not called while the caller's own transaction does that.
func (s *Store) Mark(ctx context.Context, marks []kin.Mark) error {
	if len(marks) == 0 {
		return nil
	}
	for _, m := range marks {
		if err := m.Check(); err != nil {
			return err
		}
	}
	sorted := slices.SortedFunc(slices.Values(marks), kin.Mark.Compare)
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var secret []byte
		if err := tx.QueryRow(ctx, `SELECT secret FROM ledger_secret`).Scan(&secret); err != nil {
			return fmt.Errorf("read the ledger's secret: %w", err)
		}
		key := usageseal.Derive(secret, "kin").Secret
		batch := &pgx.Batch{}
		for _, m := range sorted {
			table, column, bearer := "account_mark", "account_id", [16]byte(m.Account)
			if m.Account.IsZero() {
				table, column, bearer = "provider_mark", "provider_id", [16]byte(m.Provider)
			}
			digest := m.Evidence.Digest(key[:])
			batch.Queue(`INSERT INTO `+table+` (`+column+`, evidence, cause) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				bearer, digest[:], string(m.Cause))
		}
		return sendAll(ctx, tx, batch)
	})
	if err != nil {
		return fmt.Errorf("keep marks of kin: %w", err)
	}
	return nil
}
