package store_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/audit"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var terms = store.Terms{Lease: time.Minute, Orphan: 10 * time.Minute, MaxHold: time.Hour}

// ever is when everything is over that is now.
var ever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// cent is the price of one token in most tests: 10,000,000 nano-USD.
var centRates = money.Rates{Input: 10_000_000_000, Output: 10_000_000_000, PayoutInput: 7_000_000_000,
	PayoutOutput: 7_000_000_000}

const cent = 10_000_000 * money.NanoUSD(1)

var unlimited = limit.Defaults{
	LLMPerMinute: limit.Unlimited, MultimodalPerMinute: limit.Unlimited, EmbeddingPerMinute: limit.Unlimited,
	ZeroPricedPerMinute: limit.Unlimited, ImagePerMinute: limit.Unlimited, AudioPerMinute: limit.Unlimited,
	Concurrent: limit.Unlimited,
}

// env is a ledger on a database of its own.
type env struct {
	pool, owner *pgxpool.Pool
	store       *store.Store
	accounts    *account.Accounts
	keys        *key.Keys
	ownKeys     *key.Own
	settler     *usage.Settler
	price       ids.PriceVersionID
}

func setup(t testing.TB, limits limit.Defaults) *env {
	t.Helper()
	pool := template.Pool(t)
	return on(t, pool, pgtest.Owner(t, pool), limits)
}

// template has the partitions of today and about it: as few as the tests need.
var template = pgtest.Template{
	Schema: store.Schema, Role: store.Role, Migrations: store.Migrations,
	Prepare: func(ctx context.Context, url string) error {
		pool, err := pg.Open(ctx, pg.Config{URL: url, Schema: store.Schema, Role: store.Role})
		if err != nil {
			return err
		}
		defer pool.Close()
		return ensurePartitions(ctx, store.New(pool, unlimited, terms))
	},
}

func ensurePartitions(ctx context.Context, st *store.Store) error {
	_, err := st.EnsurePartitions(ctx, 3, 1)
	return err
}

