package providerhub_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// Two connections of one node: the newer has it, both hear of it, and what the
// older still says has no effect.
func TestHostile10_V1NewestConnectionWinsAndBothAreTold(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	m := w.active()
	older := w.join(m, fakeagent.V1Options{GuardAfter: 1, Timing: strict()})
	call := w.call(w.order(older, true))
	r := older.request()
	must(t, r.Text("Hello world"))
	call.content()
	stale := w.order(older, true)
	newer := w.byHand()
	ack := decode[v1Ack](t, newer.registerByHand(m, older.NodeID(), nil))
	if end := call.rest(); end.failed == nil {
		t.Error("stream of the older: end.failed: got nil, want a value")
	} else if end.failed.GetRetryable() {
		t.Errorf("stream of the older: end.failed.GetRetryable(): got true, want false, with %v", end.failed)
	}
	older.until("the older is told", func(fakeagent.V1State) bool { return len(older.heard("error")) > 0 })
	if e := decode[struct{ Code int }](t, older.heard("error")[0]); e.Code != 409 {
		t.Errorf("the older is told: got %d, want 409, with %s", e.Code, older.heard("error")[0].Payload)
	}
	if !strings.Contains(ack.Message, "another") {
		t.Errorf(`the newer is told: got %q, want "another" in it`, ack.Message)
	}
	_ = r.Text("an older epoch's chunk")
	_ = r.Done()
	_ = r.End()
	if err := w.call(stale).err(); !fault.Is(err, fault.SessionGone) {
		t.Errorf("dispatch to the older epoch: got the error %v, want the reason %v", err, fault.SessionGone)
	}
	s := w.told("the newer", older.node, func(s *eventsv1.Session) bool { return s.GetEpoch() > stale.GetEpoch() })
	second := w.call(v1Order(t, m, s.GetNodeId(), s.GetEpoch(), false))
	id := newer.next("inference").RequestID
	newer.send("ack", id, map[string]any{"request_id": id, "response": json.RawMessage(fakeagent.V1Completion("mine",
		10, 1)), "latency_ms": 1})
	if end := second.rest(); end.finished == nil {
		t.Errorf("the newer: %v", end.failed)
	}
	usage.next(2)
	if usage.count() != 2 {
		t.Errorf("usage events for two requests: got %d, want 2", usage.count())
	}
}

func TestHostile10_AnAgentOfEitherDialectSupersedesTheOther(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	second := w.dial(m, fakeagent.Options{NodeID: "rack-1.gpu_2"})
	first := w.join(m, fakeagent.V1Options{NodeID: "rack-1.gpu_2", GuardAfter: 1, Timing: strict()})
	wait(t, "the end of the older", second.Closed())
	if why := second.Farewell(); why.GetCode() != "superseded" {
		t.Errorf(`farewell: got %q, want "superseded"`, why.GetCode())
	}
	third := w.dial(m, fakeagent.Options{NodeID: "rack-1.gpu_2"})
	first.until("the older is told", func(fakeagent.V1State) bool { return len(first.heard("error")) > 0 })
	must(t, third.Heartbeat(t.Context()))
}

