package connection

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

func answerHeartbeat(s *hubtest.Session, ack *agentv2.HeartbeatAck) {
	s.Send(&agentv2.Frame{Body: &agentv2.Frame_HeartbeatAck{HeartbeatAck: ack}})
}

func TestAPausedAgentStaysConnectedAndTakesNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		s := b.hub.AcceptLive()
		healthy := func(want bool) {
			t.Helper()
			for range 100 {
				if s.ControlOf(isHeartbeat).GetHeartbeat().GetModels()[0].GetHealthy() == want {
					return
				}
			}
			t.Errorf("no heartbeat says that the model's health is %t", want)
		}
		for range 2 {
			b.link.Pause(true)
			healthy(false)
			if _, end := s.Open("m", body(10)).Answer(); !end.GetBusy() {
				t.Errorf("a request to a paused agent: got the end %v, want a busy one", end)
			}
			now := b.link.View()
			if !now.Paused {
				t.Error("paused: got false, want true")
			}
			if !now.Connected {
				t.Error("connected: got false, want true")
			}
			b.link.Pause(false)
			healthy(true)
			if _, end := s.Open("m", body(10)).Answer(); !end.GetComplete() {
				t.Errorf("a request after the pause: got the end %v, want a complete one", end)
			}
		}
		if got := b.hub.Dials(); got != 1 {
			t.Errorf("connections: got %d, want 1", got)
		}
	})
}

func TestAChangeOfTheAccountIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		s := b.hub.Accept()
		s.Send(&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{
			ProviderName: "tester", ProviderId: "p", Status: "pending", HeartbeatIntervalMs: 10_000, Warning: "look\n",
			RefusedModels: map[string]string{"x": "not in the catalog"},
		}}})
		for range 3 {
			answerHeartbeat(s, &agentv2.HeartbeatAck{}) // of an old hub
			answerHeartbeat(s, &agentv2.HeartbeatAck{Status: "active", Machines: 1})
			answerHeartbeat(s, &agentv2.HeartbeatAck{Status: "active", Machines: 2})
			pass(time.Second)
		}
		for text, want := range map[string]int{
			"requests may come": 1, "somebody has your key": 1, "not active: no requests will come": 1,
		} {
			if got := strings.Count(b.log.String(), text); got != want {
				t.Errorf("%q in the log: got %d, want %d", text, got, want)
			}
		}
		now := b.link.View()
		if now.Status != "active" {
			t.Errorf(`status: got %q, want "active"`, now.Status)
		}
		if now.Machines != 2 {
			t.Errorf("machines: got %d, want 2", now.Machines)
		}
		if now.Warning != "look" {
			t.Errorf(`warning: got %q, want "look"`, now.Warning)
		}
		if now.Refused["x"] == "" {
			t.Error("the refused model is not kept")
		}
		answerHeartbeat(s, &agentv2.HeartbeatAck{Status: "suspended", Machines: 2})
		pass(time.Second)
		if got := strings.Count(b.log.String(), "not active: no requests will come"); got != 2 {
			t.Errorf("said that it is not active: got %d times, want 2", got)
		}
	})
}

func TestTheTimeConnectedIsCountedOverAllSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true, random: constant(0)})
		want := func(what string, connected bool, total time.Duration) {
			t.Helper()
			now := b.link.View()
			if now.Connected != connected {
				t.Errorf("%s: connected: got %t, want %t", what, now.Connected, connected)
			}
			if got := now.Total.Round(time.Second); got != total {
				t.Errorf("%s: in all: got %v, want %v", what, got, total)
			}
		}
		want("before the first connection", false, 0)
		if b.link.View().Fault == "" {
			t.Error("the fault before the first connection: got none, want one")
		}
		first := b.hub.AcceptLive()
		pass(10 * time.Second)
		first.Kill()
		second := b.hub.Accept()
		pass(20 * time.Second) // not acknowledged yet
		want("between two", false, 10*time.Second)
		second.Ack()
		pass(5 * time.Second)
		want("in the second", true, 15*time.Second)
	})
}
