package session

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/gpu"
)

func TestRegisterTellsOfTheMachineAndTheWallet(t *testing.T) {
	s := fresh(Config{}, speakV2)
	defer s.end()
	d := s.house.registrar.(*desk)
	d.warning = "look at this"
	register := &agentv2.Register{
		NodeId: "node-0001", OwnerAddress: "0xabc", Signature: []byte{1, 2}, AuthNonce: "n-1",
		Hardware: &agentv2.Hardware{
			GpuType: "RTX\n4090", GpuModel: strings.Repeat("m", 100), GpuCount: -1, MemoryTotalMb: 24564,
			ComputeCapability: "8.9\n\u202e10.0\n", DriverVersion: "550", CudaVersion: "12", ServingEngine: "vllm",
		},
	}
	if why := s.wire.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}})); why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	if shown := d.shown[0]; shown.Key != "" || shown.Owner != "0xabc" || !bytes.Equal(shown.Signature, []byte{1, 2}) || shown.Nonce != "n-1" {
		t.Errorf("showed %+v", shown)
	}
	want := gpu.Report{
		Type: "RTX4090", Model: strings.Repeat("m", 64), MemoryMB: 24564, ComputeCapability: "8.9\n10.0",
		Driver: "550", CUDA: "12", Engine: "vllm",
	}
	if v, _ := s.View(); v.Hardware == nil || *v.Hardware != want || v.Dialect != "v2" || v.Capacity != 0 || v.TakesWarmups {
		t.Errorf("view %+v with %+v", v, v.Hardware)
	}
	if f := sent(s); len(f) != 1 || f[0].GetRegisterAck().GetWarning() != "look at this" {
		t.Errorf("answered with %v", f)
	}
}

func TestLoadOfAHeartbeatIsToldWhenItChanges(t *testing.T) {
	s := live(t, Config{}, "m")
	d := s.house.registrar.(*desk)
	before := d.touched
	for i, h := range []*agentv2.Heartbeat{
		{ActiveRequests: 3, QueuedRequests: 4}, {ActiveRequests: 3, QueuedRequests: 4}, {ActiveRequests: -7, QueuedRequests: 1 << 30},
	} {
		if why := s.wire.receive(encode(t, &agentv2.Frame{Seq: uint32(i + 2), Body: &agentv2.Frame_Heartbeat{Heartbeat: h}})); why != nil {
			t.Fatal(why)
		}
		if v, _ := s.View(); i < 2 && (v.ReportedActive != 3 || v.ReportedQueued != 4) || len(v.Offers) != 1 {
			t.Errorf("view %+v", v)
		}
	}
	if v, _ := s.View(); v.ReportedActive != 0 || v.ReportedQueued != 1<<20 || d.touched != before+2 {
		t.Errorf("view %+v, told %d times", v, d.touched-before)
	}
}

func TestWarmUpResultsThatNobodyAskedForAreCountedAndPassedOver(t *testing.T) {
	s := live(t, Config{}, "m")
	result := &agentv2.Frame_WarmupResult{WarmupResult: &agentv2.WarmupResult{ModelId: "m", Success: true}}
	n := 0
	for ; n < 200; n++ {
		if why := s.wire.receive(encode(t, &agentv2.Frame{Seq: uint32(n + 2), Body: result})); why != nil {
			break
		}
	}
	if n != chatterBurst || len(s.house.registrar.(*desk).warmed) != 0 {
		t.Errorf("ended at number %d, told %v", n, s.house.registrar.(*desk).warmed)
	}
}

// Both an Error frame and the status tell an agent of v2 why it is closed.
func TestRefusalsOfV2EndWithAStatusOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		conn, r := e.plainConn(t, Subprotocol)
		if _, err := conn.Write(masked(finBit|opBinary, []byte{0xff})); err != nil {
			t.Fatal(err)
		}
		opcode, payload, err := readServerFrame(r)
		if err != nil || opcode != opBinary || !bytes.Contains(payload, []byte(CodeProtocolError)) {
			t.Errorf("opcode %d, %q, %v", opcode, payload, err)
		}
		began := time.Now()
		if status := closeFrame(r); status != statusNormal || time.Since(began) != lingerHold {
			t.Errorf("closed with %d after %v", status, time.Since(began))
		}
	})
}
