package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/watch"
)

// Deposits keeps deposit addresses and what becomes of transfers; it implements deposit.Store and deposit.GrowthStore.
type Deposits struct {
	*Store
	// MaxAddresses bounds the addresses that are given; 0: the keys bound them.
	MaxAddresses int64
}

// lostIndices is how many indices are left out after an adoption, because a database that was set back does not know
// the addresses that it gave in the lost hours: nobody else gets them. It is below the gap limit of a recovery, 1,000.
const lostIndices = "500"

// lockAddresses serializes the giving of addresses, so that their indices have no gap but after an adoption.
const lockAddresses = `SELECT pg_advisory_xact_lock(hashtext('deposit address'))`

// Address returns the deposit address of an account. The first time it takes the next index, whose address derive has.
// Nothing is given while lost nonces are not adopted: it fails with service_unavailable then.
func (s Deposits) Address(
	ctx context.Context, account ids.AccountID, derive func(uint32) (chain.Address, error),
) (a deposit.Address, err error) {
	a, ok, err := s.addressOf(ctx, s.pool, account)
	if ok || err != nil {
		return a, err
	}
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockAddresses); err != nil {
			return err
		}
		if a, ok, err = s.addressOf(ctx, tx, account); ok || err != nil {
			return err
		}
		next, err := nextAddress(ctx, tx)
		if err != nil {
			return err
		}
		if s.MaxAddresses > 0 && next >= s.MaxAddresses {
			return fault.New(fault.Unavailable, fault.ServiceUnavailable, "no more deposit addresses are given at present")
		}
		address, err := derive(uint32(next))
		if err != nil {
			return err
		}
		a = deposit.Address{Index: uint32(next), Account: account, Address: address}
		return tx.QueryRow(ctx, `INSERT INTO deposit_address (deposit_index, account_id, address) VALUES ($1, $2, $3)
			RETURNING created_at`, next, account, address[:]).Scan(&a.Since)
	})
	if err != nil {
		return deposit.Address{}, fmt.Errorf("give a deposit address: %w", err)
	}
	return a, nil
}

func nextAddress(ctx context.Context, tx pgx.Tx) (next int64, err error) {
	var lost bool
	err = tx.QueryRow(ctx, `SELECT coalesce(max(deposit_index) + 1, 0) + CASE WHEN EXISTS (
			SELECT FROM adoption WHERE at > coalesce((SELECT max(created_at) FROM deposit_address), '-infinity')
		) THEN `+lostIndices+` ELSE 0 END,
		EXISTS (SELECT FROM sending_halt WHERE cause = ANY($1) AND lifted_at IS NULL) FROM deposit_address`,
		lostCauses).Scan(&next, &lost)
	if err == nil && lost {
		err = fault.New(fault.Unavailable, fault.ServiceUnavailable, "addresses are given once the lost ones are adopted")
	}
	return next, err
}

// rowQuerier is a pool or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func (Deposits) addressOf(ctx context.Context, q rowQuerier, account ids.AccountID) (deposit.Address, bool, error) {
	a := deposit.Address{Account: account}
	var raw []byte
	const one = `SELECT deposit_index, address, created_at FROM deposit_address WHERE account_id = $1`
	err := q.QueryRow(ctx, one, account).Scan(&a.Index, &raw, &a.Since)
	if errors.Is(err, pgx.ErrNoRows) {
		return deposit.Address{}, false, nil
	}
	if err != nil {
		return deposit.Address{}, false, fmt.Errorf("read a deposit address: %w", err)
	}
	copy(a.Address[:], raw)
	return a, true, nil
}

const transferColumns = `t.chain_id, t.tx_hash, t.place, t.block, t.block_hash, t.at, t.token, t.sender,
	t.deposit_index, t.amount::text, t.units, t.dust::text, t.state, coalesce(t.decision, ''),
	coalesce(t.account_id, a.account_id), t.rate, t.quote_source, t.quote_at, coalesce(t.waits, ''),
	coalesce(t.ended, ''), coalesce(t.entry_id, ''), coalesce(t.end_entry_id, ''), t.return_tx,
	t.contract, coalesce(t.symbol, ''), coalesce(t.decimals, 0)`

// Transfers of tokens that are credited have no columns of other tokens.
const fromTransfers = ` FROM (SELECT *, NULL::bytea AS contract, NULL::text AS symbol, NULL::integer AS decimals
	FROM transfer) t JOIN deposit_address a USING (deposit_index)`

