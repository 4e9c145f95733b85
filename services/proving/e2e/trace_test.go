package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/telemetry/otlptest"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

const (
	rootSpan     = "POST " + trial.ChatPath
	admitSpan    = "svc.billing.v1.AdmissionService/Admit"
	selectSpan   = "svc.router.v1.RouterService/Select"
	dispatchSpan = "svc.hub.v1.DispatchService/Dispatch"
)

// hops are the path of one streamed request through the marketplace: each span with its
// parents.
func hops(model, usage string) [][]string {
	attempt := []string{"attempt", dispatchSpan, dispatchSpan, rootSpan}
	published := slices.Concat([]string{"process " + usage, "publish " + usage}, attempt)
	return [][]string{
		{admitSpan, admitSpan, rootSpan},
		{selectSpan, selectSpan, rootSpan},
		slices.Concat([]string{"chat " + model}, attempt),
		slices.Concat([]string{"settle"}, published),
		slices.Concat([]string{"record earning"}, published),
	}
}

// traceOf is the spans of a request's trace.
func traceOf(spans []otlptest.Span, requestID string) []otlptest.Span {
	root, ok := otlptest.Find(spans, func(s otlptest.Span) bool {
		return s.Name == rootSpan && s.Attributes["svc.request_id"] == requestID
	})
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(spans), func(s otlptest.Span) bool { return s.TraceID != root.TraceID })
}

func missing(spans []otlptest.Span, hops [][]string) []string {
	var out []string
	for _, hop := range hops {
		if _, ok := otlptest.Find(spans, func(s otlptest.Span) bool {
			return slices.Equal(otlptest.Path(spans, s),
				hop)
		}); !ok {
			out = append(out, strings.Join(hop, " < "))
		}
	}
	return out
}

func stream(t *testing.T, m *trial.Market, body string, headers ...string) (requestID string) {
	t.Helper()
	status, header, answer := m.Call(t, http.MethodPost, trial.ChatPath, m.Key(), body, headers...)
	if status != http.StatusOK {
		t.Fatalf("status: got %d, want 200", status)
	}
	if !strings.HasSuffix(string(answer), "data: [DONE]\n\n") {
		t.Fatalf("answer: got %q, want the suffix %q", string(answer), "data: [DONE]\n\n")
	}
	return header.Get(trial.RequestIDHeader)
}

// expectWhole makes a request and waits until its trace has every hop.
func expectWhole(t *testing.T, m *trial.Market, collector *otlptest.Collector) {
	t.Helper()
	const theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
	id := stream(t, m, trial.Chat(m.Model(), `,"stream":true,"max_tokens":8`), "Traceparent",
		"00-"+theirs+"-00f067aa0ba902b7-01")
	var usage string
	all := collector.Wait(t, trial.Patience, "whole trace of "+id, func(spans []otlptest.Span) bool {
		mine := traceOf(spans, id)
		published, _ := otlptest.Find(mine, func(s otlptest.Span) bool { return s.Kind == "PRODUCER" })
		usage = published.Attributes["messaging.destination.name"]
		return usage != "" && len(missing(mine, hops(m.Model(), usage))) == 0
	})
	spans := traceOf(all, id)
	root, _ := otlptest.Find(spans, func(s otlptest.Span) bool { return s.Name == rootSpan })
	switch {
	case root.ParentID != "":
		t.Errorf(`the root is %+v: a consumer's trace is to be linked, not continued: root.ParentID: got %q, want ""`, root,
			root.ParentID)
	case root.Kind != "SERVER":
		t.Errorf(`the root is %+v: a consumer's trace is to be linked, not continued: root.Kind: got %q, want "SERVER"`, root,
			root.Kind)
	case !slices.Equal(root.Links, []string{theirs}):
		t.Errorf("the root is %+v: a consumer's trace is to be linked, not continued: root.Links: got %q, want %q", root,
			root.Links, []string{theirs})
	}
	if root.Attributes["http.route"] != trial.ChatPath {
		t.Errorf(`root.Attributes["http.route"]: got %q, want %q`, root.Attributes["http.route"], trial.ChatPath)
	} else if root.Attributes["http.response.status_code"] != "200" {
		t.Errorf(`root.Attributes[…]: got %q, want "200"`, root.Attributes["http.response.status_code"])
	} else if want := m.Model(); root.Attributes["gen_ai.request.model"] != want {
		t.Errorf("root.Attributes[…]: got %q, want %q", root.Attributes["gen_ai.request.model"], want)
	}
	attempt, _ := otlptest.Find(spans, func(s otlptest.Span) bool { return s.Name == "attempt" })
	if want := []string{"open sent", "first content", "committed", "final synced"}; len(attempt.Events) != 4 {
		t.Errorf("the attempt's events: len(attempt.Events): got %d, want 4, in %q", len(attempt.Events), attempt.Events)
	} else if !slices.Equal(slices.Sorted(slices.Values(attempt.Events)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the attempt's events: slices.Sorted(…): got %q, want %q", slices.Sorted(slices.Values(attempt.Events)),
			slices.Sorted(slices.Values(want)))
	}
	settle, _ := otlptest.Find(spans, func(s otlptest.Span) bool { return s.Name == "settle" })
	switch a := settle.Attributes; {
	case a["svc.request_id"] != id:
		t.Errorf(`the settlement: a["svc.request_id"]: got %q, want %q`, a["svc.request_id"], id)
	case a["svc.source"] != "payg":
		t.Errorf(`the settlement: a["svc.source"]: got %q, want "payg"`, a["svc.source"])
	case a["svc.charged_nano_usd"] == "":
		t.Error(`the settlement: a["svc.charged_nano_usd"]: got "", want some text`)
	case a["svc.charged_nano_usd"] == "0":
		t.Error(`the settlement: a["svc.charged_nano_usd"]: got "0", want any but "0"`)
	}
	earning, _ := otlptest.Find(spans, func(s otlptest.Span) bool { return s.Name == "record earning" })
	if a := earning.Attributes; a["svc.request_id"] != id {
		t.Errorf(`the earning: a["svc.request_id"]: got %q, want %q`, a["svc.request_id"], id)
	} else if a["svc.payout_nano_usd"] == "" {
		t.Error(`the earning: a["svc.payout_nano_usd"]: got "", want some text`)
	}
	for _, s := range spans {
		if s.Failed {
			t.Errorf("%s of a request that was served is marked as failed: %v", s.Name, s.Attributes)
		}
	}
}

