package providerhub_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.opentelemetry.io/otel/metric/noop"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	providerhub "svc.internal/services/provider-hub"
)

// The facts are those of the design of the provider connection: what the
// public agent was observed to do, each of which may cost providers or
// consumers if a hub forgets it. The fourth, of the status in JSON, is the
// gateway's.

func TestV1Fact01_TheScriptedAgentHasAllItsHabitsAndIsServed(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	a := w.join(m, fakeagent.V1Options{Handler: fakeagent.V1Answer("Hello"), GuardAfter: 1, Timing: strict(),
		ServiceURL: w.front.URL})
	for _, stream := range []bool{true, false} {
		if r := w.call(w.order(a, stream)).rest(); r.finished == nil {
			t.Errorf("stream %v: %v", stream, r.failed)
		}
	}
	a.alive()
}

// strict are the agent's habits, with connections counted as young as long as
// they may be.
func strict() fakeagent.V1Timing {
	timing := fakeagent.V1Observed()
	timing.Young = closedYoung
	return timing
}

func TestV1Fact02_TheUpgradeIsAnonymousAndTheRegistrationHasADeadline(t *testing.T) {
	t.Parallel()
	w := setupV1(t, func(c *hubConfig) { c.RegisterTimeout = 100 * time.Millisecond })
	h := w.byHand()
	wait(t, "the end of a socket that says nothing", h.closed)
	if h.age < closedYoung {
		t.Errorf("closed: got %v, want at least %v", h.age, closedYoung)
	}
}

func TestV1Fact03_NoMessageIsAboveOneMebibyte(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	most := int(w.told("the session", a.node, func(*eventsv1.Session) bool { return true }).GetMaxRequestBytes())
	for name, filler := range map[string]string{
		"letters": "x", "what JSON encoders like to escape": "<", "escapes": `\u0001`, "quotes": `\"`,
		"letters of three bytes": "語",
	} {
		open := w.order(a, true)
		frame := `{"model":"` + testModel + `","x":""}`
		n := (most - len(frame)) / len(filler)
		body := `{"model":"` + testModel + `","x":"` + strings.Repeat(filler, n) + `"}`
		open.Body = []byte(body + strings.Repeat(" ", most-len(body)))
		call := w.call(open)
		var r *fakeagent.V1Request
		select {
		case r = <-a.Requests():
		case <-time.After(patience):
			t.Fatalf("%s: nothing came of the largest body: %+v", name, a.State())
		}
		go fakeagent.V1Answer("ok")(r)
		if end := call.rest(); end.finished == nil {
			t.Errorf("%s: %v", name, end.failed)
		}
	}
	beyond := w.order(a, true)
	beyond.Body = []byte(`{"model":"` + testModel + `","x":"` + strings.Repeat("x", 1<<20) + `"}`)
	if err := w.call(beyond).err(); err == nil {
		t.Error("a body above the limit was taken")
	}
	a.alive()
}

// firstWords are what may come first on a socket instead of a good
// registration.
func firstWords(key string) map[string]string {
	register := func(payload string) string { return `{"type":"register","request_id":"r","payload":{` + payload + `}}` }
	node := `"node_id":"` + fakeagent.V1NodeKey("y") + `"`
	return map[string]string{
		"an unknown key":      register(node + `,"token":"sk-prov-nobody","models":["acme/tiny-1b"]`),
		"no key":              register(node + `,"models":["acme/tiny-1b"]`),
		"a key of a consumer": register(node + `,"token":"sk-svc-0123456789abcdef","models":[]`),
		"a key that is no text": register(node +
			`,"token":17,"models":[]`),
		"a huge key":           register(node + `,"token":"` + strings.Repeat("x", 60_000) + `"`),
		"SQL for a key":        register(node + `,"token":"' OR 1=1; DROP TABLE provider; --"`),
		"no node":              register(`"token":"` + key + `"`),
		"an empty node":        register(`"node_id":"","token":"` + key + `"`),
		"models that are none": register(node + `,"token":"` + key + `","models":{"a":1}`),
		"a heartbeat":          `{"type":"heartbeat","request_id":"h","payload":{` + node + `,"timestamp":1}}`,
		"a chunk": `{"type":"stream_chunk","request_id":"x",` +
			`"payload":{"request_id":"x","chunk":{},"done":false}}`,
		"no JSON":           "GET / HTTP/1.1\r\n\r\n",
		"nothing":           "",
		"an array":          `[{"type":"register"}]`,
		"a payload of text": `{"type":"register","request_id":"r","payload":"x"}`,
		"no payload":        `{"type":"register","request_id":"r"}`,
		"30,000 arrays deep": `{"type":"register","request_id":"r","payload":` + strings.Repeat("[", 30_000) +
			strings.Repeat("]", 30_000) + `}`,
		"a member twice":        register(node + `,"token":"sk-prov-nobody","token":"` + key + `x"`),
		"a message of 200 KiB":  register(node + `,"token":"` + key + `","x":"` + strings.Repeat("x", 200<<10) + `"`),
		"text that is no UTF-8": "\xff\xfe{}",
	}
}

