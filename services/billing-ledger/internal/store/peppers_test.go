package store_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg/peppers"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/operator"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/user"
)

var older, newer = apikey.Pepper{1}, apikey.Pepper{2}

// enrol is the start of a replica with these peppers.
func (e *env) enrol(t testing.TB, current, previous apikey.Pepper) *key.Keys {
	t.Helper()
	enrolled, err := store.Peppers.Enrol(t.Context(), e.pool, current, previous)
	if err != nil {
		t.Fatal(err)
	}
	return &key.Keys{Store: e.store, Peppers: enrolled, Clock: clock.System, Random: rand.Reader, MaxKeys: 100,
		Announce: nobody}
}

// wantHashes checks how many hashes count of each pepper.
func (e *env) wantHashes(t testing.TB, what string, want ...int64) {
	t.Helper()
	known, err := store.Peppers.List(t.Context(), e.pool)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range want {
		if i >= len(known) {
			t.Errorf("%s: got %d peppers, want %d", what, len(known), len(want))
			return
		}
		if known[i].Hashes != n {
			t.Errorf("%s: hashes of pepper %d: got %d, want %d", what, i+1, known[i].Hashes, n)
		}
	}
}

// use authenticates every text by each replica, many at a time.
func use(t testing.TB, step string, texts []string, replicas ...*key.Keys) {
	t.Helper()
	var all sync.WaitGroup
	for range 3 {
		for _, replica := range replicas {
			all.Go(func() {
				for _, text := range texts {
					if _, err := replica.Authenticate(t.Context(), apikey.Sum(text)); err != nil {
						t.Errorf("%s: got the error %v, want none", step, err)
					}
				}
			})
		}
	}
	all.Wait()
}

// While a fleet restarts for each step, replicas before and after the step serve side by side.
func TestThePepperIsChangedUnderUseWithoutARefusal(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, cent)
	before := e.enrol(t, older, apikey.Pepper{})
	issue := func(by *key.Keys) string {
		_, text, err := by.Issue(t.Context(), key.IssueRequest{Account: c.account})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	// A key with an old text in its overlap has two hashes.
	own := &key.Own{Keys: before, Store: e.store, KnownModel: knownModel}
	rotated, old, err := own.Make(t.Context(), c.account, key.Settings{Name: "rotated"})
	if err != nil {
		t.Fatal(err)
	}
	_, fresh, err := own.Rotate(t.Context(), c.account, rotated.ID, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{old, fresh}
	for range 8 {
		texts = append(texts, issue(before))
	}

	first := e.enrol(t, older, newer)
	texts = append(texts, issue(first))
	use(t, "the new pepper is accepted", texts, before, first)
	// The key of the consumer has a hash too, of a zero pepper that nobody uses.
	e.wantHashes(t, "before the swap", 12, 0)

	second := e.enrol(t, newer, older)
	texts = append(texts, issue(second))
	use(t, "the peppers are swapped", texts, first, second)
	use(t, "renewed hashes are used by a replica of the first step", texts, first)
	e.wantHashes(t, "after the swap", 1, 12)

	if _, err := store.Peppers.Enrol(t.Context(), e.pool, newer, apikey.Pepper{}); err == nil {
		t.Fatal("removing a pepper of which a hash is left: got no error, want one")
	} else if !strings.Contains(err.Error(), "1 hashes are of pepper 1") {
		t.Errorf("removing a pepper of which a hash is left: got the error %q, want it to count the hash", err)
	}
	if err := e.keys.Revoke(t.Context(), c.key); err != nil {
		t.Fatal(err)
	}
	third := e.enrol(t, newer, apikey.Pepper{})
	use(t, "the older pepper is removed", texts, second, third)
}

// A key that is not used any more keeps nobody from the end of a rotation.
func TestAPepperIsGivenUpForGood(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, cent)
	before := e.enrol(t, older, apikey.Pepper{})
	_, idle, err := before.Issue(t.Context(), key.IssueRequest{Account: c.account})
	if err != nil {
		t.Fatal(err)
	}
	rotating := e.enrol(t, newer, older)
	if err := store.Peppers.GiveUp(t.Context(), e.pool, 2); !errors.Is(err, peppers.ErrUnknownNumber) {
		t.Errorf("giving the newest pepper up: got the error %v, want %v", err, peppers.ErrUnknownNumber)
	}
	if err := store.Peppers.GiveUp(t.Context(), e.pool, 1); !errors.Is(err, peppers.ErrInUse) {
		t.Errorf("giving the pepper in use up: got the error %v, want %v", err, peppers.ErrInUse)
	}
	if _, _, err := rotating.Issue(t.Context(), key.IssueRequest{Account: c.account}); err != nil {
		t.Fatal(err)
	}
	if err := store.Peppers.GiveUp(t.Context(), e.pool, 1); err != nil {
		t.Fatal(err)
	}
	after := e.enrol(t, newer, apikey.Pepper{})
	if _, err := after.Authenticate(t.Context(), apikey.Sum(idle)); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("a key of the pepper: got the error %v, want %s", err, fault.InvalidAPIKey)
	}
	if _, err := store.Peppers.Enrol(t.Context(), e.pool, newer, older); err == nil {
		t.Error("setting the pepper again: got no error, want one")
	}
}