// What agents call themselves and their models reaches nobody but as bounded,
// printable text, and a model id that is none is not offered at all.
func TestHostile12_WhatAgentsCallThingsIsCleaned(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	h := w.byHand()
	nasty := []string{
		"<script>alert(1)</script>", "=cmd|' /C calc'!A0", "a\x00b", "line\nbreak", "\u202egnp.exe",
		strings.Repeat("x", 10_000),
		"../../etc/passwd", "", " ", testModel,
	}
	node := fakeagent.V1NodeKey("<img src=x onerror=alert(1)>")
	h.registerByHand(m, node, map[string]any{
		"node_name": "<script>\x1b[31m" + strings.Repeat("y", 5000), "worker_addr": nasty[0], "owner_addr": nasty[1],
		"models": nasty,
		"model_hashes": []map[string]any{{"model_id": testModel, "format": nasty[2], "quantization": nasty[0] +
			strings.Repeat("q", 5000)}},
		"capabilities": []string{"<b>", "inference"},
		"hardware":     map[string]any{"gpu_type": nasty[0], "gpu_model": "a\x00b\n" + nasty[5], "serving_engine": nasty[5]},
	})
	s := w.told("the session", fakeagent.V1HubNode(node), func(s *eventsv1.Session) bool { return len(s.GetModels()) > 0 })
	for _, offer := range s.GetModels() {
		if offer.GetModelId() != testModel && strings.ContainsAny(offer.GetModelId(), "<>=|'\" \x00\n") {
			t.Errorf("model %q is offered: strings.ContainsAny(…): got true, want false, where offer.GetModelId() != testModel",
				offer.GetModelId())
		} else if len(offer.GetModelId()) > 256 {
			t.Errorf("model %q is offered: len(offer.GetModelId()): got %d, want at most 256", offer.GetModelId(),
				len(offer.GetModelId()))
		}
	}
	b, err := json.Marshal(s)
	must(t, err)
	if len(b) > 8<<10 {
		t.Errorf("the session takes: got %d, want at most 8<<10", len(b))
	}
	for _, text := range append([]string{s.GetNodeId(), s.GetRegion(), s.GetModels()[0].GetQuantization()},
		s.GetCapabilities()...) {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("routers are told %q", text)
		}
	}
	detail, err := w.hub.admin.GetProviderDetail(t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: m.id})
	must(t, err)
	if text := detail.String(); strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("operators are shown: got %q, want no escape and no change of direction in it", text)
	}
}

func TestHostile33_ClaimsBeyondWhatWasDeliveredAreNotBelieved(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	a := w.join(w.active(), fakeagent.V1Options{})
	call := w.call(w.order(a, true))
	r := a.request()
	must(t, r.Text("Hello world"))
	must(t, r.Finish("stop"))
	must(t, r.Usage(10, 1_000_000))
	must(t, r.Done())
	must(t, r.End()) // with tokens_output as claimed
	if end := call.rest(); end.finished.GetBillableCompletionTokens() > 20 {
		t.Errorf("finished: got %d, want at most 20", end.finished.GetBillableCompletionTokens())
	}
	e := usage.next(1)
	switch {
	case e.GetClaimState() != eventsv1.ClaimState_CLAIM_STATE_ABSURD:
		t.Errorf("usage: e.GetClaimState(): got %v, want %v", e.GetClaimState(), eventsv1.ClaimState_CLAIM_STATE_ABSURD)
	case e.GetBillableCompletionTokens() != e.GetRecountedCompletionTokens():
		t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want %d", e.GetBillableCompletionTokens(),
			e.GetRecountedCompletionTokens())
	case e.GetBillableCompletionTokens() == 0 || e.GetBillableCompletionTokens() > 20:
		t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want 1 to 20", e.GetBillableCompletionTokens())
	}
	whole := w.call(w.order(a, false))
	must(t, a.request().Whole(fakeagent.V1Completion("Hello world", 10, 1_000_000)))
	whole.rest()
	if e := usage.next(2); e.GetBillableCompletionTokens() > 20 {
		t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want at most 20", e.GetBillableCompletionTokens())
	} else if e.GetClaimState() != eventsv1.ClaimState_CLAIM_STATE_ABSURD {
		t.Errorf("usage: e.GetClaimState(): got %v, want %v", e.GetClaimState(), eventsv1.ClaimState_CLAIM_STATE_ABSURD)
	}
}

