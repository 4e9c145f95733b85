package session

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// old is an agent of dialect v1 that does nothing by itself.
type old struct {
	t    testing.TB
	ws   *websocket.Conn
	said chan said
	// left is why the connection ended, once gone is closed.
	left error
	gone chan struct{}
}

// said is a message of the hub.
type said struct {
	Type      string         `json:"type"`
	RequestID string         `json:"request_id"`
	Payload   map[string]any `json:"payload"`
}

// oldAgent connects without a subprotocol.
func (e *endpoint) oldAgent(t testing.TB) *old {
	t.Helper()
	a, err := e.dialOld(t)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (e *endpoint) dialOld(t testing.TB) (*old, error) {
	dialer := websocket.Dialer{NetDialContext: e.pipes.dial}
	ws, _, err := dialer.DialContext(t.Context(), "ws://hub/ws", http.Header{})
	if err != nil {
		return nil, err
	}
	a := &old{t: t, ws: ws, said: make(chan said, 1024), gone: make(chan struct{})}
	go a.listen()
	t.Cleanup(a.close)
	return a, nil
}

func (a *old) listen() {
	defer close(a.gone)
	for {
		var m said
		if a.left = a.ws.ReadJSON(&m); a.left != nil {
			return
		}
		a.said <- m
	}
}

func (a *old) close() {
	_ = a.ws.Close()
	<-a.gone
}

// send sends a message as it stands.
func (a *old) send(text string) {
	a.t.Helper()
	if err := a.ws.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		a.t.Error(err)
	}
}

// hears waits for a message of the hub.
func (a *old) hears() said {
	a.t.Helper()
	select {
	case m := <-a.said:
		return m
	case <-a.gone:
		select {
		case m := <-a.said:
			return m
		default:
		}
		a.t.Fatalf("the connection ended: %v", a.left)
	case <-time.After(10 * time.Minute):
		a.t.Fatal("the hub says nothing")
	}
	return said{}
}

// silent reports whether the hub says nothing for a while.
func (a *old) silent(d time.Duration) bool {
	select {
	case <-a.said:
		return false
	case <-a.gone:
		return false
	case <-time.After(d):
		return true
	}
}

// ends waits for the end of the connection and gives its status.
func (a *old) ends() int {
	a.t.Helper()
	select {
	case <-a.gone:
	case <-time.After(10 * time.Minute):
		a.t.Fatal("the connection stays open")
	}
	if closed, ok := a.left.(*websocket.CloseError); ok { //nolint:errorlint // as the library returns it
		return closed.Code
	}
	return 0
}

func registerText(key, node string, models ...string) string {
	if models == nil {
		models = []string{"m"}
	}
	list, _ := json.Marshal(models)
	return `{"type":"register","request_id":"r-1","payload":{"node_id":"` + node + `","token":"` + key + `","models":` + string(list) + `,"capabilities":["inference","verification"]}}`
}

// register registers and waits for the answer.
func (a *old) register(key, node string, models ...string) said {
	a.t.Helper()
	a.send(registerText(key, node, models...))
	return a.hears()
}

// liveOld is a registered v1 session without a socket.
func liveOld(t testing.TB, cfg Config, models ...string) *Session {
	t.Helper()
	s := fresh(cfg, speakV1)
	if why := s.wire.receive([]byte(registerText("good", "node-0001", models...))); why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	t.Cleanup(s.end)
	if got := sentOld(t, s); len(got) != 1 || got[0].Payload["success"] != true {
		t.Fatalf("registered with %v", got)
	}
	return s
}

// sentOld empties what the session has for its agent.
func sentOld(t testing.TB, s *Session) []said {
	t.Helper()
	var all []said
	for {
		var o outbox
		s.next(&o)
		for _, f := range o.frames {
			text := encoded(t, f)
			var m said
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			all = append(all, m)
		}
		if len(o.frames) == 0 || o.closing != nil {
			return all
		}
	}
}

// encoded is a frame as it is on the wire.
func encoded(t testing.TB, f frame) []byte {
	t.Helper()
	head, body, tail, err := f.parts(nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(head, body, []byte(tail))
}

// tell gives the session a message that it takes.
func tell(t testing.TB, s *Session, text string) {
	t.Helper()
	if why := s.wire.receive([]byte(text)); why != nil {
		t.Fatalf("%.200s: %v", text, why)
	}
}

// ask opens a request and lets it out.
func ask(t testing.TB, s *Session, stream bool) (st *Stream, id string) {
	t.Helper()
	st, err := s.Open(Request{RequestID: "r", Model: "m", Stream: stream, Body: []byte(`{"model":"m"}`)})
	if err != nil {
		t.Fatal(err)
	}
	out := sentOld(t, s)
	if len(out) == 0 || out[len(out)-1].Type != "inference" {
		t.Fatalf("sent %v", out)
	}
	return st, out[len(out)-1].RequestID
}
