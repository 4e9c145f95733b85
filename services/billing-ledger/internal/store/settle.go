package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// maxPayload bounds the stored payload of a rejected event, in bytes.
const maxPayload = 64 << 10

// Settle settles a batch in one transaction; see usage.Store. It takes two round trips
// when all holds are open and cover what their requests cost.
func (s *Store) Settle(
	ctx context.Context, requests []ids.RequestID, providers []ids.ProviderID,
	decide func(usage.Snapshot) (usage.Effects, []usage.Reject),
) error {
	err := s.pipelined(ctx, func(conn *pgx.Conn) error {
		snapshot, err := readSnapshot(ctx, conn, requests, providers)
		if err != nil {
			return err
		}
		fx, rejects := decide(snapshot)
		if fx.NeedsWallets {
			if snapshot.Wallets, err = lockWallets(ctx, conn, snapshot.Accounts()); err != nil {
				return err
			}
			fx, rejects = decide(snapshot)
		}
		crash.At("billing.settle.before_commit")
		batch := &pgx.Batch{}
		insertLines(batch, fx.Lines)
		for _, line := range fx.Lines {
			if line.Source == usage.Orphan && line.Payout > 0 {
				insertEntry(batch, orphanEntry(line))
			}
		}
		insertHeld(batch, fx.Lines)
		insertVendors(batch, fx.Vendors)
		for _, r := range fx.Overruled {
			// Settlement hears of the request as of a settled review.
			batch.Queue(`INSERT INTO orphan_review (request_id, publications, next_at) VALUES ($1, 1, now())
				ON CONFLICT (request_id) DO UPDATE SET next_at = now()`, [16]byte(r))
		}
		queueWallets(batch, fx.Wallets)
		closeHolds(batch, fx.Closed, fx.Refunded, hold.Usage)
		move(batch, fx.Moves)
		insertRejects(batch, rejects)
		commit(batch)
		if err := sendAll(ctx, conn, batch); err != nil {
			return fmt.Errorf("write settled requests: %w", err)
		}
		return nil
	})
	if refused(err) {
		return errors.Join(usage.ErrRefused, err)
	}
	return err
}

// orphanEntry is the entry that pays for orphan work. A request has at most one such entry, so
// the entry's id is the request's.
func orphanEntry(line usage.Line) ledger.Entry {
	of := ledger.Orphan
	if line.Event.Vendor {
		of = ledger.VendorOrphan
	}
	return of(ids.EntryID(line.Event.Request), line.Event.Request, line.Event.Provider, line.Payout)
}

// readSnapshot begins the transaction and locks the holds. It reads what gateways
// reported of them, their void attempts, which of the providers have the same owner as their
// accounts, and what was settled of the holds that are not open any more. It reads all of
// that after the locks, so it sees a request that another transaction was settling, and a
// report that has freed the request's place. An open hold has no line, because both
// change in one transaction.
func readSnapshot(
	ctx context.Context, conn *pgx.Conn, requests []ids.RequestID, providers []ids.ProviderID,
) (usage.Snapshot, error) {
	snapshot := usage.Snapshot{
		Holds:         make(map[ids.RequestID]usage.Hold, len(requests)),
		Truncated:     map[ids.RequestID]usage.Relayed{},
		Voids:         map[ids.RequestID]usage.Void{},
		Reported:      map[ids.RequestID]bool{},
		Related:       map[usage.Pair]usage.Rule{},
		GrantedCredit: map[ids.AccountID]bool{},
		Vendors:       map[ids.ProviderID]bool{},
	}
	batch := &pgx.Batch{}
	begin(batch)
	batch.Queue(`SELECT `+holdMoves+
		`, model_id, price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, `+cachedRate+`,
		state FROM hold h WHERE request_id = ANY ($1) ORDER BY request_id FOR UPDATE`, raw(requests)).
		Query(func(rows pgx.Rows) error { return scanHolds(rows, snapshot.Holds) })
	batch.Queue(
		`SELECT request_id, outcome = 'failed' AND committed_attempt > 0 AND metered_prompt IS NULL, relayed_tokens,
		relayed_bytes
		FROM request_report WHERE request_id = ANY ($1)`, raw(requests)).
		Query(func(rows pgx.Rows) error { return scanReports(rows, snapshot) })
	batch.Queue(selectVoids, raw(requests)).
		Query(func(rows pgx.Rows) error { return scanVoids(rows, snapshot.Voids) })
	batch.Queue(selectRelated, raw(requests), raw(providers)).
		Query(func(rows pgx.Rows) error { return scanRelated(rows, snapshot) })
	batch.Queue(selectVendors, raw(providers)).
		Query(func(rows pgx.Rows) error { return scanVendors(rows, snapshot.Vendors) })
	if err := sendAll(ctx, conn, batch); err != nil {
		return usage.Snapshot{}, fmt.Errorf("lock holds and read reports: %w", err)
	}
	var ended []ids.RequestID
	for _, r := range requests {
		if snapshot.Holds[r].State != hold.Open {
			ended = append(ended, r)
		}
	}
	if crash.Planted(crash.SkipPrimaryKey) {
		return forgetSettled(snapshot), nil
	}
	if len(ended) == 0 {
		return snapshot, nil
	}
	var err error
	snapshot.Settled, err = readSettled(ctx, conn, ended)
	return snapshot, err
}