// TestHostile34_V1BrokenUsageIsCountedByTheHub sends usages of every kind in
// chunks, and counts of every kind at the end of the stream, which are not what
// is believed.
func TestHostile34_V1BrokenUsageIsCountedByTheHub(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	a := w.join(w.active(), fakeagent.V1Options{Rate: -1})
	valid := `{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}`
	billed := 0
	for _, c := range []struct {
		usage, end string
		state      eventsv1.ClaimState
	}{
		{`{"prompt_tokens":-1,"completion_tokens":2,"total_tokens":1}`, ``, eventsv1.ClaimState_CLAIM_STATE_ABSURD},
		{`{"prompt_tokens":10,"completion_tokens":2.5,"total_tokens":12.5}`, ``, eventsv1.ClaimState_CLAIM_STATE_ABSURD},
		{`{"prompt_tokens":"10","completion_tokens":"2","total_tokens":"12"}`, ``, eventsv1.ClaimState_CLAIM_STATE_ABSURD},
		{`{"prompt_tokens":10,"completion_tokens":18446744073709551616,"total_tokens":1}`, ``,
			eventsv1.ClaimState_CLAIM_STATE_ABSURD},
		{`[]`, ``, eventsv1.ClaimState_CLAIM_STATE_ABSURD},
		{valid, `,"tokens_input":-5,"tokens_output":-7`, eventsv1.ClaimState_CLAIM_STATE_VALID},
		{valid, `,"tokens_input":1e300,"tokens_output":1000000`, eventsv1.ClaimState_CLAIM_STATE_VALID},
		{valid, `,"tokens_input":"10","tokens_output":[2]`, eventsv1.ClaimState_CLAIM_STATE_VALID},
		{valid, `,"tokens_input":18446744073709551616,"tokens_output":2.5`, eventsv1.ClaimState_CLAIM_STATE_VALID},
	} {
		call := w.call(w.order(a, true))
		r := a.request()
		must(t, r.Text("Hello world"))
		must(t, r.Finish("stop"))
		must(t, r.RawChunk(json.RawMessage(`{"choices":[],"usage":`+c.usage+`}`)))
		must(t, r.Done())
		must(t, a.SendRaw(1,
			fmt.Appendf(nil, `{"type":"stream_end","request_id":%q,"payload":{"request_id":%q,"latency_ms":1%s}}`, r.ID, r.ID,
				c.end)))
		if end := call.rest(); end.finished == nil {
			t.Fatalf("%s %s: %v", c.usage, c.end, end.failed)
		}
		billed++
		switch e := usage.next(billed); {
		case e.GetClaimState() != c.state:
			t.Errorf("%s %s: usage: e.GetClaimState(): got %v, want %v", c.usage, c.end, e.GetClaimState(), c.state)
		case e.GetBillableCompletionTokens() == 0 || e.GetBillableCompletionTokens() > 20:
			t.Errorf("%s %s: usage: e.GetBillableCompletionTokens(): got %d, want 1 to 20", c.usage, c.end,
				e.GetBillableCompletionTokens())
		case c.state == eventsv1.ClaimState_CLAIM_STATE_VALID && e.GetBillableCompletionTokens() != 2:
			t.Errorf("%s %s: usage: e.GetBillableCompletionTokens(): got %d, want 2", c.usage, c.end,
				e.GetBillableCompletionTokens())
		}
	}
	a.alive()
}

func TestHostile35_TheConsumerSeesTheModelItAskedFor(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	for _, chunk := range []string{
		`{"model":"cheap/other","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"model":"cheap\u002fother"}`,
		`{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"mod\u0065l":"cheap/other"}`,
		`{"model":null,"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`,
	} {
		call := w.call(w.order(a, true))
		r := a.request()
		must(t, r.RawChunk(json.RawMessage(chunk)))
		must(t, r.Finish("stop"))
		must(t, r.Done())
		must(t, r.End())
		for _, e := range call.rest().texts() {
			var got map[string]any
			must(t, json.Unmarshal([]byte(e), &got))
			if got["model"] != testModel && got["model"] != nil {
				t.Errorf(`%s: got["model"]: got %v, want nil, where got["model"] != testModel`, chunk, got["model"])
			} else if strings.Contains(e, "other") {
				t.Errorf(`%s: e: got %q, want it without "other"`, chunk, e)
			}
		}
	}
}

// One provider that names another's request reaches nobody's but its own.
func TestHostile36_V1AnswersToAnothersRequestHaveNoEffect(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	victim := w.join(w.active(), fakeagent.V1Options{})
	thief := w.join(w.active(), fakeagent.V1Options{NodeName: "thief"})
	call := w.call(w.order(victim, true))
	r := victim.request()
	must(t, r.Text("Hello"))
	call.content()
	for _, id := range []string{r.ID} {
		must(t, thief.Send("stream_chunk", id, map[string]any{"request_id": id,
			"chunk": json.RawMessage(`{"choices":[{"index":0,"delta":{"content":"stolen"}}]}`), "done": false}))
		must(t, thief.Send("stream_chunk", id, map[string]any{"request_id": id, "chunk": nil, "done": true}))
		must(t, thief.Send("stream_end", id, map[string]any{"request_id": id, "latency_ms": 1}))
		must(t, thief.Send("ack", id, map[string]any{"request_id": id, "response": nil, "error": "x", "status_code": 500}))
		must(t, thief.Send("error", id, map[string]any{"request_id": id, "code": 500, "message": "x"}))
	}
	// The thief's own request shows that all of it was read.
	own := w.call(w.order(thief, false))
	go fakeagent.V1Answer("own")(thief.request())
	if end := own.rest(); end.finished == nil {
		t.Errorf("the thief's own request: %v", end.failed)
	}
	go fakeagent.V1Answer(" world")(r)
	end := call.rest()
	switch text := strings.Join(end.texts(), ""); {
	case end.finished == nil:
		t.Error("the other's stream: end.finished: got nil, want a value")
	case strings.Contains(text, "stolen"):
		t.Errorf(`the other's stream: text: got %q, want it without "stolen"`, text)
	case !strings.Contains(text, " world"):
		t.Errorf(`the other's stream: text: got %q, want " world" in it`, text)
	}
	victim.alive()
}

