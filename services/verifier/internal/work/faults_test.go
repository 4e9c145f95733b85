package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/peers"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
	"svc.internal/services/verifier/internal/traffic"
)

// many are offers with a standing, of which one was altered on disk.
type many struct {
	*storetest.Env
	mover   *Mover
	view    *offers.View
	offers  []probe.Offer
	altered probe.Offer
}

func newMany(t *testing.T) *many {
	t.Helper()
	m := &many{Env: storetest.New(t), view: offers.New()}
	m.mover = &Mover{Store: m.Stores[0], Limits: ladder.DemoThresholds(), Offers: m.view, Models: oneModel{},
		Book: NewBook(m.Stores[0]), Log: slog.New(slog.DiscardHandler), Changed: func(ids.ProviderID) {},
		Observer: Observer{Moved: func(context.Context, probe.Offer, standing.Event, standing.Outcome) {}}}
	model := offers.Model{ID: judgetest.Model, Healthy: true, Window: 1024, Class: quant.Bits16, Engine: "tinylm",
		Capacity: 1}
	sessions := []offers.Session{{Provider: storetest.Provider(t), Node: "r", Epoch: 1, Reference: true,
		Models: []offers.Model{model}}}
	for n := range 5 {
		o := m.See(t, storetest.Provider(t))
		sessions = append(sessions, offers.Session{Provider: o.Provider, Node: "n", Epoch: int64(2 + n), Active: true,
			Models: []offers.Model{model}})
		m.Advance(t, o, "first", standing.Event{Ticked: &standing.Tick{}})
		m.offers = append(m.offers, o)
	}
	m.view.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 1, Sessions: sessions}, storetest.Start)
	m.altered = m.offers[1]
	return m
}

