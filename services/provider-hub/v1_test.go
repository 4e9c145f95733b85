package providerhub_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestV1AgentRegistersAndServesUnchanged(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	m := w.active()
	a := w.join(m, fakeagent.V1Options{Handler: fakeagent.V1Answer("Hello", " wide", " world"),
		Hardware: fakeagent.V1TwoRTX4090(), ContextLength: 32768})
	open := w.order(a, true)
	r := w.call(open).rest()
	switch {
	case r.failed != nil:
		t.Fatalf("r.failed: got %v, want nil", r.failed)
	case r.finished.GetBillablePromptTokens() != 10:
		t.Fatalf("r.finished.GetBillablePromptTokens(): got %d, want 10", r.finished.GetBillablePromptTokens())
	case r.finished.GetBillableCompletionTokens() != 3:
		t.Fatalf("r.finished.GetBillableCompletionTokens(): got %d, want 3", r.finished.GetBillableCompletionTokens())
	}
	if len(r.events) != 5 { // role, three pieces, finish; no usage
		t.Fatalf("len(r.events): got %d, want 5", len(r.events))
	}
	for i, e := range r.events {
		text := string(e.GetJson())
		switch {
		case !strings.Contains(text, `"model":"`+testModel+`"`):
			t.Errorf("event %d: text: got %q, want %q in it", i, text, `"model":"`+testModel+`"`)
		case strings.Contains(text, "engine-model"):
			t.Errorf(`event %d: text: got %q, want it without "engine-model"`, i, text)
		case strings.Contains(text, "usage"):
			t.Errorf(`event %d: text: got %q, want it without "usage"`, i, text)
		case e.GetFirstContent() != (i == 1):
			t.Errorf("event %d: first: got %t, want %t", i, e.GetFirstContent(), i == 1)
		}
	}
	e := usage.next(1)
	if e.GetRequestId() != open.GetRequestId() || e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED ||
		e.GetBillableCompletionTokens() != 3 ||
		e.GetEpoch() != open.GetEpoch() || e.GetClaimState() != eventsv1.ClaimState_CLAIM_STATE_VALID ||
		e.GetDeliveredBytes() != 16 {
		t.Errorf("usage event %v", e)
	}
	whole := w.call(w.order(a, false)).rest()
	if len(whole.events) != 1 {
		t.Fatalf("len(whole.events): got %d, want 1", len(whole.events))
	}
	if whole.finished == nil {
		t.Fatal("whole.finished: got nil, want a value")
	}
	text := whole.texts()[0]
	switch {
	case !strings.Contains(text, `"model":"`+testModel+`"`):
		t.Errorf("answer: got %q, want %q in it", text, `"model":"`+testModel+`"`)
	case !strings.Contains(text, `"content":"Hello wide world"`):
		t.Errorf("answer: got %q, want %q in it", text, `"content":"Hello wide world"`)
	case !strings.Contains(text, `"usage":{`):
		t.Errorf("answer: got %q, want %q in it", text, `"usage":{`)
	}
	if e := usage.next(2); e.GetBillableCompletionTokens() != 3 {
		t.Errorf("usage event: e.GetBillableCompletionTokens(): got %d, want 3", e.GetBillableCompletionTokens())
	} else if e.GetBillablePromptTokens() != 10 {
		t.Errorf("usage event: e.GetBillablePromptTokens(): got %d, want 10", e.GetBillablePromptTokens())
	}
	a.alive()
}

