package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

func isHeartbeat(f *agentv2.Frame) bool { return f.GetHeartbeat() != nil }
func isDrain(f *agentv2.Frame) bool     { return f.GetDrain() != nil }
func isError(f *agentv2.Frame) bool     { return f.GetError() != nil }

// pass lets time go by in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

// failing dials never succeed; at holds when each was tried.
type failing struct {
	mu sync.Mutex
	at []time.Time
}

func (f *failing) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = append(f.at, time.Now())
	return nil, errors.New("connection refused")
}

// pauses are the times between the first n+1 dials.
func (f *failing) pauses(n int) []time.Duration {
	for {
		pass(time.Second)
		f.mu.Lock()
		at := f.at
		f.mu.Unlock()
		if len(at) > n {
			var all []time.Duration
			for i := range n {
				all = append(all, at[i+1].Sub(at[i]))
			}
			return all
		}
	}
}

func TestReconnectBacksOffWithFullJitter(t *testing.T) {
	ceilings := []time.Duration{
		250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second,
	}
	for random, share := range map[constant]float64{0x00: 0, 0x80: 0.502, 0xff: 1} {
		t.Run(fmt.Sprintf("share %v", share), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if share == 0 {
					b := backoff{random: random}
					for range ceilings {
						if got := b.after(ending{}); got != 0 {
							t.Errorf("waits: got %v, want nothing", got)
						}
					}
					return
				}
				f := &failing{}
				setup(t, echo, options{piped: true, random: random, dial: f.dial})
				for i, got := range f.pauses(len(ceilings)) {
					want := time.Duration(share * float64(ceilings[i]))
					if got < want*99/100 || got > ceilings[i] {
						t.Errorf("pause %d: got %v, want about %v", i, got, want)
					}
				}
			})
		})
	}
}

func TestStableMinuteStartsTheBackOffAnew(t *testing.T) {
	b := backoff{random: constant(0xff)}
	for range 6 {
		b.after(ending{})
	}
	if got := b.after(ending{lived: 59 * time.Second}); got < 15*time.Second {
		t.Errorf("after a session of 59 s it waits: got %v, want at least %v", got, 15*time.Second)
	}
	if got := b.after(ending{lived: time.Minute}); got > backoffFirst {
		t.Errorf("after a session of a minute it waits: got %v, want at most %v", got, backoffFirst)
	}
}

func TestHubSaysWhenToComeBack(t *testing.T) {
	for told, least := range map[time.Duration]time.Duration{8 * time.Second: 8 * time.Second, time.Hour: maxHubPause} {
		early, late := backoff{random: constant(0)}, backoff{random: constant(0xff)}
		first, last := early.after(ending{code: "shutting_down", after: told}),
			late.after(ending{code: "shutting_down", after: told})
		if first != least {
			t.Errorf("told %v it waits: least: got %v, want %v", told, least, first)
		} else if last <= least+least/5 || last > least+least/4 {
			t.Errorf("told %v it waits: last: got %v, want more than %v and at most %v", told, last, least+least/5,
				least+least/4)
		}
	}
	b := backoff{random: constant(0xff)}
	if got := b.after(ending{code: agentwire.CodeInvalidKey, after: time.Second}); got < time.Minute {
		t.Errorf("a refused key is tried again after: got %v, want at least %v", got, time.Minute)
	}
	if got := b.after(ending{code: agentwire.CodeSuspended, after: 5 * time.Minute}); got < 5*time.Minute {
		t.Errorf("told 5 min it waits: got %v, want at least %v", got, 5*time.Minute)
	}
}

func TestReconnectHonoursTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		s := b.hub.AcceptLive()
		began := time.Now()
		s.Refuse("shutting_down", 9*time.Second)
		s.WaitClosed()
		b.hub.AcceptLive()
		if took := time.Since(began); took < 9*time.Second || took > 9*time.Second*5/4 {
			t.Errorf("it came back after: got %v, want %v to %v", took, 9*time.Second, 9*time.Second*5/4)
		}
	})
}

func TestRefusedHandshakeHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, dial: nil})
		s := b.hub.Accept()
		b.hub.Refuse(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "12")
			http.Error(w, "no room", http.StatusServiceUnavailable)
		})
		s.Refuse("try_later", time.Second)
		began := time.Now()
		b.hub.Accept()
		if took := time.Since(began); took < 13*time.Second || took > 13*time.Second*5/4 {
			t.Errorf("it came back after: got %v, want %v to %v", took, 13*time.Second, 13*time.Second*5/4)
		}
		if log := b.log.String(); !strings.Contains(log, "503 Service Unavailable: no room") {
			t.Errorf("the log does not say why:\n%s", log)
		}
	})
}

func TestRefusedKeyIsTriedSlowlyAndToldOnce(t *testing.T) {
	for _, code := range []string{agentwire.CodeInvalidKey, agentwire.CodeKeyRevoked, agentwire.CodeSuspended} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, echo, options{piped: true})
				for range 4 {
					s := b.hub.Accept()
					began := time.Now()
					s.Refuse(code, 2*time.Second)
					s.WaitClosed()
					synctest.Wait()
					if took := time.Since(began); took > time.Second {
						t.Errorf("the agent left after: got %v, want at most %v", took, time.Second)
					}
					dials := b.hub.Dials()
					pass(refusedWait - time.Second)
					if n := b.hub.Dials(); n != dials {
						t.Errorf("before a minute is over: b.hub.Dials(): got %d, want %d", n, dials)
					} else if b.link.Ready() == nil {
						t.Error("before a minute is over: b.link.Ready(): got no error, want one")
					}
					pass(refusedWait/4 + time.Second)
				}
				if n := b.hub.Dials(); n != 5 {
					t.Errorf("it dialled: got %d, want 5", n)
				}
				if n := strings.Count(b.log.String(), "level=ERROR"); n != 1 {
					t.Errorf("it is told %d times:\n%s", n, b.log)
				}
			})
		})
	}
}

func TestSupersededNodesDoNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		for _, least := range []time.Duration{1, 2, 4, 8, 16, 16} {
			s := b.hub.AcceptLive()
			began := time.Now()
			s.Refuse(agentwire.CodeSuperseded, 0)
			s.WaitClosed()
			pass(least * time.Minute * 99 / 100)
			dials := b.hub.Dials()
			pass(least * time.Minute / 3)
			if n := b.hub.Dials(); n != dials+1 {
				t.Errorf("after %v it dialled %d times, want once and not before %v min", time.Since(began), n-dials, least)
			}
		}
		if log := b.log.String(); !strings.Contains(log, "another agent with the node id node-under-test is connected") {
			t.Errorf("the log does not say why:\n%s", log)
		}
	})
}

func TestLostHubFailsItsRequestsAndIsDialledAgain(t *testing.T) {
	stopped := make(chan error, 1)
	started := make(chan struct{})
	b := setup(t, func(ctx context.Context, r Request, w io.Writer) Answer {
		if !r.Stream {
			return echo(ctx, r, w)
		}
		close(started)
		<-ctx.Done()
		stopped <- ctx.Err()
		return Answer{Err: ctx.Err()}
	}, options{random: constant(0)})
	s := b.hub.AcceptLive()
	<-b.link.Registered()
	s.Open("m", `{"model":"m","stream":true}`)
	<-started
	s.Kill()
	if err := <-stopped; err == nil {
		t.Error("the engine's work goes on")
	}
	s = b.hub.AcceptLive()
	for range 4 { // every slot is free again
		if got, end := s.Open("m", body(9)).Answer(); string(got) != body(9) {
			t.Errorf("after the reconnect: got %q, want %q", string(got), body(9))
		} else if !end.GetComplete() {
			t.Errorf("after the reconnect: end.GetComplete(): got false, want true, with %v", end)
		}
	}
}

