package telemetry

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

func TestMetricsAreReadInPrometheusForm(t *testing.T) {
	tel, err := Start(Config{LogLevel: "info", LogFormat: "text"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	counter, err := tel.Meters.Meter("test").Int64Counter("svc.test.things")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(t.Context(), 3)
	rec := httptest.NewRecorder()
	tel.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if body := rec.Body.String(); !strings.Contains(body, "svc_test_things_total 3") {
		t.Errorf(`metrics: body: got %q, want "svc_test_things_total 3" in it`, body)
	} else if !strings.Contains(body, "go_goroutines") {
		t.Errorf(`metrics: body: got %q, want "go_goroutines" in it`, body)
	}
	if err := tel.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestABucketHasTheTraceOfARecordedMeasurement(t *testing.T) {
	tel, err := Start(Config{LogLevel: "info", LogFormat: "text"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	histogram, err := tel.Meters.Meter("test").Float64Histogram("svc.test.times", metric.WithUnit("s"))
	if err != nil {
		t.Fatal(err)
	}
	recorded := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}
	other := trace.SpanContextConfig{TraceID: trace.TraceID{3}, SpanID: trace.SpanID{4}}
	for _, c := range []trace.SpanContextConfig{recorded, other} {
		histogram.Record(trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(c)), 0.2)
	}
	const openMetrics = "application/openmetrics-text; version=1.0.0"
	want, never := `trace_id="`+recorded.TraceID.String()+`"`, `trace_id="`+other.TraceID.String()+`"`
	if text := scrape(tel, openMetrics); !strings.Contains(text, want) {
		t.Errorf("as OpenMetrics: got %s, want %s in it", text, want)
	} else if strings.Contains(text, never) {
		t.Errorf("as OpenMetrics: got %s in it, want only traces that are recorded", never)
	}
	if text := scrape(tel, "text/plain"); strings.Contains(text, "trace_id") {
		t.Errorf("as text: got %s, want it without exemplars, which that form does not have", text)
	}
}

// scrape is what Handler answers to who accepts a form.
func scrape(tel *Telemetry, accept string) string {
	req := httptest.NewRequest("GET", "/metrics", nil)
	req.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	tel.Handler().ServeHTTP(rec, req)
	return rec.Body.String()
}

func TestATraceGoesOnOverATextHop(t *testing.T) {
	tel, err := Start(Config{LogLevel: "info", LogFormat: "json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tel.Traces.Tracer("test").Start(t.Context(), "root")
	defer span.End()
	text := Traceparent(ctx)
	far := trace.SpanContextFromContext(WithTraceparent(context.Background(), text))
	if far.TraceID() != span.SpanContext().TraceID() {
		t.Errorf("far.TraceID(): got %v, want %v, with %q", far.TraceID(), span.SpanContext().TraceID(), text)
	} else if !far.IsValid() {
		t.Errorf("far.IsValid(): got false, want true, with %q", text)
	}
	if ctx := WithTraceparent(context.Background(), "00-zz"); trace.SpanContextFromContext(ctx).IsValid() {
		t.Error("malformed trace context was accepted")
	}
	if Traceparent(context.Background()) != "" {
		t.Error("no trace has a traceparent")
	}
}

func TestABadLogSettingIsRefused(t *testing.T) {
	var out bytes.Buffer
	for _, cfg := range []Config{{LogLevel: "loud", LogFormat: "text"}, {LogLevel: "info", LogFormat: "xml"}} {
		if _, err := NewLog(cfg, &out); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