// What the hub says has the form that agents are known to read.
func TestV1RepliesHaveTheCapturedForm(t *testing.T) {
	t.Parallel()
	captures, err := fakeagent.V1Captures()
	must(t, err)
	forms := map[string]string{}
	for _, c := range captures {
		if c.Direction == "hub->agent" {
			forms[c.Frame.Type] = names(t, c.Frame.Payload)
		}
	}
	w := setupV1(t)
	m := w.active()
	h := w.byHand()
	ack := h.registerByHand(m, fakeagent.V1NodeKey("x"), nil)
	p := decode[v1Ack](t, ack)
	if ack.RequestID != "first" || p.RequestID != "first" || p.Success == nil || !*p.Success ||
		!strings.HasPrefix(p.Message, "registered successfully") {
		t.Errorf("ack %s %s", ack.RequestID, ack.Payload)
	}
	h.send("heartbeat", "beat", map[string]any{"node_id": fakeagent.V1NodeKey("x"), "timestamp": time.Now().Unix()})
	beat := h.next("ack")
	if b := decode[v1Ack](t, beat); beat.RequestID != "beat" || b.RequestID != "beat" || b.Success == nil || !*b.Success {
		t.Errorf("ack of a heartbeat %s %s", beat.RequestID, beat.Payload)
	}
	s := w.told("the session", fakeagent.V1HubNode(fakeagent.V1NodeKey("x")), func(*eventsv1.Session) bool { return true })
	open := v1Order(t, m, s.GetNodeId(), s.GetEpoch(), true)
	call := w.call(open)
	asked := h.next("inference")
	in := decode[struct {
		EndpointID string `json:"endpoint_id"`
		ModelID    string `json:"model_id"`
		Stream     bool   `json:"stream"`
		Request    struct {
			Model    string `json:"model"`
			Messages []any  `json:"messages"`
		} `json:"request"`
	}](t, asked)
	if asked.RequestID == "" || in.ModelID != testModel || !in.Stream || in.Request.Model != testModel ||
		len(in.Request.Messages) != 1 {
		t.Errorf("inference %s %s", asked.RequestID, asked.Payload)
	}
	for kind, f := range map[string]fakeagent.V1Frame{"ack": ack, "inference": asked} {
		if got := names(t, f.Payload); got != forms[kind] {
			t.Errorf("%s: got %q, want %q", kind, got, forms[kind])
		}
	}
	h.send("stream_chunk", asked.RequestID, map[string]any{"request_id": asked.RequestID, "done": true, "chunk": nil})
	h.send("stream_end", asked.RequestID, map[string]any{"request_id": asked.RequestID, "latency_ms": 1})
	call.rest()

	bad := w.byHand()
	bad.send("register", "r-2", map[string]any{"node_id": "node-0001", "token": "sk-prov-nobody",
		"models": []string{testModel}})
	refusal := bad.next("error")
	e := decode[struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}](t, refusal)
	if e.Code != http.StatusUnauthorized {
		t.Errorf("e.Code: got %d, want 401, with %s", e.Code, refusal.Payload)
	} else if e.Message == "" {
		t.Errorf(`e.Message: got "", want some text, with %s`, refusal.Payload)
	} else if got := names(t, refusal.Payload); got != forms["error"] {
		t.Errorf("names(t, refusal.Payload): got %q, want %q, with %s", got, forms["error"], refusal.Payload)
	}
}

// Each captured message of an agent is taken, and each captured answer comes
// out as the protocol's facts say. The captured registrations, heartbeats and
// health updates are replayed as they are, the answers under the ids of requests
// that are dispatched for them.
func TestV1CapturedMessagesAreTaken(t *testing.T) {
	t.Parallel()
	type outcome struct {
		text      string // of the answer
		code      string // of a failure
		retryable bool
		status    int32
		message   string
	}
	want := map[string]outcome{
		"req-1": {text: "Hello"},
		"req-2": {text: "Hello"},
		"req-3": {code: "upstream_error", retryable: true, status: 404,
			message: "model nope not deployed on this provider"},
		"req-4":   {code: "engine_refused", status: 400, message: "context too long"},
		"req-5":   {code: "upstream_error", retryable: true, status: 503, message: "overloaded"},
		"req-6":   {text: "Hello"},
		"req-7":   {text: "Hellox"},
		"EARLY":   {text: "par", code: "upstream_error"},
		"NOSPACE": {code: "upstream_error", retryable: true},
		"ABORT":   {text: "par", code: "upstream_error"},
	}
	captures, err := fakeagent.V1Captures()
	must(t, err)
	for _, run := range []string{"a", "b", "early-close"} {
		t.Run(run, func(t *testing.T) {
			w := setupV1(t)
			m := w.active()
			h := w.byHand()
			node := fakeagent.V1NodeKey(run)
			mend := strings.NewReplacer("NODE_ID", node, "sk-prov-test0123456789abcdef", m.key, "Qwen/Qwen3-8B", testModel)
			calls, ids := map[string]*call{}, map[string]string{}
			for _, c := range captures {
				if c.Run != run {
					continue
				}
				f := c.Frame
				var compact bytes.Buffer
				must(t, json.Compact(&compact, f.Payload))
				payload := mend.Replace(compact.String())
				if c.Direction == "hub->agent" {
					switch f.Type {
					case "ack":
						h.next("ack")
					case "inference":
						s := w.told("the session", fakeagent.V1HubNode(node), func(*eventsv1.Session) bool { return true })
						calls[f.RequestID] = w.call(v1Order(t, m, s.GetNodeId(), s.GetEpoch(),
							strings.Contains(payload, `"stream":true}`)))
						ids[f.RequestID] = h.next("inference").RequestID
					}
					continue
				}
				if id := ids[f.RequestID]; id != "" {
					payload = strings.ReplaceAll(payload, `"`+f.RequestID+`"`, `"`+id+`"`)
					f.RequestID = id
				}
				h.say(fmt.Sprintf(`{"type":%q,"request_id":%q,"payload":%s}`, f.Type, f.RequestID, payload))
				if call := calls[c.Frame.RequestID]; call != nil && (f.Type == "ack" || f.Type == "stream_end") {
					got, want := call.rest(), want[c.Frame.RequestID]
					var text strings.Builder
					for _, e := range got.texts() {
						_, rest, _ := strings.Cut(e, `"content":"`)
						content, _, _ := strings.Cut(rest, `"`)
						text.WriteString(content)
					}
					o := outcome{text.String(), got.failed.GetCode(), got.failed.GetRetryable(), got.failed.GetEngineStatus(),
						got.failed.GetMessage()}
					if want.message == "" {
						o.status, o.message = 0, ""
					}
					if o != want {
						t.Errorf("%s: o: got %+v, want %+v", c.Frame.RequestID, o, want)
					} else if (got.finished != nil) != (want.code == "") {
						t.Errorf("%s: finished: finished != nil: got %t, want %t", c.Frame.RequestID, got.finished != nil,
							want.code == "")
					}
				}
			}
			select {
			case <-h.closed:
				t.Errorf("the hub closed: %v", h.err)
			default:
			}
		})
	}
}

