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
			t.Errorf("of nothing it tells: got %v, want nil", h)
		}
		found.Store(&hardware.Report{
			Type: "RTX 4090", Model: "NVIDIA GeForce RTX 4090", Count: 2, MemoryMB: 24564, ComputeCapability: "8.9",
			Driver: "550", Engine: "vllm",
		})
		s.Kill()
		h := b.hub.AcceptLive().Register.GetHardware()
		switch {
		case h.GetGpuType() != "RTX 4090":
			t.Errorf(`it tells: h.GetGpuType(): got %q, want "RTX 4090"`, h.GetGpuType())
		case h.GetGpuModel() != "NVIDIA GeForce RTX 4090":
			t.Errorf(`it tells: h.GetGpuModel(): got %q, want "NVIDIA GeForce RTX 4090"`, h.GetGpuModel())
		case h.GetGpuCount() != 2:
			t.Errorf("it tells: h.GetGpuCount(): got %d, want 2", h.GetGpuCount())
		case h.GetMemoryTotalMb() != 24564:
			t.Errorf("it tells: h.GetMemoryTotalMb(): got %d, want 24564", h.GetMemoryTotalMb())
		case h.GetComputeCapability() != "8.9":
			t.Errorf(`it tells: h.GetComputeCapability(): got %q, want "8.9"`, h.GetComputeCapability())
		case h.GetDriverVersion() != "550":
			t.Errorf(`it tells: h.GetDriverVersion(): got %q, want "550"`, h.GetDriverVersion())
		case h.GetServingEngine() != "vllm":
			t.Errorf(`it tells: h.GetServingEngine(): got %q, want "vllm"`, h.GetServingEngine())
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
		if h := s.ControlOf(isHeartbeat).GetHeartbeat(); h.GetActiveRequests() != 3 {
			t.Errorf("with three of its own under way it tells: h.GetActiveRequests(): got %d, want 3", h.GetActiveRequests())
		} else if h.GetQueuedRequests() != 0 {
			t.Errorf("with three of its own under way it tells: h.GetQueuedRequests(): got %d, want 0", h.GetQueuedRequests())
		}
		active.Store(17) // others ask the engines, too
		queued.Store(5)
		pass(10 * time.Second)
		if h := s.ControlOf(isHeartbeat).GetHeartbeat(); h.GetActiveRequests() != 17 {
			t.Errorf("it tells: h.GetActiveRequests(): got %d, want 17", h.GetActiveRequests())
		} else if h.GetQueuedRequests() != 5 {
			t.Errorf("it tells: h.GetQueuedRequests(): got %d, want 5", h.GetQueuedRequests())
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
		switch r := s.Register; {
		case r.GetToken() != "":
			t.Errorf(`REGISTER: r.GetToken(): got %q, want ""`, r.GetToken())
		case r.GetOwnerAddress() != "0xabc":
			t.Errorf(`REGISTER: r.GetOwnerAddress(): got %q, want "0xabc"`, r.GetOwnerAddress())
		case r.GetSignature()[0] != 1:
			t.Errorf("REGISTER: r.GetSignature()[0]: got %d, want 1", r.GetSignature()[0])
		case r.GetAuthNonce() != "nonce":
			t.Errorf(`REGISTER: r.GetAuthNonce(): got %q, want "nonce"`, r.GetAuthNonce())
		}
		s.Kill()
		if r := b.hub.AcceptLive().Register; r.GetSignature()[0] != 3 {
			t.Errorf("REGISTER: got %d, want 3", r.GetSignature()[0])
		}
		if log := b.log.String(); b.hub.Dials() != 2 {
			t.Errorf("b.hub.Dials(): got %d, want 2", b.hub.Dials())
		} else if !strings.Contains(log, "the service does notanswer") {
			t.Errorf(`log: got %q, want "the service does notanswer" in it`, log)
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
		if told := strings.Contains(log, "provider account is not active"); told != (want != "") {
			t.Errorf("%s: told: got %t, want %t", status, told, want != "")
		} else if !strings.Contains(log, want) {
			t.Errorf("%s: the log: got %q, want %q in it", status, log, want)
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
			t.Errorf(`the hub hears: got %q, want "ollama"`, h.GetServingEngine())
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
			t.Errorf("dials: got %d, want 2", b.hub.Dials())
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
			if got, end := old.Open("m", body(3)).Answer(); string(got) != body(3) {
				t.Fatalf("got %q, want %q", string(got), body(3))
			} else if !end.GetComplete() {
				t.Fatalf("end.GetComplete(): got false, want true, with %v", end)
			}
		}
		if asked.Load() != 2+failures {
			t.Errorf("%d credentials were asked for; drains: %v: asked.Load(): got %d, want %d", asked.Load(), old.Drains(),
				asked.Load(), 2+failures)
		} else if old.Drains() {
			t.Errorf("%d credentials were asked for; drains: %v: old.Drains(): got true, want false", asked.Load(), old.Drains())
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
		if b.link.Ready() != nil {
			t.Errorf("b.link.Ready(): got the error %v, want none", b.link.Ready())
		} else if strings.Contains(b.log.String(), "another agent with the node id") {
			t.Errorf(`b.log: got %q, want it without "another agent with the node id"`, b.log.String())
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
		if took := time.Since(began); took < heardTimeout-time.Second || took > heardTimeout {
			t.Errorf("it registers after: got %v, want %v to %v", took, heardTimeout-time.Second, heardTimeout)
		} else if !old.Drains() {
			t.Error("old.Drains(): got false, want true")
		}
		old.WaitClosed()
	})
}
