package edgegateway

import (
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	hubv1 "svc.internal/proto/svc/hub/v1"
)

// measured is a gateway whose metrics are read.
func measured(t *testing.T) (*fleet, func(name string) metricdata.Aggregation) {
	t.Helper()
	f := newFleet(t)
	reader := sdkmetric.NewManualReader()
	deps := f.deps()
	deps.Meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	svc, err := New(t.Context(), f.cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	f.svc = svc
	f.start()
	return f, func(name string) metricdata.Aggregation {
		t.Helper()
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if m.Name == name {
					return m.Data
				}
			}
		}
		return nil
	}
}

// streams answers with a stream for whose first content the provider took so long, by the
// hub's word; 0 says nothing.
func streams(took time.Duration) func(*played) error {
	return func(p *played) error {
		return p.steps(func() error {
			return p.send(&hubv1.DispatchEvent{Json: []byte(helloChunk), FirstContent: true, CompletionTokens: 1,
				ProviderUs: took.Microseconds()})
		}, p.committed, func() error { return p.finish(9, 1) })
	}
}

func TestWhatTheMarketplaceAddsToAFirstTokenIsTheRestBesideTheProvidersTime(t *testing.T) {
	f, collect := measured(t)
	const name = "svc.edge_gateway.first_content.added"
	count := func() (n uint64, sum float64) {
		if h, ok := collect(name).(metricdata.Histogram[float64]); ok {
			for _, point := range h.DataPoints {
				n, sum = n+point.Count, sum+point.Sum
			}
		}
		return n, sum
	}
	f.hub.set(streams(0))
	read(t, f.post(helloStream))
	if n, _ := count(); n != 0 {
		t.Errorf("a hub that does not say: got %d measurements, want 0", n)
	}
	// The provider cannot have taken an hour of it, so nothing is left, and never less.
	f.hub.set(streams(time.Hour))
	read(t, f.post(helloStream))
	n, sum := count()
	if n != 1 {
		t.Errorf("a hub that says: got %d measurements, want 1", n)
	}
	if sum < 0 || sum > 0.001 {
		t.Errorf("what was added: got %v s, want nearly 0", sum)
	}
}

func TestRefusalsAreCountedByRouteAndOurCode(t *testing.T) {
	f, collect := measured(t)
	read(t, f.post(strings.Replace(hello, modelID, "acme/none", 1)))
	read(t, f.post(hello))
	refusals, ok := collect("svc.edge_gateway.refusals").(metricdata.Sum[int64])
	if !ok {
		t.Fatal("got no refusals, want one")
	}
	if len(refusals.DataPoints) != 1 {
		t.Fatalf("sets: got %d, want 1: an answer is none", len(refusals.DataPoints))
	}
	point := refusals.DataPoints[0]
	want := attribute.NewSet(attribute.String("http.route", "/v1/chat/completions"),
		attribute.String("code", "model_not_found"))
	if !point.Attributes.Equals(&want) {
		t.Errorf("attributes: got %v, want %v", point.Attributes.ToSlice(), want.ToSlice())
	}
	if point.Value != 1 {
		t.Errorf("refusals: got %d, want 1", point.Value)
	}
}