func TestV1IsServedAtEveryPathAndWithoutExtensions(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	for path, served := range map[string]bool{"/": true, "/ws": true, "/p/ws": true, "/p/q/ws": true, "/other": false,
		"/wsx": false} {
		dialer := websocket.Dialer{EnableCompression: true}
		ws, answer, err := dialer.DialContext(t.Context(), w.url()+path, nil)
		if answer != nil {
			answer.Body.Close()
		}
		if err == nil {
			ws.NetConn().Close()
		}
		if (err == nil) != served || served && len(answer.Header["Sec-Websocket-Extensions"])+
			len(answer.Header["Sec-Websocket-Protocol"]) > 0 ||
			!served && (answer == nil || answer.StatusCode != http.StatusNotFound) {
			t.Errorf("%s: %v %v", path, err, answer)
		}
	}
	other := websocket.Dialer{Subprotocols: []string{"svc.agent.v9"}}
	ws, answer, err := other.DialContext(t.Context(), w.url()+"/ws", nil)
	if err == nil {
		ws.NetConn().Close()
		t.Fatal("a dialect that nobody speaks was accepted")
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown subprotocol: got %d, want 400", answer.StatusCode)
	}
}

func TestV1PingsHeartbeatsAndPongsKeepTheConnection(t *testing.T) {
	t.Parallel()
	w := setupV1(t, func(c *hubConfig) { c.PingInterval = 1100 * time.Millisecond })
	timing := fakeagent.V1Observed()
	timing.Ping, timing.PongWait, timing.Heartbeat = 100*time.Millisecond, 2*time.Second, 200*time.Millisecond
	a := w.join(w.active(), fakeagent.V1Options{Timing: timing})
	a.until("twenty heartbeats are acknowledged", func(s fakeagent.V1State) bool {
		return s.Acks >= 21 ||
			len(s.Lives) > 0
	})
	a.alive() // twice as long as without a pong, with every heartbeat answered
}

func TestV1SocketThatIsNotRegisteredIsAnsweredPings(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	timing := fakeagent.V1Observed()
	timing.Ping, timing.PongWait, timing.Heartbeat = 100*time.Millisecond, 2*time.Second, 200*time.Millisecond
	a := w.startAgent(member{key: "sk-prov-nobody"}, fakeagent.V1Options{Timing: timing})
	a.until("it is refused", func(fakeagent.V1State) bool { return len(a.heard("error")) > 0 })
	<-time.After(2 * timing.PongWait) // pongs keep it as long as it takes
	if s := a.State(); len(s.Lives) > 0 {
		t.Errorf("the agent has been through: len(s.Lives): got %d, want 0, in %+v", len(s.Lives), s)
	} else if s.Acks > 0 {
		t.Errorf("the agent has been through: s.Acks: got %d, want 0", s.Acks)
	}
	if n := len(a.heard("error")); n != 1 {
		t.Errorf("refusals: got %d, want 1", n)
	}
}

