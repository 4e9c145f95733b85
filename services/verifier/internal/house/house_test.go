package house_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/house"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
)

var (
	start  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	secret = prompt.Secret{5}
	cfg    = house.Config{Accounts: 3, TopUp: 10 * money.USD, Low: 2 * money.USD}
)

// ledger keeps accounts as billing-ledger does: idempotent by key, and at most 8 active
// keys of an account.
type ledger struct {
	mu       sync.Mutex
	clock    *clock.Manual
	opened   map[string]ids.AccountID
	balances map[ids.AccountID]money.NanoUSD
	entries  map[string]string // the account and amount of each key
	active   map[ids.KeyID]issued
	made     int
	failing  error
}

type issued struct {
	account ids.AccountID
	text    string
	expires time.Time
}

func (l *ledger) Open(_ context.Context, _, key string) (ids.AccountID, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.opened[key]; !known {
		l.opened[key] = ids.AccountID{1, 15: byte(len(l.opened))}
	}
	return l.opened[key], l.failing
}

func (l *ledger) Fund(_ context.Context, a ids.AccountID, n money.NanoUSD, key string) (money.NanoUSD, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	content := fmt.Sprint(a, n)
	switch before, known := l.entries[key]; {
	case known && before != content:
		return 0, errors.New("idempotency key reused")
	case !known:
		l.entries[key] = content
		l.balances[a] += n
	}
	return l.balances[a], l.failing
}

func (l *ledger) Issue(_ context.Context, a ids.AccountID, expires time.Time) (house.Key, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := 0
	for id, k := range l.active {
		if !k.expires.After(l.clock.Now()) {
			delete(l.active, id)
		} else if k.account == a {
			of++
		}
	}
	if of >= 8 {
		return house.Key{}, errors.New("too many keys")
	}
	if l.failing != nil {
		return house.Key{}, l.failing
	}
	l.made++
	id := ids.KeyID{2, 14: byte(l.made >> 8), 15: byte(l.made)}
	text := fmt.Sprintf("sk-%d-secret", l.made)
	l.active[id] = issued{a, text, expires}
	return house.Key{Account: a, ID: id, Text: house.NewText(text)}, nil
}

func (l *ledger) Revoke(_ context.Context, id ids.KeyID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.active, id)
	return nil
}

// good reports whether the ledger takes a key now.
func (l *ledger) good(k house.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, ok := l.active[k.ID]
	return ok && have.text == k.Text.Reveal() && have.account == k.Account && have.expires.After(l.clock.Now())
}

// store keeps rows as the database does.
type store struct {
	mu       sync.Mutex
	clock    *clock.Manual
	accounts map[ids.AccountID]int
	rows     []house.Stored
	failing  error
}

func (s *store) PutHouseAccount(_ context.Context, n int, a ids.AccountID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[a] = n
	return nil
}

func (s *store) HouseKeys(context.Context) ([]house.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows), nil
}

func (s *store) PutHouseKey(_ context.Context, k house.Stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return s.failing
	}
	if s.accounts[k.Account] == 0 {
		return errors.New("no such account")
	}
	k.CreatedAt = s.clock.Now()
	s.rows = append(s.rows, k)
	return nil
}

func (s *store) ForgetHouseKey(_ context.Context, id ids.KeyID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = slices.DeleteFunc(s.rows, func(k house.Stored) bool { return k.ID == id })
	return nil
}

type world struct {
	t      *testing.T
	clock  *clock.Manual
	ledger *ledger
	store  *store
	*house.House
}

func setup(t *testing.T) *world {
	t.Helper()
	c := clock.NewManual(start)
	w := &world{
		t: t, clock: c, store: &store{clock: c, accounts: map[ids.AccountID]int{}},
		ledger: &ledger{
			clock: c, opened: map[string]ids.AccountID{}, balances: map[ids.AccountID]money.NanoUSD{},
			entries: map[string]string{}, active: map[ids.KeyID]issued{},
		},
	}
	w.House = w.replica()
	return w
}

