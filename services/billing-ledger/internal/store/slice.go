package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/slice"
)

const (
	// sliceShare is the part of what is available with a slice that the slice may have: a 20th. A slice
	// that is stranded keeps no more than that from its account.
	sliceShare = 20
	// leastAvailable is what an account must have available, or its slice gets nothing. Near the end of its
	// credit the exact path decides.
	leastAvailable = money.USD
	// strandedGrace is how much longer than the lease of its holds a stranded slice is kept.
	strandedGrace = time.Minute
)

var _ slice.Keeper = (*Store)(nil)

// boundTurn ends a turn of which a statement waits for longer than 2 s, above all for the locks on wallets.
// Nobody is left to read its answer then, because slice.Config.Timeout is shorter.
const boundTurn = `SELECT set_config('statement_timeout', '2s', true)`

// turnSlices opens, fills and closes slices; see functions/turn_slices.sql.
const turnSlices = `SELECT * FROM turn_slices($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

// readSlices reads what decides about requests of accounts: of each up to $4 keys that can be used.
const readSlices = `SELECT ` + plainColumns + ` FROM unnest($1::uuid[]) AS a (id)
	CROSS JOIN LATERAL (SELECT * FROM admission_key v WHERE v.account_id = a.id AND NOT v.revoked AND NOT v.expired
		ORDER BY v.id LIMIT $4) k`

// Turn writes holds and rates, and opens, fills and closes slices; see slice.Keeper. It is one
// transaction in one round trip. Repeating it moves nothing twice: a hold that is written takes nothing
// again, a rate never moves back, and an owner that asks for a slice which it has gets that.
//
// A turn without credit to spare keeps what its slice has, because its owner may have admitted more
// meanwhile.
func (s *Store) Turn(ctx context.Context, owner slice.Owner, turns []slice.Turn) ([]slice.State, error) {
	writes := slices.ContainsFunc(turns, func(t slice.Turn) bool { return len(t.Pins) > 0 })
	if writes {
		crash.At("billing.turn.before_commit")
	}
	var states []slice.State
	err := pg.Retry(ctx, func() error {
		batch := &pgx.Batch{}
		securePlain(batch)
		batch.Queue(boundTurn)
		states = s.queueTurns(batch, owner, turns)
		return s.pool.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("turn %d slices: %w", len(turns), err)
	}
	if writes {
		crash.At("billing.turn.committed")
	}
	return states, nil
}

// queueTurns queues a transaction. The states that it returns are filled when the batch is closed.
func (s *Store) queueTurns(batch *pgx.Batch, owner slice.Owner, turns []slice.Turn) []slice.State {
	n := len(turns)
	var (
		accounts      = make([][16]byte, n)
		epochs, wants = make([]int64, n), make([]int64, n)
		places        = make([]int32, n)
		closes        = make([]bool, n)
		states        = make([]slice.State, n)
		at            = make(map[[16]byte]*slice.State, n)
		pins          []hold.Pin
		rates         fullRates
	)
	for i, t := range turns {
		accounts[i], epochs[i], wants[i], closes[i] = t.Account, t.Epoch, int64(t.Want), t.Close
		places[i] = int32(min(max(t.Places, 0), slice.MaxPlaces))
		at[t.Account] = &states[i]
		pins = append(pins, t.Pins...)
		rates.add(t)
	}
	batch.Queue(walletsInOrder, accounts)
	s.queuePins(batch, pins)
	rates.queue(batch)
	batch.Queue(turnSlices, owner.ID, owner.Address, accounts, epochs, wants, places, closes, s.limits.Concurrent,
		slice.Lease, s.terms.Lease+strandedGrace, slice.MaxKeys, sliceShare, int64(leastAvailable)).
		Query(func(rows pgx.Rows) error { return s.scanTurned(rows, turns, states) })
	batch.Queue(readSlices, accounts, [][16]byte{}, s.limits.Concurrent, slice.MaxKeys+1).
		Query(func(rows pgx.Rows) error {
			var row plainRow
			_, err := pgx.ForEachRow(rows, row.fields(), func() error {
				if state := at[row.account]; state != nil {
					s.addKey(state, row)
				}
				return nil
			})
			return err
		})
	return states
}

// scanTurned reads the rows of turn_slices, which are in the order of the turns.
func (s *Store) scanTurned(rows pgx.Rows, turns []slice.Turn, states []slice.State) error {
	var (
		epoch, amount int64
		free          *int64
		places        int32
		plain         bool
		recalled      bool
		now           time.Time
		i             int
	)
	_, err := pgx.ForEachRow(rows, []any{&epoch, &plain, &recalled, &amount, &places, &free, &now}, func() error {
		if i == len(states) {
			return fmt.Errorf("the database answered more than %d turns", len(states))
		}
		states[i] = slice.State{Epoch: epoch, Plain: plain, Recalled: recalled, Amount: nano(amount), Places: int64(places),
			Account: hold.Account{ID: turns[i].Account, Now: now, Lease: s.terms.Lease}}
		if free != nil {
			states[i].Account.Free = nano(*free)
		}
		i++
		return nil
	})
	return err
}

// addKey adds a key that can be used, and what decides about its account.
func (s *Store) addKey(state *slice.State, row plainRow) {
	if len(state.Keys) == 0 {
		state.Account = *row.accountOf(int64(state.Account.Free), s.terms.Lease)
	}
	if len(state.Keys) == slice.MaxKeys {
		return
	}
	k := slice.Key{Key: row.keyOf(s.limits)}
	if row.until != nil {
		k.Until = *row.until
	}
	state.Keys = append(state.Keys, k)
}

// fullRates are when rates are full: of keys by class, and the one of each account that all zero-priced
// models share.
type fullRates struct {
	keys, accounts [][16]byte
	classes        []int16
	full, zero     []time.Time
}

func (r *fullRates) add(t slice.Turn) {
	for key, ahead := range t.Ahead {
		for i, d := range ahead {
			if class := limit.Class(i + 1); d > 0 && class != limit.ZeroPriced {
				r.keys, r.classes = append(r.keys, key), append(r.classes, int16(class))
				r.full = append(r.full, t.Now.Add(d))
			}
		}
	}
	if t.ZeroPriced > 0 {
		r.accounts, r.zero = append(r.accounts, t.Account), append(r.zero, t.Now.Add(t.ZeroPriced))
	}
}

// queue queues the writing of the rates. A rate never moves back: after the slice has ended, somebody else
// may have counted requests in it.
func (r *fullRates) queue(batch *pgx.Batch) {
	if len(r.keys) > 0 {
		batch.Queue(`INSERT INTO key_rate AS r (key_id, class, full_at)
			SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::timestamptz[])
			ON CONFLICT (key_id, class) DO UPDATE SET full_at = later_rate(r.full_at, excluded.full_at)`,
			r.keys, r.classes, r.full)
	}
	if len(r.accounts) > 0 {
		batch.Queue(`INSERT INTO account_rate AS r (account_id, class, full_at)
			SELECT u.id, 4, u.full_at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, full_at)
			ON CONFLICT (account_id, class) DO UPDATE SET full_at = later_rate(r.full_at, excluded.full_at)`,
			r.accounts, r.zero)
	}
}

// heldByRequests is SQL for what requests hold of the wallet w. What an open slice holds is set aside for
// nobody yet, so it is shown as available. The credit of a stranded slice is shown as
// held, because nobody knows which requests it is for.
const heldByRequests = `w.held - (SELECT coalesce(sum(s.amount), 0)::bigint FROM slice s
	WHERE s.account_id = w.account_id AND s.state = 'open')`

// ReclaimSlices gives back what is left of slices that were stranded, are over by the database's clock, and
// were over at asOf already, of up to limit accounts. It also strands slices whose owners died without
// anybody asking for their accounts since. It returns the number of both.
func (s *Store) ReclaimSlices(ctx context.Context, asOf time.Time, limit int) (int, error) {
	var stranded, reclaimed int
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		stranded, reclaimed = 0, 0
		rows, err := tx.Query(ctx, `SELECT DISTINCT account_id FROM slice
			WHERE coalesce(reclaim_at, alive_until) <= least(now(), $2::timestamptz) ORDER BY account_id LIMIT $1`, limit, asOf)
		if err != nil {
			return fmt.Errorf("find slices that are over: %w", err)
		}
		accounts, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil || len(accounts) == 0 {
			return err
		}
		batch := &pgx.Batch{}
		batch.Queue(walletsInOrder, accounts)
		batch.Queue(`SELECT strand_slices(ARRAY(SELECT account_id FROM slice WHERE account_id = ANY ($1) AND state = 'open'
			AND alive_until <= least(now(), $2::timestamptz)))`, accounts, asOf).
			QueryRow(func(row pgx.Row) error { return row.Scan(&stranded) })
		batch.Queue(`WITH over AS (DELETE FROM slice WHERE account_id = ANY ($1) AND state = 'stranded'
				AND reclaim_at <= least(now(), $2::timestamptz) RETURNING account_id, amount
			), given AS (
				UPDATE wallet w SET held = w.held - o.amount
				FROM (SELECT account_id, sum(amount)::bigint AS amount FROM over GROUP BY account_id) o
				WHERE w.account_id = o.account_id AND o.amount > 0
			)
			SELECT count(*) FROM over`, accounts, asOf).QueryRow(func(row pgx.Row) error { return row.Scan(&reclaimed) })
		return sendAll(ctx, tx, batch)
	})
	if err != nil {
		return 0, fmt.Errorf("reclaim slices: %w", err)
	}
	return stranded + reclaimed, nil
}
