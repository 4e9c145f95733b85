package store

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Plain requests are admitted by a few statements instead of admit_requests, which costs the
// database one and a half to two times as much. A first round trip locks wallets and reads,
// package hold decides, and a second one writes and commits. Plain are requests of keys that
// neither a plan, nor terms, nor a budget, nor a cap bounds, and whose ids nobody has used. All
// others are left to admit_requests, which knows every rule. Where what was read puts one request
// of an account in doubt, all plain requests of the account in the batch are left to it.
//
// The wallets are locked across a round trip. A process that stands still between the two loses its
// transaction after 3 s, so that it keeps no other replica waiting for longer.

// lockPlain locks the wallets of keys. It comes first and alone: what is read after it is current.
const lockPlain = `SELECT account_id, posted - held FROM wallet
	WHERE account_id = ANY (ARRAY(SELECT ck.account_id FROM consumer_key ck WHERE ck.id = ANY ($1)))
	ORDER BY account_id FOR UPDATE`

// readPlain reads what decides about requests of keys, by the rules of admit_requests. An element of
// an array of rates is 8 times the microseconds that a rate is ahead, and its class. What is
// further ahead than any limit reaches is of another time, and does not count. A key that ended
// longer ago than a day has nothing under way.
const readPlain = `SELECT ck.id, ck.account_id, now(), ck.state = 'revoked', coalesce(ck.expires_at <= now(), false),
	ck.allowed_models, a.state = 'frozen', coalesce(l.requests_per_minute, 0),
	coalesce(nullif(l.concurrent_requests, 0), $3), coalesce(l.priority, false),
	num_nonnulls(ck.budget, l.class_per_minute, l.class_concurrent, l.class_tokens, l.day_cap, l.own_day_cap,
			l.month_cap, l.own_month_cap) = 0
		AND coalesce(l.account_per_minute = 0 AND l.discount = 0, true)
		AND p.account_id IS NULL,
	(SELECT coalesce(sum(f.n), 0) FROM consumer_key k JOIN key_inflight f ON f.key_id = k.id
		WHERE k.account_id = ck.account_id
			AND coalesce(least(k.revoked_at, k.expires_at), 'infinity'::timestamptz) > now() - interval '1 day'),
	ARRAY(SELECT (extract(epoch FROM r.full_at - now()) * 1000000)::bigint * 8 + r.class FROM key_rate r
		WHERE r.key_id = ck.id AND r.class <> 4 AND r.full_at > now() AND r.full_at < now() + interval '2 minutes'),
	ARRAY(SELECT (extract(epoch FROM r.full_at - now()) * 1000000)::bigint * 8 + r.class FROM account_rate r
		WHERE r.account_id = ck.account_id AND r.class IN (4, 7) AND r.full_at > now()
			AND r.full_at < now() + interval '2 minutes'),
	ARRAY(SELECT h.request_id FROM hold h WHERE h.request_id = ANY ($2))
	FROM consumer_key ck JOIN account a ON a.id = ck.account_id
	LEFT JOIN account_limits l ON l.account_id = ck.account_id
	LEFT JOIN account_plan p ON p.account_id = ck.account_id AND p.from_at <= now()
		AND (p.until_at IS NULL OR p.until_at > now())
	WHERE ck.id = ANY ($1)`

// leftClass is the class of the rate of requests that clients left (see leftAtOnce), and leftFree is how
// long that rate may be ahead before its account is refused.
const (
	leftClass = 7
	leftFree  = 58 * time.Second
)

// plainBatch are the reservations of a batch that may be plain, and what was read for them.
type plainBatch struct {
	lease        time.Duration
	reservations []hold.Reservation
	// asked are the places of reservations that may be plain, of keys in the order of keys.
	asked []int
	keys  []ids.KeyID

	accounts map[ids.AccountID]*hold.Account
	known    map[ids.KeyID]*plainKey
	used     map[ids.RequestID]bool
	// doubtful are the accounts that are left to admit_requests, bounded the keys of theirs that
	// something bounds.
	doubtful map[ids.AccountID]bool
	bounded  []ids.KeyID
}

type plainKey struct {
	hold.Key
	account *hold.Account
}

func (s *Store) newPlainBatch(reservations []hold.Reservation) *plainBatch {
	b := &plainBatch{lease: s.terms.Lease, reservations: reservations}
	for i, r := range reservations {
		if r.MayBePlain() && s.boundedKeys.mayBePlain(r.Key) {
			b.asked = append(b.asked, i)
		}
	}
	// In the order of keys and requests, in which admit_requests decides too.
	slices.SortFunc(b.asked, func(i, j int) int {
		one, other := reservations[i], reservations[j]
		return cmp.Or(bytes.Compare(one.Key[:], other.Key[:]), bytes.Compare(one.Request[:], other.Request[:]),
			cmp.Compare(i, j))
	})
	for _, i := range b.asked {
		if key := reservations[i].Key; len(b.keys) == 0 || b.keys[len(b.keys)-1] != key {
			b.keys = append(b.keys, key)
		}
	}
	return b
}