func scanHolds(rows pgx.Rows, into map[ids.RequestID]usage.Hold) error {
	var (
		m            movedHold
		price        [16]byte
		model, state string
		rates        money.Rates
	)
	_, err := pgx.ForEachRow(rows, append(m.fields(), &model, &price, &rates.Input, &rates.Output, &rates.PayoutInput,
		&rates.PayoutOutput, &rates.PayoutCachedInput, &state), func() error {
		h := m.hold()
		rates.Unit = h.Rates.Unit
		h.Model, h.Price, h.Rates, h.State = model, price, rates, hold.State(state)
		into[m.request] = h
		return nil
	})
	return err
}

func scanReports(rows pgx.Rows, snapshot usage.Snapshot) error {
	var request [16]byte
	var broken bool
	var relayed usage.Relayed
	_, err := pgx.ForEachRow(rows, []any{&request, &broken, &relayed.Tokens, &relayed.Bytes}, func() error {
		snapshot.Reported[request] = true
		if broken {
			snapshot.Truncated[request] = relayed
		}
		return nil
	})
	return err
}

func readSettled(ctx context.Context, conn *pgx.Conn, requests []ids.RequestID) (map[ids.RequestID]usage.First, error) {
	rows, err := conn.Query(ctx, `SELECT s.request_id, s.payload_hash, s.evidence_source
		FROM unnest($1::date[], $2::uuid[]) AS u (day, request_id)
		JOIN usage_settlement s ON s.day = u.day AND s.request_id = u.request_id`, days(requests), raw(requests))
	if err != nil {
		return nil, fmt.Errorf("read settled requests: %w", err)
	}
	settled := map[ids.RequestID]usage.First{}
	var request [16]byte
	var sum []byte
	var source string
	_, err = pgx.ForEachRow(rows, []any{&request, &sum, &source}, func() error {
		settled[request] = usage.First{Hash: [sha256.Size]byte(sum), EvidenceSource: usage.EvidenceSource(source)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read settled requests: %w", err)
	}
	return settled, nil
}

func days(requests []ids.RequestID) []time.Time {
	out := make([]time.Time, len(requests))
	for i, r := range requests {
		out[i] = r.Day()
	}
	return out
}

// Quarantine stores events that will never be settled; see usage.Store.
func (s *Store) Quarantine(ctx context.Context, rejects []usage.Reject) error {
	if err := s.atOnce(ctx, func(batch *pgx.Batch) { insertRejects(batch, rejects) }); err != nil {
		return fmt.Errorf("insert into quarantine: %w", err)
	}
	return nil
}

// insertRejects is the last statement of a transaction, because it waits for another that
// quarantines the same event.
func insertRejects(batch *pgx.Batch, rejects []usage.Reject) {
	type row struct {
		usage.Reject
		sum [sha256.Size]byte
	}
	rows := make([]row, len(rejects))
	for i, r := range rejects {
		rows[i] = row{r, r.Hash()}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(bytes.Compare(a.sum[:], b.sum[:]), cmp.Compare(a.Reason, b.Reason))
	})
	for _, r := range rows {
		var request *[16]byte
		if !r.Request.IsZero() {
			request = (*[16]byte)(&r.Request)
		}
		payload := r.Payload
		if payload == nil {
			payload = []byte{}
		}
		batch.Queue(`INSERT INTO quarantine (reason, request_id, hub_id, detail, payload, payload_hash)
			VALUES ($1, $2, nullif($3, ''), $4, $5, $6) ON CONFLICT (payload_hash, reason) DO NOTHING`,
			string(r.Reason), request, r.Hub, r.Detail, payload[:min(len(payload), maxPayload)], r.sum[:])
	}
}
