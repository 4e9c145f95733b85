package store_test

import (
	"math/rand/v2"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/plan"
	"svc.internal/services/billing-ledger/internal/usage"
)

// model is the ledger in a few lines, in cents and without a database.
type model struct {
	cap      int
	posted   map[consumer]money.NanoUSD
	open     map[ids.RequestID]hold.Reservation
	owner    map[ids.RequestID]consumer
	gone     map[ids.RequestID]bool // released or expired
	settled  map[ids.RequestID]usage.Delivery
	evidence map[ids.RequestID]int64 // what gateways say was relayed
	final    map[ids.RequestID]bool  // the gateway's last word
	reviewed map[ids.RequestID]usage.Delivery
	accrued  money.NanoUSD
	// planned has the consumers with a plan, and what the plan allows. covered has the
	// requests that a plan pays for, and kept the covered requests that the plan counts.
	planned   map[consumer]limits
	covered   map[ids.RequestID]hold.Reservation
	kept      map[ids.RequestID]bool
	shortfall money.NanoUSD
}

func (m *model) held(c consumer) (sum money.NanoUSD, n int) {
	for r, reservation := range m.open {
		if m.owner[r] == c {
			sum += reservation.Amount
			if !m.final[r] {
				n++
			}
		}
	}
	return sum, n
}

func (m *model) admit(c consumer, reservation hold.Reservation) hold.Outcome {
	if _, known := m.owner[reservation.Request]; known {
		return hold.Repeated
	}
	held, n := m.held(c)
	l, planned := m.planned[c]
	eligible := planned && reservation.Tier == plan.Standard && !reservation.Pinned
	requests, images, tokens, open := m.used(c)
	covered := eligible && requests+1 <= l.requests && tokens+reservation.MaxCompletionTokens <= l.tokens &&
		(reservation.Images == 0 || images+int64(reservation.Images) <= l.images)
	switch {
	case n >= m.cap:
		return hold.TooManyOpen
	case covered && open >= l.concurrent:
		return hold.PlanTooManyOpen
	case !covered && reservation.Amount > m.posted[c]-held && eligible:
		return hold.PlanShort
	case !covered && reservation.Amount > m.posted[c]-held:
		return hold.CreditShort
	}
	if covered {
		m.covered[reservation.Request], m.kept[reservation.Request] = reservation, true
		reservation.Amount = 0
	}
	m.open[reservation.Request], m.owner[reservation.Request] = reservation, c
	return hold.Admitted
}

// used is what is counted of a plan: of open requests the estimate, of settled
// ones what they came to. open are the places that are taken.
func (m *model) used(c consumer) (requests, images, tokens, open int64) {
	for r, reservation := range m.covered {
		if m.owner[r] != c {
			continue
		}
		if m.kept[r] {
			requests++
			images += int64(reservation.Images)
		}
		d, settled := m.settled[r]
		if _, isOpen := m.open[r]; isOpen {
			tokens += reservation.MaxCompletionTokens
			if !m.final[r] {
				open++
			}
		} else if settled && !m.gone[r] {
			tokens += d.Event.Billable.Prompt + d.Event.Billable.Completion
		}
	}
	return requests, images, tokens, open
}