// read queues the statements that lock and read. It forgets what an earlier transaction read.
func (b *plainBatch) read(batch *pgx.Batch, defaults limit.Defaults) {
	b.accounts, b.known = map[ids.AccountID]*hold.Account{}, make(map[ids.KeyID]*plainKey, len(b.keys))
	b.used, b.doubtful, b.bounded = map[ids.RequestID]bool{}, map[ids.AccountID]bool{}, nil
	free := map[ids.AccountID]int64{}
	batch.Queue(lockPlain, raw(b.keys)).Query(func(rows pgx.Rows) error {
		var account [16]byte
		var amount int64
		_, err := pgx.ForEachRow(rows, []any{&account, &amount}, func() error {
			free[account] = amount
			return nil
		})
		return err
	})
	requests := make([][16]byte, len(b.asked))
	for n, i := range b.asked {
		requests[n] = b.reservations[i].Request
	}
	batch.Queue(readPlain, raw(b.keys), requests, defaults.Concurrent).Query(func(rows pgx.Rows) error {
		var row plainRow
		_, err := pgx.ForEachRow(rows, row.fields(), func() error {
			if amount, locked := free[row.account]; locked {
				b.learn(row, amount, defaults)
			}
			return nil
		})
		return err
	})
}

// plainRow is a row of readPlain.
type plainRow struct {
	key, account           [16]byte
	now                    time.Time
	revoked, expired       bool
	models                 []string
	frozen                 bool
	perMinute, concurrent  int32
	priority, plain        bool
	open                   int64
	keyRates, accountRates []int64
	known                  [][16]byte
}

func (r *plainRow) fields() []any {
	return []any{&r.key, &r.account, &r.now, &r.revoked, &r.expired, &r.models, &r.frozen, &r.perMinute, &r.concurrent,
		&r.priority, &r.plain, &r.open, &r.keyRates, &r.accountRates, &r.known}
}

// maxInflight is what key_inflight can count; without limit is within it.
const maxInflight = 1_000_000

// learn takes what was read of a key whose wallet is locked.
func (b *plainBatch) learn(row plainRow, free int64, defaults limit.Defaults) {
	a := b.accounts[row.account]
	if a == nil {
		a = &hold.Account{ID: row.account, Now: row.now, Lease: b.lease, Free: nano(free), Open: row.open,
			MaxOpen: maxInflight, Frozen: row.frozen, Priority: row.priority}
		if row.concurrent != limit.Unlimited {
			a.MaxOpen = min(int64(row.concurrent), maxInflight)
		}
		for _, rate := range row.accountRates {
			switch ahead := time.Duration(rate/8) * time.Microsecond; rate % 8 {
			case int64(limit.ZeroPriced):
				a.ZeroPriced = ahead
			case leftClass:
				a.LeftOften = max(ahead-leftFree, 0)
			}
		}
		b.accounts[row.account] = a
	}
	k := &plainKey{account: a, Key: hold.Key{ID: row.key, Models: slices.Clone(row.models),
		Limits: defaults.ForKey(row.perMinute)}}
	switch {
	case row.revoked:
		k.Refusal = hold.KeyRevoked
	case row.expired:
		k.Refusal = hold.KeyExpired
	}
	for _, rate := range row.keyRates {
		k.Ahead[rate%8-1] = time.Duration(rate/8) * time.Microsecond
	}
	b.known[row.key] = k
	if !row.plain {
		b.bounded = append(b.bounded, row.key)
		b.doubtful[row.account] = true
	}
	for _, request := range row.known {
		b.used[request] = true
	}
}

// decide decides the plain requests. It returns where they are in the batch.
func (b *plainBatch) decide(decisions []hold.Decision) (decided []int) {
	asks := make(map[ids.RequestID]int, len(b.reservations))
	for _, r := range b.reservations {
		asks[r.Request]++
	}
	for _, i := range b.asked {
		r := b.reservations[i]
		if k := b.known[r.Key]; k != nil && (b.used[r.Request] || asks[r.Request] > 1) {
			b.doubtful[k.account.ID] = true
		}
	}
	for _, i := range b.asked {
		k := b.known[b.reservations[i].Key]
		if k == nil || b.doubtful[k.account.ID] {
			continue
		}
		decisions[i] = k.account.Decide(&k.Key, b.reservations[i])
		decided = append(decided, i)
	}
	return decided
}
