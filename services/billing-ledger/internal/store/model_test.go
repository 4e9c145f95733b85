package store_test

import (
	"math/rand/v2"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/usage"
)

// model is the ledger in a few lines, in cents and without a database.
type model struct {
	cap       int
	posted    map[consumer]money.NanoUSD
	open      map[ids.RequestID]hold.Claim
	owner     map[ids.RequestID]consumer
	gone      map[ids.RequestID]bool // released or expired
	settled   map[ids.RequestID]usage.Delivery
	accrued   money.NanoUSD
	shortfall money.NanoUSD
}

func (m *model) held(c consumer) (sum money.NanoUSD, n int) {
	for r, claim := range m.open {
		if m.owner[r] == c {
			sum += claim.Amount
			n++
		}
	}
	return sum, n
}

func (m *model) admit(c consumer, claim hold.Claim) hold.Outcome {
	if _, known := m.owner[claim.Request]; known {
		return hold.Repeated
	}
	held, n := m.held(c)
	switch {
	case n >= m.cap:
		return hold.TooManyOpen
	case claim.Amount > m.posted[c]-held:
		return hold.CreditShort
	}
	m.open[claim.Request], m.owner[claim.Request] = claim, c
	return hold.Admitted
}

func (m *model) settle(d usage.Delivery) usage.Result {
	r := d.Event.Request
	c, known := m.owner[r]
	if first, ok := m.settled[r]; ok {
		if first.Event != d.Event {
			return usage.Altered
		}
		return usage.Duplicate
	}
	if !known {
		return usage.UnknownRequest
	}
	tokens := d.Event.Billable.Prompt + d.Event.Billable.Completion
	price, payout := money.NanoUSD(tokens)*cent, money.NanoUSD(tokens)*cent*7/10
	m.settled[r] = d
	m.accrued += payout
	if m.gone[r] {
		return usage.Orphaned
	}
	held, _ := m.held(c)
	charged := min(price, m.open[r].Amount+m.posted[c]-held)
	m.posted[c] -= charged
	m.shortfall += price - charged
	delete(m.open, r)
	return usage.Settled
}

func (m *model) release(r ids.RequestID) bool {
	_, open := m.open[r]
	if open {
		delete(m.open, r)
		m.gone[r] = true
	}
	return open
}

func TestRandomHistoriesEndAsInTheModel(t *testing.T) {
	limits := unlimited
	limits.Concurrent = 4
	for range 3 {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		runHistory(t, setup(t, limits), rand.New(rand.NewPCG(seed, 1)), int(limits.Concurrent))
	}
}

func runHistory(t *testing.T, e *env, rnd *rand.Rand, limit int) {
	t.Helper()
	m := &model{
		cap: limit, posted: map[consumer]money.NanoUSD{}, open: map[ids.RequestID]hold.Claim{},
		owner: map[ids.RequestID]consumer{}, gone: map[ids.RequestID]bool{}, settled: map[ids.RequestID]usage.Delivery{},
	}
	var consumers []consumer
	for range 3 {
		c := e.consumer(t, 20*cent)
		m.posted[c] = 20 * cent
		consumers = append(consumers, c)
	}
	var claims []hold.Claim // all that were ever admitted
	anyClaim := func() (hold.Claim, bool) {
		if len(claims) == 0 {
			return hold.Claim{}, false
		}
		return claims[rnd.IntN(len(claims))], true
	}
	witnessed := map[ids.RequestID]bool{}
	for step := range 250 {
		switch rnd.IntN(8) {
		case 0:
			c := consumers[rnd.IntN(3)]
			amount := money.NanoUSD(1+rnd.IntN(5)) * cent
			if _, _, err := e.accounts.Grant(t.Context(), c.account, amount, request(t).String(), ""); err != nil {
				t.Fatal(err)
			}
			m.posted[c] += amount
		case 1, 2, 3:
			c := consumers[rnd.IntN(3)]
			claim := e.claim(t, c, int64(rnd.IntN(8)))
			if again, ok := anyClaim(); ok && rnd.IntN(4) == 0 {
				claim, c = again, m.owner[again.Request]
			}
			want := m.admit(c, claim)
			if got := e.admit(t, claim)[0].Outcome; got != want {
				t.Fatalf("step %d: admission is %s, in the model %s", step, got, want)
			}
			if want == hold.Admitted {
				claims = append(claims, claim)
			}
		case 4, 5:
			claim, ok := anyClaim()
			if !ok {
				continue
			}
			d := e.served(t, claim, min(claim.MaxCompletionTokens, int64(rnd.IntN(8))))
			d.Event.Billable.Prompt = int64(rnd.IntN(4))
			if first, ok := m.settled[claim.Request]; ok && rnd.IntN(2) == 0 {
				d = first
			}
			e.settle(t, m.settle(d), d)
		case 6:
			claim, ok := anyClaim()
			if !ok || witnessed[claim.Request] {
				continue
			}
			witnessed[claim.Request] = true
			if got, want := e.release(t, claim.Request) == 1, m.release(claim.Request); got != want {
				t.Fatalf("step %d: released %v, in the model %v", step, got, want)
			}
		case 7:
			if rnd.IntN(6) != 0 {
				continue
			}
			e.overdue(t)
			n, err := e.store.ExpireHolds(t.Context(), 500)
			if err != nil || n != len(m.open) {
				t.Fatalf("step %d: expired %d (%v), in the model %d", step, n, err, len(m.open))
			}
			for r := range m.open {
				m.release(r)
			}
		}
	}
	for _, c := range consumers {
		held, _ := m.held(c)
		e.wantWallet(t, c, m.posted[c], held)
	}
	accrued := scan[int64](t, e, `SELECT coalesce(sum(payout), 0)::bigint FROM usage_settlement`)
	short := scan[int64](t, e, `SELECT coalesce(sum(shortfall), 0)::bigint FROM usage_settlement`)
	if money.NanoUSD(accrued) != m.accrued || money.NanoUSD(short) != m.shortfall {
		t.Errorf("accrued %d and short %d, in the model %d and %d", accrued, short, m.accrued, m.shortfall)
	}
	e.sound(t)
}
