package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// comeBack dials as agents of v1 do, which wait longer each time that they are
// refused, and returns once it is registered.
func (e *endpoint) comeBack(t *testing.T, from netip.Addr, node string) *websocket.Conn {
	dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return e.pipes.DialFrom(ctx, from)
	}}
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		ws, _, err := dialer.DialContext(t.Context(), "ws://hub/ws", http.Header{})
		if err != nil {
			time.Sleep(wait) //nolint:forbidigo // of a synctest bubble
			continue
		}
		if err := ws.WriteMessage(websocket.TextMessage, []byte(sessiontest.RegisterText("good", node))); err != nil {
			t.Error(err)
		}
		var m said
		if err := ws.ReadJSON(&m); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if m.Payload["success"] != true {
			t.Errorf(`registered: m.Payload["success"]: got %v, want true`, m.Payload["success"])
		}
		go func() { // pings are answered
			for {
				if _, _, err := ws.ReadMessage(); err != nil {
					return
				}
			}
		}()
		return ws
	}
}

// All agents of a hub lose their connections at the same moment. Most are sent
// away at first, as the hub knows them, and nobody who registers is closed.
func TestAgentsAreBackWithinAMinuteWhenAllAreCutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const agents = 4000
		e := serve(t, Config{})
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}) }
		for i := range agents {
			e.gate.admission.left[address(i)] = time.Now()
		}
		began := time.Now()
		all := make([]*websocket.Conn, agents)
		var back sync.WaitGroup
		for i := range agents {
			back.Go(func() { all[i] = e.comeBack(t, address(i), fmt.Sprintf("node-%05d", i)) })
		}
		back.Wait()
		if took := time.Since(began); took > time.Minute || took < (agents-400)/200*time.Second {
			t.Errorf("all are back after: got %v, want at most %v and at least %v", took, time.Minute,
				(agents-400)/200*time.Second)
		}
		for _, ws := range all {
			_ = ws.Close()
		}
	})
}

// Whoever has a request under way hears of the end at once, however many others
// are leaving; they leave a few at a time.
func TestStreamsFailBeforeAnybodyWaitsToLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		idle, busy := e.oldAgent(t), e.oldAgent(t)
		idle.register("good", "node-idle")
		busy.register("good", "node-busy")
		st, err := e.desk.Session(t).Open(session.Request{RequestID: "r", Model: "m", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		busy.hears()
		exit := e.gate.teardown
		for range cap(exit) {
			exit <- struct{}{}
		}
		_, _ = idle.ws.Close(), busy.ws.Close()
		synctest.Wait()
		for _, s := range e.desk.Heard().Joined {
			if _, err := s.Open(session.Request{RequestID: "late", Model: "m", Body: []byte("{}")}); err == nil {
				t.Error("a session whose socket is gone takes a request")
			}
		}
		if _, _, err := st.Take(); !errors.Is(err, session.ErrLost) {
			t.Errorf("the stream ends: got the error %v, want %v", err, session.ErrLost)
		}
		if e.desk.Heard().Left != 0 {
			t.Errorf("agents that left while others were leaving: got %d, want 0", e.desk.Heard().Left)
		}
		for range cap(exit) {
			<-exit
		}
		synctest.Wait()
		if e.desk.Heard().Left != 2 {
			t.Errorf("%d have left, %d sockets are open: e.desk.Heard().Left: got %d, want 2", e.desk.Heard().Left,
				e.counts.Sockets.Load(), e.desk.Heard().Left)
		} else if e.counts.Sockets.Load() != 0 {
			t.Errorf("%d have left, %d sockets are open: e.counts.Sockets.Load(): got %d, want 0", e.desk.Heard().Left,
				e.counts.Sockets.Load(), e.counts.Sockets.Load())
		}
	})
}

// A defect in what a message leads to must not leave a connection behind that
// nobody serves.
func TestReaderThatPanicsEndsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.oldAgent(t)
		a.register("good", "node-0001")
		st, err := e.desk.Session(t).Open(session.Request{RequestID: "r", Model: "m", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		a.hears()
		e.desk.Set(func(r *sessiontest.Registrar) { r.Broken = true })
		a.send(`{"type":"heartbeat","request_id":"h","payload":{"models":["m","n"]}}`)
		a.ends()
		synctest.Wait()
		if _, _, err := st.Take(); !errors.Is(err, session.ErrLost) {
			t.Errorf("the stream ends: got the error %v, want %v", err, session.ErrLost)
		}
		if sockets, left := e.counts.Sockets.Load(), e.desk.Heard().Left; sockets != 0 {
			t.Errorf("sockets: got %d, want 0", sockets)
		} else if left != 1 {
			t.Errorf("left: got %d, want 1", left)
		}
	})
}
