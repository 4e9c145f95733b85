package connection

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/hardware"
)

func TestRegistrationTellsOfTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found atomic.Pointer[hardware.Report]
		b := setup(t, echo, options{piped: true, random: constant(0), deps: func(d *Deps) {
			d.Hardware = found.Load
		}})
		s := b.hub.AcceptLive()
		if h := s.Register.GetHardware(); h != nil {
			t.Errorf("of nothing it tells %v", h)
		}
		found.Store(&hardware.Report{
			Type: "RTX 4090", Model: "NVIDIA GeForce RTX 4090", Count: 2, MemoryMB: 24564, ComputeCapability: "8.9",
			Driver: "550", Engine: "vllm",
		})
		s.Kill()
		h := b.hub.AcceptLive().Register.GetHardware()
		if h.GetGpuType() != "RTX 4090" || h.GetGpuModel() != "NVIDIA GeForce RTX 4090" || h.GetGpuCount() != 2 ||
			h.GetMemoryTotalMb() != 24564 ||
			h.GetComputeCapability() != "8.9" || h.GetDriverVersion() != "550" || h.GetServingEngine() != "vllm" {
			t.Errorf("it tells %v", h)
		}
	})
}

func TestHeartbeatsTellTheLoadOfTheEngines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var active, queued atomic.Int32
		active.Store(1)
		b := setup(t, blocked, options{piped: true, deps: func(d *Deps) {
			d.Load = func() (int, int) { return int(active.Load()), int(queued.Load()) }
		}})
		s := b.hub.AcceptLive()
		s.ControlOf(isHeartbeat)
		for range 3 {
			s.Open("m", body(1))
		}
		pass(10 * time.Second)
		if h := s.ControlOf(isHeartbeat).GetHeartbeat(); h.GetActiveRequests() != 3 || h.GetQueuedRequests() != 0 {
			t.Errorf("with three of its own under way it tells %v", h)
		}
		active.Store(17) // others ask the engines, too
		queued.Store(5)
		pass(10 * time.Second)
		if h := s.ControlOf(isHeartbeat).GetHeartbeat(); h.GetActiveRequests() != 17 || h.GetQueuedRequests() != 5 {
			t.Errorf("it tells %v", h)
		}
	})
}

func TestEveryRegistrationShowsACredentialOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		b := setup(t, echo, options{piped: true, random: constant(0xff), deps: func(d *Deps) {
			d.Credential = func(context.Context) (Credential, error) {
				if asked++; asked == 2 {
					return Credential{}, errors.New("the service does not\nanswer")
				}
				return Credential{Owner: "0xabc", Signature: bytes.Repeat([]byte{byte(asked)}, 65), Nonce: "nonce"}, nil
			}
		}})
		s := b.hub.AcceptLive()
		if r := s.Register; r.GetToken() != "" || r.GetOwnerAddress() != "0xabc" || r.GetSignature()[0] != 1 ||
			r.GetAuthNonce() != "nonce" {
			t.Errorf("REGISTER is %v", r)
		}
		s.Kill()
		if r := b.hub.AcceptLive().Register; r.GetSignature()[0] != 3 {
			t.Errorf("REGISTER is %v", r)
		}
		if log := b.log.String(); b.hub.Dials() != 2 || !strings.Contains(log, "the service does notanswer") {
			t.Errorf("%d dials; the log is\n%s", b.hub.Dials(), log)
		}
	})
}

func TestOwnerIsToldOfTheStatusAndTheWarning(t *testing.T) {
	for status, want := range map[string]string{
		"pending": "svc-agent status", "under_review": "an operator looks", "approved": "deposit the collateral",
		"activating": "benchmark", "unheard-of": "svc-agent status", "active": "",
	} {
		b := setup(t, echo, options{})
		b.hub.Accept().Send(&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{
			Status: status, Warning: "this connection took\nanother's place",
		}}})
		<-b.link.Registered()
		b.stop()
		<-b.done
		log := b.log.String()
		if !strings.Contains(log, "the hub warns: this connection tookanother's place") {
			t.Errorf("%s: the warning is missing:\n%s", status, log)
		}
		if told := strings.Contains(log, "provider account is not active"); told != (want != "") ||
			!strings.Contains(log, want) {
			t.Errorf("%s: the log is\n%s", status, log)
		}
	}
}

