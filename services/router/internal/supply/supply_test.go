package supply

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/window"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func view(sessions ...presence.Session) *presence.View {
	v := presence.New(func(string) {})
	v.Apply(presence.Report{Hub: "hub", Incarnation: 1, Address: "x", Revision: 1, Sessions: sessions}, start)
	return v
}

func serving(provider string, epoch, window int64, change ...func(*presence.Session)) presence.Session {
	s := presence.Session{
		Provider: provider, ProviderName: "name of " + provider, Node: fmt.Sprint(epoch), Epoch: epoch, Active: true,
		Region: "eu",
		Offers: []presence.Offer{{Model: "m", Healthy: true, Window: window, Quantization: "q" + provider}},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// modelsOf sums up a view of models that the catalog has no window of.
func modelsOf(v *presence.View) []Model { return Models(v, func(string) int64 { return 0 }) }

func TestAWindowAboveTheCatalogsIsShownAsTheCatalogs(t *testing.T) {
	got := Models(view(serving("a", 1, 10_000_000), serving("b", 2, 4_000)), func(string) int64 { return 8_000 })
	if len(got) != 1 || got[0].MinWindow != 4_000 || got[0].MaxWindow != 8_000 {
		t.Errorf("got %+v, want windows from 4,000 to 8,000", got)
	}
}

func TestSupplyCountsProvidersAndTheWindowsTheyReport(t *testing.T) {
	got := modelsOf(view(
		serving("a", 1, 4000), serving("a", 2, 3000), // two nodes: the smaller counts
		serving("b", 3, 9000), serving("b", 4, 0), // one node is silent: so is the provider
		serving("c", 5, 8000),
		serving("d", 6, 1, func(s *presence.Session) { s.Active = false }),
		serving("e", 7, 1, func(s *presence.Session) { s.Draining = true }),
		serving("f", 8, 1, func(s *presence.Session) { s.Offers[0].Healthy = false }),
		serving("g", 9, 1, func(s *presence.Session) { s.Offers[0].Model = "dead"; s.Offers[0].Healthy = false }),
	))
	want := []Model{{ID: "m", Online: 3, Reporting: 2, MinWindow: 3000, MaxWindow: 8000,
		Quantizations: []string{"qa", "qb", "qc"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestASilentModelReportsNoWindow(t *testing.T) {
	got := modelsOf(view(serving("a", 1, 0)))
	if len(got) != 1 || got[0].Reporting != 0 || got[0].MinWindow != 0 || got[0].MaxWindow != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestOfferingsAreOnePerProviderWithItsFigures(t *testing.T) {
	known := health.New()
	known.Get(health.Pair{Provider: "b", Model: "m"}).Window.Record(window.Sample{At: start, Served: true,
		FirstContent: time.Second})
	got := Offerings(view(serving("b", 1, 100), serving("b", 2, 50), serving("a", 3, 0)), known, "m", start)
	if len(got) != 2 || got[0].Provider != "a" || got[1].Window != 50 || got[1].Region != "eu" {
		t.Fatalf("got %+v", got)
	}
	if got[0].Figures.Samples != 0 || got[1].Figures.FirstContentP50 != time.Second {
		t.Errorf("figures %+v", got)
	}
}

// What hubs say of a provider may differ for a moment between its nodes: the
// newest is right, and windows are the smallest whatever the order.
func TestAProviderOfSeveralNodesIsOneOfferingWithWhatTheNewestSays(t *testing.T) {
	old := serving("a", 1, 4000, func(s *presence.Session) { s.Probation = true })
	silent := serving("b", 2, 0, func(s *presence.Session) { s.Uptime, s.UptimeKnown = 0.5, true })
	v := view(old, silent,
		serving("a", 3, 9000, func(s *presence.Session) { s.Uptime, s.UptimeKnown = 0.75, true }),
		serving("b", 4, 8000, func(s *presence.Session) { s.Probation = true }),
		serving("b", 5, 1, func(s *presence.Session) { s.Draining = true }))
	got := Offerings(v, health.New(), "m", start)
	if len(got) != 2 {
		t.Fatalf("got %+v", got)
	}
	if a := got[0]; a.Window != 4000 || a.Probation || !a.UptimeKnown || a.Uptime != 0.75 {
		t.Errorf("a is %+v", a)
	}
	if b := got[1]; b.Window != 0 || !b.Probation || b.UptimeKnown {
		t.Errorf("b is %+v", b)
	}
	if m := modelsOf(v)[0]; m.Online != 2 || m.Reporting != 1 || m.MinWindow != 4000 || m.MaxWindow != 4000 {
		t.Errorf("model %+v", m)
	}
}

func TestOfferingsAndQuantizationsAreBounded(t *testing.T) {
	sessions := make([]presence.Session, 0, MaxOfferings+5)
	for i := range MaxOfferings + 5 {
		sessions = append(sessions, serving(fmt.Sprintf("p%05d", i), int64(i+1), 0))
	}
	v := view(sessions...)
	if n := len(Offerings(v, health.New(), "m", start)); n != MaxOfferings {
		t.Errorf("%d offerings", n)
	}
	if m := modelsOf(v)[0]; len(m.Quantizations) != MaxQuantizations || m.Online != MaxOfferings+5 {
		t.Errorf("%d quantizations, %d online", len(m.Quantizations), m.Online)
	}
}

func BenchmarkModels(b *testing.B) {
	sessions := make([]presence.Session, 0, 10_000)
	for i := range cap(sessions) {
		sessions = append(sessions, serving(fmt.Sprintf("p%05d", i), int64(i+1), 4096))
	}
	v := view(sessions...)
	b.ReportAllocs()
	for b.Loop() {
		modelsOf(v)
	}
}