const fromArrivals = ` FROM arrival t JOIN deposit_address a USING (deposit_index)`

func scanTransfer(row pgx.CollectableRow) (t deposit.Transfer, err error) {
	var tx, block, sender, back, contract []byte
	var amount, dust string
	var place int64
	var rate *int64
	var source *string
	var at *time.Time
	if err := row.Scan(&t.Chain, &tx, &place, &t.Block, &block, &t.At, &t.Token, &sender, &t.Index, &amount, &t.Units,
		&dust, &t.State, &t.Decision, &t.Account, &rate, &source, &at, &t.Waits, &t.End, &t.Entry, &t.EndEntry,
		&back, &contract, &t.Other.Symbol, &t.Other.Decimals); err != nil {
		return t, err
	}
	copy(t.Other.Contract[:], contract)
	copy(t.Transaction[:], tx)
	copy(t.BlockHash[:], block)
	copy(t.Sender[:], sender)
	copy(t.ReturnTx[:], back)
	t.Place = uint32(place)
	if rate != nil {
		t.Quote = &sending.Quote{Source: *source, At: *at}
		t.Quote.Rate = money.NanoUSD(*rate)
	}
	if t.Amount, err = chain.ParseAmount(amount); err != nil {
		return t, err
	}
	t.Dust, err = chain.ParseAmount(dust)
	return t, err
}

func (s Deposits) transfers(ctx context.Context, what, where string, args ...any) ([]deposit.Transfer, error) {
	return s.list(ctx, what, fromTransfers+where, args...)
}

func (s Deposits) list(ctx context.Context, what, from string, args ...any) ([]deposit.Transfer, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+transferColumns+from, args...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	list, err := pgx.CollectRows(rows, scanTransfer)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return list, nil
}

// maxOpen bounds the transfers of one address that are decided at once.
const maxOpen = 1_000

// Open implements deposit.Store.
func (s Deposits) Open(ctx context.Context, behind int64, limit int) ([]deposit.Open, error) {
	list, err := s.transfers(ctx, "open transfers", `
		JOIN (SELECT chain_id, tx_hash, place, row_number() OVER (PARTITION BY deposit_index
				ORDER BY found_at, chain_id, tx_hash, place) AS rank FROM transfer
			WHERE state = 'final' AND decision IS NULL AND deposit_index IN (
				SELECT DISTINCT deposit_index FROM transfer WHERE state = 'final' AND decision IS NULL AND deposit_index > $1
				ORDER BY deposit_index LIMIT $2)
		) r ON (r.chain_id, r.tx_hash, r.place) = (t.chain_id, t.tx_hash, t.place)
		WHERE r.rank <= $3 ORDER BY t.deposit_index, t.found_at, t.chain_id, t.tx_hash, t.place`, behind, limit, maxOpen)
	if err != nil {
		return nil, err
	}
	var out []deposit.Open
	var indices []int64
	for _, t := range list {
		if n := len(out); n == 0 || out[n-1].Index != t.Index {
			out = append(out, deposit.Open{Index: t.Index, Recorded: map[string]chain.Amount{}})
			indices = append(indices, int64(t.Index))
		}
		last := &out[len(out)-1]
		last.Transfers = append(last.Transfers, t)
	}
	return out, s.recorded(ctx, out, indices)
}

// What was recorded of each address and token, and not swept.
const selectRecorded = `
	SELECT a.deposit_index, a.address, b.token, (b.arrived + b.dust - b.leaving - b.swept)::text
	FROM deposit_balance b JOIN deposit_address a USING (deposit_index) WHERE b.deposit_index = ANY($1)`

func (s Deposits) recorded(ctx context.Context, of []deposit.Open, indices []int64) error {
	if len(of) == 0 {
		return nil
	}
	at := map[uint32]*deposit.Open{}
	for i := range of {
		at[of[i].Index] = &of[i]
	}
	rows, err := s.pool.Query(ctx, selectRecorded, indices)
	if err != nil {
		return fmt.Errorf("read what is recorded: %w", err)
	}
	var index uint32
	var address []byte
	var token, sum string
	_, err = pgx.ForEachRow(rows, []any{&index, &address, &token, &sum}, func() error {
		open := at[index]
		copy(open.Address[:], address)
		if sum[0] == '-' {
			sum = "0"
		}
		open.Recorded[token], err = chain.ParseAmount(sum)
		return err
	})
	if err != nil {
		return fmt.Errorf("read what is recorded: %w", err)
	}
	return nil
}

