package store_test

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/store"
)

var admitBatches = flag.Int("admit-batches", 300,
	"random batches that are admitted both by plain statements and by admit_requests")

// tablesOfAdmission are all tables that admission writes.
var tablesOfAdmission = []string{"account_rate", "category_gate", "category_tokens", "hold", "key_inflight", "key_rate",
	"plan_counter", "plan_gate", "spend_counter", "wallet"}

// comparison admits random batches by both ways.
type comparison struct {
	*env
	rnd       *rand.Rand
	limits    limit.Defaults
	consumers []consumer
	earlier   []hold.Reservation
	outcomes  map[hold.Outcome]int // of plain requests
}

// TestPlainStatementsDecideAndWriteAsAdmitRequests runs each batch by both ways in one transaction,
// the second after a rollback to where the first began, so that both see the same rows and the same
// moment. All decisions and all rows must be equal, to the microsecond.
func TestPlainStatementsDecideAndWriteAsAdmitRequests(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &comparison{rnd: rand.New(rand.NewPCG(seed, 1)), outcomes: map[hold.Outcome]int{},
		limits: limit.Defaults{LLMPerMinute: 6, MultimodalPerMinute: 7, EmbeddingPerMinute: limit.Unlimited,
			ZeroPricedPerMinute: 5, ImagePerMinute: 1000, AudioPerMinute: limit.Unlimited, Concurrent: 24}}
	c.env = setup(t, c.limits)
	c.populate(t)
	for range *admitBatches {
		c.compare(t)
		if t.Failed() {
			return
		}
		c.later(t)
	}
	c.sound(t)
	t.Logf("plain requests by outcome: %v", c.outcomes)
	for _, o := range []hold.Outcome{hold.Admitted, hold.KeyRevoked, hold.KeyExpired, hold.ModelNotAllowed,
		hold.AccountFrozen, hold.RateLimited, hold.LeftOften, hold.TooManyOpen, hold.CreditShort} {
		if c.outcomes[o] == 0 {
			t.Errorf("plain requests with the outcome %s: got none, want some", o)
		}
	}
}

// populate makes accounts of all kinds, each with two keys.
func (c *comparison) populate(t *testing.T) {
	e := c.env
	expired := time.Now().Add(time.Hour)
	for i := range 24 {
		one := e.consumer(t, []money.NanoUSD{1000 * money.USD, 40 * cent, 1000 * money.USD, 0}[i%4])
		other := e.issue(t, one.account, key.IssueRequest{})
		switch i {
		case 8, 9:
			e.limit(t, one, limit.Limits{RequestsPerMinute: 3, ConcurrentRequests: 2})
		case 2:
			e.limit(t, one, limit.Limits{RequestsPerMinute: limit.Unlimited, ConcurrentRequests: limit.Unlimited})
		case 3:
			e.limit(t, one, limit.Limits{RequestsPerMinute: 4000, ConcurrentRequests: 40})
		case 4:
			other = e.issue(t, one.account, key.IssueRequest{Models: []string{"acme/free"}})
		case 5:
			if err := e.keys.Revoke(t.Context(), other.key); err != nil {
				t.Fatal(err)
			}
		case 6:
			other = e.issue(t, one.account, key.IssueRequest{ExpiresAt: expired})
			e.exec(t, `UPDATE consumer_key SET expires_at = now() - interval '1 second' WHERE id = $1`, [16]byte(other.key))
		case 7:
			if _, err := e.accounts.SetState(t.Context(), one.account, account.Frozen, "test"); err != nil {
				t.Fatal(err)
			}
		case 10:
			e.exec(t, `INSERT INTO account_rate VALUES ($1, 7, now() + interval '100 seconds')`, [16]byte(one.account))
		case 11:
			c.onPlan(t, one, limits{requests: 20, images: 3, tokens: 50, rate: 5, concurrent: 3})
		case 12:
			other = e.ownBudget(t, one)
		case 13:
			if _, err := e.spending().SetCaps(t.Context(), one.account, caps(30, 90)); err != nil {
				t.Fatal(err)
			}
		case 14:
			e.agree(t, one, enterprise.Terms{RequestsPerMinute: 9, Discount: 100})
		case 15:
			e.agree(t, one, enterprise.Terms{Priority: true})
		}
		c.consumers = append(c.consumers, one, other)
	}
}

func (e *env) limit(t *testing.T, c consumer, l limit.Limits) {
	t.Helper()
	e.exec(t, `INSERT INTO account_limits (account_id, requests_per_minute, concurrent_requests) VALUES ($1, $2, $3)`,
		[16]byte(c.account), l.RequestsPerMinute, l.ConcurrentRequests)
}

// ownBudget returns another key of the account, with a budget.
func (e *env) ownBudget(t *testing.T, c consumer) consumer {
	t.Helper()
	budget := limit.Budget{Amount: 20 * cent, Period: limit.Day}
	_, other := e.own(t, c.account, key.Settings{Budget: &budget})
	return other
}

