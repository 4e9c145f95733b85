//go:build watch

package watch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/telemetry/otlptest"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// line is one line of a log.
type line struct {
	Service string `json:"-"`
	Message string `json:"msg"`
	Trace   string `json:"trace_id"`
	Request string `json:"request_id"`
}

// linesOf returns the lines of all services with a trace.
func linesOf(t *testing.T, f *fleet.Fleet, trace string) []line {
	t.Helper()
	var found []line
	for _, service := range fleet.Services() {
		for _, name := range f.Replicas(service) {
			text, err := os.ReadFile(f.LogPath(name))
			if err != nil {
				t.Fatal(err)
			}
			scanner := bufio.NewScanner(bytes.NewReader(text))
			scanner.Buffer(nil, 1<<20)
			for scanner.Scan() {
				l := line{Service: service}
				if json.Unmarshal(scanner.Bytes(), &l) == nil && l.Trace == trace {
					found = append(found, l)
				}
			}
		}
	}
	return found
}

// TestOneIdFindsARequestInLogsAndMetrics makes one request whose trace is recorded.
func TestOneIdFindsARequestInLogsAndMetrics(t *testing.T) {
	collector := otlptest.Start(t)
	m := trial.StartFleet(t, func(c *fleet.Config) {
		c.Replicas[fleet.Agent], c.Replicas[fleet.Engine] = 1, 1
		c.LogLevel, c.OTLPEndpoint = "debug", collector.Endpoint
	})
	s := startPrometheus(t, m.Fleet())
	status, header, _ := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(), trial.Chat(m.Model(), `,"stream":true`))
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200", status)
	}
	id := header.Get(trial.RequestIDHeader)
	trace := traceOf(t, collector, id)
	var lines []line
	trial.Until(t, "the request is in the logs of its services", func() bool {
		lines = linesOf(t, m.Fleet(), trace)
		for _, service := range []string{fleet.Gateway, fleet.Hub, fleet.Billing} {
			if !slices.ContainsFunc(lines, func(l line) bool { return l.Service == service }) {
				return false
			}
		}
		return true
	})
	for _, l := range lines {
		if l.Request != id {
			t.Errorf("%s: %q: got the request_id %q, want %s", l.Service, l.Message, l.Request, id)
		}
	}
	for _, metric := range []string{"svc_edge_gateway_request_duration_seconds_bucket",
		"svc_edge_gateway_first_content_seconds_bucket", "svc_edge_gateway_first_content_added_seconds_bucket",
		"rpc_client_call_duration_seconds_bucket", "rpc_server_call_duration_seconds_bucket"} {
		trial.Until(t, "an exemplar of "+metric, func() bool { return slices.Contains(s.exemplars(t, metric), trace) })
	}
}

// traceOf waits for the trace of a request.
func traceOf(t *testing.T, collector *otlptest.Collector, id string) string {
	t.Helper()
	of := func(s otlptest.Span) bool { return s.Attributes["svc.request_id"] == id }
	spans := collector.Wait(t, trial.Patience, "a span of "+id, func(spans []otlptest.Span) bool {
		_, ok := otlptest.Find(spans, of)
		return ok
	})
	root, _ := otlptest.Find(spans, of)
	return root.TraceID
}

// exemplars are the traces of a metric's exemplars.
func (s *server) exemplars(t *testing.T, metric string) []string {
	t.Helper()
	var data []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	now := time.Now()
	s.ask(t, "query_exemplars", url.Values{"query": {metric}, "start": {now.Add(-time.Hour).Format(time.RFC3339)},
		"end": {now.Add(time.Minute).Format(time.RFC3339)}}, &data)
	var traces []string
	for _, series := range data {
		for _, e := range series.Exemplars {
			traces = append(traces, e.Labels["trace_id"])
		}
	}
	return traces
}
