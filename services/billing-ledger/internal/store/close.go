package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// ExpireHolds closes open holds that are over by the database's clock and of
// which nothing is known to have been served; the others are for OpenReviews.
// Holds that another transaction is closing are left to it.
func (s *Store) ExpireHolds(ctx context.Context, limit int) (int, error) {
	expired := 0
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT request_id, account_id, key_id, amount FROM hold
			WHERE state = 'open' AND expires_at <= now() AND NOT EXISTS (SELECT FROM evidence e WHERE e.request_id = hold.request_id)
			ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED`, limit)
		if err != nil {
			return fmt.Errorf("find holds that are over: %w", err)
		}
		expired, err = giveBack(ctx, tx, rows, hold.OverUnserved)
		return err
	})
	return expired, err
}

// giveBack closes the holds in rows, which are locked, and returns their money
// and their places.
func giveBack(ctx context.Context, tx pgx.Tx, rows pgx.Rows, why hold.Trigger) (int, error) {
	var back returns
	if err := back.scan(rows, nil); err != nil {
		return 0, fmt.Errorf("lock holds: %w", err)
	}
	batch := &pgx.Batch{}
	back.queue(batch, why)
	if err := sendAll(ctx, tx, batch); err != nil {
		return 0, fmt.Errorf("close holds on %s: %w", why, err)
	}
	return len(back.closed), nil
}

// returns are holds to be closed without a charge, and what they had set aside.
type returns struct {
	closed  []ids.RequestID
	wallets map[ids.AccountID]usage.Change
	ended   map[ids.KeyID]int
}

// scan adds the holds in rows, of those in only when that is not nil.
func (r *returns) scan(rows pgx.Rows, only map[ids.RequestID]bool) error {
	r.wallets, r.ended = map[ids.AccountID]usage.Change{}, map[ids.KeyID]int{}
	var request, account, key [16]byte
	var amount int64
	_, err := pgx.ForEachRow(rows, []any{&request, &account, &key, &amount}, func() error {
		if only != nil && !only[request] {
			return nil
		}
		r.closed = append(r.closed, request)
		change := r.wallets[account]
		change.Released += nano(amount)
		r.wallets[account] = change
		r.ended[key]++
		return nil
	})
	return err
}

func (r *returns) queue(batch *pgx.Batch, why hold.Trigger) {
	queueWallets(batch, r.wallets)
	closeHolds(batch, r.closed, why)
	moveMoney(batch, r.wallets, r.ended)
}

// closeHolds moves open holds, which are locked, to where the trigger leads.
// The wallets are locked before: whoever admits the same request once more has
// its wallets and waits for a row of hold that is being changed, though not for
// one that is only locked.
func closeHolds(batch *pgx.Batch, closed []ids.RequestID, why hold.Trigger) {
	if to, ok := hold.Open.After(why); ok && len(closed) > 0 {
		batch.Queue(`UPDATE hold SET state = $2, closed_at = now() WHERE request_id = ANY ($1)`, raw(closed), string(to))
	}
}

// moveMoney changes wallets, and the counters of keys of the same accounts, by
// what is given, whatever they are by now. The wallets are locked.
func moveMoney(batch *pgx.Batch, changes map[ids.AccountID]usage.Change, ended map[ids.KeyID]int) {
	var accounts [][16]byte
	var charged, released []int64
	for account, c := range changes {
		if c != (usage.Change{}) {
			accounts = append(accounts, account)
			charged = append(charged, int64(c.Charged))
			released = append(released, int64(c.Released))
		}
	}
	if len(accounts) > 0 {
		batch.Queue(`UPDATE wallet w SET posted = w.posted - c.charged, held = w.held - c.released
			FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS c (account_id, charged, released)
			WHERE w.account_id = c.account_id`, accounts, charged, released)
	}
	var keys [][16]byte
	var counts []int32
	for key, n := range ended {
		keys = append(keys, key)
		counts = append(counts, int32(n))
	}
	if len(keys) > 0 {
		batch.Queue(`UPDATE key_inflight f SET n = f.n - c.n
			FROM unnest($1::uuid[], $2::integer[]) AS c (key_id, n) WHERE f.key_id = c.key_id`, keys, counts)
	}
}

// queueWallets locks the wallets that moveMoney is going to change, in a batch
// that ends soon: every admission of their accounts waits for it.
func queueWallets(batch *pgx.Batch, changes map[ids.AccountID]usage.Change) {
	if len(changes) > 0 {
		batch.Queue(lockInOrder, keysOf(changes))
	}
}

const lockInOrder = `SELECT account_id, posted, held FROM wallet WHERE account_id = ANY ($1) ORDER BY account_id FOR UPDATE`

// lockWallets locks all wallets that the transaction is going to need.
func lockWallets(ctx context.Context, conn *pgx.Conn, accounts []ids.AccountID) (map[ids.AccountID]usage.Wallet, error) {
	rows, err := conn.Query(ctx, lockInOrder, raw(accounts))
	if err != nil {
		return nil, fmt.Errorf("lock wallets: %w", err)
	}
	wallets := make(map[ids.AccountID]usage.Wallet, len(accounts))
	var account [16]byte
	var posted, held int64
	_, err = pgx.ForEachRow(rows, []any{&account, &posted, &held}, func() error {
		wallets[account] = usage.Wallet{Posted: nano(posted), Held: nano(held)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("lock wallets: %w", err)
	}
	return wallets, nil
}

func keysOf[K any, V any](m map[ids.Of[K]]V) [][16]byte {
	out := make([][16]byte, 0, len(m))
	for id := range m {
		out = append(out, id)
	}
	return out
}
