package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/position"
)

// readAgain reports whether a changed history of a chain, which an operator accepted, is not read again as far as what
// it touched may be. Meanwhile an event that is gone may be one that was mined again.
func readAgain(ctx context.Context, tx pgx.Tx, on chain.ID) (waits bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM chain_halt h JOIN chain_cursor c USING (chain_id)
		WHERE h.chain_id = $1 AND h.read_to > c.block)`, on).Scan(&waits)
	if err != nil {
		return false, fmt.Errorf("read whether chain %s is read again: %w", on, err)
	}
	return waits, nil
}

// uncounted leaves out the events that count already.
func uncounted(ctx context.Context, tx pgx.Tx, on chain.ID, events []position.Event) ([]position.Event, error) {
	numbers := make([]int64, len(events))
	for i, e := range events {
		numbers[i] = e.Number
	}
	rows, err := tx.Query(ctx, `SELECT event FROM position_event WHERE chain_id = $1 AND event = ANY($2::bigint[])`,
		on, numbers)
	if err != nil {
		return nil, err
	}
	counted, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(events), func(e position.Event) bool {
		return slices.Contains(counted, e.Number)
	}), nil
}

// vanished returns positions that rest on events which their chain has no longer, at most position.MaxGone of them.
func vanished(ctx context.Context, tx pgx.Tx, on chain.ID) ([]positionKey, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT p.subject, p.depositor FROM chain_event e
		JOIN position_event p ON p.chain_id = e.chain_id AND p.event = e.seq
		WHERE e.chain_id = $1 AND e.gone_at IS NOT NULL AND NOT p.gone LIMIT $2`, on, position.MaxGone)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (key positionKey, err error) {
		var subject, depositor []byte
		err = row.Scan(&subject, &depositor)
		copy(key.subject[:], subject)
		copy(key.depositor[:], depositor)
		return key, err
	})
}

func keysOf(events []position.Event) []positionKey {
	keys := make([]positionKey, len(events))
	for i, e := range events {
		keys[i] = positionKey{e.Subject, e.Depositor}
	}
	return keys
}

// madeAnew returns the positions that are to be made anew, and why: those that rest on what is gone, and of new events
// those of which an event was mined again, or comes before one that counts.
func madeAnew(
	ctx context.Context, tx pgx.Tx, on chain.ID, gone []positionKey, now map[positionKey]position.Position,
	events []position.Event,
) (map[positionKey]position.Cause, error) {
	again, err := countedBefore(ctx, tx, on, events)
	if err != nil {
		return nil, err
	}
	anew := map[positionKey]position.Cause{}
	for _, e := range events {
		key := positionKey{e.Subject, e.Depositor}
		was, ok := now[key]
		switch {
		case ok && again[logKey{e.Tx, e.Place}]:
			anew[key] = position.Again
		case ok && e.Where.Before(was.Last) && anew[key] == "":
			anew[key] = position.Late
		}
	}
	for _, key := range gone {
		anew[key] = position.Gone
	}
	return anew, nil
}

// logKey names a log of a chain for ever.
type logKey struct {
	tx    chain.Hash
	place uint32
}

// countedBefore returns which events counted before they were gone.
func countedBefore(
	ctx context.Context, tx pgx.Tx, on chain.ID, events []position.Event,
) (map[logKey]bool, error) {
	txs, places := make([][]byte, len(events)), make([]int32, len(events))
	for i := range events {
		txs[i], places[i] = events[i].Tx[:], int32(events[i].Place)
	}
	rows, err := tx.Query(ctx, `SELECT DISTINCT p.tx, p.place FROM unnest($2::bytea[], $3::integer[]) AS u(tx, place)
		JOIN position_event p ON p.chain_id = $1 AND p.tx = u.tx AND p.place = u.place`, on, txs, places)
	if err != nil {
		return nil, err
	}
	again := map[logKey]bool{}
	var hash []byte
	var place uint32
	_, err = pgx.ForEachRow(rows, []any{&hash, &place}, func() error {
		again[logKey{chain.Hash(hash), place}] = true
		return nil
	})
	return again, err
}

func sortedKeys(of map[positionKey]position.Cause) []positionKey {
	return slices.SortedFunc(maps.Keys(of), func(a, b positionKey) int {
		return cmp.Or(bytes.Compare(a.subject[:], b.subject[:]), bytes.Compare(a.depositor[:], b.depositor[:]))
	})
}

// The events of a position that its chain has, in the chain's order: those that count, and those that do not yet.
const eventsOf = `
	SELECT ` + eventColumns + `, p.event IS NOT NULL, EXISTS (SELECT FROM position_event q
		WHERE q.chain_id = e.chain_id AND q.tx = e.tx_hash AND q.place = e.place AND q.gone)
	FROM chain_event e LEFT JOIN position_event p ON p.chain_id = e.chain_id AND p.event = e.seq
	WHERE e.chain_id = $1 AND e.gone_at IS NULL AND e.seq IN (
		SELECT event FROM position_event WHERE chain_id = $1 AND subject = $3 AND depositor = $4
		UNION ALL SELECT seq FROM chain_event WHERE chain_id = $1 AND contract = $2 AND seq > $5
			AND topics[1] = ANY($6::bytea[]) AND topics[cardinality(topics) - 1] = $3
			AND substr(topics[cardinality(topics)], 13) = $4)
	ORDER BY e.block, e.log_index`

// restate makes a position anew of all events that its chain has. The last step restates the position, and the others
// are events that count from now on. What is gone counts no longer. behind is the number of the cursor.
func (s Positions) restate(
	ctx context.Context, tx pgx.Tx, rules position.Rules, behind int64, was position.Position, cause position.Cause,
) ([]step, error) {
	var before int64
	err := tx.QueryRow(ctx, `SELECT count(*) FROM position_event WHERE chain_id = $1 AND subject = $2 AND depositor = $3
		AND kind = 'restated'`, was.Chain, was.Subject[:], was.Depositor[:]).Scan(&before)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, `UPDATE position_event p SET gone = true FROM chain_event e WHERE p.chain_id = $1
		AND p.subject = $2 AND p.depositor = $3 AND NOT p.gone AND e.chain_id = $1 AND e.seq = p.event
		AND e.gone_at IS NOT NULL`, was.Chain, was.Subject[:], was.Depositor[:]); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, eventsOf, was.Chain, rules.Contract[:], was.Subject[:], was.Depositor[:], behind,
		contract.Topics())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	now := position.Position{Chain: was.Chain, Subject: was.Subject, Depositor: was.Depositor}
	var steps []step
	for rows.Next() {
		var counts, again bool
		e, err := scanEvent(rows, &counts, &again)
		if err != nil {
			return nil, err
		}
		if now, err = now.After(e, rules); err != nil {
			return nil, fmt.Errorf("make the position of %s anew: %w", was.Depositor, err)
		}
		if !counts {
			one := newStep(e, was, now)
			one.units, one.partial, one.again = 0, true, again
			steps = append(steps, one)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	e := position.Event{Chain: was.Chain, Tx: position.Restating(was.Chain, was.Subject, was.Depositor, before)}
	e.Kind, e.Subject, e.Depositor = position.Restated, was.Subject, was.Depositor
	last := newStep(e, was, now)
	last.cause = &cause
	return append(steps, last), nil
}
