package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/user"
)

// Mark keeps marks, each once: a repeat changes nothing. The marks of an account become those of
// its user's provider, too (mark_own_provider). Mark waits for whoever links a provider to the
// user, so it is not called while the caller's own transaction does that. The user of a provider that
// has an address which it did not have before gets a letter.
func (s *Store) Mark(ctx context.Context, marks []kin.Mark) error {
	if len(marks) == 0 {
		return nil
	}
	for _, m := range marks {
		if err := m.Check(); err != nil {
			return err
		}
	}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		key, err := kinKey(ctx, tx)
		if err != nil {
			return err
		}
		stored := make([]kin.Stored, len(marks))
		for i, m := range marks {
			stored[i] = m.Stored(key)
		}
		slices.SortFunc(stored, kin.Stored.Compare)
		owners, err := ownersOf(ctx, tx, stored)
		if err != nil {
			return err
		}
		batch, told := &pgx.Batch{}, map[user.ID]user.User{}
		for _, m := range stored {
			table, column, bearer := "account_mark", "account_id", [16]byte(m.Account)
			if m.Account.IsZero() {
				table, column, bearer = "provider_mark", "provider_id", [16]byte(m.Provider)
			}
			batch.Queue(`INSERT INTO `+table+` (`+column+`, evidence, cause) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
				bearer, m.Digest[:], string(m.Cause)).Exec(func(tag pgconn.CommandTag) error {
				if u, owned := owners[m.Provider]; owned && tag.RowsAffected() > 0 {
					told[u.ID] = u
				}
				return nil
			})
		}
		if err := sendAll(ctx, tx, batch); err != nil {
			return err
		}
		for _, u := range told {
			if err := tellUser(ctx, tx, u, user.AddressLetter); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep marks of kin: %w", err)
	}
	return nil
}

// ownersOf finds and locks the users of the providers that marks name, before the marks are stored: whoever
// links a provider locks the user first, too.
func ownersOf(ctx context.Context, tx pgx.Tx, marks []kin.Stored) (map[ids.ProviderID]user.User, error) {
	var providers [][16]byte
	for _, m := range marks {
		if !m.Provider.IsZero() {
			providers = append(providers, [16]byte(m.Provider))
		}
	}
	if len(providers) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT `+userColumns+` FROM app_user u WHERE u.provider_id = ANY ($1) ORDER BY u.id
		FOR NO KEY UPDATE`, providers)
	if err != nil {
		return nil, fmt.Errorf("find the users of providers: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (user.User, error) { return scanUser(row) })
	if err != nil {
		return nil, fmt.Errorf("find the users of providers: %w", err)
	}
	owners := map[ids.ProviderID]user.User{}
	for _, u := range list {
		owners[u.Provider] = u
	}
	return owners, nil
}