func TestV1PeerThatAnswersNoPingIsDead(t *testing.T) {
	t.Parallel()
	w := setupV1(t, func(c *hubConfig) { c.PingInterval, c.PongTimeout = 1100*time.Millisecond, 1100*time.Millisecond })
	a := w.join(w.active(), fakeagent.V1Options{NoPongs: true})
	a.until("the hub gives it up and it comes back", func(s fakeagent.V1State) bool { return s.Registrations >= 2 })
	if dead := a.State().Dead; dead != nil {
		t.Error(dead)
	}
}

func TestV1NodesAreNamedAndTwoOfOneProviderAreBothLive(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	keyed := w.join(m, fakeagent.V1Options{NodeName: "first"})
	other := w.join(m, fakeagent.V1Options{NodeName: "second"})
	plain := w.join(m, fakeagent.V1Options{NodeID: "rack-1.gpu_2", NodeName: "third"})
	for _, a := range []*v1Agent{keyed, other, plain} {
		s := w.told("the node", a.node, func(*eventsv1.Session) bool { return true })
		if s.GetProviderId() != m.id {
			t.Errorf("session: s.GetProviderId(): got %q, want %q", s.GetProviderId(), m.id)
		} else if len(s.GetModels()) != 1 {
			t.Errorf("session: len(s.GetModels()): got %d, want 1, in %v", len(s.GetModels()), s)
		}
		a.alive()
	}
}

func TestV1SessionIsToldToRoutersAsItCanServe(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{ContextLength: 32768, Hardware: fakeagent.V1TwoRTX4090()})
	s := w.told("the session", a.node, func(s *eventsv1.Session) bool { return s.GetActive() })
	if s.GetMaxRequestBytes() > 1<<20-1<<10 || s.GetMaxRequestBytes() < 1<<20-4<<10 || s.GetCapacity() != 50 ||
		!s.GetTakesWarmups() ||
		len(s.GetModels()) != 1 || s.GetModels()[0].GetCapacity() != 10 || !s.GetModels()[0].GetHealthy() ||
		s.GetModels()[0].GetReportedContextLength() != 32768 || s.GetModels()[0].GetModelId() != testModel {
		t.Errorf("session %v", s)
	}
	for _, c := range s.GetCapabilities() {
		if c != "chat" && c != "stream" && c != "logprobs" && c != "warmup" {
			t.Errorf("an agent of dialect v1 is said to be capable of %q", c)
		}
	}
}

// A registration on the live connection replaces the models, and so does the
// list of a heartbeat; one without a list says nothing of them.
func TestV1ModelsFollowRegistrationsAndHeartbeats(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	h := w.byHand()
	node := fakeagent.V1NodeKey("x")
	h.registerByHand(m, node, map[string]any{"models": nil})
	models := func(want ...string) {
		t.Helper()
		w.told(fmt.Sprintf("the models %q", want), fakeagent.V1HubNode(node), func(s *eventsv1.Session) bool {
			if len(s.GetModels()) != len(want) {
				return false
			}
			for i, id := range want {
				if s.GetModels()[i].GetModelId() != id {
					return false
				}
			}
			return true
		})
	}
	models()
	h.send("register", "2", map[string]any{"node_id": node, "token": m.key, "models": []string{"acme/a", "acme/b"}})
	if ack := decode[v1Ack](t, h.next("ack")); !*ack.Success || ack.RequestID != "2" {
		t.Errorf("ack %v", ack)
	}
	models("acme/a", "acme/b")
	beat := func(more string) {
		h.say(`{"type":"heartbeat","request_id":"h","payload":{"node_id":"` + node + `","timestamp":1` + more + `}}`)
		h.next("ack")
	}
	for _, silent := range []string{``, `,"models":null`, `,"models":["acme/a","acme/b"]`} {
		beat(silent)
		models("acme/a", "acme/b")
	}
	beat(`,"models":["acme/c"]`)
	models("acme/c")
	beat(`,"models":[]`)
	models()
}