// replica is another verifier with the same ledger and store.
func (w *world) replica() *house.House {
	w.t.Helper()
	h, err := house.New(cfg, w.ledger, w.store, w.clock, rand.Reader, secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) tend(h *house.House) {
	w.t.Helper()
	if err := h.Tend(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func choose(t *testing.T, h *house.House, n int) house.Key {
	t.Helper()
	k, err := h.Choose(probe.ID{9, 14: byte(n >> 8), 15: byte(n)})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAccountsAreOpenedOnceAndFunded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	if _, err := w.Choose(probe.ID{1}); !errors.Is(err, house.ErrNoKey) {
		t.Errorf("before the first key: got %v, want %v", err, house.ErrNoKey)
	}
	other := w.replica()
	for _, h := range []*house.House{w.House, other, w.House, w.replica()} {
		w.tend(h)
	}
	if got := len(w.ledger.opened); got != 3 {
		t.Errorf("accounts: got %d, want 3", got)
	}
	for a, got := range w.ledger.balances {
		if want := cfg.TopUp; got != want {
			t.Errorf("the balance of %v: got %d, want %d", a, got, want)
		}
	}
	if got := w.ledger.made; got != 3 {
		t.Errorf("keys: got %d, want 3", got)
	}
	if a, b := choose(t, w.House, 7), choose(t, other, 7); a != b {
		t.Errorf("the key of a probe: replicas chose %v and %v", a.ID, b.ID)
	}
}

func TestALowAccountIsFundedOnceAnHour(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.tend(w.House)
	var account ids.AccountID
	for a := range w.ledger.balances {
		account = a
	}
	w.ledger.balances[account] = cfg.Low - 1
	other := w.replica()
	w.tend(w.House)
	w.ledger.balances[account] = 0
	w.clock.Advance(10 * time.Minute)
	w.tend(other)
	w.tend(w.House)
	if got := w.ledger.balances[account]; got != 0 {
		t.Errorf("the second time within the hour: got %d, want 0", got)
	}
	w.clock.Advance(time.Hour)
	w.tend(w.House)
	if got := w.ledger.balances[account]; got != cfg.TopUp {
		t.Errorf("after an hour: got %d, want %d", got, cfg.TopUp)
	}
}

// Every probe has a key that the ledger takes, whichever replica looks when, for months;
// and no key is the newest for more than a week.
func TestKeysAreRenewedWithOverlap(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other := w.replica()
	w.tend(w.House)
	w.tend(other)
	var held house.Key
	first := map[ids.KeyID]time.Time{}
	for hour := range 24 * 100 {
		w.clock.Advance(time.Hour)
		// The other replica is a day late.
		w.tend(w.House)
		if hour%24 == 0 {
			w.tend(other)
			if held != (house.Key{}) && !w.ledger.good(held) {
				t.Fatalf("hour %d: a key that a probe began with a day ago is not good", hour)
			}
			held = choose(t, other, hour)
		}
		for _, h := range []*house.House{w.House, other} {
			k := choose(t, h, hour)
			if !w.ledger.good(k) {
				t.Fatalf("hour %d: got a key that the ledger does not take", hour)
			}
			if _, known := first[k.ID]; !known {
				first[k.ID] = w.clock.Now()
			}
			if age := w.clock.Now().Sub(first[k.ID]); h == w.House && age > house.MaxWeek {
				t.Fatalf("hour %d: a key is in use since %v", hour, age)
			}
		}
		if got := len(w.store.rows); got > 9 {
			t.Fatalf("hour %d: %d keys are kept, want at most 3 an account", hour, got)
		}
	}
	if got := w.ledger.made; got < 3*100/7 || got > 3*(100/5+1) {
		t.Errorf("keys in 100 days: got %d, want 42 to 63", got)
	}
}

func TestAccountsAreChosenEvenly(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.tend(w.House)
	counts := map[ids.AccountID]int{}
	for n := range 3_000 {
		counts[choose(t, w.House, n).Account]++
	}
	for a, got := range counts {
		if got < 850 || got > 1_150 {
			t.Errorf("account %v: got %d of 3,000, want about 1,000", a, got)
		}
	}
}

func TestARefusedKeyIsReplacedOnceAnHour(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.tend(w.House)
	bad := choose(t, w.House, 1)
	w.Refused(bad)
	for n := range 200 {
		if choose(t, w.House, n) == bad {
			t.Fatal("a refused key was chosen")
		}
	}
	w.tend(w.House)
	if w.ledger.good(bad) {
		t.Error("the refused key: got good, want revoked")
	}
	if got := w.ledger.made; got != 4 {
		t.Errorf("keys: got %d, want 4", got)
	}
	for n := range 200 {
		if k := choose(t, w.House, n); k.Account == bad.Account {
			w.Refused(k)
			break
		}
	}
	w.tend(w.House)
	if got := w.ledger.made; got != 4 {
		t.Errorf("keys within the hour: got %d, want 4", got)
	}
	w.clock.Advance(time.Hour)
	w.tend(w.House)
	if got := w.ledger.made; got != 5 {
		t.Errorf("keys after an hour: got %d, want 5", got)
	}
}

func TestAKeyThatCannotBeKeptIsRevoked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.store.failing = errors.New("no database")
	if err := w.Tend(t.Context()); !errors.Is(err, w.store.failing) {
		t.Errorf("got the error %v, want %v", err, w.store.failing)
	}
	if got := len(w.ledger.active); got != 0 {
		t.Errorf("active keys: got %d, want 0", got)
	}
	w.store.failing = nil
	w.tend(w.House)
	if err := w.Ready(t.Context()); err != nil {
		t.Errorf("ready: got %v, want nil", err)
	}
}

func TestWithoutALedgerTheKeysGoOn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.tend(w.House)
	before := choose(t, w.House, 1)
	w.ledger.failing = errors.New("no ledger")
	w.clock.Advance(house.MaxWeek)
	if err := w.Tend(t.Context()); err == nil {
		t.Error("got no error, want one")
	}
	if got := choose(t, w.House, 1); got != before {
		t.Errorf("the key: got %v, want %v", got.ID, before.ID)
	}
}

// What the store has cannot be spent, and an altered row is found.
func TestStoredKeysAreSealed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.tend(w.House)
	for i, k := range w.store.rows {
		if strings.Contains(string(k.Sealed), "secret") {
			t.Errorf("row %d has the key", i)
		}
		if n := len(k.Sealed); n < 29 || n > 1024 {
			t.Errorf("row %d: got %d bytes, want 29 to 1024", i, n)
		}
	}
	whole := slices.Clone(w.store.rows)
	for name, alter := range map[string]func(*house.Stored){
		"a bit":           func(k *house.Stored) { k.Sealed = append(slices.Clone(k.Sealed[:20]), k.Sealed[20]^1) },
		"cut":             func(k *house.Stored) { k.Sealed = k.Sealed[:5] },
		"none":            func(k *house.Stored) { k.Sealed = nil },
		"another version": func(k *house.Stored) { k.Sealed = append([]byte{9}, k.Sealed[1:]...) },
		"another id":      func(k *house.Stored) { k.ID[3] ^= 1 },
	} {
		w.store.rows = slices.Clone(whole)
		alter(&w.store.rows[0])
		if err := w.replica().Tend(t.Context()); !errors.Is(err, house.ErrSealed) {
			t.Errorf("%s: got the error %v, want %v", name, err, house.ErrSealed)
		}
	}
}