// Decide implements deposit.Store. A decision that stands stays.
func (s Deposits) Decide(ctx context.Context, of []deposit.Decided) error {
	if len(of) == 0 {
		return nil
	}
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(durably)
		for _, d := range of {
			var rate *int64
			var source *string
			var at *time.Time
			if d.Quote != nil {
				r := int64(d.Quote.Rate)
				rate, source, at = &r, &d.Quote.Source, &d.Quote.At
			}
			batch.Queue(`UPDATE transfer t SET decision = $4, rate = $5, quote_source = $6, quote_at = $7,
					screened = nullif($8, ''), waits = NULL,
					account_id = CASE WHEN $4 = 'credit' THEN a.account_id END
				FROM deposit_address a WHERE a.deposit_index = t.deposit_index AND t.chain_id = $1 AND t.tx_hash = $2
					AND t.place = $3 AND t.state = 'final' AND t.decision IS NULL`,
				d.Chain, d.Transaction[:], d.Place, string(d.Decision), rate, source, at, d.Screened)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("decide of %d transfers: %w", len(of), err)
	}
	return nil
}

// Wait implements deposit.Store.
func (s Deposits) Wait(ctx context.Context, of []watch.Key, waits deposit.Waits) error {
	batch := &pgx.Batch{}
	for _, k := range of {
		batch.Queue(`UPDATE transfer SET waits = $4 WHERE chain_id = $1 AND tx_hash = $2 AND place = $3
			AND decision IS NULL AND waits IS DISTINCT FROM $4`, k.Chain, k.Transaction[:], k.Place, string(waits))
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("note what transfers wait for: %w", err)
	}
	return nil
}

// Due implements deposit.Store. The oldest of each address are first, so that an account that the books refuse keeps no
// other one waiting.
func (s Deposits) Due(ctx context.Context, limit int) ([]deposit.Transfer, error) {
	return s.transfers(ctx, "transfers that are to be posted", `
		WHERE (t.state = 'final' AND t.decision IS NOT NULL OR t.ended IS NOT NULL AND t.end_entry_id IS NULL)
			AND NOT EXISTS (SELECT FROM chain_halt h WHERE h.chain_id = t.chain_id AND h.lifted_at IS NULL)
		ORDER BY row_number() OVER (PARTITION BY t.deposit_index ORDER BY t.found_at), t.found_at LIMIT $1`, limit)
}

// Posted implements deposit.Store.
func (s Deposits) Posted(ctx context.Context, of watch.Key, to deposit.State, entry string) error {
	_, err := s.pool.Exec(ctx, `UPDATE transfer SET state = $4, entry_id = $5
		WHERE chain_id = $1 AND tx_hash = $2 AND place = $3 AND entry_id IS NULL`,
		of.Chain, of.Transaction[:], of.Place, string(to), entry)
	if err != nil {
		return fmt.Errorf("note an entry: %w", err)
	}
	return nil
}

// Ended implements deposit.Store.
func (s Deposits) Ended(ctx context.Context, of watch.Key, to deposit.State, entry string) error {
	_, err := s.pool.Exec(ctx, `UPDATE transfer SET state = $4, end_entry_id = $5
		WHERE chain_id = $1 AND tx_hash = $2 AND place = $3 AND ended IS NOT NULL AND end_entry_id IS NULL`,
		of.Chain, of.Transaction[:], of.Place, string(to), entry)
	if err != nil {
		return fmt.Errorf("note the entry of an end: %w", err)
	}
	return nil
}

// Backlog implements deposit.Store.
func (s Deposits) Backlog(ctx context.Context) (deposit.Backlog, error) {
	rows, err := s.pool.Query(ctx, `SELECT coalesce(waits, ''), count(*) FROM transfer
		WHERE state = 'final' AND decision IS NULL GROUP BY 1
		UNION ALL SELECT 'due', count(*) FROM transfer
		WHERE state = 'final' AND decision IS NOT NULL OR ended IS NOT NULL AND end_entry_id IS NULL`)
	if err != nil {
		return deposit.Backlog{}, fmt.Errorf("count what waits: %w", err)
	}
	b := deposit.Backlog{Waiting: map[deposit.Waits]int{}}
	var waits string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&waits, &n}, func() error {
		if waits == "due" {
			b.Due = n
		} else {
			b.Waiting[deposit.Waits(waits)] = n
		}
		return nil
	})
	if err != nil {
		return deposit.Backlog{}, fmt.Errorf("count what waits: %w", err)
	}
	return b, nil
}