func on(t testing.TB, pool, owner *pgxpool.Pool, limits limit.Defaults) *env {
	t.Helper()
	st := store.New(pool, limits, terms)
	price, err := ids.NewPriceVersion(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// They are there already, unless it was yesterday when the template was made.
	if err := ensurePartitions(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	e := &env{
		pool: pool, owner: owner, store: st, price: price,
		accounts: &account.Accounts{Store: st, Clock: clock.System, Random: rand.Reader},
		keys: &key.Keys{Store: st, Peppers: apikey.Only(apikey.Pepper{}), Clock: clock.System, Random: rand.Reader,
			MaxKeys: 100, Announce: nobody},
		settler: &usage.Settler{Store: st},
	}
	e.ownKeys = &key.Own{Keys: e.keys, Store: st, KnownModel: knownModel}
	return e
}

func nobody(context.Context, ids.KeyID) {}

// knownModel knows the models of the tests.
func knownModel(id string) error {
	if id != "acme/large" && id != "acme/free" {
		return fault.New(fault.NotFound, fault.ModelNotFound, "there is no such model")
	}
	return nil
}

// consumer is an account with a key and credit.
type consumer struct {
	account ids.AccountID
	key     ids.KeyID
	digest  apikey.Digest
}

func (e *env) consumer(t testing.TB, credit money.NanoUSD) consumer {
	t.Helper()
	a, err := e.accounts.Create(t.Context(), "test", "")
	if err != nil {
		t.Fatal(err)
	}
	if credit > 0 {
		if _, _, err := e.accounts.Grant(t.Context(), a.ID, credit, rand.Text(), "test"); err != nil {
			t.Fatal(err)
		}
	}
	return e.issue(t, a.ID, key.IssueRequest{})
}

func (e *env) issue(t testing.TB, id ids.AccountID, o key.IssueRequest) consumer {
	t.Helper()
	o.Account = id
	k, text, err := e.keys.Issue(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return consumer{account: id, key: k.ID, digest: apikey.Sum(text)}
}

func request(t testing.TB) ids.RequestID {
	t.Helper()
	return requestAt(t, time.Now())
}

func requestAt(t testing.TB, at time.Time) ids.RequestID {
	t.Helper()
	id, err := ids.NewRequest(at, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// reservation asks for tokens completion tokens at a cent each.
func (e *env) reservation(t testing.TB, c consumer, tokens int64) hold.Reservation {
	t.Helper()
	return hold.Reservation{
		AdmitRequest: hold.AdmitRequest{Request: request(t), Key: c.key, Model: "acme/large", MaxCompletionTokens: tokens},
		Class:        limit.LLM, Billing: hold.PayAsYouGo, Price: e.price, Rates: centRates,
		Amount: money.NanoUSD(tokens) * cent,
	}
}

func (e *env) free(t testing.TB, c consumer) hold.Reservation {
	t.Helper()
	reservation := e.reservation(t, c, 10)
	reservation.Rates, reservation.Amount, reservation.ZeroPriced, reservation.Billing = money.Rates{}, 0, true, hold.Free
	reservation.Model = "acme/free"
	return reservation
}

func (e *env) admit(t testing.TB, claims ...hold.Reservation) []hold.Decision {
	t.Helper()
	verdicts, err := e.store.Admit(t.Context(), claims)
	if err != nil {
		t.Fatal(err)
	}
	return verdicts
}

// admitOne wants the outcome.
func (e *env) admitOne(t testing.TB, c hold.Reservation, want hold.Outcome) hold.Admission {
	t.Helper()
	v := e.admit(t, c)[0]
	if v.Outcome != want {
		t.Fatalf("admission: got %s, want %s", v.Outcome, want)
	}
	return v.Admission
}

// served is the usage of an admitted claim with so many completion tokens.
func (e *env) served(t testing.TB, c hold.Reservation, completion int64) usage.Delivery {
	t.Helper()
	provider, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ev := usage.Event{
		Request: c.Request, Attempt: 1, Hub: "hub-1", Provider: provider, Epoch: 7, Model: c.Model, Price: c.Price,
		Rates:          c.Rates,
		EvidenceSource: usage.Hub, Ending: "completed", ClaimState: "valid", Billable: money.Tokens{Completion: completion},
		Claimed: money.Tokens{Completion: completion}, RecountedCompletion: completion,
		DispatchedAt: time.Now().UTC().Truncate(time.Microsecond), EndedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	sum := ev.Hash()
	return usage.Delivery{Event: ev, Payload: sum[:]}
}

func (e *env) settle(t testing.TB, want usage.Result, batch ...usage.Delivery) {
	t.Helper()
	results, err := e.settler.Settle(t.Context(), batch, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r != want {
			t.Fatalf("delivery %d: got %s, want %s", i, r, want)
		}
	}
}

func (e *env) release(t testing.TB, requests ...ids.RequestID) int {
	t.Helper()
	all := make([]hold.RequestReport, len(requests))
	for i, r := range requests {
		all[i] = hold.RequestReport{Request: r, Outcome: "failed", HTTPStatus: 502, Attempts: []hold.Attempt{}}
	}
	n, _, err := e.store.Conclude(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// overdue puts open holds, and the last word on them, past their time.
func (e *env) overdue(t testing.TB) {
	t.Helper()
	e.exec(t, `UPDATE renewal SET renewed_at = renewed_at - interval '1 hour'`)
	e.exec(t, `UPDATE request_report SET recorded_at = recorded_at - interval '1 hour'`)
	e.exec(t, `UPDATE hold SET admitted_at = admitted_at - interval '1 hour', expires_at = expires_at - interval '1 hour',
		state = 'open' WHERE state = 'open'`)
}

// exec acts as the owner with triggers off, to arrange what the application
// role cannot.
func (e *env) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	tx, err := e.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (e *env) wallet(t testing.TB, c consumer) (posted, held money.NanoUSD) {
	t.Helper()
	a, err := e.accounts.Get(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	return a.Balance, a.Held
}

func (e *env) wantWallet(t testing.TB, c consumer, posted, held money.NanoUSD) {
	t.Helper()
	if p, h := e.wallet(t, c); p != posted {
		t.Fatalf("wallet: got %v, want %v", p, posted)
	} else if h != held {
		t.Fatalf("h of e.wallet(t, c): got %v, want %v", h, held)
	}
}

// scan reads one value as the owner.
func scan[T any](t testing.TB, e *env, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := e.owner.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// sound fails the test when verify finds a drift.
func (e *env) sound(t testing.TB) {
	t.Helper()
	report, err := audit.Run(t.Context(), e.store)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range report.Invariants {
		for _, example := range i.Examples {
			t.Errorf("drift: %s: %s", i.Name, example)
		}
	}
	if report.Drift != 0 {
		t.Fatalf("drift: got %d, want 0", report.Drift)
	}
}
