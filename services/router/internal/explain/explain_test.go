package explain

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/retry"
	"svc.internal/services/router/internal/tag"
	"svc.internal/services/router/internal/trust"
	"svc.internal/services/router/internal/warmup"
	"svc.internal/services/router/internal/window"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type bundle struct {
	*pick.Picker
	view  *presence.View
	known *health.Registry
	trust *trust.Registry
	stats *pick.Stats
	clock *clock.Manual
}

func setup(sessions ...presence.Session) *bundle {
	b := &bundle{known: health.New(), stats: &pick.Stats{}, clock: clock.NewManual(start)}
	waitlist := pick.NewWaitlist()
	b.view, b.trust = presence.New(waitlist.Wake), trust.New(waitlist.Wake)
	b.Picker = pick.New(pick.Deps{
		View: b.view, Health: b.known, Trust: b.trust, Clock: b.clock, Windows: func(string) int64 { return 0 },
		Waitlist: waitlist, Stats: b.stats, Warm: warmup.New(b.view, b.trust, [2]uint64{}), Retries: &retry.Budget{},
	})
	b.view.Apply(presence.Report{Hub: "h", Incarnation: 1, Address: "x", Revision: 1, Sessions: sessions}, start)
	return b
}

func (b *bundle) explain(provider string) Account {
	return Sources{
		View: b.view, Health: b.known, Stats: b.stats, Trust: b.trust,
		Windows: func(string) int64 { return 0 },
	}.Provider(provider, b.clock.Now())
}

func on(node string, epoch int64, change func(*presence.Session), models ...string) presence.Session {
	s := presence.Session{Provider: "p", Node: node, Epoch: epoch, Active: true}
	for _, m := range models {
		s.Offers = append(s.Offers, presence.Offer{Model: m, Healthy: true, Window: 100, Capacity: 4})
	}
	if change != nil {
		change(&s)
	}
	return s
}

