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

// keepSlicesOut ends the transaction when another process admits for one of the accounts. It returns
// how many slices of dead owners are stranded.
const keepSlicesOut = `SELECT keep_slices_out(ARRAY(SELECT ck.account_id FROM consumer_key ck WHERE ck.id = ANY ($1)))`

// plainColumns are what decides about requests of keys k, by the rules of admit_requests. $2 are the
// requests, $3 the default bound of requests under way. An element of an array of rates is 8 times the
// microseconds that a rate is ahead, and its class. What is further ahead than any limit reaches is of
// another time, and does not count. A key that ended longer ago than a day has nothing under way.
const plainColumns = `k.id, k.account_id, now(), k.revoked, k.expired, k.expires_at, k.allowed_models, k.frozen,
	k.per_minute, coalesce(nullif(k.concurrent, 0), $3), k.priority, k.plain,
	(SELECT coalesce(sum(f.n), 0) FROM consumer_key o JOIN key_inflight f ON f.key_id = o.id
			WHERE o.account_id = k.account_id
				AND coalesce(least(o.revoked_at, o.expires_at), 'infinity'::timestamptz) > now() - interval '1 day')
		+ (SELECT coalesce(sum(s.places), 0) FROM slice s WHERE s.account_id = k.account_id AND s.state = 'stranded'),
	ARRAY(SELECT (extract(epoch FROM r.full_at - now()) * 1000000)::bigint * 8 + r.class FROM key_rate r
		WHERE r.key_id = k.id AND r.class <> 4 AND r.full_at > now() AND r.full_at < now() + interval '2 minutes'),
	ARRAY(SELECT (extract(epoch FROM r.full_at - now()) * 1000000)::bigint * 8 + r.class FROM account_rate r
		WHERE r.account_id = k.account_id AND r.class IN (4, 7) AND r.full_at > now()
			AND r.full_at < now() + interval '2 minutes'),
	ARRAY(SELECT h.request_id FROM hold h WHERE h.request_id = ANY ($2))`

const readPlain = `SELECT ` + plainColumns + ` FROM admission_key k WHERE k.id = ANY ($1)`

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
	// stranded is how many slices of dead owners are stranded, perhaps by this transaction.
	stranded int
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
	batch.Queue(keepSlicesOut, raw(b.keys)).QueryRow(func(row pgx.Row) error { return row.Scan(&b.stranded) })
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

// plainRow is a row of plainColumns.
type plainRow struct {
	key, account           [16]byte
	now                    time.Time
	revoked, expired       bool
	until                  *time.Time
	models                 []string
	frozen                 bool
	perMinute, concurrent  int32
	priority, plain        bool
	open                   int64
	keyRates, accountRates []int64
	known                  [][16]byte
}

func (r *plainRow) fields() []any {
	return []any{&r.key, &r.account, &r.now, &r.revoked, &r.expired, &r.until, &r.models, &r.frozen, &r.perMinute,
		&r.concurrent, &r.priority, &r.plain, &r.open, &r.keyRates, &r.accountRates, &r.known}
}

// maxInflight is what key_inflight can count; without limit is within it.
const maxInflight = 1_000_000

// accountOf returns the account of the row's key.
func (r *plainRow) accountOf(free int64, lease time.Duration) *hold.Account {
	a := &hold.Account{ID: r.account, Now: r.now, Lease: lease, Free: nano(free), Open: r.open,
		MaxOpen: maxInflight, Frozen: r.frozen, Priority: r.priority}
	if r.concurrent != limit.Unlimited {
		a.MaxOpen = min(int64(r.concurrent), maxInflight)
	}
	for _, rate := range r.accountRates {
		switch ahead := time.Duration(rate/8) * time.Microsecond; rate % 8 {
		case int64(limit.ZeroPriced):
			a.ZeroPriced = ahead
		case leftClass:
			a.LeftOften = max(ahead-leftFree, 0)
		}
	}
	return a
}

// keyOf returns the row's key.
func (r *plainRow) keyOf(defaults limit.Defaults) hold.Key {
	k := hold.Key{ID: r.key, Models: slices.Clone(r.models), Limits: defaults.ForKey(r.perMinute)}
	switch {
	case r.revoked:
		k.Refusal = hold.KeyRevoked
	case r.expired:
		k.Refusal = hold.KeyExpired
	}
	for _, rate := range r.keyRates {
		k.Ahead[rate%8-1] = time.Duration(rate/8) * time.Microsecond
	}
	return k
}

// learn takes what was read of a key whose wallet is locked.
func (b *plainBatch) learn(row plainRow, free int64, defaults limit.Defaults) {
	a := b.accounts[row.account]
	if a == nil {
		a = row.accountOf(free, b.lease)
		b.accounts[row.account] = a
	}
	k := &plainKey{account: a, Key: row.keyOf(defaults)}
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
