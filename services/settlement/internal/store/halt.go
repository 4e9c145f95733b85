package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/watch"
)

// tracePage is how many blocks of the trace are read at once.
const tracePage = 50

// Halt implements watch.Store. A chain that is halted already stays so.
func (s Watch) Halt(ctx context.Context, id chain.ID, fence int64, block uint64, was, is chain.Hash) error {
	return s.fenced(ctx, id, fence, "halt the watching", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO chain_halt (chain_id, block, was_hash, is_hash) VALUES ($1, $2, $3, $4)
			ON CONFLICT (chain_id) WHERE lifted_at IS NULL DO NOTHING`, id, block, was[:], is[:])
		return err
	})
}

// OpenHalt implements watch.HaltStore.
func (s Watch) OpenHalt(ctx context.Context, id chain.ID) (watch.Halt, bool, error) {
	h := watch.Halt{Chain: id}
	var was, is []byte
	err := s.pool.QueryRow(ctx, `SELECT block, was_hash, is_hash FROM chain_halt
		WHERE chain_id = $1 AND lifted_at IS NULL`, id).Scan(&h.Block, &was, &is)
	if errors.Is(err, pgx.ErrNoRows) {
		return watch.Halt{}, false, nil
	}
	if err != nil {
		return watch.Halt{}, false, fmt.Errorf("read the halt of chain %s: %w", id, err)
	}
	copy(h.Was[:], was)
	copy(h.Is[:], is)
	return h, true, nil
}

// Trace implements watch.HaltStore.
func (s Watch) Trace(ctx context.Context, id chain.ID, below uint64) ([]chain.Block, error) {
	rows, err := s.pool.Query(ctx, `SELECT block, block_hash FROM chain_block WHERE chain_id = $1 AND block <= $2
		ORDER BY block DESC LIMIT $3`, id, below, tracePage)
	if err != nil {
		return nil, fmt.Errorf("read the blocks of chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (b chain.Block, err error) {
		var hash []byte
		err = row.Scan(&b.Number, &hash)
		copy(b.Hash[:], hash)
		return b, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the blocks of chain %s: %w", id, err)
	}
	return list, nil
}

// TouchedAbove implements watch.HaltStore.
func (s Watch) TouchedAbove(ctx context.Context, id chain.ID, above uint64, limit int) ([]watch.Touched, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT tx_hash, place, false FROM arrival WHERE chain_id = $1 AND block > $2 AND state NOT IN ('seen', 'dropped')
		UNION ALL SELECT tx_hash, place, true FROM chain_event WHERE chain_id = $1 AND block > $2 AND gone_at IS NULL
		LIMIT $3`, id, above, limit)
	if err != nil {
		return nil, fmt.Errorf("read what a halt touches on chain %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (watch.Touched, error) {
		t := watch.Touched{Key: watch.Key{Chain: id}}
		var hash []byte
		err := row.Scan(&hash, &t.Place, &t.Event)
		copy(t.Transaction[:], hash)
		return t, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what a halt touches on chain %s: %w", id, err)
	}
	return list, nil
}

// Of a transfer that is gone and of which nothing was decided only the row stays. What was decided may be posted
// already, so it is posted, and taken back by another posting.
const transferGone = `UPDATE transfer SET
	state = CASE WHEN decision IS NULL THEN 'dropped' ELSE state END,
	ended = CASE WHEN decision IS NULL THEN ended ELSE 'gone' END,
	ended_by = CASE WHEN decision IS NULL THEN ended_by ELSE $4 END,
	end_reason = CASE WHEN decision IS NULL THEN end_reason ELSE $5 END,
	end_entry_id = NULL
	WHERE chain_id = $1 AND tx_hash = $2 AND place = $3 AND state <> 'returned'`

// Lift implements watch.HaltStore.
func (s Watch) Lift(ctx context.Context, l watch.Lift) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`SELECT FROM chain_cursor WHERE chain_id = $1 FOR UPDATE`, l.Chain)
		batch.Queue(`DELETE FROM chain_block WHERE chain_id = $1 AND block > $2`, l.Chain, l.Back.Number)
		// No block above the common one is there any more. Events that are mined again are found when it is read again.
		batch.Queue(`UPDATE chain_event SET gone_at = clock_timestamp() WHERE chain_id = $1 AND block > $2
			AND gone_at IS NULL`, l.Chain, l.Back.Number)
		for _, t := range l.Touched {
			if !t.Event {
				queueTouched(batch, t, l)
			}
		}
		batch.Queue(`UPDATE chain_cursor SET block = $2, block_hash = $3, again = least(again, $2), fence = fence + 1,
			progressed_at = clock_timestamp() WHERE chain_id = $1`, l.Chain, l.Back.Number, l.Back.Hash[:])
		batch.Queue(`UPDATE chain_halt SET lifted_at = clock_timestamp(), lifted_by = $2, reason = $3, accepted = $4,
			read_to = greatest(block, $5) WHERE chain_id = $1 AND lifted_at IS NULL`, l.Chain, l.Actor, l.Reason,
			l.Accepted[:], l.ReadTo())
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("lift the halt of chain %s: %w", l.Chain, err)
	}
	return nil
}

