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
	if shown.Key != "" || shown.Owner != "0xabc" || !bytes.Equal(shown.Signature, []byte{1, 2}) || shown.Nonce != "n-1" {
		t.Errorf("showed %+v", shown)
	}
	want := gpu.Report{
		Type: "RTX4090", Model: strings.Repeat("m", 64), MemoryMB: 24564, ComputeCapability: "8.9\n10.0",
		Driver: "550", CUDA: "12", Engine: "vllm",
	}
	v, _ := s.View()
	if v.Hardware == nil || *v.Hardware != want || v.Dialect != "v2" || v.Capacity != 0 || v.TakesWarmups {
		t.Errorf("view %+v with %+v", v, v.Hardware)
	}
	if f := sent(t, s); len(f) != 1 || f[0].GetRegisterAck().GetWarning() != "look at this" {
		t.Errorf("answered with %v", f)
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
		if v, _ := s.View(); i < 2 && (v.ReportedActive != 3 || v.ReportedQueued != 4) || len(v.Offers) != 1 {
			t.Errorf("view %+v", v)
		}
	}
	if v, _ := s.View(); v.ReportedActive != 0 || v.ReportedQueued != 1<<20 || d.Heard().Touched != before+2 {
		t.Errorf("view %+v, told %d times", v, d.Heard().Touched-before)
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
		if n != ChatterBurst || len(s.desk.Heard().Warmed) != 0 {
			t.Errorf("ended at number %d, told %v", n, s.desk.Heard().Warmed)
		}
	})
}
