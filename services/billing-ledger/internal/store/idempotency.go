package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/idempotency"
)

// pruneOwn bounds the claims of one key that are pruned when the key has no room left.
const pruneOwn = 1000

// ReadKey answers an ask without a lock; see idempotency.Store.
func (s *Store) ReadKey(ctx context.Context, ask idempotency.Ask) (idempotency.Answer, error) {
	c, slot, err := readClaim(ctx, s.pool, ask.Key, ask.Token)
	if err != nil || c == nil {
		return idempotency.Answer{Standing: c.Stands(ask)}, err
	}
	return s.withKept(ctx, idempotency.Answer{Standing: c.Stands(ask), Request: c.Request, Sealed: c.Sealed}, slot)
}

// ClaimKey answers an ask; see idempotency.Store.
func (s *Store) ClaimKey(ctx context.Context, ask idempotency.Ask) (answer idempotency.Answer, err error) {
	var slot *int16
	err = s.inTx(ctx, func(tx pgx.Tx) (err error) {
		answer, slot, err = claimLocked(ctx, tx, ask)
		return err
	})
	if err != nil {
		return idempotency.Answer{}, err
	}
	return s.withKept(ctx, answer, slot)
}

// claimLocked decides an ask under the lock on the key's quota. It also returns the slot
// of the kept answer, if there is one.
func claimLocked(ctx context.Context, tx pgx.Tx, ask idempotency.Ask) (idempotency.Answer, *int16, error) {
	live, err := lockQuota(ctx, tx, ask.Key)
	if err != nil {
		return idempotency.Answer{}, nil, err
	}
	c, slot, err := readClaim(ctx, tx, ask.Key, ask.Token)
	if err != nil {
		return idempotency.Answer{}, nil, err
	}
	st := c.Stands(ask)
	if st == idempotency.Lapsed {
		fate, err := readFate(ctx, tx, c.Request)
		if err != nil {
			return idempotency.Answer{}, nil, err
		}
		st = c.After(fate, ask)
	}
	switch {
	case st != idempotency.Granted:
		return idempotency.Answer{Standing: st, Request: c.Request, Sealed: c.Sealed}, slot, nil
	case c != nil && c.Request == ask.Request:
		err = renewClaim(ctx, tx, ask)
	default:
		err = insertClaim(ctx, tx, ask, live)
	}
	return idempotency.Answer{Standing: st, Request: ask.Request}, nil, err
}

// lockQuota locks everything that concerns a key's claims, and returns their number.
func lockQuota(ctx context.Context, tx pgx.Tx, key ids.KeyID) (int, error) {
	var live int
	err := tx.QueryRow(ctx, `INSERT INTO idempotency_quota AS q (key_id, live) VALUES ($1, 0)
		ON CONFLICT (key_id) DO UPDATE SET live = q.live RETURNING live`, [16]byte(key)).Scan(&live)
	var pe *pgconn.PgError
	if errors.As(err, &pe) && pe.ConstraintName == "idempotency_quota_key_id_fkey" {
		return 0, fault.New(fault.Invalid, fault.InvalidValue, "key_id names no key").On("key_id")
	}
	if err != nil {
		return 0, fmt.Errorf("lock the claims of a key: %w", err)
	}
	return live, nil
}

// readClaim returns the claim that still counts, nil for none, and the slot in which its
// answer is kept. It compares with the time at which the row is read, not with the begin
// of the transaction, which may have waited for its lock. Replicas of the release before
// left answers in the claim itself.
func readClaim(
	ctx context.Context, on querier, key ids.KeyID, token idempotency.Digest,
) (c *idempotency.Record, slot *int16, err error) {
	c = &idempotency.Record{}
	var request [16]byte
	var content []byte
	err = on.QueryRow(ctx, `SELECT request_id, request_sha256, state, leased_until <= clock_timestamp(), sealed, kept_slot
		FROM idempotency_claim WHERE key_id = $1 AND token_sha256 = $2 AND expires_at > clock_timestamp()`,
		[16]byte(key), token[:]).Scan(&request, &content, &c.State, &c.Lapsed, &c.Sealed, &slot)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("select claim: %w", err)
	}
	c.Request = request
	copy(c.Content[:], content)
	return c, slot, nil
}

// maxLegs bounds the requests that one request is continued as, far above what gateways
// do.
const maxLegs = 16

// readFate returns what the ledger knows of a request and of the requests that it was
// continued as. An open hold changes its state in the end. No hold becomes open any more
// once a claim has lapsed, because its gateway has stopped.
func readFate(ctx context.Context, tx pgx.Tx, request ids.RequestID) (idempotency.HolderFate, error) {
	for range maxLegs {
		fate, next, err := readLeg(ctx, tx, request)
		if err != nil || fate != idempotency.CostNothing || next.IsZero() {
			return fate, err
		}
		request = next
	}
	return idempotency.Undecided, nil
}

// readLeg returns the fate of one request, and the request that continues it, if any. A
// request that a plan covers has its list price. A free request costs nothing, however
// much was served.
func readLeg(
	ctx context.Context, tx pgx.Tx, request ids.RequestID,
) (fate idempotency.HolderFate, next ids.RequestID, err error) {
	var continued *[16]byte
	err = tx.QueryRow(ctx, `SELECT CASE (SELECT state FROM hold WHERE request_id = $1)
			WHEN 'open' THEN CASE WHEN (SELECT billing_type FROM hold WHERE request_id = $1) <> 'free'
				AND EXISTS (SELECT FROM evidence WHERE request_id = $1) THEN 'served' ELSE 'undecided' END
			WHEN 'settled' THEN CASE WHEN EXISTS (SELECT FROM usage_settlement
				WHERE day = $2 AND request_id = $1 AND list_price > 0)
				THEN 'served' ELSE 'nothing' END
			ELSE 'nothing' END,
		(SELECT continued_as FROM request_report WHERE request_id = $1)`,
		[16]byte(request), request.Day()).Scan(&fate, &continued)
	if err != nil {
		return "", next, fmt.Errorf("select the fate of a request: %w", err)
	}
	if continued != nil {
		next = *continued
	}
	return fate, next, nil
}