func TestV1HealthIsToldByHeartbeatsAndUpdates(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	for _, c := range []struct {
		state   string
		healthy bool
	}{{"unhealthy", false}, {"degraded", true}, {"unhealthy", false}, {"unknown", true}, {"unhealthy", false},
		{"healthy", true}} {
		must(t, a.Health(testModel, c.state))
		w.told("it is "+c.state, a.node, func(s *eventsv1.Session) bool { return s.GetModels()[0].GetHealthy() == c.healthy })
	}
	must(t, a.Send("heartbeat", "h", map[string]any{"node_id": a.NodeID(), "timestamp": 1,
		"model_health": map[string]string{testModel: "unhealthy"}}))
	w.told("the heartbeat's health", a.node, func(s *eventsv1.Session) bool { return !s.GetModels()[0].GetHealthy() })
	must(t, a.Heartbeat())
	w.told("it is healthy again", a.node, func(s *eventsv1.Session) bool { return s.GetModels()[0].GetHealthy() })
	a.alive()
}

func TestV1LoadOfAHeartbeatIsTold(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{Metrics: map[string]float64{"active_requests": 7}})
	must(t, a.Heartbeat())
	w.told("seven requests", a.node, func(s *eventsv1.Session) bool { return s.GetReportedActive() == 7 })
}

// An ack is the answer to whatever has its id, and nothing that has no answer
// due does any harm.
func TestV1AcksAreToldApartByTheirIDs(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	call := w.call(w.order(a, false))
	r := a.request()
	for _, id := range []string{"nobody", "", r.ID + "x", strings.Repeat("x", 4096)} {
		for _, kind := range []string{"ack", "stream_chunk", "stream_end", "verify", "benchmark_response", "error", "mystery",
			""} {
			must(t, a.Send(kind, id, map[string]any{
				"request_id": id, "success": true, "model_id": testModel, "response": map[string]any{"choices": []any{}},
				"done": true, "code": 501, "message": "x",
			}))
		}
	}
	must(t, a.Send("verify", r.ID, map[string]any{"challenge_id": "c", "success": true, "response": nil}))
	must(t, a.Send("benchmark_response", r.ID, map[string]any{"request_id": r.ID, "results": []any{}}))
	must(t, r.Whole(fakeagent.V1Completion("Hello", 10, 1)))
	if end := call.rest(); end.finished == nil {
		t.Errorf("failed %v", end.failed)
	}
	a.alive()
}

func TestV1ErrorOfAnAgentFailsItsRequestAlone(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	call, other := w.call(w.order(a, true)), w.call(w.order(a, true))
	r, second := a.request(), a.request()
	must(t, a.Send("error", r.ID, map[string]any{"request_id": r.ID, "code": 501, "message": "streaming not supported"}))
	go fakeagent.V1Answer("fine")(second)
	ended := []result{call.rest(), other.rest()}
	if (ended[0].finished == nil) == (ended[1].finished == nil) {
		t.Errorf("ended: ended[0].finished == nil: got %t, want any but %t", ended[0].finished == nil,
			ended[1].finished == nil)
	}
	for _, e := range ended {
		if e.finished == nil && !e.failed.GetRetryable() {
			t.Errorf("failed %v", e.failed)
		}
	}
	a.alive()
}

func TestV1PendingProviderIsAcknowledgedAndServesNobody(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.provider(hubv1.ProviderStatus_PROVIDER_STATUS_PENDING), fakeagent.V1Options{})
	if err := w.call(w.order(a, true)).err(); !fault.Is(err, fault.SessionGone) {
		t.Errorf("dispatch: got the error %v, want the reason %v", err, fault.SessionGone)
	}
	a.alive()
}