func TestOneTraceGoesFromTheRequestToTheLedger(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	collector := otlptest.Start(t)
	expectWhole(t, trial.Start(t, "SVC_OTLP_ENDPOINT="+collector.Endpoint, "SVC_TRACE_RATIO=1"), collector)
}

// The calls and the errors of separate processes cross sockets, and one of the processes
// is a PostgreSQL with a log of its own. Their outputs hold no more than a single
// process's; see TestWhatIsSaidAndWhatOpensDoorsIsWrittenNowhere.
func TestOneTraceGoesThroughSeparateProcessesAndTellsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a fleet of its own")
	}
	t.Parallel() // it has a marketplace of its own
	collector := otlptest.Start(t)
	m := trial.StartFleet(t, func(c *fleet.Config) {
		c.OTLPEndpoint, c.LogLevel = collector.Endpoint, "debug"
		c.Replicas = nil // the demo, with its agent and engine
	})
	expectWhole(t, m, collector)
	services := map[string]bool{}
	for _, s := range collector.Spans() {
		services[s.Resource["service.name"]] = true
	}
	for _, name := range []string{"edge-gateway", "billing-ledger", "router", "provider-hub", "provider-agent",
		"settlement"} {
		if !services[name] {
			t.Errorf("no span names %s as its service; there are %v", name, services)
		}
	}
	canaries := newCanaries(t, m, collector)
	canaries.secretsIn(m.Fleet().Path())
	canaries.live()
	canaries.search(nil, m.Fleet().Path())
}

func TestTheLinesOfARequestAreFoundByItsID(t *testing.T) {
	collector := otlptest.Start(t)
	m := trial.Start(t, "SVC_OTLP_ENDPOINT="+collector.Endpoint, "SVC_LOG_LEVEL=debug", "SVC_LOG_FORMAT=json")
	id := stream(t, m, trial.Chat(m.Model(), `,"stream":true,"max_tokens":8`))
	other := stream(t, m, trial.Chat(m.Model(), `,"stream":true,"max_tokens":8`))
	want := map[string]string{ // by service
		"request": "edge-gateway", "attempt ended": "provider-hub", "usage settled": "billing-ledger",
		"candidates selected": "router",
	}
	var lines []map[string]any
	trial.Until(t, "all lines of "+id, func() bool {
		lines = linesOf(t, m.Log(), id)
		for message := range want {
			if !slices.ContainsFunc(lines, func(line map[string]any) bool { return line["msg"] == message }) {
				return false
			}
		}
		return true
	})
	traceID := ""
	if root, ok := otlptest.Find(collector.Wait(t, trial.Patience, "root span",
		func(s []otlptest.Span) bool { return traceOf(s, id) != nil }),
		func(s otlptest.Span) bool { return s.Attributes["svc.request_id"] == id && s.Name == rootSpan }); ok {
		traceID = root.TraceID
	}
	for _, line := range lines {
		message, _ := line["msg"].(string)
		if service, ok := want[message]; ok {
			if line["service"] != service {
				t.Errorf(`%q is of service: line["service"]: got %v, want %v`, message, line["service"], service)
			} else if line["trace_id"] != traceID {
				t.Errorf(`%q is of service: line["trace_id"]: got %v, want %v`, message, line["trace_id"], traceID)
			}
			if level := map[bool]string{true: "DEBUG", false: "INFO"}[message == "candidates selected"]; line["level"] != level {
				t.Errorf("%q is said at level: got %v, want %v", message, line["level"], level)
			}
			delete(want, message)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: got %d, want 0, in %v", len(want), want)
	}
	for _, text := range strings.Split(m.Log(), "\n") {
		if strings.Contains(text, id) && strings.Contains(text, other) {
			t.Errorf("a line is about both requests: %s", text)
		}
		if strings.Contains(text, `"level":"WARN"`) {
			t.Errorf("in normal operation the log: text: got %q, want it without %q", text, `"level":"WARN"`)
		} else if strings.Contains(text, `"level":"ERROR"`) {
			t.Errorf("in normal operation the log: text: got %q, want it without %q", text, `"level":"ERROR"`)
		}
	}
}

func linesOf(t *testing.T, log, requestID string) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, text := range strings.Split(log, "\n") {
		var line map[string]any
		if strings.HasPrefix(text, "{") && json.Unmarshal([]byte(text), &line) == nil && line["request_id"] == requestID {
			out = append(out, line)
		}
	}
	return out
}