// An owner may give a key that has expired a later end. It would keep the ledger from its next start.
func TestAKeyThatHasExpiredCountsUnderItsPepper(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, cent)
	e.enrol(t, older, apikey.Pepper{})
	e.exec(t, `UPDATE consumer_key SET expires_at = now() WHERE id = $1`, [16]byte(c.key))
	e.enrol(t, newer, older)
	if _, err := store.Peppers.Enrol(t.Context(), e.pool, newer, apikey.Pepper{}); err == nil {
		t.Error("removing its pepper: got no error, want one")
	}
}

// Nothing says with which of two peppers the hashes were made that are older than their numbers.
func TestTheFirstPepperIsNamedAlone(t *testing.T) {
	e := setup(t, unlimited)
	if _, err := store.Peppers.Enrol(t.Context(), e.pool, newer, older); !errors.Is(err, peppers.ErrPreviousFirst) {
		t.Errorf("two peppers at first: got the error %v, want %v", err, peppers.ErrPreviousFirst)
	}
	e.consumer(t, cent)
	e.enrol(t, older, apikey.Pepper{})
	if _, err := store.Peppers.Enrol(t.Context(), e.pool, newer, apikey.Pepper{}); err == nil {
		t.Error("another pepper alone: got no error, want one")
	}
	e.wantHashes(t, "a start that was refused", 1)
}