// TestV1FailuresBeforeContent is what agents say of engines that fail.
func TestV1FailuresBeforeContent(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	a := w.join(w.active(), fakeagent.V1Options{})
	retry := func(status int32, message string) *hubv1.DispatchFailed {
		return &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", EngineStatus: status, Message: message}
	}
	busy := retry(429, "")
	busy.Busy = true
	refuse := func(text string) func(*fakeagent.V1Request) {
		return func(r *fakeagent.V1Request) {
			kind, p := "ack", map[string]any{"request_id": r.ID, "response": nil, "error": text, "status_code": 429,
				"latency_ms": 1}
			if r.Stream {
				kind, p = "stream_end", map[string]any{"request_id": r.ID, "error": text, "status_code": 429, "latency_ms": 1}
			}
			must(t, a.Send(kind, r.ID, p))
		}
	}
	for name, c := range map[string]struct {
		do   func(*fakeagent.V1Request)
		want *hubv1.DispatchFailed
	}{
		"400": {fakeagent.V1Fails(400, "context too long"), &hubv1.DispatchFailed{Code: "engine_refused",
			EngineStatus: 400, Message: "context too long"}},
		"404": {fakeagent.V1Fails(404, "model x not deployed on this provider"),
			retry(404, "model x not deployed on this provider")},
		"500":                   {fakeagent.V1Fails(500, "boom"), retry(500, "boom")},
		"503":                   {fakeagent.V1Fails(503, "overloaded"), retry(503, "overloaded")},
		"no slot":               {refuse("provider concurrency limit reached"), busy},
		"too many a second":     {refuse("provider rate limit exceeded, please retry later"), busy},
		"the engine broke off":  {func(r *fakeagent.V1Request) { must(t, r.Break()) }, retry(0, "")},
		"nothing, and all well": {func(r *fakeagent.V1Request) { _ = r.End() }, retry(0, "")},
		"an error in a chunk":   {fakeagent.V1ErrorInside(`{"error":{"message":"m","code":503}}`), retry(503, "m")},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %v", name, stream), func(t *testing.T) {
				call := w.call(w.order(a, stream))
				r := a.request()
				if !stream && (name == "nothing, and all well" || name == "an error in a chunk" || name == "the engine broke off") {
					r.Stream = false
					must(t, r.Whole(`{"error":{"message":"m","code":503}}`))
					if got := call.rest(); !got.failed.GetRetryable() || got.failed.GetEngineStatus() != 503 ||
						got.failed.GetMessage() != "m" {
						t.Errorf("failed %v", got.failed)
					}
					return
				}
				c.do(r)
				got := call.rest()
				if len(got.events) != 0 || got.failed == nil || got.failed.GetRetryable() != c.want.GetRetryable() ||
					got.failed.GetCode() != c.want.GetCode() ||
					c.want.GetEngineStatus() != 0 && !c.want.GetBusy() && got.failed.GetEngineStatus() != c.want.GetEngineStatus() ||
					got.failed.GetBusy() != c.want.GetBusy() || c.want.GetMessage() != "" &&
					got.failed.GetMessage() != c.want.GetMessage() {
					t.Errorf("%d events, finished %v\n got %v\nwant %v", len(got.events), got.finished, got.failed, c.want)
				}
			})
		}
	}
	if usage.count() != 0 {
		t.Errorf("usage events: got %d, want 0", usage.count())
	}
	a.alive()
}

func TestV1UsageIsRelayedOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{Handler: fakeagent.V1Answer("Hello")})
	open := w.order(a, true)
	open.IncludeUsage = true
	r := w.call(open).rest()
	if n := len(r.events); n != 4 || !strings.Contains(r.texts()[3], `"usage":{`) ||
		!strings.Contains(r.texts()[3], `"cached_tokens":0`) {
		t.Errorf("events %q", r.texts())
	}
}

func TestV1RequestReachesTheEngineAsTheConsumerWroteIt(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	open := w.order(a, false)
	open.Body = []byte(`{"model":"` + testModel +
		`","seed":9007199254740993,"messages":[{"role":"user","content":"<b>&\u2028é</b>"}],"x":1.0e2}`)
	call := w.call(open)
	r := a.request()
	if string(r.Raw) != string(open.GetBody()) {
		t.Errorf("the agent: got %q, want %q", string(r.Raw), string(open.GetBody()))
	}
	if r.EndpointID == "" {
		t.Error("the agent has nothing to log")
	}
	go fakeagent.V1Answer("x")(r)
	call.rest()
}

// A warm-up reaches the agent once, however often it is asked for, and its ack
// is taken for nothing else.
func TestV1WarmUpIsAskedForOnce(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	for range 3 {
		_, err := w.hub.admin.WarmUp(t.Context(), &hubv1.WarmUpRequest{ModelId: testModel})
		must(t, err)
	}
	a.until("it is asked", func(fakeagent.V1State) bool { return len(a.heard("warmup")) > 0 })
	call := w.call(w.order(a, false))
	go fakeagent.V1Answer("x")(a.request())
	if end := call.rest(); end.finished == nil {
		t.Errorf("beside a warm-up: %v", end.failed)
	}
	asked := a.heard("warmup")
	if len(asked) != 1 || names(t, asked[0].Payload) != "model_id warmup_type" {
		t.Errorf("%d warm-ups: %v", len(asked), asked)
	}
	a.alive()
}
