package connection

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// drainIn is what a hub says when it is about to stop.
func drainIn(after time.Duration) *agentv2.Frame {
	return &agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{ReconnectAfterMs: after.Milliseconds()}}}
}

// held answers requests once release is closed.
func held(release <-chan struct{}) Serve {
	return func(ctx context.Context, r Request, w io.Writer) Answer {
		select {
		case <-release:
		case <-ctx.Done():
			return Answer{Err: ctx.Err()}
		}
		_, err := w.Write(r.Body)
		return Answer{Status: 200, Err: err}
	}
}

func isOpen(s *hubtest.Session) bool {
	synctest.Wait()
	select {
	case <-s.Closed():
		return false
	default:
		return true
	}
}

func TestDrainedAgentConnectsAnewBeforeItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := setup(t, held(release), options{piped: true, random: constant(0)})
		old := b.hub.AcceptLive()
		open := old.Open("m", body(10))
		synctest.Wait()
		began := time.Now()
		old.Send(drainIn(9 * time.Second))
		fresh := b.hub.Accept()
		if took := time.Since(began); took != 9*time.Second {
			t.Errorf("it dials after: got %v, want %v", took, 9*time.Second)
		}
		pass(20 * time.Second) // the new hub takes its time; the old one still has the agent
		if !isOpen(old) {
			t.Fatal("while the new hub takes its time: isOpen(old): got false, want true")
		}
		if b.link.Ready() != nil {
			t.Fatalf("while the new hub takes its time: b.link.Ready(): got the error %v, want none", b.link.Ready())
		}
		fresh.Ack()
		next := fresh.Open("m", body(3))
		if !isOpen(old) {
			t.Fatal("the old connection ended under its request")
		}
		close(release)
		for which, st := range map[string]*hubtest.Stream{"open": open, "new": next} {
			if _, end := st.Answer(); !end.GetComplete() {
				t.Errorf("the %s request: %v", which, end)
			}
		}
		old.WaitClosed()
		if err := b.link.Ready(); err != nil {
			t.Errorf("not ready behind the end of the old one: %v", err)
		}
		if n := b.hub.Dials(); n != 2 {
			t.Errorf("dials: got %d, want 2", n)
		}
	})
}

func TestDelayOfADrainIsSpread(t *testing.T) {
	told := 20 * time.Second
	for random, want := range map[constant]time.Duration{0: told, 0xff: told + told/10} {
		b := backoff{random: random}
		if got := b.beside(ending{after: told}); got < want-time.Millisecond || got > want {
			t.Errorf("it waits: got %v, want about %v", got, want)
		}
	}
	b := backoff{random: constant(0xff)}
	var last time.Duration
	for range 12 { // a hub that drains whoever it acknowledges is not hammered
		last = b.beside(ending{after: time.Millisecond, lived: time.Second})
	}
	if last < maxBackoff-time.Second {
		t.Errorf("the twelfth time it waits: got %v, want at least %v", last, maxBackoff-time.Second)
	}
	if got := b.beside(ending{after: time.Hour}); got > maxHubPause+maxHubPause/10 {
		t.Errorf("told an hour it waits: got %v, want at most %v", got, maxHubPause+maxHubPause/10)
	}
}

func TestDrainedAgentStaysUntilAnotherHubTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, random: constant(0xff)})
		old := b.hub.AcceptLive()
		for range 3 {
			b.hub.Refuse(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "stopping",
					http.StatusServiceUnavailable)
			})
		}
		old.Send(drainIn(time.Second))
		for range 6 {
			pass(10 * time.Second)
			old.Ping()
			if b.hub.Dials() < 5 && !isOpen(old) {
				t.Fatal("the agent left before another hub took it")
			}
		}
		fresh := b.hub.Accept()
		if !isOpen(old) {
			t.Error("it left before it was acknowledged")
		}
		fresh.Refuse("try_later", 5*time.Second) // not this one either
		fresh.WaitClosed()
		if !isOpen(old) {
			t.Error("the old connection after a refusal elsewhere: isOpen(old): got false, want true")
		} else if b.link.Ready() != nil {
			t.Errorf("the old connection after a refusal elsewhere: b.link.Ready(): got the error %v, want none", b.link.Ready())
		}
		b.hub.AcceptLive()
		old.WaitClosed() // without requests at once
	})
}

func TestDrainedConnectionTakesNoNewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, random: constant(0)})
		old := b.hub.AcceptLive()
		old.Send(drainIn(time.Minute))
		if _, end := old.Open("m", body(1)).Answer(); !end.GetBusy() {
			t.Errorf("END is %v", end)
		}
		beats := 0
		for range 3 { // and the hub still hears that the agent lives
			pass(10 * time.Second)
			old.ControlOf(isHeartbeat)
			beats++
		}
		if beats != 3 {
			t.Errorf("heartbeats: beats: got %d, want 3", beats)
		} else if !isOpen(old) {
			t.Error("heartbeats: isOpen(old): got false, want true")
		}
	})
}