// alter alters a row of the offer on disk, past every trigger.
func (m *many) alter(t *testing.T, table, column string) {
	t.Helper()
	m.Exec(t, `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
	m.Exec(t, `UPDATE `+table+` SET `+column+` = '\xff00' WHERE provider_id = $1`, m.altered.Provider)
	m.Exec(t, `ALTER TABLE `+table+` ENABLE TRIGGER USER`)
}

func (m *many) planning() *Planning {
	return &Planning{Store: m.Stores[0], Planner: plan.New(prompt.Secret{1}), Mover: m.mover, Offers: m.view,
		Prices: func(string) money.Rates { return money.Rates{} }, Traffic: traffic.New(), Cover: NewCover(),
		Clock: clock.NewManual(storetest.Start), Log: slog.New(slog.DiscardHandler), BudgetADay: 1_000_000_000,
		Ratios: &Ratios{}, Sibling: func(string) string { return "" }}
}

func TestAnAlteredStandingKeepsNoOtherOfferFromItsProbes(t *testing.T) {
	t.Parallel()
	m := newMany(t)
	m.alter(t, "standing", "state")
	p := m.planning()
	if text := fmt.Sprint(p.Pass(t.Context())); !strings.Contains(text, m.altered.Provider.String()) {
		t.Errorf("the error of a pass: got %q, want that of the altered offer", text)
	}
	for i, o := range m.offers {
		want := storetest.Start.Unix() / 3600
		if o == m.altered {
			want = 0
		}
		if got := p.pasts[o].Hour; got != want {
			t.Errorf("the hour that is planned of offer %d: got %d, want %d", i, got, want)
		}
	}
}

func TestAnAlteredPastKeepsNoOfferFromItsProbes(t *testing.T) {
	t.Parallel()
	m := newMany(t)
	hour := storetest.Start.Unix()/3600 - 1
	for _, o := range m.offers {
		if _, err := m.Stores[0].PutHour(t.Context(), plan.Hour{Offer: o, Past: plan.Past{Hour: hour}}); err != nil {
			t.Fatal(err)
		}
	}
	m.alter(t, "planned", "past")
	p := m.planning()
	if err := p.Pass(t.Context()); !errors.Is(err, plan.ErrPast) {
		t.Errorf("the error of a pass: got %v, want %v", err, plan.ErrPast)
	}
	for i, o := range m.offers {
		if got, want := p.pasts[o].Hour, hour+1; got != want {
			t.Errorf("the hour that is planned of offer %d: got %d, want %d", i, got, want)
		}
	}
}

func TestAnAlteredStandingKeepsNoStratumFromTheGuard(t *testing.T) {
	t.Parallel()
	m := newMany(t)
	m.AllowPenalties(t)
	for _, o := range m.offers {
		m.Probe(t, o, true, "")
	}
	m.alter(t, "standing", "state")
	suspected := 0
	g := &Guard{Store: m.Stores[0], Mover: m.mover, Log: slog.New(slog.DiscardHandler),
		Suspected: func(_ context.Context, n int) { suspected = n }}
	if err := g.Pass(t.Context()); err == nil {
		t.Error("the error of a pass: got none, want that of the altered offer")
	}
	if suspected != 1 {
		t.Errorf("strata suspected: got %d, want 1", suspected)
	}
	want := len(m.offers) - 1
	if n := m.Count(t, `SELECT count(*) FROM event WHERE kind = 'voided'`); n != want {
		t.Errorf("offers whose observations are void: got %d, want %d", n, want)
	}
}

// asking says of every penalty that it is open, and of one nothing.
type asking struct {
	asked map[probe.VerdictID]bool
	fails probe.VerdictID
}

func (x *asking) State(_ context.Context, p peers.Penalty) (string, error) {
	x.asked[p.Verdict] = true
	if p.Verdict == x.fails {
		return "", errors.New("no such penalty")
	}
	return "open", nil
}

func TestAPenaltyThatCannotBeAskedForKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	m := newMany(t)
	m.AllowPenalties(t)
	x := &asking{asked: map[probe.VerdictID]bool{}}
	for n, o := range m.offers {
		id := probe.VerdictID{1, byte(n)}
		m.fine(t, o, id)
		if n == 2 {
			x.fails = id
		}
	}
	m.alter(t, "standing", "state")
	p := &Penalties{Store: m.Stores[0], Mover: m.mover, Settlement: x, Log: slog.New(slog.DiscardHandler)}
	if text := fmt.Sprint(p.Pass(t.Context())); !strings.Contains(text, "no such penalty") {
		t.Errorf("the error of a pass: got %q, want settlement's too", text)
	}
	if got, want := len(x.asked), len(m.offers)-1; got != want {
		t.Errorf("penalties asked for: got %d, want %d", got, want)
	}
}

// fine has a verdict take a share of an offer's collateral.
func (m *many) fine(t *testing.T, o probe.Offer, id probe.VerdictID) {
	t.Helper()
	_, err := m.Stores[0].Advance(t.Context(), o, "fined", func(
		now time.Time, s standing.State, p store.ProviderStanding,
	) (standing.Event, standing.World, standing.State, standing.Outcome, error) {
		w := storetest.World(o, "fined", p)
		s.Open = append(s.Open, standing.Penalty{Verdict: id, Kind: standing.Benchmark, Slash: ladder.FirstPenalty})
		v := standing.Verdict{ID: id, Offer: o, Kind: standing.Benchmark, Trigger: standing.Approve, At: now,
			Summary: "why", Effects: ladder.Effects{Slash: ladder.FirstPenalty, Count: 1}}
		return standing.Event{Asked: &standing.Ask{}}, w, s, standing.Outcome{Verdicts: []standing.Verdict{v},
			Published: s.Publish(now, w)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheErrorsOfAPassAreBounded(t *testing.T) {
	t.Parallel()
	var bad faults
	for n := range 100 {
		if err := bad.add(t.Context(), errors.New("row "+strconv.Itoa(n))); err != nil {
			t.Fatalf("an error of a row: got %v, want none", err)
		}
	}
	if got, want := bad.err().Error(), "row 0\nrow 1\nrow 2\nand 97 more"; got != want {
		t.Errorf("the error of 100 rows: got %q, want %q", got, want)
	}
	var none faults
	if err := none.err(); err != nil {
		t.Errorf("the error of no row: got %v, want none", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := none.add(over, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("an error of a pass that ends: got %v, want %v", err, context.Canceled)
	}
}
