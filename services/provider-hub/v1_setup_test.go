package providerhub_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
)

// closedYoung is the age below which the close of a socket may kill an agent
// of dialect v1 for ever. Agents are known to count to one second; the hub
// counts to two, which begin when it upgrades the socket: before an agent that
// is short of time looks at its own clock.
const closedYoung = 1300 * time.Millisecond

// v1World is a hub of which the test hears what it tells routers, behind an
// address that outlives it.
type v1World struct {
	*world
	front *httptest.Server
	to    atomic.Pointer[http.Handler]

	mu       sync.Mutex
	sessions map[int64]*eventsv1.Session
	fresh    map[int64]*eventsv1.Session // of the full report under way
	fulls    int                         // full reports that came
	changed  chan struct{}
}

func setupV1(t *testing.T, change ...func(*hubConfig)) *v1World {
	t.Helper()
	w := &v1World{world: setup(t, change...), sessions: map[int64]*eventsv1.Session{}, changed: make(chan struct{})}
	w.front = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter,
		r *http.Request) {
		(*w.to.Load()).ServeHTTP(rw, r)
	}))
	t.Cleanup(w.front.Close)
	w.point()
	stop := w.subscribe(bus.SubjectPresence(testHub), w.hear)
	t.Cleanup(stop)
	return w
}

// point has the address lead to the hub that runs now.
func (w *v1World) point() {
	h := w.hub.service.Handler()
	w.to.Store(&h)
}

// url is what agents of dialect v1 are configured with.
func (w *v1World) url() string { return "ws" + strings.TrimPrefix(w.front.URL, "http") }

func (w *v1World) hear(data []byte) {
	p := &eventsv1.Presence{}
	if err := proto.Unmarshal(data, p); err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.GetFull() && p.GetPart() == 0 {
		w.fresh = map[int64]*eventsv1.Session{}
	}
	for _, s := range p.GetSessions() {
		w.sessions[s.GetEpoch()] = s
		if p.GetFull() {
			w.fresh[s.GetEpoch()] = s
		}
	}
	if p.GetFull() && p.GetPart()+1 == p.GetParts() {
		w.sessions = w.fresh
		w.fulls++
	}
	for _, e := range p.GetEndedEpochs() {
		delete(w.sessions, e)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// told waits until routers know the newest session of a node to be such. What
// they knew before is not looked at.
func (w *v1World) told(what, node string, such func(*eventsv1.Session) bool) *eventsv1.Session {
	w.t.Helper()
	w.mu.Lock()
	known := w.fulls
	w.mu.Unlock()
	must(w.t, w.bus.Publish(w.t.Context(), bus.SubjectPresenceSync, nil, nil))
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		w.mu.Lock()
		changed, heard := w.changed, w.fulls > known
		var newest *eventsv1.Session
		for _, s := range w.sessions {
			if s.GetNodeId() == node && (newest == nil || s.GetEpoch() > newest.GetEpoch()) {
				newest = s
			}
		}
		w.mu.Unlock()
		if heard && newest != nil && such(newest) {
			return newest
		}
		select {
		case <-changed:
		case <-deadline.C:
			w.t.Fatalf("routers are not told: %s; of %s they know %v", what, node, newest)
		}
	}
}

// v1Agent is an agent of dialect v1 and the session that it has.
type v1Agent struct {
	*fakeagent.V1
	t    testing.TB
	node string
	who  member
}

// start runs an agent; it may never be registered.
func (w *v1World) startAgent(m member, opts fakeagent.V1Options) *v1Agent {
	w.t.Helper()
	opts.URL, opts.Key = w.url(), m.key
	if opts.Models == nil && !opts.NoModels {
		opts.Models = []string{testModel}
	}
	a := &v1Agent{V1: fakeagent.StartV1(opts), t: w.t, who: m}
	a.node = a.NodeID()
	if len(a.node) > 64 {
		a.node = fakeagent.V1HubNode(a.node)
	}
	w.t.Cleanup(a.Stop)
	return a
}

// join runs an agent and waits until the hub has acknowledged it.
func (w *v1World) join(m member, opts fakeagent.V1Options) *v1Agent {
	w.t.Helper()
	a := w.startAgent(m, opts)
	a.registered()
	return a
}

func (a *v1Agent) registered() {
	a.t.Helper()
	a.until("it is registered", func(s fakeagent.V1State) bool { return s.Registered || s.Dead != nil })
	must(a.t, a.State().Dead)
}

// until waits until the agent has been through such.
func (a *v1Agent) until(what string, such func(fakeagent.V1State) bool) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	if err := a.Await(ctx, such); err != nil {
		a.t.Fatalf("%s: %v", what, err)
	}
}

// alive fails the test if the agent lost a connection or its way.
func (a *v1Agent) alive() {
	a.t.Helper()
	switch s := a.State(); {
	case s.Dead != nil:
		a.t.Errorf("the agent has been through: s.Dead: got the error %v, want none", s.Dead)
	case len(s.Lives) > 0:
		a.t.Errorf("the agent has been through: len(s.Lives): got %d, want 0, in %+v", len(s.Lives), s)
	case !s.Registered:
		a.t.Error("the agent has been through: s.Registered: got false, want true")
	case s.Stalls > 0:
		a.t.Errorf("the agent has been through: s.Stalls: got %d, want 0", s.Stalls)
	}
}