func TestV1Fact05_NoSocketIsClosedYoung(t *testing.T) {
	t.Parallel()
	w := setupV1(t, func(c *hubConfig) { c.RegisterTimeout = 2500 * time.Millisecond })
	m := w.active()
	sockets := map[string]*handV1{}
	for name, text := range firstWords(m.key) {
		h := w.byHand()
		sockets[name] = h
		// A message that the hub does not want may end in the middle.
		_ = h.ws.WriteMessage(websocket.TextMessage, []byte(text))
	}
	binary := w.byHand()
	must(t, binary.ws.WriteMessage(websocket.BinaryMessage, []byte{1, 2, 3}))
	sockets["a binary message"] = binary
	<-time.After(closedYoung) // the age that all of them must reach
	for name, h := range sockets {
		for told := false; !told; {
			select {
			case f := <-h.frames:
				if f.Type == "ack" && *decode[v1Ack](t, f).Success {
					t.Errorf("%s: acknowledged with %s", name, f.Payload)
				}
				told = f.Type == "error"
			case <-h.closed:
				var closed *websocket.CloseError
				switch told = true; {
				case h.age < closedYoung:
					t.Errorf("%s: ended after: got %v, want at least %v", name, h.age, closedYoung)
				case !errors.As(h.err, &closed):
					t.Errorf("%s: h.err: got the error %v, want a %T", name, h.err, closed)
				case closed.Code == websocket.CloseAbnormalClosure:
					t.Errorf("%s: closed.Code: got %d, want any but %d", name, closed.Code, websocket.CloseAbnormalClosure)
				}
			case <-time.After(patience):
				t.Fatalf("%s: neither refused nor closed", name)
			}
		}
		select {
		case <-h.closed:
			if h.age < closedYoung {
				t.Errorf("%s: ended after: got %v, want at least %v", name, h.age, closedYoung)
			}
		default:
		}
	}
}

func TestV1Fact05_RevokedAndSuspendedAreToldAndHeld(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	for name, c := range map[string]struct {
		end  func(member)
		code int
	}{
		"revoked": {func(m member) {
			_, err := w.hub.admin.RevokeProviderKey(t.Context(), &hubv1.RevokeProviderKeyRequest{KeyId: m.keyID})
			must(t, err)
		}, 401},
		"suspended": {func(m member) {
			_, err := w.hub.admin.SetProviderStatus(t.Context(), &hubv1.SetProviderStatusRequest{
				ProviderId: m.id, Status: hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED,
			})
			must(t, err)
		}, 403},
	} {
		m := w.active()
		a := w.join(m, fakeagent.V1Options{GuardAfter: 1, Timing: strict()})
		open := w.order(a, true)
		c.end(m)
		a.until(name+": it is told", func(fakeagent.V1State) bool { return len(a.heard("error")) > 0 })
		if e := decode[struct{ Code int }](t, a.heard("error")[0]); e.Code != c.code {
			t.Errorf("%s: code: got %d, want %d", name, e.Code, c.code)
		}
		if err := w.call(open).err(); !fault.Is(err, fault.SessionGone) {
			t.Errorf("%s: dispatch: got the error %v, want the reason %v", name, err, fault.SessionGone)
		}
		again := w.startAgent(m, fakeagent.V1Options{NodeName: "again", GuardAfter: 1, Timing: strict()})
		again.until(name+": it is refused", func(fakeagent.V1State) bool { return len(again.heard("error")) > 0 })
		if e := decode[struct{ Code int }](t, again.heard("error")[0]); e.Code != c.code {
			t.Errorf("%s: refused with code: got %d, want %d", name, e.Code, c.code)
		} else if again.State().Acks > 0 {
			t.Errorf("%s: again.State().Acks: got %d, want 0", name, again.State().Acks)
		}
	}
}

