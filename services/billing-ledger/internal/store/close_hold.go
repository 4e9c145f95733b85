package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// holdMoves are the columns of a hold h that say what its end moves.
const holdMoves = `h.request_id, h.account_id, h.key_id, h.billing_type, h.amount, h.prompt_tokens,
	h.max_completion_tokens, h.images, h.unit, coalesce(h.plan_id, ''), coalesce(h.plan_tier, 0),
	coalesce(h.plan_day - date '1970-01-01', 0), coalesce(h.plan_price, 0),
	coalesce(h.spend_day - date '1970-01-01', 0), coalesce(h.spend_pins, 0), h.discount, coalesce(h.counted_class, 0),
	(h.admitted_at AT TIME ZONE 'UTC')::date - date '1970-01-01'`

// movedHold is a row of holdMoves.
type movedHold struct {
	request, account, key              [16]byte
	billing                            string
	amount, prompt, completion, images int64
	unit                               money.Unit
	pin                                plan.Pin
	price                              int64
	spend                              usage.SpendPin
	discount                           money.Discount
	category                           usage.CategoryPin
}

func (m *movedHold) fields() []any {
	return []any{
		&m.request, &m.account, &m.key, &m.billing, &m.amount, &m.prompt, &m.completion, &m.images, &m.unit,
		&m.pin.Plan, &m.pin.Tier, &m.pin.Day, &m.price, &m.spend.Day, &m.spend.Windows,
		&m.discount, &m.category.Class, &m.category.Day,
	}
}

// hold returns the hold; of its rates it has the unit alone.
func (m *movedHold) hold() usage.Hold {
	h := usage.Hold{
		Account: m.account, Key: m.key, Billing: hold.BillingType(m.billing), Amount: nano(m.amount),
		Prompt: m.prompt, MaxCompletion: m.completion, Rates: money.Rates{Unit: m.unit}, Spend: m.spend,
		Discount: m.discount, Category: m.category,
	}
	h.Cover = plan.Cover{Pin: m.pin, Estimate: plan.Units{
		Requests: 1, Images: m.images, Tokens: h.Tokens(money.Tokens{Prompt: m.prompt, Completion: m.completion}),
		ListPrice: nano(m.price),
	}}
	return h
}

// scanMoved reads locked holds.
func scanMoved(rows pgx.Rows) (map[ids.RequestID]usage.Hold, error) {
	holds := map[ids.RequestID]usage.Hold{}
	var m movedHold
	_, err := pgx.ForEachRow(rows, m.fields(), func() error {
		holds[m.request] = m.hold()
		return nil
	})
	return holds, err
}

// Now returns the time of the database's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

// ExpireHolds closes open holds that are over by the database's clock, were over at asOf
// already, and of which nothing is known to have been served. The other holds are for
// OpenReviews. It skips holds that another transaction is closing.
func (s *Store) ExpireHolds(ctx context.Context, asOf time.Time, limit int) (int, error) {
	expired := 0
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+holdMoves+` FROM hold h
			LEFT JOIN LATERAL (SELECT e.request_id FROM evidence e WHERE e.request_id = h.request_id LIMIT 1) served ON true
			WHERE h.state = 'open' AND h.expires_at <= least(now(), $2::timestamptz) AND served.request_id IS NULL
			ORDER BY h.expires_at LIMIT $1 FOR UPDATE OF h SKIP LOCKED`, limit, asOf)
		if err != nil {
			return fmt.Errorf("find holds that are over: %w", err)
		}
		expired, err = giveBack(ctx, tx, rows, hold.OverUnserved)
		return err
	})
	return expired, err
}

// giveBack closes the holds in rows, which are locked and have the columns holdMoves, and
// gives back what was set aside for them. It returns their number.
func giveBack(ctx context.Context, tx pgx.Tx, rows pgx.Rows, why hold.Trigger) (int, error) {
	holds, err := scanMoved(rows)
	if err != nil {
		return 0, fmt.Errorf("lock holds: %w", err)
	}
	if len(holds) == 0 {
		return 0, nil
	}
	closed := slices.Collect(maps.Keys(holds))
	// Reports are read after the locks, because a report frees its places under the same
	// locks.
	outcomes, err := readOutcomes(ctx, tx, closed)
	if err != nil {
		return 0, err
	}
	moves := usage.NewMoves()
	for request, h := range holds {
		outcome, told := outcomes[request]
		if !told {
			moves.Leave(h)
		}
		moves.Return(request, h, outcome == hold.ClientGone)
	}
	batch := &pgx.Batch{}
	queueWallets(batch, moves.Wallets)
	closeHolds(batch, closed, moves.Refunded, why)
	move(batch, moves)
	if err := sendAll(ctx, tx, batch); err != nil {
		return 0, fmt.Errorf("close holds on %s: %w", why, err)
	}
	return len(closed), nil
}

func readOutcomes(ctx context.Context, tx pgx.Tx, requests []ids.RequestID) (map[ids.RequestID]string, error) {
	rows, err := tx.Query(ctx, `SELECT request_id, outcome FROM request_report WHERE request_id = ANY ($1)`, raw(requests))
	if err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	outcomes := map[ids.RequestID]string{}
	var request [16]byte
	var outcome string
	if _, err := pgx.ForEachRow(rows, []any{&request, &outcome}, func() error {
		outcomes[request] = outcome
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read reports: %w", err)
	}
	return outcomes, nil
}

// closeHolds moves open holds, which are locked, to the state that the trigger leads to.
// refunded are the holds that plans get back. The wallets must be locked before, because
// a transaction that admits the same request again has locked its wallets. It then waits
// for a row of hold that is being changed, though not for a row that is only locked.
func closeHolds(batch *pgx.Batch, closed, refunded []ids.RequestID, why hold.Trigger) {
	to, ok := hold.Open.After(why)
	if !ok || len(closed) == 0 {
		return
	}
	batch.Queue(
		`UPDATE hold SET state = $2, closed_at = now(), plan_refunded = request_id = ANY ($3) WHERE request_id = ANY ($1)`,
		raw(closed), string(to), raw(refunded))
}

// queueWallets locks the wallets that move is going to change, in a batch that ends soon,
// because every admission of their accounts waits for it.
func queueWallets(batch *pgx.Batch, changes map[ids.AccountID]usage.Change) {
	if len(changes) > 0 {
		batch.Queue(lockInOrder, keysOf(changes))
	}
}

const lockInOrder = `SELECT account_id, posted, held FROM wallet WHERE account_id = ANY ($1)
	ORDER BY account_id FOR UPDATE`

// lockWallets locks all wallets that the transaction is going to need.
func lockWallets(
	ctx context.Context, conn *pgx.Conn, accounts []ids.AccountID,
) (map[ids.AccountID]usage.Wallet, error) {
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
