package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pg"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/sending"
)

// ChainEvents are the logs of collateral contracts that the watchers stored; it implements position.Events.
type ChainEvents struct {
	Positions
	// BlockAt reads a final block of a chain.
	BlockAt func(ctx context.Context, on chain.ID, number uint64) (chain.Block, error)
}

// Final implements position.Events. The watcher stores a block's logs with its cursor.
func (s ChainEvents) Final(ctx context.Context, on chain.ID) (time.Time, error) {
	var number uint64
	err := s.pool.QueryRow(ctx, `SELECT block FROM chain_cursor WHERE chain_id = $1`, on).Scan(&number)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read how far chain %s is read: %w", on, err)
	}
	block, err := s.BlockAt(ctx, on, number)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of a block of chain %s: %w", on, err)
	}
	return block.At, nil
}

const eventColumns = `e.chain_id, e.seq, e.block, e.log_index, e.tx_hash, e.place, e.topics, e.data, e.at`

// What is found late has a number behind those of events that follow it on the chain. So the order is the chain's, and
// the cursor stays before the first number that is left out.
const eventsAfter = `
	WITH left_over AS (
		SELECT seq, block, log_index FROM chain_event e WHERE chain_id = $1 AND contract = $2 AND seq > $3
			AND topics[1] = ANY($5::bytea[]) AND gone_at IS NULL
			AND NOT EXISTS (SELECT FROM position_event p WHERE p.chain_id = $1 AND p.event = e.seq AND p.event > $3)
	), first AS (
		SELECT seq FROM left_over ORDER BY block, log_index LIMIT $4
	)
	SELECT ` + eventColumns + `, coalesce((SELECT min(seq) - 1 FROM left_over WHERE seq NOT IN (SELECT seq FROM first)),
		(SELECT max(seq) FROM left_over))
	FROM first JOIN chain_event e USING (seq) ORDER BY e.block, e.log_index`

// After implements position.Events.
func (s ChainEvents) After(ctx context.Context, on chain.ID, number int64, limit int) (b position.Batch, err error) {
	rules, ok := s.Terms.Of(on)
	if !ok {
		return b, fmt.Errorf("chain %s takes no collateral", on)
	}
	rows, err := s.pool.Query(ctx, eventsAfter, on, rules.Contract[:], number, limit, contract.Topics())
	if err != nil {
		return b, fmt.Errorf("read the events of chain %s: %w", on, err)
	}
	b.Events, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (position.Event, error) {
		return scanEvent(row, &b.UpTo)
	})
	if err != nil {
		return b, fmt.Errorf("read the events of chain %s: %w", on, err)
	}
	return b, nil
}

// scanEvent reads eventColumns, and more columns behind them.
func scanEvent(row pgx.CollectableRow, more ...any) (e position.Event, err error) {
	var tx, data []byte
	var topics [][]byte
	fields := []any{&e.Chain, &e.Number, &e.Where.Block, &e.Where.Index, &tx, &e.Place, &topics, &data, &e.At}
	if err := row.Scan(append(fields, more...)...); err != nil {
		return e, err
	}
	words := make([][32]byte, len(topics))
	for i, topic := range topics {
		copy(words[i][:], topic)
	}
	read, ok, err := contract.Read(words, data)
	if err == nil && !ok {
		err = errors.New("a log is no event of a position")
	}
	e.Event = read
	copy(e.Tx[:], tx)
	return e, err
}

// Preparer finds out whether a request can be sent now: see sending.Pipeline.
type Preparer interface {
	Prepare(ctx context.Context, r sending.Request) (sending.Prepared, error)
}

// ContractCalls sends calls of the collateral contracts by the one pipeline; it implements chain.Sender.
type ContractCalls struct {
	Positions
	Pipeline Preparer
}

// Send implements chain.Sender. What the contract would refuse now takes no nonce.
func (s ContractCalls) Send(ctx context.Context, c chain.Sending) (chain.SendOutcome, error) {
	calls := Sending{s.Store}
	status, ok, err := calls.Call(ctx, c.Purpose, c.Ref)
	if err != nil {
		return chain.SendWaiting, err
	}
	if ok {
		return outcomeOf(status), nil
	}
	rules, ok := s.Terms.Of(c.Chain)
	if !ok {
		return chain.SendWaiting, fmt.Errorf("chain %s takes no collateral", c.Chain)
	}
	prepared, err := s.Pipeline.Prepare(ctx, sending.Request{Chain: c.Chain, Key: sending.Key(c.Key), Purpose: c.Purpose,
		Ref: c.Ref, To: rules.Contract, Data: c.Data})
	var revert *chain.Revert
	if errors.As(err, &revert) {
		return chain.SendRefused, nil
	}
	if err != nil {
		return chain.SendWaiting, fmt.Errorf("prepare %s %s: %w", c.Purpose, c.Ref, err)
	}
	err = pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		_, err := calls.Enqueue(ctx, tx, prepared)
		return err
	})
	if err != nil {
		return chain.SendWaiting, fmt.Errorf("send %s %s: %w", c.Purpose, c.Ref, err)
	}
	return chain.SendWaiting, nil
}

func outcomeOf(s sending.Status) chain.SendOutcome {
	switch {
	case s.End == nil:
		return chain.SendWaiting
	case s.End.Outcome == sending.Succeeded:
		return chain.SendDone
	default:
		return chain.SendRefused
	}
}