func TestHeartbeatsComeAsTheHubWantsAndAtOnceOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		s := b.hub.Accept()
		synctest.Wait()
		pass(15 * time.Second) // an agent that is not acknowledged is silent
		s.Send(&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{Status: "pending",
			HeartbeatIntervalMs: 3000}}})
		s.ControlOf(isHeartbeat) // brings what has changed since REGISTER
		last := time.Now()
		for range 4 {
			beat := s.Control().GetHeartbeat()
			if took := time.Since(last); beat == nil {
				t.Fatal("beat: got nil, want a value")
			} else if took != 3*time.Second {
				t.Fatalf("a heartbeat came after: got %v, want %v", took, 3*time.Second)
			}
			if m := beat.GetModels(); len(m) != 1 {
				t.Errorf("len(m): got %d, want 1", len(m))
			} else if !m[0].GetHealthy() {
				t.Error("m[0].GetHealthy(): got false, want true")
			}
			last = time.Now()
		}
		b.setHealth(false)
		beat := s.Control().GetHeartbeat()
		if took := time.Since(last); took != 0 {
			t.Errorf("the change came after: got %v, want 0", took)
		} else if beat.GetModels()[0].GetHealthy() {
			t.Error("beat.GetModels()[0].GetHealthy(): got true, want false")
		}
		if !strings.Contains(b.log.String(), "provider account is not active") {
			t.Errorf(`the log, with the account pending: got %q, want "provider account is not active" in it`, b.log.String())
		}
	})
}

func TestHeartbeatIntervalIsBounded(t *testing.T) {
	for ms, want := range map[int64]time.Duration{1: heartbeatLeast, 0: heartbeatDefault, -5: heartbeatDefault,
		1 << 62: maxHeartbeat} {
		synctest.Test(t, func(t *testing.T) {
			b := setup(t, echo, options{piped: true})
			s := b.hub.Accept()
			s.Send(&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{HeartbeatIntervalMs: ms}}})
			s.ControlOf(isHeartbeat)
			last := time.Now()
			for time.Since(last) < want-time.Second/2 {
				pass(min(time.Second, want/2)) // Control waits for 20 s only
				s.Ping()
				synctest.Wait()
			}
			s.ControlOf(isHeartbeat)
			if took := time.Since(last); took > want+time.Second {
				t.Errorf("told %d ms, the heartbeat came after: got %v, want at most %v", ms, took, want+time.Second)
			}
		})
	}
}

func TestHubThatNeverAnswersTheHandshakeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		dials := make(chan struct{}, 8)
		hub := hubtest.NewPiped(t)
		began := time.Now()
		setup(t, echo, options{piped: true, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials <- struct{}{}
			if len(dials) == 1 {
				return near, nil
			}
			return hub.Dial(ctx, network, address)
		}})
		go func() { _, _ = io.Copy(io.Discard, far) }() // takes all, answers nothing
		hub.AcceptLive()
		if took := time.Since(began); took < handshakeTimeout || took > handshakeTimeout+time.Second {
			t.Errorf("it left after: got %v, want %v to %v", took, handshakeTimeout, handshakeTimeout+time.Second)
		}
	})
}

func TestHubThatFallsSilentIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, hub := &gated{}, hubtest.NewPiped(t)
		b := setup(t, echo, options{piped: true, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := hub.Dial(ctx, network, address)
			if gate.Conn == nil && err == nil {
				gate.Conn = conn
				return gate, nil
			}
			return conn, err
		}})
		s := hub.AcceptLive()
		<-b.link.Registered()
		pass(2 * time.Minute)
		if s.Pings() < 7 {
			t.Errorf("pings in two minutes: got %d, want at least 7", s.Pings())
		}
		if hub.Dials() != 1 {
			t.Fatalf("dials while the hub answers: got %d, want 1", hub.Dials())
		}
		gate.shut() // as if a router between had forgotten the connection
		began := time.Now()
		for hub.Dials() == 1 {
			pass(time.Second)
		}
		if took := time.Since(began); took < silence-pingInterval || took > silence+maxBackoff {
			t.Errorf("it dialled again after: got %v, want %v to %v", took, silence-pingInterval, silence+maxBackoff)
		}
	})
}