func (m *model) settle(d usage.Delivery) usage.Result {
	r := d.Event.Request
	c, known := m.owner[r]
	if first, ok := m.settled[r]; ok {
		if first.Event != d.Event && first.Event.EvidenceSource == usage.Hub && d.Event.EvidenceSource == usage.Hub {
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
	if _, covered := m.covered[r]; covered {
		charged, price = 0, 0
		if tokens == 0 && d.Event.Ending != "completed" {
			m.kept[r] = false
		}
	}
	m.posted[c] -= charged
	m.shortfall += price - charged
	delete(m.open, r)
	return usage.Settled
}

func (m *model) release(r ids.RequestID) bool {
	_, open := m.open[r]
	if open {
		delete(m.open, r)
		m.gone[r], m.kept[r] = true, false
	}
	return open
}

// renew keeps the larger count of an open hold, until the last word.
func (m *model) renew(r ids.RequestID, tokens int64) {
	if _, open := m.open[r]; open && !m.final[r] {
		m.evidence[r] = max(m.evidence[r], tokens)
	}
}

func (m *model) conclude(r ids.RequestID, tokens int64) {
	if !m.final[r] {
		m.final[r], m.evidence[r] = true, tokens
	}
}

// over ends the time of every open hold. Holds without evidence are given back; of
// the other holds the relayed tokens are wanted.
func (m *model) over() (expired int, wanted map[ids.RequestID]int64) {
	wanted = map[ids.RequestID]int64{}
	for r, reservation := range m.open {
		if tokens := m.evidence[r]; tokens > 0 {
			wanted[r] = min(tokens, reservation.MaxCompletionTokens)
			continue
		}
		m.release(r)
		expired++
	}
	return expired, wanted
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

// published takes what was published: the gateway's count of each hold that is
// wanted, and of settled requests what settled them.
func (m *model) published(t *testing.T, all []orphan.Publication, wanted map[ids.RequestID]int64) {
	t.Helper()
	for _, p := range all {
		r := p.Event.Request
		if first, ok := m.settled[r]; ok {
			if got, want := p.Event.Hash(), first.Event.Hash(); got != want {
				t.Fatalf("%+v is published of what was settled by %+v: p.Event.Hash(): got %v, want %v", p.Event, first.Event, got,
					want)
			}
			if !p.Event.Settled {
				t.Fatalf("%+v is published of what was settled by %+v: p.Event.Settled: got false, want true", p.Event, first.Event)
			}
			continue
		}
		if tokens, ok := wanted[r]; !ok {
			t.Fatalf("%+v is published, in the model %d tokens (%v): wanted[r]: got none, want one", p.Event, tokens, ok)
		} else if p.Event.Billable != (money.Tokens{Completion: tokens}) {
			t.Fatalf("%+v is published, in the model %d tokens (%v): p.Event.Billable: got %+v, want %+v", p.Event, tokens, ok,
				p.Event.Billable, money.Tokens{Completion: tokens})
		}
		delete(wanted, r)
		m.reviewed[r] = delivery(p)
	}
	if len(wanted) > 0 {
		t.Fatalf("settlements left unpublished: got %d, want 0, in %v", len(wanted), wanted)
	}
}

func runHistory(t *testing.T, e *env, rnd *rand.Rand, limit int) {
	t.Helper()
	m := &model{
		cap: limit, posted: map[consumer]money.NanoUSD{}, open: map[ids.RequestID]hold.Reservation{},
		owner: map[ids.RequestID]consumer{}, gone: map[ids.RequestID]bool{}, settled: map[ids.RequestID]usage.Delivery{},
		planned: map[consumer]limits{}, covered: map[ids.RequestID]hold.Reservation{}, kept: map[ids.RequestID]bool{},
		evidence: map[ids.RequestID]int64{}, final: map[ids.RequestID]bool{}, reviewed: map[ids.RequestID]usage.Delivery{},
	}
	var consumers []consumer
	for range 3 {
		c := e.consumer(t, 20*cent)
		if len(consumers) > 0 {
			m.planned[c] = limits{requests: 20, images: 6, tokens: 60, rate: 1000, concurrent: 2}
			c = e.onPlan(t, c, m.planned[c])
		}
		m.posted[c] = 20 * cent
		consumers = append(consumers, c)
	}
	var claims []hold.Reservation // all that were ever admitted
	anyClaim := func() (hold.Reservation, bool) {
		if len(claims) == 0 {
			return hold.Reservation{}, false
		}
		return claims[rnd.IntN(len(claims))], true
	}
	reported := map[ids.RequestID]bool{}
	for step := range 250 {
		switch rnd.IntN(11) {
		case 0:
			c := consumers[rnd.IntN(3)]
			amount := money.NanoUSD(1+rnd.IntN(5)) * cent
			if _, _, err := e.accounts.Grant(t.Context(), c.account, amount, request(t).String(), "test"); err != nil {
				t.Fatal(err)
			}
			m.posted[c] += amount
		case 1, 2, 3:
			c := consumers[rnd.IntN(3)]
			reservation := e.reservation(t, c, int64(rnd.IntN(8)))
			reservation.Tier, reservation.Pinned, reservation.Images = plan.Tier(2+rnd.IntN(4)/3), rnd.IntN(6) == 0,
				int32(rnd.IntN(4)/3)
			if again, ok := anyClaim(); ok && rnd.IntN(4) == 0 {
				reservation, c = again, m.owner[again.Request]
			}
			want := m.admit(c, reservation)
			if got := e.admit(t, reservation)[0].Outcome; got != want {
				t.Fatalf("step %d: admission: got %q, want %q", step, got, want)
			}
			if want == hold.Admitted {
				claims = append(claims, reservation)
			}
		case 4, 5:
			reservation, ok := anyClaim()
			if !ok {
				continue
			}
			d := e.served(t, reservation, min(reservation.MaxCompletionTokens, int64(rnd.IntN(8))))
			d.Event.Billable.Prompt = int64(rnd.IntN(4))
			if first, ok := m.settled[reservation.Request]; ok && rnd.IntN(2) == 0 {
				d = first
			}
			e.settle(t, m.settle(d), d)
		case 6:
			reservation, ok := anyClaim()
			if !ok || reported[reservation.Request] {
				continue
			}
			reported[reservation.Request] = true
			if !m.final[reservation.Request] {
				m.final[reservation.Request], m.evidence[reservation.Request] = true, 0
			}
			if got, want := e.release(t, reservation.Request) == 1, m.release(reservation.Request); got != want {
				t.Fatalf("step %d: released: got %t, want %t", step, got, want)
			}
		case 7:
			if rnd.IntN(6) != 0 {
				continue
			}
			e.overdue(t)
			want, wanted := m.over()
			if n := e.expire(t); n != want {
				t.Fatalf("step %d: expired: got %d, want %d", step, n, want)
			}
			e.exec(t, `UPDATE orphan_review SET next_at = now() WHERE next_at IS NOT NULL`)
			m.published(t, e.review(t), wanted)
		case 8, 9:
			reservation, ok := anyClaim()
			if !ok {
				continue
			}
			tokens := int64(rnd.IntN(8))
			if reported[reservation.Request] || rnd.IntN(2) == 0 {
				m.renew(reservation.Request, tokens)
				e.renew(t, running(reservation.Request, tokens))
				continue
			}
			reported[reservation.Request] = true
			m.conclude(reservation.Request, tokens)
			e.conclude(t, servedWord(reservation.Request, tokens))
		case 10:
			// The stream delivers what was published, whenever it likes.
			for _, d := range m.reviewed {
				e.settle(t, m.settle(d), d)
				break
			}
		}
	}
	for _, c := range consumers {
		held, _ := m.held(c)
		e.wantWallet(t, c, m.posted[c], held)
		if _, planned := m.planned[c]; planned {
			requests, images, tokens, open := m.used(c)
			e.wantUsed(t, c, requests, images, tokens)
			if n := e.used(t, c, plan.Concurrent, "none"); n != open {
				t.Errorf("%d places are taken, in the model %d: got %d, want %d", n, open, n, open)
			}
		}
	}
	accrued := scan[int64](t, e, `SELECT coalesce(sum(payout), 0)::bigint FROM usage_settlement`)
	short := scan[int64](t, e, `SELECT coalesce(sum(shortfall), 0)::bigint FROM usage_settlement`)
	if money.NanoUSD(accrued) != m.accrued {
		t.Errorf("accrued: got %v, want %v", money.NanoUSD(accrued), m.accrued)
	} else if money.NanoUSD(short) != m.shortfall {
		t.Errorf("short: got %v, want %v", money.NanoUSD(short), m.shortfall)
	}
	e.sound(t)
}
