package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/watch"
)

// Watch keeps what is read of chains; it implements watch.Store and watch.HaltStore.
type Watch struct{ *Store }

// lockWatcher is the first number of the advisory locks of watchers.
const lockWatcher = 0x77617463

// traceBlocks is how far back the hashes of blocks are kept.
const traceBlocks = 500_000

// Lock takes the lock of a chain's watcher. ok is false while another process has it. The lock is held by a connection
// of its own until release is called; held reports whether the connection still stands.
func (s Watch) Lock(
	ctx context.Context, id chain.ID,
) (held func(context.Context) error, release func(), ok bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, false, fmt.Errorf("lock chain %s: %w", id, err)
	}
	err = conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1::int, $2::int)`, lockWatcher, int32(id)).Scan(&ok)
	if err != nil || !ok {
		conn.Release()
		if err != nil {
			err = fmt.Errorf("lock chain %s: %w", id, err)
		}
		return nil, nil, false, err
	}
	return func(ctx context.Context) error { return stands(ctx, conn) }, func() { unlock(conn) }, true, nil
}

func stands(ctx context.Context, conn *pgxpool.Conn) error {
	if err := conn.Ping(ctx); err != nil {
		return fmt.Errorf("the lock of a watcher is lost: %w", err)
	}
	return nil
}

// unlock closes the connection, with which the lock ends.
func unlock(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.Hijack().Close(ctx) // the server ends the lock when it sees the connection closed
}

// Halted reports whether a chain is halted: then nobody is credited or paid on it.
func (s Watch) Halted(ctx context.Context, id chain.ID) (bool, error) {
	var halted bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM chain_halt WHERE chain_id = $1 AND lifted_at IS NULL)`, id).
		Scan(&halted)
	if err != nil {
		return false, fmt.Errorf("read the halt of chain %s: %w", id, err)
	}
	return halted, nil
}

// Has implements watch.Store.
func (s Watch) Has(ctx context.Context, id chain.ID) (has bool, err error) {
	err = s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM chain_cursor WHERE chain_id = $1)`, id).Scan(&has)
	if err != nil {
		return false, fmt.Errorf("read the cursor of chain %s: %w", id, err)
	}
	return has, nil
}

// Begin implements watch.Store.
func (s Watch) Begin(ctx context.Context, id chain.ID, first chain.Block) (c watch.Cursor, err error) {
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		if !first.Hash.IsZero() {
			if _, err := tx.Exec(ctx, `INSERT INTO chain_cursor (chain_id, block, block_hash, fence, again)
				VALUES ($1, $2, $3, 1, $2) ON CONFLICT DO NOTHING`, id, first.Number, first.Hash[:]); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO chain_block (chain_id, block, block_hash)
				SELECT chain_id, block, block_hash FROM chain_cursor WHERE chain_id = $1 ON CONFLICT DO NOTHING`, id); err != nil {
				return err
			}
		}
		var hash []byte
		err := tx.QueryRow(ctx, `UPDATE chain_cursor SET fence = fence + 1 WHERE chain_id = $1
			RETURNING block, block_hash, again, fence, EXISTS (SELECT FROM chain_halt h
				WHERE h.chain_id = $1 AND h.lifted_at IS NULL)`, id).Scan(&c.Block, &hash, &c.Again, &c.Fence, &c.Halted)
		copy(c.Hash[:], hash)
		return err
	})
	if err != nil {
		return watch.Cursor{}, fmt.Errorf("take the cursor of chain %s: %w", id, err)
	}
	return c, nil
}

// fenced runs a transaction under a watcher's fence.
func (s Watch) fenced(ctx context.Context, id chain.ID, fence int64, what string, do func(pgx.Tx) error) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		var now int64
		err := tx.QueryRow(ctx, `SELECT fence FROM chain_cursor WHERE chain_id = $1 FOR UPDATE`, id).Scan(&now)
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && now != fence:
			return watch.ErrFenced
		case err != nil:
			return err
		}
		return do(tx)
	})
	if err != nil {
		return fmt.Errorf("%s of chain %s: %w", what, id, err)
	}
	return nil
}