// Nothing comes of what an agent says of a request that it has ended.
func TestHostile36_V1FramesBehindTheEndHaveNoEffect(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	a := w.join(w.active(), fakeagent.V1Options{})
	call := w.call(w.order(a, true))
	r := a.request()
	fakeagent.V1Answer("Hello world")(r)
	for range 20 { // more of them are a flood
		must(t, a.Send("stream_chunk", r.ID, map[string]any{"request_id": r.ID,
			"chunk": json.RawMessage(`{"choices":[{"index":0,"delta":{"content":"late"}}]}`)}))
		must(t, a.Send("stream_end", r.ID, map[string]any{"request_id": r.ID, "latency_ms": 1, "tokens_output": 900}))
	}
	end := call.rest()
	if text := strings.Join(end.texts(), ""); end.finished == nil {
		t.Error("end.finished: got nil, want a value")
	} else if strings.Contains(text, "late") {
		t.Errorf(`text: got %q, want it without "late"`, text)
	}
	second := w.call(w.order(a, false))
	go fakeagent.V1Answer("x")(a.request())
	second.rest()
	usage.next(2)
	if usage.count() != 2 {
		t.Errorf("usage events: got %d, want 2", usage.count())
	}
	a.alive()
}

func TestHostile37_V1StreamThatNeverEndsRunsIntoALimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     func(*fakeagent.V1Request)
		ending eventsv1.Ending
	}{
		"content for ever": {func(r *fakeagent.V1Request) {
			pace := time.NewTicker(10 * time.Millisecond) // as fast as engines, and slower than any hub
			defer pace.Stop()
			for r.Text("on and on ") == nil {
				<-pace.C
			}
		}, eventsv1.Ending_ENDING_WALL_LIMIT},
		"a hello and then silence": {func(r *fakeagent.V1Request) {
			_ = r.Text("Hello world")
			<-r.Over()
		}, eventsv1.Ending_ENDING_WALL_LIMIT},
	} {
		t.Run(name, func(t *testing.T) {
			w := setupV1(t)
			usage := w.listen()
			a := w.startAgent(w.active(), fakeagent.V1Options{Handler: func(r *fakeagent.V1Request) {
				done := make(chan struct{})
				go func() { defer close(done); c.do(r) }()
				select {
				case <-done:
				case <-r.Gone():
				}
			}})
			a.registered()
			open := w.order(a, true)
			open.TotalTimeoutMs, open.MaxOutputTokens = wallMs, 1<<20 // else the bound ends it
			if end := w.call(open).rest(); end.failed.GetCode() != "timeout" {
				t.Errorf(`end.failed.GetCode(): got %q, want "timeout"`, end.failed.GetCode())
			} else if end.failed.GetRetryable() {
				t.Errorf("end.failed.GetRetryable(): got true, want false, with %v", end.failed)
			}
			if e := usage.next(1); e.GetEnding() != c.ending {
				t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), c.ending)
			} else if e.GetBillableCompletionTokens() < 1 {
				t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want at least 1", e.GetBillableCompletionTokens())
			}
			a.alive()
		})
	}
	t.Run("empty deltas for ever", func(t *testing.T) {
		w := setupV1(t)
		a := w.join(w.active(), fakeagent.V1Options{Handler: func(r *fakeagent.V1Request) {
			for r.Role() == nil {
			}
		}})
		if end := w.call(w.order(a, true)).rest(); !end.failed.GetRetryable() {
			t.Errorf("end.failed.GetRetryable(): got false, want true, with %v", end.failed)
		} else if len(end.events) != 0 {
			t.Errorf("len(end.events): got %d, want 0", len(end.events))
		}
	})
}