// gated is a connection from which nothing can be read any more once it is shut.
type gated struct {
	net.Conn
	mu   sync.Mutex
	held bool
}

func (g *gated) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = true
}

func (g *gated) Read(p []byte) (int, error) {
	for {
		n, err := g.Conn.Read(p)
		g.mu.Lock()
		held := g.held
		g.mu.Unlock()
		if !held || err != nil {
			return n, err
		}
	}
}

func TestPingsAreAnsweredWhileNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		s := b.hub.AcceptLive()
		s.ControlOf(isHeartbeat)
		s.Ping()
		synctest.Wait()
		if n := s.Pongs(); n != 1 {
			t.Errorf("pongs: got %d, want 1", n)
		}
	})
}

func TestDrainLetsRequestsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := setup(t, func(_ context.Context, r Request, w io.Writer) Answer {
			<-release
			_, err := w.Write(r.Body)
			return Answer{Status: 200, Err: err}
		}, options{piped: true})
		s := b.hub.AcceptLive()
		st := s.Open("m", body(10))
		synctest.Wait()
		b.stop()
		s.ControlOf(isDrain)
		if _, end := s.Open("m", body(10)).Answer(); !end.GetBusy() {
			t.Errorf("a new request: %v", end)
		}
		close(release)
		if got, end := st.Answer(); string(got) != body(10) {
			t.Errorf("the open request: got %q, want %q", string(got), body(10))
		} else if !end.GetComplete() {
			t.Errorf("the open request: end.GetComplete(): got false, want true, with %v", end)
		}
		s.WaitClosed()
		<-b.done
	})
}

func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, _ Request, _ io.Writer) Answer {
			<-ctx.Done()
			return Answer{Err: ctx.Err()}
		}, options{piped: true})
		s := b.hub.AcceptLive()
		s.Open("m", body(10))
		synctest.Wait()
		began := time.Now()
		b.stop()
		<-b.done
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took: got %v, want %v", took, 30*time.Second)
		}
	})
}

func TestStopBeforeRegistrationIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		s := b.hub.Accept()
		began := time.Now()
		b.stop()
		<-b.done
		s.WaitClosed()
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took: got %v, want at most %v", took, time.Second)
		}
	})
}

func TestReadyFollowsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		s := b.hub.Accept()
		synctest.Wait()
		if b.link.Ready() == nil {
			t.Error("ready before the acknowledgement")
		}
		s.Ack()
		<-b.link.Registered()
		if err := b.link.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
		s.Refuse("shutting_down", 5*time.Second)
		s.WaitClosed()
		synctest.Wait()
		if err := b.link.Ready(); err == nil {
			t.Error("after the hub left: got no error, want one")
		} else if !strings.Contains(err.Error(), "shutting_down") {
			t.Errorf(`after the hub left: got the error %q, want "shutting_down" in it`, err)
		}
	})
}

func TestTheLogHoldsNeitherKeyNorPrompt(t *testing.T) {
	b := setup(t, echo, options{random: constant(0)})
	s := b.hub.AcceptLive()
	st := s.Open("m", `{"model":"m","prompt":"very private"}`)
	st.Answer()
	s.Refuse("protocol_error", time.Millisecond)
	b.hub.AcceptLive().Kill()
	b.hub.AcceptLive()
	b.stop()
	<-b.done
	switch log := b.log.String(); {
	case strings.Contains(log, testKey):
		t.Errorf("the log: got %q, want it without %q", log, testKey)
	case strings.Contains(log, "private"):
		t.Errorf(`the log: got %q, want it without "private"`, log)
	case log == "":
		t.Error(`the log: got "", want some text`)
	}
}

func TestRegistrationThatFitsNoFrameIsRefusedEarly(t *testing.T) {
	var offers []Offer
	for i := range 256 {
		offers = append(offers, Offer{ModelID: fmt.Sprintf("%s%d", strings.Repeat("m", 197), i),
			Quantization: strings.Repeat("q", 32)})
	}
	if _, err := New(Config{}, Deps{Offers: func() []Offer { return offers }}); err == nil {
		t.Error("it is accepted")
	}
}
