package session_test

import (
	"fmt"
	"strings"
	"testing"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/kinds"
	. "svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// kinded is an environment with a catalog of the gateway model g and the open model m.
func kinded() *Env {
	env := environment(Config{}, &sessiontest.Registrar{})
	env.Kinds = &kinds.Models{}
	env.Kinds.Set(map[string]bool{"g": true, "m": false})
	return env
}

// offered returns the models of a session.
func offered(s *wire) string {
	v, _ := s.View()
	var ids []string
	for _, o := range v.Offers {
		ids = append(ids, o.Model)
	}
	return strings.Join(ids, " ")
}

func TestAnAgentOfV1IsWarnedOfGatewayModels(t *testing.T) {
	s := freshIn(kinded(), speakV1())
	t.Cleanup(s.end)
	tell(t, s, registerText("good", "node-0001", "g", "m"))
	s.admission.Wait()
	for _, when := range []string{"registered", "registered again"} {
		got := sentOld(t, s)
		if len(got) != 1 {
			t.Fatalf("%s: got %d messages, want 1", when, len(got))
		}
		if text := fmt.Sprint(got[0].Payload); !strings.Contains(text, "g is not taken: it is a gateway model") {
			t.Errorf("%s: got %s, want the warning", when, text)
		}
		if got := offered(s); got != "m" {
			t.Errorf("%s: offers: got %q, want m", when, got)
		}
		tell(t, s, registerText("good", "node-0001", "g", "m"))
	}
}

func TestAModelLeavesTheOffersWhenItsKindChanges(t *testing.T) {
	env := kinded()
	s := liveIn(t, env, "good", "m")
	beat := encode(t, &agentv2.Frame{Seq: 2, Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{}}})
	env.Kinds.Set(map[string]bool{"m": true})
	if got := offered(s); got != "m" {
		t.Errorf("before its heartbeat: got %q, want m", got)
	}
	if why := s.receive(beat); why != nil {
		t.Fatal(why)
	}
	if got := offered(s); got != "" {
		t.Errorf("after its heartbeat: got %q, want nothing", got)
	}
}

func TestASessionOfAVendorOffersItsGatewayModelsAlone(t *testing.T) {
	s := freshIn(kinded(), speakV2())
	t.Cleanup(s.end)
	models := Models{Replaces: true, List: []ModelNews{
		{Whole: true, Offer: Offer{Model: "g"}}, {Whole: true, Offer: Offer{Model: "m"}}}}
	why := s.Receive(&Inbound{Kind: KindRegister, Seq: 1, Register: &Register{Node: "node-0001", Models: models}})
	if why != nil {
		t.Fatal(why)
	}
	if why := s.Admit(Grant{External: true, Vendor: true}); why != nil {
		t.Fatal(why)
	}
	if got := offered(s); got != "g" {
		t.Errorf("got %q, want g", got)
	}
}
