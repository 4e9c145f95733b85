package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/merkle"
)

// Unposted lists shares that are not posted; see batch.Store. Shares of days that are not committed do not show.
func (s Batches) Unposted(ctx context.Context, after batch.SharePlace, limit int) ([]batch.Unposted, error) {
	rows, err := s.pool.Query(ctx, `SELECT day, chain_id, index, provider_id, amount FROM batch_share
		WHERE posted IS NULL AND (day, chain_id, index) > ($1, $2, $3) ORDER BY day, chain_id, index LIMIT $4`,
		after.Day, int64(after.Chain), indexAfter(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list unposted shares: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u batch.Unposted, err error) {
		var id int64
		err = row.Scan(&u.Day, &id, &u.Index, &u.Provider, &u.Amount)
		u.Chain = chain.ID(id)
		return u, err
	})
	if err != nil {
		return nil, fmt.Errorf("list unposted shares: %w", err)
	}
	for i := range list {
		if list[i].Attempts, err = s.attempts(ctx, list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// indexAfter is the index behind which a page begins: the zero place is before the first index.
func indexAfter(p batch.SharePlace) int64 {
	if p == (batch.SharePlace{}) {
		return -1
	}
	return p.Index
}

func (s Batches) attempts(ctx context.Context, u batch.Unposted) ([]batch.Attempt, error) {
	rows, err := s.pool.Query(ctx, `SELECT attempt, amount, clock_timestamp() - at FROM batch_attempt
		WHERE day = $1 AND provider_id = $2 ORDER BY attempt DESC`, u.Day, [16]byte(u.Provider))
	if err != nil {
		return nil, fmt.Errorf("read the attempts for a share: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a batch.Attempt, err error) {
		return a, row.Scan(&a.Number, &a.Amount, &a.Since)
	})
	if err != nil {
		return nil, fmt.Errorf("read the attempts for a share: %w", err)
	}
	return list, nil
}

// lockShare locks a share, and reports whether it is not posted. Attempts for a share and its end wait for each other.
func lockShare(ctx context.Context, tx pgx.Tx, u batch.Unposted) (open bool, err error) {
	err = tx.QueryRow(ctx, `SELECT posted IS NULL FROM batch_share WHERE day = $1 AND provider_id = $2 FOR UPDATE`,
		u.Day, [16]byte(u.Provider)).Scan(&open)
	if err != nil {
		return false, fmt.Errorf("lock a share: %w", err)
	}
	return open, nil
}

// attempted counts the attempts for a share. The caller has locked the share.
func attempted(ctx context.Context, tx pgx.Tx, u batch.Unposted) (n int, err error) {
	err = tx.QueryRow(ctx, `SELECT count(*) FROM batch_attempt WHERE day = $1 AND provider_id = $2`, u.Day,
		[16]byte(u.Provider)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the attempts for a share: %w", err)
	}
	return n, nil
}

// Attempt writes an attempt down; see batch.Store.
func (s Batches) Attempt(ctx context.Context, u batch.Unposted, a batch.Attempt) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		open, err := lockShare(ctx, tx, u)
		if err != nil {
			return err
		}
		n, err := attempted(ctx, tx, u)
		if err != nil {
			return err
		}
		if !open || n != a.Number-1 {
			return batch.ErrAttempted
		}
		_, err = tx.Exec(ctx, `INSERT INTO batch_attempt (day, provider_id, attempt, amount) VALUES ($1, $2, $3, $4)`,
			u.Day, [16]byte(u.Provider), a.Number, int64(a.Amount))
		return err
	})
	if err != nil {
		return fmt.Errorf("write down an attempt: %w", err)
	}
	return nil
}

// SetPosted keeps what was posted of a share; see batch.Store. Nothing is the end of a share only while nobody has made
// another attempt.
func (s Batches) SetPosted(ctx context.Context, u batch.Unposted, amount money.NanoUSD, entry ids.EntryID) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		open, err := lockShare(ctx, tx, u)
		if err != nil || !open {
			return err
		}
		n, err := attempted(ctx, tx, u)
		if err != nil {
			return err
		}
		if entry.IsZero() && n != len(u.Attempts) {
			return batch.ErrAttempted
		}
		_, err = tx.Exec(ctx, `UPDATE batch_share SET posted = $3, entry_id = $4, posted_at = clock_timestamp()
			WHERE day = $1 AND provider_id = $2`, u.Day, [16]byte(u.Provider), int64(amount), idOrNull(entry))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep what was posted: %w", err)
	}
	return nil
}

// Unsigned lists shares whose statement is not signed; see batch.Store.
func (s Batches) Unsigned(ctx context.Context, after batch.SharePlace, limit int) ([]batch.Unsigned, error) {
	rows, err := s.pool.Query(ctx, `SELECT s.day, s.chain_id, s.index, s.provider_id, s.beneficiary, s.amount, s.csv,
			s.summary, b.root, d.seal
		FROM batch_share s JOIN batch b USING (day, chain_id) JOIN batch_day d USING (day)
		WHERE s.signature IS NULL AND (s.day, s.chain_id, s.index) > ($1, $2, $3)
		ORDER BY s.day, s.chain_id, s.index LIMIT $4`, after.Day, int64(after.Chain), indexAfter(after), limit)
	if err != nil {
		return nil, fmt.Errorf("list unsigned statements: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanUnsigned)
	if err != nil {
		return nil, fmt.Errorf("list unsigned statements: %w", err)
	}
	return list, nil
}

func scanUnsigned(row pgx.CollectableRow) (u batch.Unsigned, err error) {
	var id int64
	var beneficiary, csv, summary, root, seal []byte
	err = row.Scan(&u.SharePlace.Day, &id, &u.Index, &u.Provider, &beneficiary, &u.Leaf.Amount, &csv, &summary, &root,
		&seal)
	if err != nil {
		return u, err
	}
	u.SharePlace.Chain = chain.ID(id)
	u.Stated.Day, u.Stated.Chain = u.SharePlace.Day, u.SharePlace.Chain
	u.Leaf.Index, u.Leaf.Beneficiary = uint64(u.Index), merkle.Address(beneficiary)
	u.CSV, u.Summary, u.Root, u.Seal = [32]byte(csv), [32]byte(summary), merkle.Hash(root), batch.Seal(seal)
	return u, nil
}

// SetSigned keeps a signature; see batch.Store.
func (s Batches) SetSigned(ctx context.Context, u batch.Unsigned, signature, signer []byte) error {
	if _, err := s.pool.Exec(ctx, `UPDATE batch_share SET signature = $3, signer = $4, signed_at = clock_timestamp()
		WHERE day = $1 AND provider_id = $2 AND signature IS NULL`, u.SharePlace.Day, [16]byte(u.Provider), signature,
		signer); err != nil {
		return fmt.Errorf("keep a signature: %w", err)
	}
	return nil
}
