package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// logged is what one line says.
func logged(t *testing.T, out *bytes.Buffer) map[string]any {
	t.Helper()
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	out.Reset()
	return line
}

func TestALineNamesTheRequestAndTheTraceOfItsContext(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLog(Config{LogLevel: "info", LogFormat: "json"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := WithRequestID(trace.ContextWithSpanContext(t.Context(), span), "r-1")
	log.With("service", "s").InfoContext(ctx, "m")
	switch line := logged(t, &out); {
	case line["request_id"] != "r-1":
		t.Errorf(`line["request_id"]: got %v, want "r-1"`, line["request_id"])
	case line["trace_id"] != span.TraceID().String():
		t.Errorf(`line["trace_id"]: got %v, want %v`, line["trace_id"], span.TraceID().String())
	case line["service"] != "s":
		t.Errorf(`line["service"]: got %v, want "s"`, line["service"])
	}
	log.InfoContext(ctx, "m", "request_id", "r-2")
	if bytes.Count(out.Bytes(), []byte("request_id")) != 1 {
		t.Errorf("a line that names a request itself: %s", &out)
	}
	if line := logged(t, &out); line["request_id"] != "r-2" {
		t.Errorf(`line["request_id"]: got %v, want "r-2"`, line["request_id"])
	}
	log.InfoContext(WithRequestID(context.Background(), ""), "m")
	if line := logged(t, &out); len(line) != 3 {
		t.Errorf("a line outside any request: got %d, want 3, in %v", len(line), line)
	}
}
