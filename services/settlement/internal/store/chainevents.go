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

// After implements position.Events. A log that is no event of a position is left out, and so it may list fewer than
// there are: then what follows comes with the next call.
func (s ChainEvents) After(ctx context.Context, on chain.ID, number int64, limit int) ([]position.Event, error) {
	rules, ok := s.Terms.Of(on)
	if !ok {
		return nil, fmt.Errorf("chain %s takes no collateral", on)
	}
	rows, err := s.pool.Query(ctx, `SELECT seq, tx_hash, place, topics, data, at FROM chain_event
		WHERE chain_id = $1 AND contract = $2 AND seq > $3 AND topics[1] = ANY($5::bytea[]) ORDER BY seq LIMIT $4`,
		on, rules.Contract[:], number, limit, contract.Topics())
	if err != nil {
		return nil, fmt.Errorf("read the events of chain %s: %w", on, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e position.Event, err error) {
		var tx, data []byte
		var topics [][]byte
		if err := row.Scan(&e.Number, &tx, &e.Place, &topics, &data, &e.At); err != nil {
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
		e.Event, e.Chain = read, on
		copy(e.Tx[:], tx)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the events of chain %s: %w", on, err)
	}
	return list, nil
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
