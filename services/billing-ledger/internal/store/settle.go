package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// maxPayload bounds what is kept of a rejected event, in bytes.
const maxPayload = 64 << 10

// Settle settles a batch in one transaction; see usage.Store.
func (s *Store) Settle(ctx context.Context, requests []ids.RequestID, decide func(usage.Book) (usage.Effects, []usage.Reject)) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		// As at admission: what is acknowledged must survive a crash.
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
			return fmt.Errorf("set up settling: %w", err)
		}
		book, err := readBook(ctx, tx, requests)
		if err != nil {
			return err
		}
		fx, rejects := decide(book)
		batch := &pgx.Batch{}
		insertLines(batch, fx.Lines)
		closeHolds(batch, fx.Closed, hold.Usage)
		moveWallets(batch, fx.Wallets)
		endInflight(batch, fx.Ended)
		for _, line := range fx.Lines {
			if line.Source == usage.Orphan && line.Payout > 0 {
				// A request has at most one such entry, so its own id serves.
				insertEntry(batch, ledger.Orphan(ids.EntryID(line.Event.Request), line.Event.Request, line.Event.Provider, line.Payout))
			}
		}
		insertRejects(batch, rejects)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("write settled requests: %w", err)
		}
		crash.At("billing.settle.before_commit")
		return nil
	})
	if refused(err) {
		return errors.Join(usage.ErrRefused, err)
	}
	return err
}

// readBook locks the holds, then the wallets of their accounts, and reads what
// was settled before. The last comes after the locks: a request that another
// transaction was settling is seen here when it has.
func readBook(ctx context.Context, tx pgx.Tx, requests []ids.RequestID) (usage.Book, error) {
	book := usage.Book{Holds: make(map[ids.RequestID]usage.Hold, len(requests))}
	rows, err := tx.Query(ctx, `SELECT request_id, account_id, key_id, model_id, billing_type, amount, max_completion_tokens,
			price_version_id, input_rate, output_rate, payout_input_rate, payout_output_rate, state
		FROM hold WHERE request_id = ANY ($1) ORDER BY request_id FOR UPDATE`, raw(requests))
	if err != nil {
		return usage.Book{}, fmt.Errorf("lock holds: %w", err)
	}
	var (
		request, account, key, price               [16]byte
		model, billing, state                      string
		amount, most, input, output, payIn, payOut int64
	)
	accounts := map[ids.AccountID]struct{}{}
	_, err = pgx.ForEachRow(rows, []any{&request, &account, &key, &model, &billing, &amount, &most, &price,
		&input, &output, &payIn, &payOut, &state}, func() error {
		book.Holds[request] = usage.Hold{
			Account: account, Key: key, Model: model, Billing: hold.BillingType(billing), Amount: nano(amount),
			MaxCompletion: most, Price: price, Rates: rates(input, output, payIn, payOut), State: hold.State(state),
		}
		accounts[account] = struct{}{}
		return nil
	})
	if err != nil {
		return usage.Book{}, fmt.Errorf("lock holds: %w", err)
	}
	if book.Wallets, err = lockWallets(ctx, tx, keysOf(accounts)); err != nil {
		return usage.Book{}, err
	}
	book.Settled, err = readSettled(ctx, tx, requests)
	return book, err
}

func readSettled(ctx context.Context, tx pgx.Tx, requests []ids.RequestID) (map[ids.RequestID]usage.First, error) {
	rows, err := tx.Query(ctx, `SELECT s.request_id, s.payload_hash, s.witness
		FROM unnest($1::date[], $2::uuid[]) AS u (day, request_id)
		JOIN usage_settlement s ON s.day = u.day AND s.request_id = u.request_id`, days(requests), raw(requests))
	if err != nil {
		return nil, fmt.Errorf("read settled requests: %w", err)
	}
	settled := map[ids.RequestID]usage.First{}
	var request [16]byte
	var sum []byte
	var witness string
	_, err = pgx.ForEachRow(rows, []any{&request, &sum, &witness}, func() error {
		settled[request] = usage.First{Hash: [sha256.Size]byte(sum), Witness: usage.Witness(witness)}
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

// Quarantine keeps what will never be settled; see usage.Store.
func (s *Store) Quarantine(ctx context.Context, rejects []usage.Reject) error {
	return s.inTx(ctx, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		insertRejects(batch, rejects)
		if err := sendAll(ctx, tx, batch); err != nil {
			return fmt.Errorf("insert into quarantine: %w", err)
		}
		return nil
	})
}

func insertRejects(batch *pgx.Batch, rejects []usage.Reject) {
	for _, r := range rejects {
		sum := r.Hash()
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
			string(r.Reason), request, r.Hub, r.Detail, payload[:min(len(payload), maxPayload)], sum[:])
	}
}