// Commit implements watch.Store.
func (s Watch) Commit(ctx context.Context, id chain.ID, fence int64, w watch.Window) (out watch.Outcome, err error) {
	crash.At("settlement.watch.before_commit")
	err = s.fenced(ctx, id, fence, "store blocks", func(tx pgx.Tx) error {
		out = watch.Outcome{}
		return commitWindow(ctx, tx, id, w, &out)
	})
	if err != nil {
		return watch.Outcome{}, err
	}
	crash.At("settlement.watch.committed")
	return out, nil
}

const insertEvent = `INSERT INTO chain_event
	(chain_id, block, block_hash, tx_hash, place, log_index, contract, topics, data, at)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
	ON CONFLICT (chain_id, tx_hash, place) WHERE gone_at IS NULL DO NOTHING`

// A transfer that was seen above the final block, and one that was dropped, become final where they are now, and as
// they are now: a transaction that is mined again behind other ones, such as an exchange, may move another amount. One
// that is final already stays as it is.
const insertTransfer = `INSERT INTO transfer AS t
	(chain_id, tx_hash, place, block, block_hash, at, token, sender, deposit_index, amount, units, dust, state)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::numeric, $11, $12::text::numeric, $13)
	ON CONFLICT (chain_id, tx_hash, place) DO UPDATE
		SET state = excluded.state, block = excluded.block, block_hash = excluded.block_hash, at = excluded.at,
			token = excluded.token, sender = excluded.sender, deposit_index = excluded.deposit_index,
			amount = excluded.amount, units = excluded.units, dust = excluded.dust
		WHERE t.entry_id IS NULL AND (t.state, t.block_hash) <> (excluded.state, excluded.block_hash)
			AND t.state IN ('seen', 'dropped')
			AND (t.decision IS NULL OR (t.amount, t.deposit_index, t.token)
				= (excluded.amount, excluded.deposit_index, excluded.token))`

const addDust = `INSERT INTO deposit_dust AS d (deposit_index, chain_id, token, amount, transfers)
	VALUES ($1, $2, $3, $4::text::numeric, 1)
	ON CONFLICT (deposit_index, chain_id, token) DO UPDATE
		SET amount = d.amount + excluded.amount, transfers = d.transfers + 1`

const keepBlock = `INSERT INTO chain_block (chain_id, block, block_hash) VALUES ($1, $2, $3)
	ON CONFLICT (chain_id, block) DO NOTHING`

func commitWindow(ctx context.Context, tx pgx.Tx, id chain.ID, w watch.Window, out *watch.Outcome) error {
	batch := &pgx.Batch{}
	for _, e := range w.Events {
		queueEvent(batch, e, &out.Events)
	}
	for _, t := range w.Transfers {
		queueTransfer(batch, t, "final", &out.Transfers)
	}
	for _, o := range w.Others {
		queueOther(batch, o, &out.Transfers)
	}
	if w.Again {
		batch.Queue(`UPDATE chain_cursor SET again = $2 WHERE chain_id = $1`, id, w.To.Number)
		return tx.SendBatch(ctx, batch).Close()
	}
	for _, small := range w.Small {
		batch.Queue(addDust, small.Index, id, small.Token, small.Amount.String())
	}
	batch.Queue(`UPDATE transfer SET state = 'dropped' WHERE chain_id = $1 AND state = 'seen' AND block <= $2`,
		id, w.To.Number).Exec(counted(&out.Dropped))
	batch.Queue(keepBlock, id, w.To.Number, w.To.Hash[:])
	batch.Queue(`DELETE FROM chain_block WHERE chain_id = $1 AND block < $2`, id,
		w.To.Number-min(w.To.Number, traceBlocks))
	batch.Queue(`UPDATE chain_cursor SET block = $2, block_hash = $3, progressed_at = clock_timestamp()
		WHERE chain_id = $1`, id, w.To.Number, w.To.Hash[:])
	return tx.SendBatch(ctx, batch).Close()
}

// counted adds the rows of a statement.
func counted(into *int) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*into += int(tag.RowsAffected())
		return nil
	}
}

func queueEvent(batch *pgx.Batch, e watch.Event, added *int) {
	topics := make([][]byte, len(e.Topics))
	for i := range e.Topics {
		topics[i] = e.Topics[i][:]
	}
	if e.Data == nil {
		e.Data = []byte{}
	}
	batch.Queue(insertEvent, e.Chain, e.Block, e.BlockHash[:], e.Transaction[:], e.Place, e.Index, e.Contract[:], topics,
		e.Data, e.At).Exec(counted(added))
	batch.Queue(keepBlock, e.Chain, e.Block, e.BlockHash[:])
}