func TestHubThatDrainsAndLeavesIsNotDialledEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, random: constant(0)})
		old := b.hub.AcceptLive()
		began := time.Now()
		old.Send(drainIn(15 * time.Second))
		synctest.Wait()
		old.Kill()
		pass(10 * time.Second)
		if b.link.Ready() == nil {
			t.Error("ready without a connection")
		}
		b.hub.AcceptLive()
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("it came back after: got %v, want %v", took, 15*time.Second)
		}
	})
}

func TestSupersededByItselfIsNoFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, random: constant(0)})
		old := b.hub.AcceptLive()
		old.Send(drainIn(time.Second))
		fresh := b.hub.Accept()
		old.Refuse(agentwire.CodeSuperseded, 0) // the hub sees the newer connection first
		old.WaitClosed()
		fresh.Ack()
		pass(5 * time.Minute)
		if n := b.hub.Dials(); n != 2 {
			t.Errorf("b.hub.Dials(): got %d, want 2", n)
		} else if b.link.Ready() != nil {
			t.Errorf("b.link.Ready(): got the error %v, want none", b.link.Ready())
		}
		if log := b.log.String(); strings.Contains(log, "another agent with the node id") {
			t.Errorf("the owner is told of another agent:\n%s", log)
		}
	})
}

func TestStopEndsAllConnectionsWithinTheDrainTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, blocked, options{piped: true, random: constant(0)})
		old := b.hub.AcceptLive()
		old.Open("m", body(1))
		old.Send(drainIn(time.Second))
		b.hub.AcceptLive().Open("m", body(1))
		synctest.Wait()
		began := time.Now()
		b.stop()
		<-b.done
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took: got %v, want %v", took, 30*time.Second)
		}
	})
}

func TestConnectionsThatAreLeavingAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, blocked, options{piped: true, random: constant(0),
			offers: []Offer{{ModelID: "m", Capacity: 16, Healthy: true}}})
		var all []*hubtest.Session
		for range maxLeaving + 1 {
			s := b.hub.AcceptLive()
			s.Open("m", body(1))
			synctest.Wait()
			s.Send(drainIn(time.Second))
			all = append(all, s)
		}
		b.hub.AcceptLive()
		if isOpen(all[0]) {
			t.Error("the oldest is still open")
		}
		for i, s := range all[1:] {
			if !isOpen(s) {
				t.Errorf("connection %d was ended as well", i+1)
			}
		}
	})
}

func TestReceiptsGoOverTheNewConnection(t *testing.T) {
	const ended = 8
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{}, ended)
		serve := func(ctx context.Context, r Request, w io.Writer) Answer {
			select {
			case <-release:
				return streamed(3)(ctx, r, w)
			case <-ctx.Done():
				return Answer{Err: ctx.Err()}
			}
		}
		b := setup(t, serve, options{
			piped: true, random: constant(0), receipts: keep(t, ""),
			offers: []Offer{{ModelID: "m", Capacity: 16, Healthy: true}},
		})
		old := b.hub.AcceptLive()
		for i := range ended + 1 { // the last stays, and the connection with it
			proven(old, i, streamText)
		}
		synctest.Wait()
		old.Send(drainIn(time.Second))
		fresh := b.hub.Accept()
		pass(50 * time.Millisecond) // or both would look for receipts at the same instants
		fresh.Ack()
		for i := range ended {
			pass(37 * time.Millisecond * time.Duration(i))
			release <- struct{}{}
			if got := claims(fresh); len(got) != 1 {
				t.Errorf("receipts at once: got %d, want 1", len(got))
			}
		}
		if !isOpen(old) {
			t.Error("the old connection ended under its request")
		}
		for len(old.Frames()) > 0 {
			if f := old.Control(); f.GetReceipts() != nil {
				t.Errorf("receipts over the old connection: got %v, want nil", f.GetReceipts())
			}
		}
	})
}

func TestNoAnswerIsLostWhenAHubStops(t *testing.T) {
	const open = 40
	release := make(chan struct{})
	next := hubtest.New(t)
	dials := 0
	b := setup(t, held(release), options{
		random: constant(0), offers: []Offer{{ModelID: "m", Capacity: 2 * open, Healthy: true}},
		dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials++; dials > 1 {
				address = strings.TrimSuffix(strings.TrimPrefix(next.URL, "ws://"), "/ws")
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	old := b.hub.AcceptLive()
	var all []*hubtest.Stream
	for i := range open {
		all = append(all, old.Open("m", body(1000+i)))
	}
	old.Send(drainIn(10 * time.Millisecond))
	fresh := next.AcceptLive()
	for i := range open {
		all = append(all, fresh.Open("m", body(1000+open+i)))
	}
	close(release)
	for i, st := range all {
		if got, end := st.Answer(); string(got) != body(1000+i) || !end.GetComplete() {
			t.Errorf("request %d: END is %v behind %d bytes", i, end, len(got))
		}
	}
	old.WaitClosed()
	if err := b.link.Ready(); err != nil {
		t.Error(err)
	}
}