func queueTouched(batch *pgx.Batch, t watch.Touched, l watch.Lift) {
	if t.Gone {
		batch.Queue(transferGone, t.Chain, t.Transaction[:], t.Place, l.Actor, l.Reason)
		batch.Queue(`UPDATE other_transfer SET state = 'dropped' WHERE chain_id = $1 AND tx_hash = $2 AND place = $3
			AND state = 'unmatched'`, t.Chain, t.Transaction[:], t.Place)
		return
	}
	batch.Queue(`UPDATE other_transfer SET block = $4, block_hash = $5
		WHERE chain_id = $1 AND tx_hash = $2 AND place = $3`, t.Chain, t.Transaction[:], t.Place, t.Block, t.Hash[:])
	batch.Queue(`UPDATE transfer SET block = $4, block_hash = $5 WHERE chain_id = $1 AND tx_hash = $2 AND place = $3`,
		t.Chain, t.Transaction[:], t.Place, t.Block, t.Hash[:])
}

// ChainState is how far a chain is read.
type ChainState struct {
	Chain      chain.ID
	Block      uint64
	Again      uint64
	Progressed time.Time
	// Head and Final are as the last look saw them; 0 before the first.
	Head, Final uint64
	// Stalled is how long there has been no progress, by the database's clock.
	Stalled time.Duration
	Halt    *watch.Halt
	Since   time.Time
}

// States returns how far each chain is read.
func (s Watch) States(ctx context.Context) ([]ChainState, error) {
	rows, err := s.pool.Query(ctx, `SELECT c.chain_id, c.block, c.again, c.progressed_at,
		extract(epoch FROM clock_timestamp() - c.progressed_at)::float8, coalesce(c.head, 0), coalesce(c.final_block, 0),
		h.block, h.was_hash, h.is_hash, h.halted_at
		FROM chain_cursor c LEFT JOIN chain_halt h ON h.chain_id = c.chain_id AND h.lifted_at IS NULL ORDER BY c.chain_id`)
	if err != nil {
		return nil, fmt.Errorf("read the cursors of chains: %w", err)
	}
	states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ChainState, error) {
		var c ChainState
		var seconds float64
		var block *uint64
		var was, is []byte
		var since *time.Time
		err := row.Scan(&c.Chain, &c.Block, &c.Again, &c.Progressed, &seconds, &c.Head, &c.Final, &block, &was, &is, &since)
		c.Stalled = time.Duration(seconds * float64(time.Second))
		if block != nil {
			c.Halt, c.Since = &watch.Halt{Chain: c.Chain, Block: *block}, *since
			copy(c.Halt.Was[:], was)
			copy(c.Halt.Is[:], is)
		}
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the cursors of chains: %w", err)
	}
	return states, nil
}
