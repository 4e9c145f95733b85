package telemetry

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

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