func TestAModelIsTheSumOfItsNodes(t *testing.T) {
	b := setup(
		on("1", 1, nil, "m", "k"),
		on("2", 2, func(s *presence.Session) { s.Offers[0].InFlight = 4 }, "m"),
		on("3", 3, func(s *presence.Session) { s.Draining = true }, "m"),
		on("4", 4, func(s *presence.Session) { s.Capacity, s.Said = 6, 5 }, "m", "k"))
	b.view.Of("m", "p")[0].Slots.Busy(start) // whichever it is, half is left
	got := b.explain("p").Models
	want := []Model{
		{ID: "k", Nodes: 2, Available: 2, Capacity: 4 + 1, Window: 100, Declared: 100, Trust: "normal"},
		{ID: "m", Nodes: 4, Available: 2, InFlight: 4, Capacity: 2 + 4 + 4 + 1, Window: 100,
			Declared: 100, Trust: "normal"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if a := b.explain("nobody"); a.Models != nil {
		t.Errorf("of nobody: a.Models: got %+v, want nil", a.Models)
	} else if a.Rejects != nil {
		t.Errorf("of nobody: a.Rejects: got %+v, want nil", a.Rejects)
	}
}

func TestANodeHasItsModels(t *testing.T) {
	b := setup(
		on("2", 2, func(s *presence.Session) { s.Offers[0].InFlight = 4 }, "m"),
		on("1", 1, func(s *presence.Session) { s.Offers[0].Healthy = false }, "m", "k"),
		on("3", 3, func(s *presence.Session) { s.Draining = true }, "m"))
	want := []Node{
		{"1", []Offer{{"k", true, 0, 4}, {"m", false, 0, 4}}}, {"2", []Offer{{"m", true, 4, 4}}},
		{"3", []Offer{{"m", false, 0, 4}}},
	}
	if got := b.explain("p").Nodes; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// A node that is listed is listed whole, so that nobody takes what is left out for models that it lacks.
func TestTheModelsOfAllNodesAreBoundedByWholeNodes(t *testing.T) {
	models := make([]string, 100)
	for i := range models {
		models[i] = fmt.Sprintf("m%03d", i)
	}
	var sessions []presence.Session
	for i := range 12 {
		sessions = append(sessions, on(fmt.Sprintf("n%02d", i), int64(i+1), nil, models...))
	}
	nodes := setup(sessions...).explain("p").Nodes
	if got, want := len(nodes), MaxOffers/len(models); got != want {
		t.Errorf("got %d nodes, want %d", got, want)
	}
	for _, n := range nodes {
		if len(n.Offers) != len(models) {
			t.Errorf("node %s: got %d models, want %d", n.ID, len(n.Offers), len(models))
		}
	}
}

func TestAModelHasTheFiguresOfItsAttempts(t *testing.T) {
	b := setup(on("1", 1, nil, "m", "k"))
	for i := range 4 {
		b.known.Get(health.Pair{Provider: "p", Model: "m"}).Window.Record(window.Sample{At: start, Served: i < 3,
			FirstContent: time.Duration(i+1) * 100 * time.Millisecond, TokensPerSecond: 40})
	}
	models := b.explain("p").Models
	if got := models[0].Figures; got != (window.Figures{}) {
		t.Errorf("a model without attempts: got %+v, want nothing", got)
	}
	got := models[1].Figures
	want := window.Figures{Samples: 4, FirstContentP50: 200 * time.Millisecond, FirstContentP95: 300 * time.Millisecond,
		TokensPerSecondP50: 40, Success24h: 0.75}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestWhatRequestsDidIsToldTheMostFrequentFirst(t *testing.T) {
	b := setup(on("1", 1, nil, "m"))
	ask := func(times int, change func(*pick.Request)) {
		for range times {
			r := &pick.Request{ID: "r", Model: "m", PromptTokens: 1}
			change(r)
			_, _ = b.Select(t.Context(), r) // that most are refused is the point
		}
	}
	ask(2, func(*pick.Request) {})
	ask(1, func(r *pick.Request) { r.Exclude = []string{"p"} })
	ask(3, func(r *pick.Request) { r.PromptTokens = 101 })
	for i := range breaker.Accounts {
		b.Ended(pick.Attempt{Request: "r", Account: tag.Account(i + 1), Provider: "p", Node: "1", Epoch: 1, Model: "m",
			Outcome: pick.Failed})
	}
	ask(5, func(*pick.Request) {})
	a := b.explain("p")
	if want := []Reject{{pick.BreakerOpen, 5}, {pick.WindowTooSmall, 3}, {pick.Excluded, 1}}; !slices.Equal(a.Rejects,
		want) {
		t.Errorf("rejects: got %v, want %v", a.Rejects, want)
	}
	switch m := a.Models[0]; {
	case m.Chosen != 2:
		t.Errorf("model: m.Chosen: got %d, want 2", m.Chosen)
	case m.Breaker != breaker.Open:
		t.Errorf("model: m.Breaker: got %d, want %d", m.Breaker, breaker.Open)
	case m.Available != 0:
		t.Errorf("model: m.Available: got %d, want 0", m.Available)
	}
	b.clock.Advance(breaker.FirstRest)
	if m := b.explain("p").Models[0]; m.Breaker != breaker.HalfOpen {
		t.Errorf("model %+v after its rest: m.Breaker: got %d, want %d", m, m.Breaker, breaker.HalfOpen)
	} else if m.Available != 1 {
		t.Errorf("model %+v after its rest: m.Available: got %d, want 1", m, m.Available)
	}
}

func TestAnAccountIsBounded(t *testing.T) {
	var sessions []presence.Session
	for n := range 3 {
		var models []string
		for i := range 100 {
			models = append(models, fmt.Sprintf("m%d-%03d", n, i))
		}
		sessions = append(sessions, on(fmt.Sprint(n), int64(n+1), nil, models...))
	}
	got := setup(sessions...).explain("p").Models
	switch {
	case len(got) != MaxModels:
		t.Errorf("len(got): got %d, want %d", len(got), MaxModels)
	case got[0].ID != "m0-000":
		t.Errorf(`got[0].ID: got %q, want "m0-000"`, got[0].ID)
	case got[MaxModels-1].ID != "m2-055":
		t.Errorf(`got[MaxModels-1].ID: got %q, want "m2-055"`, got[MaxModels-1].ID)
	}
}

func TestAProviderSeesItsLaneAndItsMeasuredWindow(t *testing.T) {
	t.Parallel()
	b := setup(on("1", 1, nil, "capped", "shut", "tried", "unknown"))
	b.trust.Apply(trust.Report{Provider: "p", Revision: 1, Opinions: []trust.Opinion{
		{Model: "capped", Trust: 0.96, Window: 40, Revision: 1},
		{Model: "shut", Trust: 0.05, Lane: trust.Shut, Revision: 1},
		{Model: "tried", Trust: 0.05, Lane: trust.Probe, Revision: 1},
	}})
	want := []Model{
		{ID: "capped", Nodes: 1, Available: 1, Capacity: 4, Measured: 40, Window: 40, Declared: 100,
			Trust: "high"},
		{ID: "shut", Nodes: 1, Capacity: 4, Lane: trust.Shut, Window: 100, Declared: 100, Trust: "normal"},
		{ID: "tried", Nodes: 1, Available: 1, Capacity: 4, Lane: trust.Probe, Window: 100, Declared: 100,
			Trust: "normal"},
		{ID: "unknown", Nodes: 1, Capacity: 4, Lane: trust.Shut, Window: 100, Declared: 100, Trust: "normal"},
	}
	a := b.explain("p")
	if !slices.Equal(a.Models, want) {
		t.Errorf("got %+v\nwant %+v", a.Models, want)
	}
	// The reason is there before anybody has asked for the model.
	if want := []Reject{{pick.NotVerified, 0}}; !slices.Equal(a.Rejects, want) {
		t.Errorf("rejects: got %v, want %v", a.Rejects, want)
	}
	r := &pick.Request{ID: "r", Model: "shut", PromptTokens: 1}
	if _, err := b.Select(t.Context(), r); err == nil {
		t.Error("a request for the model that is shut: got served, want refused")
	}
	if got, want := b.explain("p").Rejects, []Reject{{pick.NotVerified, 1}}; !slices.Equal(got, want) {
		t.Errorf("rejects after a request: got %v, want %v", got, want)
	}
}

// An endpoint hears why it gets nothing, also while three agents leave no place for it.
func TestAnEndpointHearsThatAgentsComeFirst(t *testing.T) {
	external := func(s *presence.Session) { s.Mode = 2 }
	agent := func(n int, change func(*presence.Session)) presence.Session {
		s := on("a", int64(10+n), change, "m")
		s.Provider = fmt.Sprint("agent ", n)
		return s
	}
	for name, tc := range map[string]struct {
		sessions []presence.Session
		want     bool
	}{
		"alone": {[]presence.Session{on("1", 1, external, "m")}, false},
		"beside three agents": {[]presence.Session{on("1", 1, external, "m"), agent(1, nil), agent(2, nil),
			agent(3, nil)}, true},
		"with an agent of its own": {[]presence.Session{on("1", 1, external, "m"), on("2", 2, nil, "m"),
			agent(1, nil)}, false},
		"beside one that drains": {[]presence.Session{on("1", 1, external, "m"),
			agent(1, func(s *presence.Session) { s.Draining = true })}, false},
	} {
		got := slices.ContainsFunc(setup(tc.sessions...).explain("p").Rejects, func(r Reject) bool {
			return r.Reason == pick.Outranked
		})
		if got != tc.want {
			t.Errorf("%s: the reason is given: got %t, want %t", name, got, tc.want)
		}
	}
}
