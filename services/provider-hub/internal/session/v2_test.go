package session_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/gpu"
	. "svc.internal/services/provider-hub/internal/session"
)

func TestRegisterTellsOfTheMachineAndTheWallet(t *testing.T) {
	s := fresh(Config{}, speakV2())
	defer s.end()
	d := s.desk
	d.Warning = "look at this"
	register := &agentv2.Register{
		NodeId: "node-0001", OwnerAddress: "0xabc", Signature: []byte{1, 2}, AuthNonce: "n-1",
		Hardware: &agentv2.Hardware{
			GpuType: "RTX\n4090", GpuModel: strings.Repeat("m", 100), GpuCount: -1, MemoryTotalMb: 24564,
			ComputeCapability: "8.9\n\u202e10.0\n", DriverVersion: "550", CudaVersion: "12", ServingEngine: "vllm",
		},
	}
	if why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}})); why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	shown := d.Heard().Shown[0]
	switch {
	case shown.Key != "":
		t.Errorf(`showed: shown.Key: got %q, want ""`, shown.Key)
	case shown.Owner != "0xabc":
		t.Errorf(`showed: shown.Owner: got %q, want "0xabc"`, shown.Owner)
	case !bytes.Equal(shown.Signature, []byte{1, 2}):
		t.Errorf("showed: shown.Signature: got %q, want %q", shown.Signature, []byte{1, 2})
	case shown.Nonce != "n-1":
		t.Errorf(`showed: shown.Nonce: got %q, want "n-1"`, shown.Nonce)
	}
	want := gpu.Report{
		Type: "RTX4090", Model: strings.Repeat("m", 64), MemoryMB: 24564, ComputeCapability: "8.9\n10.0",
		Driver: "550", CUDA: "12", Engine: "vllm",
	}
	v, _ := s.View()
	switch {
	case v.Hardware == nil:
		t.Error("view: v.Hardware: got nil, want a value")
	case *v.Hardware != want:
		t.Errorf("view: *v.Hardware: got %+v, want %+v", *v.Hardware, want)
	case v.Dialect != "v2":
		t.Errorf(`view: v.Dialect: got %q, want "v2"`, v.Dialect)
	case v.Capacity != 0:
		t.Errorf("view: v.Capacity: got %d, want 0", v.Capacity)
	case v.TakesWarmups:
		t.Error("view: v.TakesWarmups: got true, want false")
	}
	if f := sent(t, s); len(f) != 1 {
		t.Errorf("len(f): got %d, want 1, in %v", len(f), f)
	} else if f[0].GetRegisterAck().GetWarning() != "look at this" {
		t.Errorf(`f[0].GetRegisterAck().GetWarning(): got %q, want "look at this"`, f[0].GetRegisterAck().GetWarning())
	}
}

func TestLoadOfAHeartbeatIsToldWhenItChanges(t *testing.T) {
	s := live(t, Config{}, "m")
	d := s.desk
	before := d.Heard().Touched
	for i, h := range []*agentv2.Heartbeat{
		{ActiveRequests: 3, QueuedRequests: 4}, {ActiveRequests: 3, QueuedRequests: 4},
		{ActiveRequests: -7, QueuedRequests: 1 << 30},
	} {
		beat := &agentv2.Frame{Seq: uint32(i + 2), Body: &agentv2.Frame_Heartbeat{Heartbeat: h}}
		if why := s.receive(encode(t, beat)); why != nil {
			t.Fatal(why)
		}
		switch v, _ := s.View(); {
		case i < 2 && v.ReportedActive != 3:
			t.Errorf("view: v.ReportedActive: got %d, want 3, where i < 2", v.ReportedActive)
		case i < 2 && v.ReportedQueued != 4:
			t.Errorf("view: v.ReportedQueued: got %d, want 4, where i < 2", v.ReportedQueued)
		case len(v.Offers) != 1:
			t.Errorf("view: len(v.Offers): got %d, want 1, in %+v", len(v.Offers), v)
		}
	}
	switch v, _ := s.View(); {
	case v.ReportedActive != 0:
		t.Errorf("view: v.ReportedActive: got %d, want 0", v.ReportedActive)
	case v.ReportedQueued != 1<<20:
		t.Errorf("view: v.ReportedQueued: got %d, want 1<<20", v.ReportedQueued)
	case d.Heard().Touched != before+2:
		t.Errorf("d.Heard().Touched: got %d, want %d", d.Heard().Touched, before+2)
	}
}

// A count of machines that is not known leaves the last one.
func TestHeartbeatsAreAnsweredWithTheStatusAndTheMachines(t *testing.T) {
	s := live(t, Config{}, "m")
	sent(t, s)
	for i, c := range []struct {
		tell         func()
		wantStatus   string
		wantMachines int32
	}{
		{func() { s.Tell("pending", 1) }, "pending", 1},
		{func() { s.Tell("active", 2) }, "active", 2},
		{func() { s.Tell("active", 0) }, "active", 2},
	} {
		c.tell()
		beat := &agentv2.Frame{Seq: uint32(i + 2), Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{}}}
		if why := s.receive(encode(t, beat)); why != nil {
			t.Fatal(why)
		}
		answers := sent(t, s)
		if len(answers) != 1 {
			t.Fatalf("heartbeat %d: got %d frames, want 1", i, len(answers))
		}
		ack := answers[0].GetHeartbeatAck()
		if ack.GetStatus() != c.wantStatus {
			t.Errorf("heartbeat %d: status: got %q, want %q", i, ack.GetStatus(), c.wantStatus)
		}
		if ack.GetMachines() != c.wantMachines {
			t.Errorf("heartbeat %d: machines: got %d, want %d", i, ack.GetMachines(), c.wantMachines)
		}
	}
}

func TestWarmUpResultsThatNobodyAskedForAreCountedAndPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // tokens come with time
		s := live(t, Config{}, "m")
		result := &agentv2.Frame_WarmupResult{WarmupResult: &agentv2.WarmupResult{ModelId: "m", Success: true}}
		n := 0
		for ; n < 200; n++ {
			if why := s.receive(encode(t, &agentv2.Frame{Seq: uint32(n + 2), Body: result})); why != nil {
				break
			}
		}
		if n != ChatterBurst {
			t.Errorf("ended at number: got %d, want %d", n, ChatterBurst)
		} else if len(s.desk.Heard().Warmed) != 0 {
			t.Errorf("ended at number: len(s.desk.Heard().Warmed): got %d, want 0, in %v", len(s.desk.Heard().Warmed),
				s.desk.Heard().Warmed)
		}
	})
}