// An installation that lost its secret has the same accounts, and keys that it can open.
func TestALostSecretCostsNoAccounts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.tend(w.House)
	other, err := house.New(cfg, w.ledger, w.store, w.clock, rand.Reader, prompt.Secret{6})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Tend(t.Context()); !errors.Is(err, house.ErrSealed) {
		t.Errorf("the first time: got the error %v, want %v", err, house.ErrSealed)
	}
	w.tend(other)
	if got := len(w.ledger.opened); got != 3 {
		t.Errorf("accounts: got %d, want 3", got)
	}
	if !w.ledger.good(choose(t, other, 1)) {
		t.Error("the key: got one that the ledger does not take")
	}
}

func TestAKeyPrintsAsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.tend(w.House)
	k := choose(t, w.House, 1)
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{fmt.Sprintf("%v %+v %#v %q %x", k, k, k, k.Text, k.Text), string(text)} {
		if strings.Contains(got, "secret") {
			t.Errorf("got %s", got)
		}
	}
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]house.Config{
		"no account": {TopUp: 1, Low: 1}, "too many": {Accounts: 257, TopUp: 1, Low: 1}, "no credit": {Accounts: 1, Low: 1},
		"too much": {Accounts: 1, TopUp: 1_001 * money.USD, Low: 1}, "low above a top-up": {Accounts: 1, TopUp: 1, Low: 2},
		"no low": {Accounts: 1, TopUp: 1},
	} {
		if _, err := house.New(bad, nil, nil, nil, nil, secret); !errors.Is(err, house.ErrConfig) {
			t.Errorf("%s: got the error %v, want %v", name, err, house.ErrConfig)
		}
	}
}