// What an agent claims of itself makes it neither larger nor longer than can
// be, and gives it nothing that an operator has not.
func TestHostile41_ClaimsOfModelsAndGPUsAreBounded(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.provider(hubv1.ProviderStatus_PROVIDER_STATUS_PENDING)
	h := w.byHand()
	var many []string
	var hashes []map[string]any
	for i := range 300 {
		id := fmt.Sprintf("acme/model-%d", i)
		many = append(many, id)
		hashes = append(hashes, map[string]any{"model_id": id, "context_length": []any{int64(1) << 62, -1, 10_000_000_000,
			1e300, "x", 2.5}[i%6]})
	}
	node := fakeagent.V1NodeKey("z")
	h.send("register", "first", map[string]any{
		"node_id": node, "token": m.key, "models": many[:200], "model_hashes": hashes[:200],
		"hardware": map[string]any{"gpu_type": "H100", "gpu_model": "NVIDIA H100", "vram_gb": int64(1) << 62, "gpu_count": -5,
			"compute_capability": "99.9"},
	})
	h.next("ack")
	s := w.told("the session", fakeagent.V1HubNode(node),
		func(s *eventsv1.Session) bool { return len(s.GetModels()) == 200 })
	if s.GetActive() {
		t.Error("a provider that is pending is active by what it claims")
	}
	for _, offer := range s.GetModels() {
		if c := offer.GetReportedContextLength(); c < 0 || c > 1<<31 {
			t.Errorf("%s has a context: got %d, want 0 to 1<<31", offer.GetModelId(), c)
		}
	}
	if err := w.call(v1Order(t, m, s.GetNodeId(), s.GetEpoch(), true)).err(); err == nil {
		t.Error("a pending provider was dispatched to")
	}
	var flood []string
	for i := range 30_000 {
		flood = append(flood, fmt.Sprintf("acme/model-%d", i))
	}
	h.send("register", "again", map[string]any{"node_id": node, "token": m.key, "models": flood})
	h.send("heartbeat", "last", map[string]any{"node_id": node, "timestamp": 1})
	for answered := false; !answered; {
		select {
		case f := <-h.frames:
			if f.Type == "error" {
				return // refused
			}
			answered = f.RequestID == "last"
		case <-h.closed:
			return // refused
		case <-time.After(patience):
			t.Fatal("thirty thousand models have no answer")
		}
	}
	w.told("at most 256 models", s.GetNodeId(), func(s *eventsv1.Session) bool { return len(s.GetModels()) <= 256 })
}

// TestHostile43_V1FloodsAreBounded has agents send registrations and heartbeats
// with changing lists as fast as they can: they are cut off or slowed down, the
// rest of the hub goes on, and routers are told in bounded number.
func TestHostile43_V1FloodsAreBounded(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	others := w.witnesses()
	m := w.active()
	sockets := map[string]*handV1{}
	for _, kind := range []string{"register", "heartbeat", "model_health_update"} {
		h := w.byHand()
		node := fakeagent.V1NodeKey("flood of " + kind)
		h.registerByHand(m, node, nil)
		sockets[kind] = h
		for n := range 20_000 {
			models := fmt.Sprintf(`["acme/model-%d","acme/model-%d"]`, n, n%7)
			health := []string{"healthy", "unhealthy"}[n%2]
			message := fmt.Sprintf(
				`{"type":%q,"request_id":"%d","payload":{"node_id":%q,"token":%q,"timestamp":%d,"models":%s,`+
					`"model_health":{%q:%q}}}`,
				kind, n, node, m.key, n, models, testModel, health)
			if h.ws.WriteMessage(websocket.TextMessage, []byte(message)) != nil {
				break
			}
		}
		for _, o := range others {
			o.still(kind)
		}
	}
	for kind, h := range sockets {
		wait(t, kind+": the end", h.closed)
		if h.age < closedYoung {
			t.Errorf("%s: closed: got %v, want at least %v", kind, h.age, closedYoung)
		}
		if answers := len(h.frames); answers > 1000 {
			t.Errorf("%s: answers: got %d, want at most 1000", kind, answers)
		}
	}
	goOnToTheirEnds(others)
}