// An agent whose first dial is refused never dials again: a hub that is not
// ready yet keeps its socket and registers it late.
func TestV1Fact05_TheFirstDialIsHeldWhileTheHubStarts(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	cfg := w.cfg
	cfg.JournalDir = t.TempDir()
	service, err := providerhub.New(t.Context(), cfg, providerhub.Deps{
		Log: w.log, Meters: noop.NewMeterProvider(), Clock: clock.System, Random: rand.Reader, Bus: w.bus, DB: w.db,
	})
	must(t, err)
	w.halt(w.hub)
	h := w.connect(service)
	w.hub = h
	w.point()
	timing := strict()
	timing.Ping, timing.PongWait = 50*time.Millisecond, 2*time.Second
	a := w.startAgent(m, fakeagent.V1Options{GuardAfter: 1, Timing: timing})
	a.until("it is connected or dead", func(s fakeagent.V1State) bool { return s.Connected || s.Dead != nil })
	<-time.After(2 * timing.PongWait) // pongs keep it as long as it takes
	switch s := a.State(); {
	case s.Dead != nil:
		t.Fatalf("before the hub runs the agent has been through: s.Dead: got the error %v, want none", s.Dead)
	case s.Upgrades != 1:
		t.Fatalf("before the hub runs the agent has been through: s.Upgrades: got %d, want 1", s.Upgrades)
	case s.Registered:
		t.Fatal("before the hub runs the agent has been through: s.Registered: got true, want false")
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() { h.ended <- service.Run(ctx) }()
	t.Cleanup(func() { w.halt(h) })
	a.registered()
	a.alive()
}

// While keys cannot be looked up, an agent waits for its ack, and gets no
// refusal, which would leave it mute for ever.
func TestV1Fact05_TheAckWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	m := w.active()
	lock, err := pgtest.Owner(t, w.db).Begin(t.Context())
	must(t, err)
	_, err = lock.Exec(t.Context(), `LOCK TABLE provider, provider_key IN ACCESS EXCLUSIVE MODE`)
	must(t, err)
	a := w.startAgent(m, fakeagent.V1Options{GuardAfter: 1, Timing: strict()})
	w.eventually("its look-up is cut off", func() error {
		tag, err := lock.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()`)
		must(t, err)
		if tag.RowsAffected() == 0 {
			return errors.New("nobody waits for the lock")
		}
		return nil
	})
	if s := a.State(); s.Acks > 0 {
		t.Errorf("s.Acks: got %d, want 0", s.Acks)
	} else if len(a.Received()) > 0 {
		t.Errorf("without a look-up the hub: len(a.Received()): got %d, want 0, in %v", len(a.Received()), a.Received())
	}
	must(t, lock.Rollback(t.Context()))
	a.registered()
	a.alive()
}

// A restart closes with 1012, each agent is back by itself, and their streams
// have failed by then.
func TestV1Fact05_EveryAgentSurvivesARestart(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	var agents []*v1Agent
	var calls []*call
	timing := strict()
	timing.Backoff = timing.Faster(20).Backoff // and the rest as agents have it
	for i := range 8 {
		a := w.join(w.active(), fakeagent.V1Options{NodeName: fmt.Sprint(i), GuardAfter: 1, Timing: timing})
		agents = append(agents, a)
		call := w.call(w.order(a, true))
		must(t, a.request().Text("Hello world"))
		call.content()
		calls = append(calls, call)
	}
	w.halt(w.hub)
	for _, c := range calls {
		if end := c.rest(); end.finished != nil {
			t.Errorf("a stream amid a restart: finished: got %v, want nil", end.finished)
		} else if end.failed.GetRetryable() {
			t.Errorf("a stream amid a restart: end.failed.GetRetryable(): got true, want false, with %v", end.failed)
		}
	}
	w.start()
	w.point()
	for _, a := range agents {
		a.until("it is back", func(s fakeagent.V1State) bool { return s.Registrations == 2 || s.Dead != nil })
		s := a.State()
		if s.Dead != nil {
			t.Errorf("the agent has been through: s.Dead: got the error %v, want none", s.Dead)
		} else if s.Lives[0].Code != websocket.CloseServiceRestart {
			t.Errorf("the agent has been through: s.Lives[0].Code: got %d, want %d", s.Lives[0].Code,
				websocket.CloseServiceRestart)
		} else if got := s.Lives[0].Age(); got < closedYoung {
			t.Errorf("the agent has been through: s.Lives[0].Age(): got %v, want at least %v", got, closedYoung)
		}
		call := w.call(w.order(a, true))
		go fakeagent.V1Answer("again")(a.request())
		if end := call.rest(); end.finished == nil {
			t.Errorf("after the restart: %v", end.failed)
		}
	}
	if e := usage.next(len(agents)); e.GetEnding() == eventsv1.Ending_ENDING_COMPLETED && usage.count() == len(agents) {
		t.Errorf("usage %v", e)
	}
}

// More agents come back at once than are registered in a second: all are let in
// and wait for their acks, and none is refused, which would cost it a back-off.
func TestV1Fact05_AStormIsHeldAndNotRefused(t *testing.T) {
	t.Parallel()
	const providers, nodes = 6, 60
	w := setupV1(t, func(c *hubConfig) { c.HandshakesPerSecond = 100 })
	var agents []*v1Agent
	for range providers {
		m := w.active()
		for n := range nodes {
			agents = append(agents, w.startAgent(m, fakeagent.V1Options{NodeName: fmt.Sprint(n)}))
		}
	}
	for _, a := range agents {
		a.registered()
	}
	began := time.Now()
	for _, a := range agents {
		a.Cut()
	}
	for _, a := range agents {
		a.until("it is back", func(s fakeagent.V1State) bool { return s.Registrations == 2 || s.Dead != nil })
		switch s := a.State(); {
		case s.Dead != nil:
			t.Fatalf("an agent has been through: s.Dead: got the error %v, want none", s.Dead)
		case s.Refusals > 0:
			t.Fatalf("an agent has been through: s.Refusals: got %d, want 0", s.Refusals)
		case s.Upgrades != 2:
			t.Fatalf("an agent has been through: s.Upgrades: got %d, want 2", s.Upgrades)
		}
	}
	t.Logf("%d agents are back after %v", len(agents), time.Since(began))
}

func TestV1Fact06_CancelIsDrainedSilentlyWithItsSlotTaken(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	a := w.join(w.active(), fakeagent.V1Options{Rate: -1})
	var calls []*call
	var requests []*fakeagent.V1Request
	for range 10 {
		calls = append(calls, w.call(w.order(a, true)))
		requests = append(requests, a.request())
	}
	must(t, requests[0].Text("Hello world"))
	first := calls[0]
	for _, r := range requests[1:] {
		must(t, r.Text("Hello world"))
	}
	first.content()
	// the agent's time to end it runs from the hang-up
	more := []*hubv1.DispatchOpen{w.order(a, true), w.order(a, true), w.order(a, true)}
	must(t, first.stream.CloseSend())
	for _, open := range more {
		if err := w.call(open).err(); !fault.Is(err, fault.ProviderBusy) {
			t.Errorf("a request for a slot that the agent still works at: got the error %v, want the reason %v",
				err, fault.ProviderBusy)
		}
	}
	for _, r := range requests {
		for range 40 { // what nobody reads any more
			must(t, r.Text(" more"))
		}
		must(t, r.Finish("stop"))
		must(t, r.Usage(11, 41))
		must(t, r.Done())
		must(t, r.End())
	}
	for _, c := range calls[1:] {
		if end := c.rest(); end.finished == nil {
			t.Errorf("another stream: %v", end.failed)
		}
	}
	gone := 0
	usage.next(10)
	for n := range 10 {
		e := usage.next(n + 1)
		if e.GetClaimedCompletionTokens() != 41 || e.GetClaimedPromptTokens() != 11 {
			t.Errorf("the final usage was not taken: %v", e)
		}
		if e.GetEnding() == eventsv1.Ending_ENDING_CLIENT_GONE {
			gone++
			if e.GetDeliveredBytes() > 11+40*5 {
				t.Errorf("usage: e.GetDeliveredBytes(): got %d, want at most 11+40*5", e.GetDeliveredBytes())
			} else if e.GetBillableCompletionTokens() > 41 {
				t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want at most 41", e.GetBillableCompletionTokens())
			}
		}
	}
	if gone != 1 {
		t.Errorf("consumers hung up: got %d, want 1", gone)
	}
	call := w.call(w.order(a, true))
	go fakeagent.V1Answer("x")(a.request())
	if end := call.rest(); end.finished == nil {
		t.Errorf("behind it: %v", end.failed)
	}
	if a.State().Unknown > 0 {
		t.Errorf("the hub said what the agent does not know: %v", a.Received())
	}
	a.alive()
}

func TestV1Fact07_StreamEndAloneProvesNothing(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	a := w.join(w.active(), fakeagent.V1Options{})
	for i, c := range []struct {
		name   string
		do     func(*fakeagent.V1Request)
		ending eventsv1.Ending
	}{
		{"good", fakeagent.V1Answer("Hello world"), eventsv1.Ending_ENDING_COMPLETED},
		{"no done", fakeagent.V1CutShort("Hello world"), eventsv1.Ending_ENDING_TRUNCATED},
		{"no finish_reason", fakeagent.V1Unfinished("Hello world"), eventsv1.Ending_ENDING_TRUNCATED},
		{"a finish_reason and no done", func(r *fakeagent.V1Request) {
			_, _, _ = r.Text("Hello world"), r.Finish("stop"), r.End()
		}, eventsv1.Ending_ENDING_TRUNCATED},
		{"an error inside", fakeagent.V1ErrorInside(`{"error":{"message":"out of memory","code":500}}`, "Hello world"),
			eventsv1.Ending_ENDING_ENGINE_ERROR},
	} {
		call := w.call(w.order(a, true))
		go c.do(a.request())
		end := call.rest()
		e := usage.next(i + 1)
		if good := c.ending == eventsv1.Ending_ENDING_COMPLETED; e.GetEnding() != c.ending || (end.finished != nil) != good ||
			!good && (e.GetBillablePromptTokens() != 0 || end.failed.GetRetryable()) {
			t.Errorf("%s: finished %v, failed %v, usage %v", c.name, end.finished, end.failed, e)
		}
	}
	call := w.call(w.order(a, true))
	go fakeagent.V1Broken("Hello world")(a.request())
	end := call.rest()
	if e := usage.next(6); end.failed == nil || end.failed.GetRetryable() || e.GetBillablePromptTokens() != 0 ||
		e.GetEnding() == eventsv1.Ending_ENDING_COMPLETED {
		t.Errorf("broken off: finished %v, failed %v, usage %v", end.finished, end.failed, e)
	}
	a.alive()
}

func TestV1Fact08_OnlyChatIsDispatched(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	for _, endpoint := range []hubv1.Endpoint{embeddings, images, transcriptions} {
		open := w.order(a, false)
		open.Endpoint = endpoint
		if endpoint == embeddings {
			open.Inputs, open.MaxOutputTokens, open.Choices = 2, 0, 0
		}
		if err := w.call(open).err(); err == nil {
			t.Errorf("%v was dispatched", endpoint)
		}
	}
	if n := len(a.heard("inference")); n != 0 {
		t.Errorf("requests reached the agent: got %d, want 0", n)
	}
	a.alive()
}

func TestV1Fact09_TheHubAsksOnlyByInference(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{Handler: fakeagent.V1Answer("Hello")})
	for _, stream := range []bool{true, false} {
		w.call(w.order(a, stream)).rest()
	}
	for _, f := range a.Received() {
		if f.Type != "ack" && f.Type != "inference" {
			t.Errorf("the hub sent %s", f.Type)
		}
	}
}

// One consumer who does not read loses its own request; the socket is read on.
func TestV1Fact10_ASlowConsumerLosesItsOwnRequestAlone(t *testing.T) {
	t.Parallel()
	for name, piece := range map[string]struct {
		text string
		n    int
	}{"many small chunks": {"word ", 8000}, "few large chunks": {strings.Repeat("word ", 6000), 200}} {
		t.Run(name, func(t *testing.T) {
			w := setupV1(t)
			usage := w.listen()
			a := w.join(w.active(), fakeagent.V1Options{Timing: fakeagent.V1Observed()}) // with the patience of agents
			long := w.order(a, true)
			long.MaxOutputTokens = 1 << 30
			slow := w.call(long)
			r := a.request()
			must(t, r.Text("Hello"))
			slow.content()
			other := w.call(w.order(a, true))
			beside := a.request()
			for range piece.n {
				must(t, r.Text(piece.text))
			}
			must(t, r.Finish("stop"))
			must(t, r.Usage(10, 9))
			must(t, r.Done())
			must(t, r.End())
			go fakeagent.V1Answer("not", " stalled")(beside)
			if end := other.rest(); end.finished == nil {
				t.Errorf("the other stream failed: %v", end.failed)
			}
			end := slow.rest()
			if end.failed == nil || end.failed.GetRetryable() {
				t.Errorf("the slow one: %d events, finished %v, failed %v", len(end.events), end.finished, end.failed)
			}
			bytes := 0
			for _, e := range end.events {
				bytes += len(e.GetJson())
			}
			if bytes > 4<<20 {
				t.Errorf("%d events of %d bytes were kept for a consumer who does not read: got %d, want at most 4<<20",
					len(end.events), bytes, bytes)
			}
			usage.next(2)
			a.alive()
		})
	}
}

func TestV1LostConnectionFailsItsRequestsAtOnce(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	usage := w.listen()
	a := w.join(w.active(), fakeagent.V1Options{})
	begun, waiting := w.call(w.order(a, true)), (*call)(nil)
	r := a.request()
	must(t, r.Text("Hello world"))
	begun.content()
	waiting = w.call(w.order(a, true))
	a.request()
	a.Cut()
	if end := begun.rest(); end.failed == nil || end.failed.GetRetryable() {
		t.Errorf("a stream with content: %v", end.failed)
	}
	if end := waiting.rest(); !end.failed.GetRetryable() {
		t.Errorf("a stream without: %v", end.failed)
	}
	if e := usage.next(1); e.GetEnding() != eventsv1.Ending_ENDING_PROVIDER_LOST || e.GetBillablePromptTokens() != 0 {
		t.Errorf("usage %v", e)
	}
	a.until("it is back", func(s fakeagent.V1State) bool { return s.Registrations == 2 })
	call := w.call(w.order(a, false))
	go fakeagent.V1Answer("back")(a.request())
	if end := call.rest(); end.finished == nil {
		t.Errorf("after it came back: %v", end.failed)
	}
}

// A whole answer is one message, which may be large.
func TestV1WholeAnswersOfMebibytesPass(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	a := w.join(w.active(), fakeagent.V1Options{})
	for _, size := range []int{100 << 10, 1 << 20, 8 << 20} {
		long := w.order(a, false)
		long.MaxOutputTokens = 1 << 30
		call := w.call(long)
		must(t, a.request().Whole(fakeagent.V1Completion(strings.Repeat("x", size), 10, 1)))
		end := call.rest()
		if end.finished == nil || len(end.events) != 1 || len(end.events[0].GetJson()) < size {
			t.Errorf("%d bytes: %d events, %v", size, len(end.events), end.failed)
		}
	}
	a.alive()
}