func renewClaim(ctx context.Context, tx pgx.Tx, ask idempotency.Ask) error {
	if _, err := tx.Exec(ctx, `UPDATE idempotency_claim SET leased_until = clock_timestamp() + $3::interval
		WHERE key_id = $1 AND token_sha256 = $2`, [16]byte(ask.Key), ask.Token[:], idempotency.Lease); err != nil {
		return fmt.Errorf("renew claim: %w", err)
	}
	return nil
}

// insertClaim takes the place of a claim under the token that no longer counts.
func insertClaim(ctx context.Context, tx pgx.Tx, ask idempotency.Ask, live int) error {
	replaced, err := tx.Exec(ctx, `DELETE FROM idempotency_claim WHERE key_id = $1 AND token_sha256 = $2`,
		[16]byte(ask.Key), ask.Token[:])
	if err != nil {
		return fmt.Errorf("delete the claim before: %w", err)
	}
	if live -= int(replaced.RowsAffected()); live >= idempotency.MaxLive {
		pruned, err := tx.Exec(ctx, `DELETE FROM idempotency_claim WHERE (key_id, token_sha256) IN (
			SELECT key_id, token_sha256 FROM idempotency_claim WHERE key_id = $1 AND expires_at <= now() LIMIT $2)`,
			[16]byte(ask.Key), pruneOwn)
		if err != nil {
			return fmt.Errorf("prune the claims of a key: %w", err)
		}
		if pruned.RowsAffected() == 0 {
			return idempotency.TooMany()
		}
	}
	if _, err := tx.Exec(ctx,
		`INSERT INTO idempotency_claim (key_id, token_sha256, request_sha256, request_id, leased_until, expires_at)
		SELECT $1, $2, $3, $4, t.now + $5::interval, t.now + $6::interval FROM (SELECT clock_timestamp() AS now) t`,
		[16]byte(ask.Key), ask.Token[:], ask.Content[:], [16]byte(ask.Request), idempotency.Lease,
		idempotency.Life); err != nil {
		var pe *pgconn.PgError
		if errors.As(err, &pe) && pe.ConstraintName == "idempotency_account_bound" {
			return idempotency.TooManyOfAccount()
		}
		return fmt.Errorf("insert claim: %w", err)
	}
	return nil
}

// FinishKey ends a claim; see idempotency.Store.
func (s *Store) FinishKey(
	ctx context.Context, e idempotency.End, quota idempotency.Quota,
) (outcome idempotency.Outcome, err error) {
	if e.State == idempotency.Answered {
		return s.keepAnswer(ctx, e, quota)
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		outcome = idempotency.NoEnd
		if _, err := lockQuota(ctx, tx, e.Key); err != nil {
			return err
		}
		c, _, err := readClaim(ctx, tx, e.Key, e.Token)
		if err != nil || c == nil || c.Request != e.Request || c.State != idempotency.Running {
			return err
		}
		fate := idempotency.Served
		if e.State == idempotency.Forget {
			if fate, err = readFate(ctx, tx, e.Request); err != nil {
				return err
			}
		} else {
			outcome = idempotency.NotOffered
		}
		if _, err := tx.Exec(ctx, forget[fate], [16]byte(e.Key), e.Token[:]); err != nil {
			return fmt.Errorf("end claim: %w", err)
		}
		return nil
	})
	return outcome, err
}

// forget is how a claim without an answer ends, by the fate of its request.
var forget = map[idempotency.HolderFate]string{
	idempotency.CostNothing: `DELETE FROM idempotency_claim WHERE key_id = $1 AND token_sha256 = $2`,
	idempotency.Undecided: `UPDATE idempotency_claim SET leased_until = clock_timestamp()
		WHERE key_id = $1 AND token_sha256 = $2`,
	idempotency.Served: `UPDATE idempotency_claim SET state = 'not_kept' WHERE key_id = $1 AND token_sha256 = $2`,
}

// PruneClaims deletes up to limit claims that are over and returns how many it deleted.
// It leaves the claims of a key that is being worked on for the next time, so that nobody
// waits for it.
func (s *Store) PruneClaims(ctx context.Context, limit int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	tag, err := s.pool.Exec(ctx, `WITH due AS (
			SELECT key_id, token_sha256 FROM idempotency_claim WHERE expires_at <= now() ORDER BY expires_at LIMIT $1
		), locked AS (
			SELECT q.key_id FROM idempotency_quota q WHERE q.key_id IN (SELECT key_id FROM due) ORDER BY q.key_id
				FOR UPDATE SKIP LOCKED
		)
		DELETE FROM idempotency_claim c USING due d, locked l
		WHERE l.key_id = d.key_id AND c.key_id = d.key_id AND c.token_sha256 = d.token_sha256 AND c.expires_at <= now()`,
		limit)
	if err != nil {
		return 0, fmt.Errorf("prune claims: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// pruneTimeout bounds one batch of pruning.
const pruneTimeout = 10 * time.Second