func TestMachineThatBecomesKnownIsRegisteredAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var found atomic.Pointer[hardware.Report]
		found.Store(&hardware.Report{Type: "m3_max", Count: 1, Engine: "unknown"})
		b := setup(t, held(release), options{piped: true, random: constant(0), deps: func(d *Deps) {
			d.Hardware = found.Load
		}})
		old := b.hub.AcceptLive()
		found.Store(&hardware.Report{Type: "m3_max", Count: 1, Engine: "ollama"})
		pass(30 * time.Second)
		old.Ping()
		if b.hub.Dials() != 1 {
			t.Error("a young connection is renewed already")
		}
		pass(25 * time.Second)
		old.Ping()
		open := old.Open("m", body(1))
		fresh := b.hub.AcceptLive()
		if !old.Drains() {
			t.Error("the hub is not told before")
		}
		if h := fresh.Register.GetHardware(); h.GetServingEngine() != "ollama" {
			t.Errorf("the hub hears of %v", h)
		}
		if !isOpen(old) {
			t.Error("the old connection ended under its request")
		}
		close(release)
		if _, end := open.Answer(); !end.GetComplete() {
			t.Errorf("END is %v", end)
		}
		old.WaitClosed()
		for range 8 { // and once only
			pass(15 * time.Second)
			fresh.Ping()
		}
		if b.hub.Dials() != 2 {
			t.Errorf("%d dials", b.hub.Dials())
		}
	})
}

func TestHandOverCostsNothingUntilItsSuccessorCanRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures = 3
		var found atomic.Pointer[hardware.Report]
		found.Store(&hardware.Report{Type: "m3_max", Count: 1, Engine: "unknown"})
		var asked atomic.Int32
		b := setup(t, echo, options{piped: true, random: constant(0xff), deps: func(d *Deps) {
			d.Hardware = found.Load
			d.Credential = func(context.Context) (Credential, error) {
				if n := asked.Add(1); n > 1 && n <= 1+failures {
					return Credential{}, errors.New("the service does not answer")
				}
				return Credential{Key: testKey}, nil
			}
		}})
		old := b.hub.AcceptLive()
		for range 3 {
			pass(25 * time.Second)
			old.Ping()
		}
		b.hub.Refuse(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "full", http.StatusServiceUnavailable) })
		found.Store(&hardware.Report{Type: "m3_max", Count: 1, Engine: "ollama"})
		for b.hub.Dials() < 2 { // and the first one fails, too
			pass(50 * time.Millisecond)
			if got, end := old.Open("m", body(3)).Answer(); string(got) != body(3) || !end.GetComplete() {
				t.Fatalf("after %d credentials: END is %v", asked.Load(), end)
			}
		}
		if asked.Load() != 2+failures || old.Drains() {
			t.Errorf("%d credentials were asked for; drains: %v", asked.Load(), old.Drains())
		}
		b.setHealth(false) // the news is still the old one's to tell
		for beat := old.ControlOf(isHeartbeat).GetHeartbeat(); beat.GetModels()[0].GetHealthy(); {
			beat = old.ControlOf(isHeartbeat).GetHeartbeat()
		}
		fresh := b.hub.Accept()
		if !old.Drains() {
			t.Error("the hub is not told before the successor registers")
		}
		if _, end := old.Open("m", body(1)).Answer(); !end.GetBusy() {
			t.Errorf("once it gives way: END is %v", end)
		}
		fresh.Ack()
		old.WaitClosed()
		if b.link.Ready() != nil || strings.Contains(b.log.String(), "another agent with the node id") {
			t.Errorf("%v; the log is\n%s", b.link.Ready(), b.log)
		}
	})
}

func TestSuccessorDoesNotWaitForEverForAHubThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var found atomic.Pointer[hardware.Report]
		b := setup(t, echo, options{piped: true, random: constant(0), deps: func(d *Deps) { d.Hardware = found.Load }})
		old := b.hub.AcceptLive()
		for range 3 {
			pass(25 * time.Second)
			old.Ping()
		}
		old.IgnorePings()
		found.Store(&hardware.Report{Type: "m3_max", Count: 1})
		for b.hub.Dials() < 2 {
			pass(100 * time.Millisecond)
		}
		began := time.Now()
		b.hub.AcceptLive()
		if took := time.Since(began); took < heardTimeout-time.Second || took > heardTimeout || !old.Drains() {
			t.Errorf("it registers after %v", took)
		}
		old.WaitClosed()
	})
}
