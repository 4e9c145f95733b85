package providerhub_test

import (
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"svc.internal/pkg/fakeagent"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// An agent that lost its socket goes on with its streams on the next one. Nobody
// there asked for them, and closing that one too would go on for ever.
func TestV1OldStreamsOnANewSocketCloseNothing(t *testing.T) {
	t.Parallel()
	const streams, each = 10, 50 * time.Millisecond
	for name, lose := range map[string]func(*v1World, *v1Agent){
		"the socket is cut": func(_ *v1World, a *v1Agent) { a.Cut() },
		"another hub comes": func(w *v1World, _ *v1Agent) { w.halt(w.hub); w.start(); w.point() },
	} {
		t.Run(name, func(t *testing.T) {
			w := setupV1(t)
			stop, begun := make(chan struct{}), make(chan struct{}, streams)
			a := w.join(w.active(), fakeagent.V1Options{Rate: -1, MaxPerModel: 2 * streams,
				Handler: func(r *fakeagent.V1Request) {
					if !r.Stream {
						fakeagent.V1Answer("back")(r)
						return
					}
					pace := time.NewTicker(each)
					defer pace.Stop()
					_ = r.Text("word ")
					begun <- struct{}{}
					for r.Text("word ") == nil {
						select {
						case <-pace.C:
						case <-stop:
							return
						}
					}
				}})
			defer close(stop)
			for range streams {
				w.call(w.order(a, true))
				wait(t, "a stream begins", begun)
			}
			lose(w, a)
			a.until("it is registered again", func(s fakeagent.V1State) bool { return s.Registered && s.Registrations > 1 })
			// As much comes of the old streams as has ended connections before, twice.
			back := time.NewTicker(each)
			defer back.Stop()
			for range 3 * time.Second / each {
				<-back.C
				if s := a.State(); s.Registrations != 2 {
					break
				}
			}
			for _, l := range a.State().Lives {
				if l.Code == websocket.ClosePolicyViolation {
					t.Errorf("closed: got %d, want any but %d", l.Code, websocket.ClosePolicyViolation)
				}
			}
			if s := a.State(); s.Registrations != 2 {
				t.Errorf("the agent has been through: s.Registrations: got %d, want 2", s.Registrations)
			} else if len(s.Lives) != 1 {
				t.Errorf("the agent has been through: len(s.Lives): got %d, want 1, in %+v", len(s.Lives), s)
			}
			w.told("the session is back", a.node, func(*eventsv1.Session) bool { return true })
			if r := w.call(w.order(a, false)).rest(); r.finished == nil {
				t.Errorf("a request behind it: %v", r.failed)
			}
		})
	}
}