// request waits for the next request that no handler takes.
func (a *v1Agent) request() *fakeagent.V1Request {
	a.t.Helper()
	select {
	case r := <-a.Requests():
		return r
	case <-time.After(patience):
		a.t.Fatalf("no request came: %+v", a.State())
		return nil
	}
}

// heard lists the hub's messages of a kind.
func (a *v1Agent) heard(kind string) []fakeagent.V1Frame {
	var all []fakeagent.V1Frame
	for _, f := range a.Received() {
		if f.Type == kind {
			all = append(all, f)
		}
	}
	return all
}

// order is an Open for the agent's session as routers know it.
func (w *v1World) order(a *v1Agent, stream bool) *hubv1.DispatchOpen {
	w.t.Helper()
	s := w.told("the session", a.node, func(*eventsv1.Session) bool { return true })
	return v1Order(w.t, a.who, a.node, s.GetEpoch(), stream)
}

func v1Order(t testing.TB, m member, node string, epoch int64, stream bool) *hubv1.DispatchOpen {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	must(t, err)
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, testModel, stream)
	return &hubv1.DispatchOpen{
		RequestId: id.String(), Attempt: 1, ProviderId: m.id, NodeId: node, Epoch: epoch,
		ModelId: testModel, Stream: stream, Body: []byte(body), ModelOffset: 9, ModelLength: uint32(len(testModel) + 2),
		EstimatedPromptTokens: 12, MaxOutputTokens: 1000, Choices: 1, PriceVersionId: "pv",
		Rates: &moneyv1.Rates{InputPicoUsdPerToken: 2, OutputPicoUsdPerToken: 4,
			PayoutInputPicoUsdPerToken: 1, PayoutOutputPicoUsdPerToken: 3},
		FirstContentTimeoutMs: 60_000, TotalTimeoutMs: 120_000,
	}
}

// handV1 is a provider's end of a connection, played by hand.
type handV1 struct {
	t      testing.TB
	ws     *websocket.Conn
	opened time.Time
	frames chan fakeagent.V1Frame
	closed chan struct{}
	err    error         // how reading ended
	age    time.Duration // when
}

// byHand opens a socket without registering.
func (w *v1World) byHand() *handV1 {
	w.t.Helper()
	opened := time.Now() // no later than the hub's own count begins
	ws, answer, err := websocket.DefaultDialer.DialContext(w.t.Context(), w.url()+"/ws", nil)
	must(w.t, err)
	answer.Body.Close()
	h := &handV1{t: w.t, ws: ws, opened: opened, frames: make(chan fakeagent.V1Frame, 4096), closed: make(chan struct{})}
	go h.read()
	w.t.Cleanup(func() { ws.NetConn().Close(); <-h.closed })
	return h
}

func (h *handV1) read() {
	defer close(h.closed)
	for {
		_, b, err := h.ws.ReadMessage()
		if err != nil {
			h.err, h.age = err, time.Since(h.opened)
			return
		}
		var f fakeagent.V1Frame
		if err := json.Unmarshal(b, &f); err != nil {
			h.t.Errorf("the hub sent %q", b)
			continue
		}
		select {
		case h.frames <- f:
		default:
		}
	}
}

// say sends text as it is.
func (h *handV1) say(text string) {
	h.t.Helper()
	must(h.t, h.ws.WriteMessage(websocket.TextMessage, []byte(text)))
}

func (h *handV1) send(kind, id string, payload any) {
	h.t.Helper()
	p, err := json.Marshal(payload)
	must(h.t, err)
	f, err := json.Marshal(fakeagent.V1Frame{Type: kind, RequestID: id, Payload: p})
	must(h.t, err)
	h.say(string(f))
}

// next is the hub's next message of a kind.
func (h *handV1) next(kind string) fakeagent.V1Frame {
	h.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case f := <-h.frames:
			if f.Type == kind {
				return f
			}
		case <-h.closed:
			h.t.Fatalf("closed while %s was due: %v", kind, h.err)
		case <-deadline.C:
			h.t.Fatalf("no %s came", kind)
		}
	}
}

// registerByHand sends a registration and waits for its ack.
func (h *handV1) registerByHand(m member, node string, more map[string]any) fakeagent.V1Frame {
	h.t.Helper()
	payload := map[string]any{"node_id": node, "token": m.key, "models": []string{testModel},
		"capabilities": []string{"inference", "verification"}}
	for name, value := range more {
		payload[name] = value
	}
	h.send("register", "first", payload)
	return h.next("ack")
}

// v1Ack is the payload of the hub's acks.
type v1Ack struct {
	RequestID string `json:"request_id"`
	Success   *bool  `json:"success"`
	Message   string `json:"message"`
}

func decode[T any](t testing.TB, f fakeagent.V1Frame) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(f.Payload, &v); err != nil {
		t.Fatalf("%s: %v", f.Payload, err)
	}
	return v
}

// names are the keys of an object.
func names(t testing.TB, object json.RawMessage) string {
	t.Helper()
	var o map[string]json.RawMessage
	if err := json.Unmarshal(object, &o); err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	var all []string
	for name := range o {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