// Two replicas start at once, and the other one is a little ahead.
func TestReplicasGiveAPepperOneNumber(t *testing.T) {
	e := setup(t, unlimited)
	e.enrol(t, older, apikey.Pepper{})
	ahead, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ahead.Rollback(context.WithoutCancel(t.Context())) }()
	f := newer.Fingerprint()
	if _, err := ahead.Exec(t.Context(),
		`SELECT pg_advisory_xact_lock(hashtext(current_schema || '.pepper'))`); err != nil {
		t.Fatal(err)
	}
	if _, err := ahead.Exec(t.Context(), `INSERT INTO pepper (number, fingerprint) VALUES (2, $1)`, f[:]); err != nil {
		t.Fatal(err)
	}
	var got apikey.Peppers
	enrolled := make(chan error, 1)
	go func() {
		var err error
		got, err = store.Peppers.Enrol(context.WithoutCancel(t.Context()), e.pool, newer, older)
		enrolled <- err
	}()
	for len(enrolled) == 0 && scan[int](t, e, `SELECT count(*) FROM pg_locks WHERE NOT granted
		AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the replica behind neither waits nor has enrolled")
		}
	}
	if err := ahead.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-enrolled; err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if n := got.CurrentNumber(); n != 2 {
		t.Errorf("the number of the new pepper: got %d, want 2", n)
	}
}

// The look-up is on the path of every key that a gateway has forgotten.
func TestALookUpByTwoHashesReadsIndexesAlone(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, cent)
	e.exec(t, `INSERT INTO consumer_key (id, account_id, name, hash, prefix, old_hash, old_prefix, old_until, rotated_at)
		SELECT gen_random_uuid(), $1, '', sha256(i::text::bytea), 'sk-svc-', sha256(('o' || i)::bytea), 'sk-svc-', now(),
			now() FROM generate_series(1, 20000) AS i`, [16]byte(c.account))
	e.exec(t, `ANALYZE consumer_key`)
	rows, err := e.pool.Query(t.Context(), `EXPLAIN SELECT id FROM consumer_key
		WHERE hash = ANY ($1::bytea[]) OR old_hash = ANY ($1)`, [][]byte{make([]byte, 32), make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	var plan []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, line)
	}
	if text := strings.Join(plan, "\n"); strings.Contains(text, "Seq Scan") {
		t.Errorf("got the plan\n%s\nwant it without a scan of the table", text)
	}
}

// Another text under a newer pepper would be another key.
func TestAHashIsRenewedUnderANewerPepperAlone(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, cent)
	e.enrol(t, older, apikey.Pepper{})
	e.enrol(t, newer, older)
	for name, sql := range map[string]string{
		"under the same pepper":  `UPDATE consumer_key SET hash = sha256('x') WHERE id = $1`,
		"with another prefix":    `UPDATE consumer_key SET hash = sha256('x'), pepper = 2, prefix = 'sk-svc-o' WHERE id = $1`,
		"under no pepper at all": `UPDATE consumer_key SET hash = sha256('x'), pepper = 3 WHERE id = $1`,
	} {
		if _, err := e.pool.Exec(t.Context(), sql, [16]byte(c.key)); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

// The row is locked, so the look-up waits for no longer than it may.
func TestAHashThatCannotBeRenewedIsCountedAndItsKeyIsGood(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	account, err := e.accounts.Create(t.Context(), "test", "")
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := e.enrol(t, older, apikey.Pepper{}).Issue(t.Context(), key.IssueRequest{Account: account.ID})
	if err != nil {
		t.Fatal(err)
	}
	keys, failed := e.enrol(t, newer, older), 0
	keys.RenewFailed = func() { failed++ }
	tx, err := e.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM consumer_key FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Authenticate(t.Context(), apikey.Sum(text)); err != nil {
		t.Errorf("a key whose row is locked: got the error %v, want none", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Authenticate(t.Context(), apikey.Sum(text)); err != nil {
		t.Errorf("the key after the lock: got the error %v, want none", err)
	}
	if failed != 1 {
		t.Errorf("failures: got %d, want 1", failed)
	}
	e.wantHashes(t, "after the lock", 0, 1)
}

// An operator's codes are good through a change of the pepper, and a sign-in seals their secret anew.
func TestOperatorsSignInThroughAChangeOfThePepper(t *testing.T) {
	s := setup(t, unlimited).staff(t)
	operators := func(current, previous apikey.Pepper) *operator.Operators {
		enrolled := s.enrol(t, current, previous).Peppers
		sealer, err := operator.NewSealer(enrolled)
		if err != nil {
			t.Fatal(err)
		}
		return &operator.Operators{Store: store.Operators{Store: s.store}, Passwords: user.NewPasswordPlaces(1),
			Sealer: sealer, Peppers: enrolled, Clock: s.clock, Random: rand.Reader, Lookups: limit.NewSemaphore(2)}
	}
	s.Operators = operators(older, apikey.Pepper{})
	alice := s.hire(t, "alice", operator.Admin)
	s.wantHashes(t, "hired", 1)
	s.Operators = operators(newer, older)
	s.signIn(t, alice, office)
	s.wantHashes(t, "signed in", 0, 1)
	s.Operators = operators(newer, apikey.Pepper{})
	s.signIn(t, alice, office)
}