func queueTransfer(batch *pgx.Batch, t watch.Transfer, state string, added *int) {
	batch.Queue(insertTransfer, t.Chain, t.Transaction[:], t.Place, t.Block, t.BlockHash[:], t.At, t.Token, t.Sender[:],
		t.Index, t.Amount.String(), t.Units, t.Dust.String(), state).Exec(counted(added))
	if state == "final" {
		batch.Queue(keepBlock, t.Chain, t.Block, t.BlockHash[:])
	}
}

// One that was dropped is as it is now, where its transaction is mined again.
const insertOther = `INSERT INTO other_transfer AS t
	(chain_id, tx_hash, place, block, block_hash, at, contract, symbol, decimals, sender, deposit_index, amount, state)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text::numeric, 'unmatched')
	ON CONFLICT (chain_id, tx_hash, place) DO UPDATE
		SET state = excluded.state, block = excluded.block, block_hash = excluded.block_hash, at = excluded.at,
			contract = excluded.contract, symbol = excluded.symbol, decimals = excluded.decimals, sender = excluded.sender,
			deposit_index = excluded.deposit_index, amount = excluded.amount
		WHERE t.state = 'dropped'`

func queueOther(batch *pgx.Batch, o watch.Other, added *int) {
	batch.Queue(insertOther, o.Chain, o.Transaction[:], o.Place, o.Block, o.BlockHash[:], o.At, o.Token.Contract[:],
		o.Token.Symbol, o.Token.Decimals, o.Sender[:], o.Index, o.Amount.String()).Exec(counted(added))
	batch.Queue(keepBlock, o.Chain, o.Block, o.BlockHash[:])
}

// Current implements watch.Store.
func (s Watch) Current(ctx context.Context, id chain.ID, fence int64) error {
	return s.fenced(ctx, id, fence, "note the progress", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE chain_cursor SET progressed_at = clock_timestamp() WHERE chain_id = $1`, id)
		return err
	})
}

// What was seen in a block that was read, and is not in what was read, is there no longer. Nothing is above the head.
const dropSeen = `UPDATE transfer t SET state = 'dropped' WHERE chain_id = $1 AND state = 'seen' AND block >= $2
	AND (block <= $3 OR block > $4)
	AND NOT EXISTS (SELECT FROM unnest($5::bytea[], $6::bigint[]) AS f (tx_hash, place)
		WHERE (f.tx_hash, f.place) = (t.tx_hash, t.place))`

// Seen implements watch.Store.
func (s Watch) Seen(ctx context.Context, id chain.ID, fence int64, sight watch.Sight) error {
	return s.fenced(ctx, id, fence, "store what is not final", func(tx pgx.Tx) error {
		batch, added := &pgx.Batch{}, 0
		hashes, places := make([][]byte, len(sight.Transfers)), make([]int64, len(sight.Transfers))
		for i, t := range sight.Transfers {
			queueTransfer(batch, t, "seen", &added)
			hashes[i], places[i] = t.Transaction[:], int64(t.Place)
		}
		batch.Queue(dropSeen, id, sight.From, sight.To, sight.Head, hashes, places)
		batch.Queue(`UPDATE chain_cursor SET head = $2, final_block = $3
			WHERE chain_id = $1 AND (head, final_block) IS DISTINCT FROM ($2, $3)`, id, sight.Head, sight.Final)
		return tx.SendBatch(ctx, batch).Close()
	})
}

// Addresses implements watch.Store.
func (s Watch) Addresses(ctx context.Context, from uint32) ([]chain.Address, error) {
	const page = 50_000
	rows, err := s.pool.Query(ctx, `SELECT address FROM deposit_address WHERE deposit_index >= $1
		ORDER BY deposit_index LIMIT $2`, from, page)
	if err != nil {
		return nil, fmt.Errorf("read deposit addresses: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a chain.Address, err error) {
		var raw []byte
		err = row.Scan(&raw)
		copy(a[:], raw)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("read deposit addresses: %w", err)
	}
	return list, nil
}
