package session_test

import (
	"fmt"
	"strings"
	"testing"

	agentv2 "svc.internal/proto/svc/agent/v2"
	. "svc.internal/services/provider-hub/internal/session"
)

func TestHostile41_AbsurdClaimsAreCutAndTheAgentIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		context  int64
		capacity int32
		want     Offer
		told     []string
	}{
		"as engines are": {131_072, 32, Offer{ContextLength: 131_072, Capacity: 32}, nil},
		"the bounds":     {MaxContext, MaxCapacity, Offer{ContextLength: MaxContext, Capacity: MaxCapacity}, nil},
		"nothing":        {0, 0, Offer{Capacity: DefaultCapacity}, nil},
		"less than that": {-5, -5, Offer{Capacity: DefaultCapacity}, nil},
		"2e9 tokens": {2_000_000_000, 1, Offer{ContextLength: MaxContext, Capacity: 1},
			[]string{"of m a context of 2000000000 tokens as 16777216"}},
		"2e9 requests": {1 << 20, 2_000_000_000, Offer{ContextLength: 1 << 20, Capacity: MaxCapacity},
			[]string{"of m a capacity of 2000000000 as 1024"}},
		"both, by one": {MaxContext + 1, MaxCapacity + 1, Offer{ContextLength: MaxContext, Capacity: MaxCapacity},
			[]string{"16777217 tokens as 16777216 and a capacity of 1025 as 1024"}},
	} {
		s := fresh(Config{}, speakV2())
		register := &agentv2.Register{Token: "good", NodeId: "node-0001", Models: []*agentv2.ModelOffer{
			{ModelId: "m", Healthy: true, ContextLength: c.context, Capacity: c.capacity},
			{ModelId: "other", Healthy: true, ContextLength: 4096},
		}}
		why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}}))
		if why != nil {
			t.Fatalf("%s: %v", name, why)
		}
		s.admission.Wait()
		ack := sent(t, s)[0].GetRegisterAck()
		v, _ := s.View()
		got := v.Offers[0]
		switch {
		case got.ContextLength != c.want.ContextLength:
			t.Errorf("%s: ContextLength: got %d, want %d", name, got.ContextLength, c.want.ContextLength)
		case got.Capacity != c.want.Capacity:
			t.Errorf("%s: Capacity: got %d, want %d", name, got.Capacity, c.want.Capacity)
		case len(v.Offers) != 2:
			t.Errorf("%s: offers: len(v.Offers): got %d, want 2, in %+v", name, len(v.Offers), v.Offers)
		}
		if (ack.GetWarning() != "") != (c.told != nil) {
			t.Errorf(`%s: warned: ack.GetWarning() != "": got %t, want %t`, name, ack.GetWarning() != "", c.told != nil)
		}
		for _, text := range c.told {
			if !strings.Contains(ack.GetWarning(), text) {
				t.Errorf("%s: warned: got %q, want %q in it", name, ack.GetWarning(), text)
			} else if found := Cuts(v.Offers); !strings.Contains(found, text) {
				t.Errorf("%s: Cuts(v.Offers): got %q, want %q in it", name, found, text)
			}
		}
		s.end()
	}
}

func TestHostile41_AnOldAgentIsToldOfClaimsThatAreCut(t *testing.T) {
	s := fresh(Config{}, speakV1())
	defer s.end()
	text := strings.Replace(registerText("good", "node-0001", "m"), `"capabilities"`,
		`"model_hashes":[{"model_id":"m","format":"fp16","context_length":2000000000}],"capabilities"`, 1)
	tell(t, s, text)
	s.admission.Wait()
	tell(t, s, text) // again, on the live connection
	for n, m := range sentOld(t, s) {
		got, want := fmt.Sprint(m.Payload["message"]), "of m a context of 2000000000 tokens as 16777216"
		if m.Payload["success"] != true {
			t.Errorf(`registration %d: m.Payload["success"]: got %v, want true`, n, m.Payload["success"])
		} else if !strings.Contains(got, want) {
			t.Errorf(`registration %d: fmt.Sprint(m.Payload["message"]): got %q, want %q in it`, n, got, want)
		}
	}
}

func TestCutsOfManyModelsAreToldInAFewWords(t *testing.T) {
	var offers []Offer
	for n := range 256 {
		offers = append(offers, Normal(Offer{Model: fmt.Sprintf("%0200d", n), ContextLength: 1 << 40, Capacity: 1 << 20}))
	}
	if got := Cuts(offers); len(got) > 2000 {
		t.Errorf("len(got): got %d, want at most 2000, in %s", len(got), got)
	} else if !strings.Contains(got, "and of 253 more models") {
		t.Errorf(`Cuts(offers): got %q, want "and of 253 more models" in it`, got)
	}
}

func TestEnginesAndRevisionsAreCutAndNamedWhereTheyAreKnown(t *testing.T) {
	s := fresh(Config{}, speakV2())
	register := &agentv2.Register{
		Token: "good", NodeId: "node-0001", Hardware: &agentv2.Hardware{ServingEngine: "sgl\nang"},
		Models: []*agentv2.ModelOffer{
			{ModelId: "said", Engine: strings.Repeat("e", 33), Revision: "\x00" + strings.Repeat("r", 65)},
			{ModelId: "left"}, {ModelId: "unknown", Engine: "Unknown"},
		},
	}
	why := s.receive(encode(t, &agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: register}}))
	if why != nil {
		t.Fatal(why)
	}
	s.admission.Wait()
	t.Cleanup(s.end)
	v, _ := s.View()
	same(t, "an engine of 33 characters", v.Offers[0].Engine, strings.Repeat("e", 32))
	same(t, "a revision of 65 characters", v.Offers[0].Revision, strings.Repeat("r", 64))
	same(t, "an engine that the machine alone names", v.Offers[1].Engine, "sglang")
	same(t, "an engine that was not recognised", v.Offers[2].Engine, "")
}

func TestAnOldAgentNamesOneEngineForAllItsModels(t *testing.T) {
	for engine, want := range map[string]string{"vllm": "vllm", "unknown": ""} {
		s := fresh(Config{}, speakV1())
		tell(t, s, strings.Replace(registerText("good", "node-0001", "a", "b"), `"capabilities"`,
			`"hardware":{"gpu_model":"NVIDIA H100","serving_engine":"`+engine+`"},"capabilities"`, 1))
		s.admission.Wait()
		t.Cleanup(s.end)
		v, _ := s.View()
		for _, o := range v.Offers {
			same(t, "the engine of "+o.Model, o.Engine, want)
			same(t, "the revision of "+o.Model, o.Revision, "")
		}
		same(t, "GPU class", v.Hardware.Class(), "NVIDIA H100")
	}
}
