package supply

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/trust"
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

// of returns the sources of a view, with a catalog's window of every model and what the
// verifier says of model m, by provider.
func of(v *presence.View, catalog int64, said map[string]trust.Opinion) Sources {
	registry := trust.New(func(string) {})
	for provider, o := range said {
		o.Model, o.Revision = "m", 1
		registry.Apply(trust.Report{Provider: provider, Revision: 1, Opinions: []trust.Opinion{o}})
	}
	return Sources{View: v, Health: health.New(), Trust: registry, Windows: func(string) int64 { return catalog }}
}

// modelsOf sums up a view of models that the catalog has no window of.
func modelsOf(v *presence.View) []Model { return of(v, 0, nil).Models() }

func TestAWindowAboveTheCatalogsIsShownAsTheCatalogs(t *testing.T) {
	got := of(view(serving("a", 1, 10_000_000), serving("b", 2, 4_000)), 8_000, nil).Models()
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
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestASilentModelReportsNoWindow(t *testing.T) {
	got := modelsOf(view(serving("a", 1, 0)))
	switch {
	case len(got) != 1:
		t.Errorf("len(got): got %d, want 1, in %+v", len(got), got)
	case got[0].Reporting != 0:
		t.Errorf("got[0].Reporting: got %d, want 0", got[0].Reporting)
	case got[0].MinWindow != 0:
		t.Errorf("got[0].MinWindow: got %d, want 0", got[0].MinWindow)
	case got[0].MaxWindow != 0:
		t.Errorf("got[0].MaxWindow: got %d, want 0", got[0].MaxWindow)
	}
}

func TestOfferingsAreOnePerProviderWithItsFigures(t *testing.T) {
	from := of(view(serving("b", 1, 100), serving("b", 2, 50), serving("a", 3, 0)), 0, nil)
	from.Health.Get(health.Pair{Provider: "b", Model: "m"}).Window.Record(window.Sample{At: start, Served: true,
		FirstContent: time.Second})
	got := from.Offerings("m", start)
	switch {
	case len(got) != 2:
		t.Fatalf("len(got): got %d, want 2, in %+v", len(got), got)
	case got[0].Provider != "a":
		t.Fatalf(`got[0].Provider: got %q, want "a"`, got[0].Provider)
	case got[1].Window != 50:
		t.Fatalf("got[1].Window: got %d, want 50", got[1].Window)
	case got[1].Region != "eu":
		t.Fatalf(`got[1].Region: got %q, want "eu"`, got[1].Region)
	}
	if got[0].Figures.Samples != 0 {
		t.Errorf("got[0].Figures.Samples: got %d, want 0", got[0].Figures.Samples)
	} else if got[1].Figures.FirstContentP50 != time.Second {
		t.Errorf("got[1].Figures.FirstContentP50: got %v, want %v", got[1].Figures.FirstContentP50, time.Second)
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
	got := of(v, 0, nil).Offerings("m", start)
	if len(got) != 2 {
		t.Fatalf("len(got): got %d, want 2, in %+v", len(got), got)
	}
	switch a := got[0]; {
	case a.Window != 4000:
		t.Errorf("a.Window: got %d, want 4000", a.Window)
	case a.Probation:
		t.Error("a.Probation: got true, want false")
	case !a.UptimeKnown:
		t.Error("a.UptimeKnown: got false, want true")
	case a.Uptime != 0.75:
		t.Errorf("a.Uptime: got %v, want 0.75", a.Uptime)
	}
	switch b := got[1]; {
	case b.Window != 0:
		t.Errorf("b.Window: got %d, want 0", b.Window)
	case !b.Probation:
		t.Error("b.Probation: got false, want true")
	case b.UptimeKnown:
		t.Error("b.UptimeKnown: got true, want false")
	}
	switch m := modelsOf(v)[0]; {
	case m.Online != 2:
		t.Errorf("model: m.Online: got %d, want 2", m.Online)
	case m.Reporting != 1:
		t.Errorf("model: m.Reporting: got %d, want 1", m.Reporting)
	case m.MinWindow != 4000:
		t.Errorf("model: m.MinWindow: got %d, want 4000", m.MinWindow)
	case m.MaxWindow != 4000:
		t.Errorf("model: m.MaxWindow: got %d, want 4000", m.MaxWindow)
	}
}

func TestOfferingsAndQuantizationsAreBounded(t *testing.T) {
	sessions := make([]presence.Session, 0, MaxOfferings+5)
	for i := range MaxOfferings + 5 {
		sessions = append(sessions, serving(fmt.Sprintf("p%05d", i), int64(i+1), 0))
	}
	v := view(sessions...)
	if n := len(of(v, 0, nil).Offerings("m", start)); n != MaxOfferings {
		t.Errorf("offerings: got %d, want %d", n, MaxOfferings)
	}
	if m := modelsOf(v)[0]; len(m.Quantizations) != MaxQuantizations {
		t.Errorf("len(m.Quantizations): got %d, want %d", len(m.Quantizations), MaxQuantizations)
	} else if m.Online != MaxOfferings+5 {
		t.Errorf("m.Online: got %d, want %d", m.Online, MaxOfferings+5)
	}
}

func BenchmarkModels(b *testing.B) {
	sessions := make([]presence.Session, 0, 10_000)
	for i := range cap(sessions) {
		sessions = append(sessions, serving(fmt.Sprintf("p%05d", i), int64(i+1), 4096))
	}
	v := view(sessions...)
	b.ReportAllocs()
	from := of(v, 0, nil)
	for b.Loop() {
		from.Models()
	}
}

func TestAMeasuredWindowIsTheSupplysAndCountsAsReported(t *testing.T) {
	t.Parallel()
	v := view(serving("capped", 1, 6000), serving("silent", 2, 0), serving("measured", 3, 0), serving("larger", 4, 9000))
	got := of(v, 8000, map[string]trust.Opinion{
		"capped": {Trust: 1, Window: 1000}, "measured": {Trust: 1, Window: 5000}, "larger": {Trust: 1, Window: 9500},
	}).Models()
	if len(got) != 1 {
		t.Fatalf("models: got %+v, want one", got)
	}
	if got[0].Online != 4 {
		t.Errorf("online: got %d, want 4", got[0].Online)
	}
	if got[0].Reporting != 3 {
		t.Errorf("reporting: got %d, want 3", got[0].Reporting)
	}
	if got[0].MinWindow != 1000 {
		t.Errorf("smallest window: got %d, want 1000", got[0].MinWindow)
	}
	if got[0].MaxWindow != 9000 {
		t.Errorf("largest window: got %d, want 9000", got[0].MaxWindow)
	}
}

func TestAModelThatIsShutIsNoSupplyAndNoOffering(t *testing.T) {
	t.Parallel()
	from := of(view(serving("a", 1, 1000), serving("b", 2, 4000)), 8000,
		map[string]trust.Opinion{"a": {Trust: 0.05, Lane: trust.Shut}})
	want := []Model{{ID: "m", Online: 1, Reporting: 1, MinWindow: 4000, MaxWindow: 4000, Quantizations: []string{"qb"}}}
	if got := from.Models(); !reflect.DeepEqual(got, want) {
		t.Errorf("supply: got %+v, want %+v", got, want)
	}
	for _, o := range from.Offerings("m", start) {
		if o.Provider != "b" {
			t.Errorf("offerings: got one of %q, want b's alone", o.Provider)
		}
	}
	alone := of(view(serving("a", 1, 1000)), 8000, map[string]trust.Opinion{"a": {Trust: 0.05, Lane: trust.Shut}})
	if got := alone.Models(); len(got) != 0 {
		t.Errorf("supply where all are shut: got %+v, want none", got)
	}
}

func TestAnOfferingSaysItsWindowAndTrust(t *testing.T) {
	t.Parallel()
	got := of(view(serving("a", 1, 6000), serving("b", 2, 0), serving("c", 3, 9000), serving("d", 4, 6000)), 8000,
		map[string]trust.Opinion{
			"a": {Trust: 0.96, Window: 1000}, "b": {Trust: 1, Lane: trust.Probe},
		}).Offerings("m", start)
	for i, want := range []struct {
		window int64
		source contextwindow.Source
		trust  float64
	}{
		{1000, contextwindow.Measured, 0.96},
		{8000, contextwindow.Catalog, 0}, // who gets probes only is not shown as trusted
		{8000, contextwindow.Catalog, 0},
		{6000, contextwindow.Reported, 0},
	} {
		if got[i].Window != want.window {
			t.Errorf("%s: window: got %d, want %d", got[i].Provider, got[i].Window, want.window)
		}
		if got[i].Source != want.source {
			t.Errorf("%s: source: got %d, want %d", got[i].Provider, got[i].Source, want.source)
		}
		if got[i].Trust != want.trust {
			t.Errorf("%s: trust: got %v, want %v", got[i].Provider, got[i].Trust, want.trust)
		}
	}
}

func TestAnOfferingHasTheModeInWhichItIsTriedFirst(t *testing.T) {
	webSocket := func(s *presence.Session) { s.Mode = presence.WebSocket }
	external := func(s *presence.Session) { s.Mode = 2 }
	for name, tc := range map[string]struct {
		sessions []presence.Session
		want     presence.Mode
	}{
		"an agent":    {[]presence.Session{serving("a", 1, 0, webSocket)}, presence.WebSocket},
		"an endpoint": {[]presence.Session{serving("a", 1, 0, external)}, 2},
		"both, the endpoint newer": {[]presence.Session{serving("a", 1, 0, webSocket),
			serving("a", 2, 0, external)}, presence.WebSocket},
		"both, the endpoint older": {[]presence.Session{serving("a", 1, 0, external),
			serving("a", 2, 0, webSocket)}, presence.WebSocket},
	} {
		s := of(view(tc.sessions...), 0, nil)
		if models := s.Models(); len(models) != 1 {
			t.Errorf("%s: models: got %+v, want one", name, models)
		} else if models[0].Online != 1 {
			t.Errorf("%s: providers online: got %d, want 1", name, models[0].Online)
		}
		got := s.Offerings("m", start)
		if len(got) != 1 {
			t.Fatalf("%s: offerings: got %d, want 1", name, len(got))
		}
		if got[0].Mode != tc.want {
			t.Errorf("%s: got %d, want %d", name, got[0].Mode, tc.want)
		}
	}
}

func TestAVendorIsSupplyWhateverTheVerifierSays(t *testing.T) {
	v := view(serving("a", 1, 0, func(s *presence.Session) { s.Vendor = true }), serving("b", 2, 0))
	got := of(v, 0, map[string]trust.Opinion{"a": {Trust: 1, Lane: trust.Shut}, "b": {Trust: 1, Lane: trust.Shut}}).
		Offerings("m", start)
	if len(got) != 1 {
		t.Fatalf("offerings: got %d, want 1", len(got))
	}
	if got[0].Provider != "a" {
		t.Errorf("got %q, want the vendor", got[0].Provider)
	}
}

func TestAProviderIsOnlineForTheModelsThatItServes(t *testing.T) {
	more := func(models ...string) func(*presence.Session) {
		return func(s *presence.Session) {
			for _, m := range models {
				s.Offers = append(s.Offers, presence.Offer{Model: m, Healthy: true})
			}
		}
	}
	got := of(view(
		serving("b", 1, 100, more("n", "o")), serving("b", 2, 100, more("n")),
		serving("a", 3, 100, func(s *presence.Session) { s.Vendor = true }),
		serving("d", 4, 1, func(s *presence.Session) { s.Active = false }),
		serving("e", 5, 1, func(s *presence.Session) { s.Draining = true }),
		serving("f", 6, 1, func(s *presence.Session) { s.Offers[0].Healthy = false }),
		serving("g", 7, 1),
	), 0, map[string]trust.Opinion{"g": {Lane: trust.Shut}}).Providers()
	want := []Provider{
		{ID: "a", Name: "name of a", Region: "eu", Models: 1, Vendor: true},
		{ID: "b", Name: "name of b", Region: "eu", Models: 3},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheProvidersOnlineAreBounded(t *testing.T) {
	sessions := make([]presence.Session, MaxProviders+1)
	for i := range sessions {
		sessions[i] = serving(fmt.Sprintf("%05d", i), int64(i+1), 1)
	}
	if got := len(of(view(sessions...), 0, nil).Providers()); got != MaxProviders {
		t.Errorf("got %d providers, want %d", got, MaxProviders)
	}
}
