package genai

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func start(t *testing.T) (*Metrics, func() map[string]metricdata.Aggregation) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	m, err := New(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	return m, func() map[string]metricdata.Aggregation {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &all); err != nil {
			t.Fatal(err)
		}
		out := map[string]metricdata.Aggregation{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				out[m.Name] = m.Data
			}
		}
		return out
	}
}

func seconds(t *testing.T, data metricdata.Aggregation, attrs ...attribute.KeyValue) (count uint64, sum float64) {
	t.Helper()
	want := attribute.NewSet(append(attrs, attribute.String("gen_ai.operation.name", "chat"),
		attribute.String("gen_ai.provider.name", "svc"), attribute.String("gen_ai.request.model", "acme/m"))...)
	switch h := data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range h.DataPoints {
			if p.Attributes.Equals(&want) {
				return p.Count, p.Sum
			}
		}
	case metricdata.Histogram[int64]:
		for _, p := range h.DataPoints {
			if p.Attributes.Equals(&want) {
				return p.Count, float64(p.Sum)
			}
		}
	}
	return 0, 0
}

func TestAServedStreamIsMeasuredUnderTheConventionsNames(t *testing.T) {
	m, read := start(t)
	m.Record(t.Context(), Request{Operation: Chat, Model: "acme/m", Took: 5 * time.Second, FirstToken: time.Second,
		OutputTokens: 5, Billed: true, BilledInput: 7, BilledOutput: 5})
	got := read()
	for name, want := range map[string]float64{
		"gen_ai.server.request.duration": 5, "gen_ai.server.time_to_first_token": 1, "gen_ai.server.time_per_output_token": 1,
	} {
		if n, sum := seconds(t, got[name]); n != 1 {
			t.Errorf("%s: seconds(t, got[name]): got %d, want 1", name, n)
		} else if sum != want {
			t.Errorf("%s: sum: got %v, want %v", name, sum, want)
		}
	}
	for kind, want := range map[string]float64{"input": 7, "output": 5} {
		if n, sum := seconds(t, got["gen_ai.client.token.usage"], attribute.String("gen_ai.token.type", kind)); n != 1 {
			t.Errorf("%s tokens: seconds(…): got %d, want 1", kind, n)
		} else if sum != want {
			t.Errorf("%s tokens: sum: got %v, want %v", kind, sum, want)
		}
	}
}

func TestAFailedRequestHasItsReasonAndNoTokenTimes(t *testing.T) {
	m, read := start(t)
	m.Record(t.Context(), Request{Operation: Chat, Model: "acme/m", Reason: "upstream_error", Took: time.Second,
		FirstToken: time.Millisecond, OutputTokens: 3})
	got := read()
	if n, _ := seconds(t, got["gen_ai.server.request.duration"], attribute.String("error.type",
		"upstream_error")); n != 1 {
		t.Errorf("duration: got %d, want 1", n)
	}
	if len(got) != 1 {
		t.Errorf("metrics have values: got %d, want 1", len(got))
	}
}

func TestAnAnswerInOnePieceHasNoFirstToken(t *testing.T) {
	m, read := start(t)
	m.Record(t.Context(), Request{Operation: Chat, Model: "acme/m", Took: time.Second, OutputTokens: 9, Billed: true})
	if got := read(); got["gen_ai.server.time_to_first_token"] != nil {
		t.Errorf("measured: got[…]: got %v, want nil", got["gen_ai.server.time_to_first_token"])
	} else if got["gen_ai.server.time_per_output_token"] != nil {
		t.Errorf("measured: got[…]: got %v, want nil", got["gen_ai.server.time_per_output_token"])
	}
}

// What is counted in images or in milliseconds is no number of tokens.
func TestOnlyTokensAreCountedAsTokens(t *testing.T) {
	m, read := start(t)
	for _, o := range []Operation{Images, Transcription} {
		m.Record(t.Context(), Request{Operation: o, Model: "acme/m", Took: time.Second, FirstToken: time.Second,
			OutputTokens: 3, Billed: true, BilledInput: 60_000})
	}
	if got := read(); got["gen_ai.server.request.duration"] == nil {
		t.Error("measured: got[…]: got nil, want a value")
	} else if len(got) != 1 {
		t.Errorf("measured: len(got): got %d, want 1, in %v", len(got), got)
	}
}