// reservation is a random one.
func (c *comparison) reservation(t *testing.T) hold.Reservation {
	// The first consumers ask more often, so that they pass their rates.
	of := c.consumers[min(c.rnd.IntN(len(c.consumers)), c.rnd.IntN(len(c.consumers)), c.rnd.IntN(len(c.consumers)))]
	if c.rnd.IntN(40) == 0 && len(c.earlier) > 0 {
		r := c.earlier[c.rnd.IntN(len(c.earlier))] // once more, some for another key or model
		switch c.rnd.IntN(4) {
		case 0:
			r.Key = of.key
		case 1:
			r.Model = "acme/other"
		}
		return r
	}
	r := c.env.reservation(t, of, int64(c.rnd.IntN(4)))
	r.Class = []limit.Class{limit.LLM, limit.LLM, limit.Multimodal, limit.Embedding}[c.rnd.IntN(4)]
	r.Tier = plan.Tier(c.rnd.IntN(4))
	switch c.rnd.IntN(8) {
	case 0, 1:
		r.Rates, r.Amount, r.ZeroPriced, r.Billing, r.Model = money.Rates{}, 0, true, hold.Free, "acme/free"
	case 2:
		r.Class, r.Rates.Unit, r.Images = limit.Image, money.Image, int32(r.MaxCompletionTokens)
		r.Rates.Input, r.Rates.PayoutInput = 0, 0
	case 3:
		r.Class, r.Rates.Unit, r.PromptTokens, r.MaxCompletionTokens = limit.Audio, money.AudioMinute, 1000, 0
		r.Rates.Output, r.Rates.PayoutOutput = 0, 0
	case 4:
		r.Pinned = true
		if c.rnd.IntN(2) == 0 { // costs nothing and is paid as one goes
			r.Rates, r.Amount, r.ZeroPriced = money.Rates{}, 0, true
		}
	case 5:
		r.PromptTokens = int64(c.rnd.IntN(5))
		r.Amount += money.NanoUSD(r.PromptTokens) * cent
	}
	if c.rnd.IntN(60) == 0 {
		r.Key = ids.KeyID(request(t)) // a key that nobody has
	}
	c.earlier = append(c.earlier, r)
	return r
}

// batch is a random one, sometimes with a request twice and often with several of one key.
func (c *comparison) batch(t *testing.T) []hold.Reservation {
	var batch []hold.Reservation
	for range 1 + c.rnd.IntN([]int{1, 4, 24}[c.rnd.IntN(3)]) {
		batch = append(batch, c.reservation(t))
		if last := batch[len(batch)-1]; c.rnd.IntN(3) == 0 {
			again := last
			if c.rnd.IntN(8) > 0 {
				again.Request = request(t)
			}
			batch = append(batch, again)
		}
	}
	c.rnd.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	return batch
}

// compare admits a batch by both ways and keeps what the plain one did.
func (c *comparison) compare(t *testing.T) {
	t.Helper()
	batch := c.batch(t)
	err := pgx.BeginFunc(t.Context(), c.pool, func(tx pgx.Tx) error {
		st := store.New(c.pool, c.limits, terms) // it remembers no key
		var want []hold.Decision
		whole, err := tx.Begin(t.Context())
		if err != nil {
			return err
		}
		if want, err = st.AdmitWholeIn(t.Context(), tx.Conn(), batch); err != nil {
			return err
		}
		rows := c.rows(t, tx)
		if err := whole.Rollback(t.Context()); err != nil {
			return err
		}
		got, plain, err := st.AdmitPlainIn(t.Context(), tx.Conn(), batch)
		if err != nil {
			return err
		}
		for i := range batch {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("reservation %d of %d: %+v:\ngot  %+v\nwant %+v", i, len(batch), batch[i], got[i], want[i])
			}
		}
		for _, i := range plain {
			c.outcomes[got[i].Outcome]++
		}
		for table, now := range c.rows(t, tx) {
			if now != rows[table] {
				t.Errorf("rows of %s: got\n%s\nwant\n%s", table, now, rows[table])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rows are the rows of the tables of admission, which are compared as text.
func (c *comparison) rows(t *testing.T, tx pgx.Tx) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, table := range tablesOfAdmission {
		only := ""
		if table == "hold" {
			only = " WHERE t.admitted_at = now()"
		}
		var text string
		err := tx.QueryRow(t.Context(), `SELECT coalesce(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM `+table+
			` t`+only).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		all[table] = text
	}
	return all
}

// later lets time pass for rates, and ends some requests.
func (c *comparison) later(t *testing.T) {
	t.Helper()
	switch c.rnd.IntN(8) {
	case 0:
		c.exec(t, `UPDATE key_rate SET full_at = full_at - interval '1 second' * $1::integer`, c.rnd.IntN(30))
		c.exec(t, `UPDATE account_rate SET full_at = full_at - interval '1 second' * $1::integer WHERE class <> 7`,
			c.rnd.IntN(30))
	case 1, 2:
		var some []ids.RequestID
		for _, i := range c.rnd.Perm(len(c.earlier))[:len(c.earlier)/2] {
			some = append(some, c.earlier[i].Request)
		}
		if len(some) > 0 {
			c.release(t, some...)
		}
	}
}
