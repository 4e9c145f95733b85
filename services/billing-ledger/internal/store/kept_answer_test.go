package store_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/idempotency"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/store"
)

// keep claims a new token of a consumer and ends it with an answer of so many
// bytes.
func keep(
	t testing.TB, st *store.Store, c consumer, size int, quota idempotency.Quota,
) (idempotency.Ask, []byte, idempotency.Outcome) {
	t.Helper()
	a := ask(t, c)
	wantStanding(t, st, a, idempotency.Granted, a.Request)
	sealed := bytes.Repeat([]byte{a.Token[0]}, size)
	return a, sealed, endWith(t, st, a, idempotency.Answered, quota, sealed)
}

// keptClock stands in for the clock of the functions of kept answers.
func keptClock(t testing.TB, e *env) (set func(hour int64)) {
	t.Helper()
	clock := newDatabaseClock(t, e)
	for _, sql := range []string{
		`CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT at FROM clock.clock'`,
		`ALTER FUNCTION kept.keep SET search_path = clock, pg_catalog, kept, pg_temp`,
		`ALTER FUNCTION kept.refusal SET search_path = clock, pg_catalog, kept, pg_temp`,
		`ALTER FUNCTION kept.sweep SET search_path = clock, pg_catalog, kept, pg_temp`,
	} {
		if _, err := e.owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return func(hour int64) {
		t.Helper()
		clock.set(t, time.Unix(hour*3600+hour%3600, 0))
	}
}

// sweep empties what is over.
func (e *env) sweep(t testing.TB) int {
	t.Helper()
	swept, err := e.store.SweepKept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return swept
}

// keptModel is what the store of kept answers ought to have.
type keptModel struct {
	quota   idempotency.Quota
	paid    []bool // by owner
	answers []keptAnswer
}

type keptAnswer struct {
	hour, cost int64
	by         int
	ask        idempotency.Ask
	sealed     []byte
}

func (m *keptModel) drop(over func(hour int64) bool) {
	var left []keptAnswer
	for _, a := range m.answers {
		if !over(a.hour) {
			left = append(left, a)
		}
	}
	m.answers = left
}

func (m *keptModel) sums(by int) (own, unpaid, all int64) {
	for _, a := range m.answers {
		all += a.cost
		if !m.paid[a.by] {
			unpaid += a.cost
		}
		if a.by == by {
			own += a.cost
		}
	}
	return own, unpaid, all
}

// keep is how an answer fares in an hour. What is older than a day is nobody's
// any more, whether or not it was swept.
func (m *keptModel) keep(by int, hour, cost int64) idempotency.Outcome {
	m.drop(func(h int64) bool { return h < hour-24 })
	own, unpaid, all := m.sums(by)
	switch {
	case own+cost > m.quota.OfAccount:
		return idempotency.AccountFull
	case all+cost > m.quota.InAll:
		return idempotency.StoreFull
	case !m.paid[by] && unpaid+cost > m.quota.InAll/2:
		return idempotency.UnpaidFull
	}
	return idempotency.Kept
}

// TestKeptAnswersFollowTheirModel keeps answers, lets hours pass and empties them
// in any order. An answer is there for 24 hours at least; what is counted is what
// is there; no quota is ever passed; and accounts that never paid pass half of what
// all may have as little.
func TestKeptAnswersFollowTheirModel(t *testing.T) {
	e := setup(t, unlimited)
	set := keptClock(t, e)
	owners := []consumer{e.consumer(t, 0), e.consumer(t, cent), e.paying(t), e.paying(t)}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	m := &keptModel{quota: idempotency.Quota{OfAccount: 6000, InAll: 14_000}, paid: []bool{false, false, true, true}}
	seen := map[idempotency.Outcome]int{}
	hour, swept := int64(500_000), 0
	set(hour)
	for range 300 {
		switch random.IntN(10) {
		case 0:
			hour += random.Int64N(12)
			set(hour)
			if random.IntN(2) == 0 { // before a write empties what is over
				swept += e.sweep(t)
			}
		case 1:
			swept += e.sweep(t)
		default:
			by, size := random.IntN(len(owners)), 1+random.IntN(2000)
			want := m.keep(by, hour, int64(size)+idempotency.KeptRow)
			a, sealed, got := keep(t, e.store, owners[by], size, m.quota)
			if got != want {
				t.Fatalf("%d bytes of %d in hour %d: got %s, want %s", size, by, hour, got, want)
			}
			seen[got]++
			if got == idempotency.Kept {
				m.answers = append(m.answers, keptAnswer{hour, int64(size) + idempotency.KeptRow, by, a, sealed})
			} else {
				wantStanding(t, e.store, again(t, a), idempotency.Gone, a.Request)
			}
		}
		e.wantKept(t, m, owners, hour)
	}
	if len(seen) != 4 || swept == 0 {
		t.Errorf("got %v and %d hours swept, want each outcome and some hours", seen, swept)
	}
}

// wantKept compares what is there, and what is counted, with the model, and tries
// one answer. What is over may still be there until it is swept.
func (e *env) wantKept(t testing.TB, m *keptModel, owners []consumer, hour int64) {
	t.Helper()
	m.drop(func(h int64) bool { return h < hour-24 })
	for by, c := range owners {
		own, _, _ := m.sums(by)
		rows := scan[int64](t, e,
			`SELECT coalesce(sum(octet_length(sealed) + 256), 0)::bigint FROM kept.answer JOIN kept.hour USING (slot)
			WHERE account_id = $1 AND hour >= $2`, [16]byte(c.account), hour-24)
		counted := scan[int64](t, e, `SELECT coalesce(sum(t.bytes), 0)::bigint FROM kept.tally t JOIN kept.hour USING (slot)
			WHERE account_id = $1 AND hour >= $2`, [16]byte(c.account), hour-24)
		if rows != own {
			t.Fatalf("of %d: rows: got %d, want %d", by, rows, own)
		}
		if counted != own {
			t.Fatalf("of %d: counted: got %d, want %d", by, counted, own)
		}
	}
	_, unpaid, all := m.sums(0)
	for column, want := range map[string]int64{"bytes": all, "unpaid": unpaid} {
		if got := scan[int64](t, e, `SELECT coalesce(sum(`+column+`), 0)::bigint FROM kept.hour WHERE hour >= $1`,
			hour-24); got != want {
			t.Fatalf("%s of all: got %d counted, want %d", column, got, want)
		}
	}
	if figures, err := e.store.Figures(t.Context(), retention); err != nil {
		t.Fatalf("got the error %v, want none", err)
	} else if figures.KeptBytes > m.quota.InAll {
		t.Fatalf("figures.KeptBytes: got %d, want at most %d", figures.KeptBytes, m.quota.InAll)
	}
	if len(m.answers) > 0 {
		a := m.answers[len(m.answers)-1]
		if got := wantStanding(t, e.store, again(t, a.ask), idempotency.Replay, a.ask.Request); !bytes.Equal(got.Sealed,
			a.sealed) {
			t.Fatalf("the answer has %d bytes, want %d as they were", len(got.Sealed), len(a.sealed))
		}
	}
}

// An answer of the last second of an hour is there for the 24 hours after it, and
// gone in the next.
func TestAKeptAnswerIsThereForADay(t *testing.T) {
	e := setup(t, unlimited)
	set := keptClock(t, e)
	c := e.consumer(t, 0)
	const hour = 500_000
	set(hour)
	a, _, _ := keep(t, e.store, c, 5, roomyQuota)
	for _, later := range []int64{1, 24} {
		set(hour + later)
		if swept := e.sweep(t); swept != 0 {
			t.Errorf("got %d hours swept %d hours later, want none", swept, later)
		}
		wantStanding(t, e.store, again(t, a), idempotency.Replay, a.Request)
	}
	set(hour + 25)
	if swept := e.sweep(t); swept != 1 {
		t.Errorf("got %d hours swept, want 1", swept)
	}
	wantStanding(t, e.store, again(t, a), idempotency.Gone, a.Request)
	if size := scan[int64](t, e,
		`SELECT sum(pg_total_relation_size(inhrelid) - pg_indexes_size(inhrelid))::bigint FROM pg_inherits
			WHERE inhparent = 'kept.answer'::regclass`); size > 26*8192 {
		t.Errorf("the emptied store: got %d, want at most 26*8192", size)
	}
}

// Replicas that keep answers at the same time pass no quota by a byte.
func TestRacingReplicasPassNoQuota(t *testing.T) {
	e := setup(t, unlimited)
	owners := []consumer{e.paying(t), e.paying(t)}
	e.race(t, owners, 12, idempotency.AccountFull, idempotency.StoreFull)
}

func TestRacingReplicasOfThoseWhoNeverPaidPassNoHalf(t *testing.T) {
	e := setup(t, unlimited)
	owners := []consumer{e.consumer(t, 0), e.consumer(t, 0)}
	e.race(t, owners, 6, idempotency.AccountFull, idempotency.UnpaidFull)
}

// race has three replicas keep 48 answers of two consumers at the same time, of
// which so many have room.
func (e *env) race(t *testing.T, owners []consumer, room int, refusals ...idempotency.Outcome) {
	t.Helper()
	replicas := e.replicas(t, 3, nil)
	// Room for 8 of each account, and for 12 in all.
	const size = 1000
	cost := int64(size + idempotency.KeptRow)
	quota := idempotency.Quota{OfAccount: 8*cost + cost - 1, InAll: 12*cost + cost - 1}
	var mu sync.Mutex
	seen := map[idempotency.Outcome]int{}
	var racers sync.WaitGroup
	asks := make([]idempotency.Ask, 48)
	for i := range asks {
		// Keys of their own, so that nothing but the store's lock keeps them apart.
		asks[i] = ask(t, e.issue(t, owners[i%2].account, key.IssueRequest{}))
		wantStanding(t, e.store, asks[i], idempotency.Granted, asks[i].Request)
	}
	// None comes through before all that have a connection are under way, wherever
	// they wait.
	release := e.lockTable(t, "kept.hour")
	for i, a := range asks {
		racers.Go(func() {
			got := endWith(t, replicas[i%3], a, idempotency.Answered, quota, make([]byte, size))
			mu.Lock()
			defer mu.Unlock()
			seen[got]++
		})
	}
	e.waiting(t, 15)
	release()
	racers.Wait()
	refused := 0
	for _, refusal := range refusals {
		refused += seen[refusal]
	}
	if seen[idempotency.Kept] != room || refused != 48-room {
		t.Errorf("got %v, want %d kept of 48 and the others %v", seen, room, refusals)
	}
	if counted := scan[int64](t, e, `SELECT sum(bytes)::bigint FROM kept.hour`); counted != int64(room)*cost {
		t.Errorf("got %d bytes counted, want %d", counted, int64(room)*cost)
	}
	if over := scan[int](t, e,
		`SELECT count(*) FROM (SELECT FROM kept.tally GROUP BY account_id HAVING sum(bytes) > $1) a`,
		quota.OfAccount); over != 0 {
		t.Errorf("accounts above their quota: got %d, want 0", over)
	}
}

// paying is a consumer who once paid for a deposit.
func (e *env) paying(t testing.TB) consumer {
	t.Helper()
	c := e.consumer(t, 0)
	e.buys(t, c)
	return c
}

// buys posts credit of $5 that was bought by card.
func (e *env) buys(t testing.TB, c consumer) ledger.Entry {
	t.Helper()
	paid, err := ledger.CardTopUp(newFact(t), c.account, 5*usd, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.charge(t, paid)
	e.post(t)(paid, nil)
	return paid
}

// What decides is whether somebody paid for a deposit, and not what the account has.
func TestWhoNeverPaidHasHalfOfAllKeptAnswers(t *testing.T) {
	e := setup(t, unlimited)
	quote := ledger.Quote{Token: ledger.Native, Rate: 123_456_789, Source: "feed",
		At: time.Now().UTC().Truncate(time.Microsecond)}
	const size = 1000
	cost := int64(size + idempotency.KeptRow)
	quota := idempotency.Quota{OfAccount: 100 * cost, InAll: 2*cost + 1}
	if _, _, got := keep(t, e.store, e.consumer(t, 0), size, quota); got != idempotency.Kept {
		t.Fatalf("the first half: got %s, want it kept", got)
	}
	for name, tc := range map[string]struct {
		fund func(c consumer)
		want string
	}{
		"nothing": {func(consumer) {}, "unpaid_full"},
		"a grant": {func(c consumer) { e.post(t)(ledger.Grant(entryID(t), c.account, cent, "a grant", ""), nil) },
			"unpaid_full"},
		"a card": {func(c consumer) { e.buys(t, c) }, ""},
		"USDC": {func(c consumer) {
			e.post(t)(ledger.Deposit(newFact(t), c.account, ledger.Sum{Token: ledger.USDCBase, Units: 1000}))
		}, ""},
		"the native": {func(c consumer) {
			e.post(t)(ledger.Deposit(newFact(t), c.account, ledger.Sum{Token: ledger.Native, Units: 500_000_004, Quote: &quote}))
		}, ""},
		"an undone card": {func(c consumer) {
			e.post(t)(ledger.Reverse(entryID(t), e.buys(t, c), "by mistake"))
		}, "unpaid_full"},
	} {
		c := e.consumer(t, 0)
		tc.fund(c)
		var got string
		if err := e.pool.QueryRow(t.Context(), `SELECT coalesce(kept.refusal($1, $2, $3, $4), '')`, [16]byte(c.account), cost,
			quota.OfAccount, quota.InAll).Scan(&got); err != nil || got != tc.want {
			t.Errorf("after %s: got %q, %v, want %q", name, got, err, tc.want)
		}
	}
	c := e.paying(t)
	if _, _, got := keep(t, e.store, c, size, quota); got != idempotency.Kept {
		t.Errorf("who paid: got %s, want it kept", got)
	}
	if _, _, got := keep(t, e.store, c, size, quota); got != idempotency.StoreFull {
		t.Errorf("who paid, when all is full: got %s, want %s", got, idempotency.StoreFull)
	}
}

// lockTable keeps everybody from changing a table until release is called.
func (e *env) lockTable(t testing.TB, table string) (release func()) {
	t.Helper()
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(t.Context(), `LOCK TABLE `+table+` IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// waiting returns when so many sessions wait for a lock.
func (e *env) waiting(t testing.TB, n int) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		got := scan[int](t, e, `SELECT count(*) FROM pg_stat_activity CROSS JOIN pg_sleep(0.02)
			WHERE datname = current_database() AND wait_event_type = 'Lock'`)
		if got >= n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d sessions wait for a lock, want %d", got, n)
		}
	}
}

// A dump of the database reads the tables for as long as it takes. Nobody waits
// for it: what cannot be emptied is tried again, and what has no room is not kept.
func TestAReaderThatTakesLongStopsNobody(t *testing.T) {
	e := setup(t, unlimited)
	set := keptClock(t, e)
	c := e.consumer(t, 0)
	const hour = 500_000
	set(hour)
	old, _, _ := keep(t, e.store, c, 5, roomyQuota)
	dump, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dump.Rollback(t.Context()) }()
	if _, err := dump.Exec(t.Context(), `SELECT FROM kept.answer`); err != nil {
		t.Fatal(err)
	}
	set(hour + 26)
	if swept := e.sweep(t); swept != 0 {
		t.Errorf("got %d hours swept under a reader, want none", swept)
	}
	a, _, got := keep(t, e.store, c, 5, roomyQuota)
	if got != idempotency.SlotTaken {
		t.Errorf("got %s, want %s", got, idempotency.SlotTaken)
	}
	wantStanding(t, e.store, again(t, a), idempotency.Gone, a.Request)
	if err := dump.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Nobody has swept: the writer makes room by itself.
	if _, _, got := keep(t, e.store, c, 5, roomyQuota); got != idempotency.Kept {
		t.Errorf("after the reader: got %s, want it kept", got)
	}
	wantStanding(t, e.store, again(t, old), idempotency.Gone, old.Request)
}

// What replicas of the release before kept in claims is given back.
func TestAnAnswerInItsClaimIsGivenBack(t *testing.T) {
	e := setup(t, unlimited)
	a := ask(t, e.consumer(t, 0))
	wantStanding(t, e.store, a, idempotency.Granted, a.Request)
	if _, err := e.pool.Exec(t.Context(), `UPDATE idempotency_claim SET state = 'answered', sealed = 'x'`); err != nil {
		t.Fatal(err)
	}
	if got := wantStanding(t, e.store, again(t, a), idempotency.Replay, a.Request); string(got.Sealed) != "x" {
		t.Errorf("the answer is %q, want x", got.Sealed)
	}
}

func TestTheApplicationsRoleKeepsAnswersByItsFunctionsAlone(t *testing.T) {
	e := setup(t, unlimited)
	keep(t, e.store, e.consumer(t, 0), 5, roomyQuota)
	for _, sql := range []string{
		`INSERT INTO kept.answer SELECT slot, gen_random_uuid(), account_id, sealed FROM kept.answer`,
		`UPDATE kept.answer SET sealed = 'x'`, `DELETE FROM kept.answer`, `TRUNCATE kept.answer`, `TRUNCATE kept.answer_0`,
		`INSERT INTO kept.tally SELECT gen_random_uuid(), slot, 1 FROM kept.tally`, `UPDATE kept.tally SET bytes = 1`,
		`DELETE FROM kept.tally`,
		`UPDATE kept.hour SET bytes = 0`, `SELECT kept.empty_slots(9999999, '1s')`, `CREATE TABLE kept.mine ()`,
	} {
		if refusal := e.attack(t, e.pool, sql); refusal == nil || refusal.Code != "42501" {
			t.Errorf("%s: got %v, want it refused for lack of permission", sql, refusal)
		}
	}
	for sql, want := range map[string]string{
		`INSERT INTO kept.hour VALUES (-1, -1, 1)`:                                          "hour_slot_check",
		`UPDATE kept.hour SET bytes = 0 WHERE slot >= 0`:                                    "hour_bytes_check",
		`UPDATE kept.hour SET unpaid = bytes + 1`:                                           "hour_unpaid_check",
		`UPDATE kept.hour SET unpaid = -1`:                                                  "hour_unpaid_check",
		`UPDATE kept.hour SET hour = slot + 1`:                                              "hour_check",
		`UPDATE kept.tally SET bytes = 67108865`:                                            "tally_bytes_check",
		`UPDATE kept.answer SET sealed = ''`:                                                "answer_sealed_check",
		`INSERT INTO kept.answer SELECT slot, request_id, account_id, 'x' FROM kept.answer`: "_pkey",
	} {
		if refusal := e.attack(t, e.owner, sql); refusal == nil || refusal.ConstraintName != want &&
			!bytes.HasSuffix([]byte(refusal.ConstraintName), []byte(want)) {
			t.Errorf("%s: got %v, want it refused by %s", sql, refusal, want)
		}
	}
}

func TestAnAccountHasAtMostAHundredThousandClaims(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 0)
	held := ask(t, c)
	wantStanding(t, e.store, held, idempotency.Granted, held.Request)
	// Ten keys have been used up and revoked, as far as the count goes.
	e.exec(t, `UPDATE idempotency_account SET live = 99999 WHERE account_id = $1`, [16]byte(c.account))
	last := ask(t, e.issue(t, c.account, key.IssueRequest{}))
	wantStanding(t, e.store, last, idempotency.Granted, last.Request)
	if _, err := e.store.ClaimKey(t.Context(), ask(t, e.issue(t, c.account, key.IssueRequest{}))); !fault.Is(err,
		fault.RateLimitExceeded) {
		t.Errorf("one more: got %v, want rate_limit_exceeded", err)
	}
	// The bound stops no other account and no claim that was granted, and a claim
	// that is forgotten makes room.
	other := ask(t, e.consumer(t, 0))
	wantStanding(t, e.store, other, idempotency.Granted, other.Request)
	wantStanding(t, e.store, held, idempotency.Granted, held.Request)
	finish(t, e.store, held, idempotency.Forget)
	next := ask(t, c)
	wantStanding(t, e.store, next, idempotency.Granted, next.Request)
	e.exec(t, `UPDATE idempotency_account SET live = 2 WHERE account_id = $1`, [16]byte(c.account))
	e.exec(t, `UPDATE idempotency_claim SET expires_at = now() - interval '1 second'`)
	if _, err := e.store.PruneClaims(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if left := scan[int64](t, e, `SELECT sum(live)::bigint FROM idempotency_account`); left != 0 {
		t.Errorf("claims counted when none is left: got %d, want 0", left)
	}
}
