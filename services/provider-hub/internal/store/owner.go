package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pg"
	"svc.internal/services/provider-hub/internal/provider"
)

// SignUp implements provider.Store.
func (s *Store) SignUp(
	ctx context.Context, a provider.Account, k provider.Key, by provider.SignUpProof,
) (got provider.Account, fresh bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO provider (provider_id, name, status, region, user_id, owner_address, owner_proven_at,
				beneficiary_address, created_at, account_id)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT DO NOTHING`,
			a.ID, a.Name, a.Status, a.Region, nullText(by.User), nullText(a.Owner), null(a.OwnerProvenAt),
			nullText(a.Beneficiary), a.CreatedAt, nullText(a.Payee.AccountID))
		if err != nil {
			return err
		}
		if fresh = tag.RowsAffected() == 1; !fresh {
			got, err = scanAccount(tx.QueryRow(ctx, `
				SELECT `+accountColumns+` FROM provider p WHERE p.user_id = $1`, nullText(by.User)))
			if errors.Is(err, pgx.ErrNoRows) {
				return errOwned()
			}
			return err
		}
		if by.Proof != nil {
			if err := spend(ctx, tx, *by.Proof); err != nil {
				return err
			}
		}
		if err := insertKey(ctx, tx, k, false); err != nil {
			return err
		}
		if err := enterBeneficiary(ctx, tx, a, by); err != nil {
			return err
		}
		got, err = scanAccount(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.provider_id = $1`, a.ID))
		return err
	})
	return got, fresh, missing(err, "sign a provider up")
}

// enterBeneficiary leaves an entry of where earnings go from the beginning on.
func enterBeneficiary(ctx context.Context, tx pgx.Tx, a provider.Account, by provider.SignUpProof) error {
	if a.Beneficiary == "" {
		return nil
	}
	actor := provider.ByProvider
	if by.User != "" {
		actor = provider.ByUser
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO provider_status_change (provider_id, from_status, to_status, what, changed_by, changed_at, new_address)
		VALUES ($1, $2, $2, $3, $4, $5, $6)`,
		a.ID, a.Status, provider.BeneficiaryAtSignUp, actor, a.CreatedAt, a.Beneficiary)
	if err != nil {
		return fmt.Errorf("enter the beneficiary of a sign-up: %w", err)
	}
	return nil
}

// OfUser implements provider.Store.
func (s *Store) OfUser(ctx context.Context, user string) (provider.Account, bool, error) {
	a, err := scanAccount(s.pool.QueryRow(ctx, `SELECT `+accountColumns+` FROM provider p WHERE p.user_id = $1`, user))
	if errors.Is(err, pgx.ErrNoRows) {
		return provider.Account{}, false, nil
	}
	if err != nil {
		return provider.Account{}, false, fmt.Errorf("read a user's provider: %w", err)
	}
	return a, true, nil
}

// Spend implements provider.Store.
func (s *Store) Spend(ctx context.Context, p provider.Proof) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error { return spend(ctx, tx, p) })
	return missing(err, "spend a challenge")
}

// Enter implements provider.Store. A wallet without a provider spends nothing, so the
// rows that are kept are bounded by the challenges that owners sign.
func (s *Store) Enter(ctx context.Context, p provider.Proof) (c provider.Credential, known bool, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		known = false
		c.Account, err = scanAccount(tx.QueryRow(ctx, `
			SELECT `+accountColumns+`, nextval('session_epoch') FROM provider p
			WHERE p.owner_address = $1 AND p.owner_proven_at IS NOT NULL`, p.Address.String()), &c.Epoch)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		known = true
		return spend(ctx, tx, p)
	})
	if err != nil {
		return provider.Credential{}, false, missing(err, "let a wallet in")
	}
	return c, known, nil
}

// spend keeps a nonce. It fails for a nonce that is kept already.
func spend(ctx context.Context, tx pgx.Tx, p provider.Proof) error {
	tag, err := tx.Exec(ctx, `INSERT INTO wallet_nonce (nonce, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		p.Nonce[:], p.ExpiresAt)
	if err != nil {
		return fmt.Errorf("spend a challenge: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return provider.Spent()
	}
	return nil
}

// owned turns a violation of the index of owners, or of vendors' names, into already_exists.
func owned(err error) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.ConstraintName {
	case "provider_owner":
		return errOwned()
	case "provider_vendor_name":
		return provider.VendorNameTaken()
	}
	return err
}

func errOwned() error {
	return fault.New(fault.Conflict, fault.AlreadyExists, "this wallet already has a provider").On("owner_address")
}

func nullID[K any](id ids.Of[K]) *ids.Of[K] {
	if id.IsZero() {
		return nil
	}
	return &id
}
