package crowd

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

func TestEachAgentHasAnAddressOfItsOwn(t *testing.T) {
	seen := map[netip.Addr]bool{}
	for i := range 70_000 {
		a := address(i)
		switch {
		case !a.IsLoopback():
			t.Fatalf("agent %d: a.IsLoopback(): got false, want true, with %v", i, a)
		case seen[a]:
			t.Fatalf("agent %d: seen[a]: got true, want false", i)
		case a.As4()[1] == 0:
			t.Fatalf("agent %d: a.As4()[1]: got 0, want any but 0", i)
		}
		seen[a] = true
	}
}

func TestMembersAreOfBothDialectsFromTheBeginning(t *testing.T) {
	members, err := Members(10, 4, []string{"a", "b", "c"}, []string{"m", "n"})
	if err != nil {
		t.Fatal(err)
	}
	v1, nodes := 0, map[string]bool{}
	for i, m := range members {
		if m.Dialect == V1 {
			v1++
		}
		if i == 4 && v1 == 0 {
			t.Error("of the first five speak v1: v1: got 0, want any but 0, where i == 4")
		} else if i == 4 && v1 == 4 {
			t.Error("of the first five speak v1: v1: got 4, want any but 4, where i == 4")
		}
		nodes[m.Node] = true
		if len(m.Models) != 2 {
			t.Errorf("offers: len(m.Models): got %d, want 2, in %v", len(m.Models), m.Models)
		} else if m.Models[0] == m.Models[1] {
			t.Errorf("offers: m.Models[0]: got %q, want any but %q", m.Models[0], m.Models[1])
		}
	}
	switch {
	case v1 != 4:
		t.Errorf("v1: got %d, want 4", v1)
	case len(nodes) != 10:
		t.Errorf("len(nodes): got %d, want 10", len(nodes))
	case members[3].Key != "a":
		t.Errorf(`members[3].Key: got %q, want "a"`, members[3].Key)
	}
	if _, err := Members(10, 4, nil, []string{"m"}); err == nil {
		t.Error("agents without keys")
	}
}

func TestAnswersToARegistrationAreToldFromOthers(t *testing.T) {
	for text, want := range map[string]message{
		`{"payload":{"message":"registered successfully","request_id":"registration","success":true},` +
			`"request_id":"registration","type":"ack"}`: {registered: true},
		`{"payload":{"message":"no","request_id":"registration","success":false},` +
			`"request_id":"registration","type":"ack"}`: {},
		`{"payload":{"message":"heartbeat","request_id":"beat","success":true},"request_id":"beat","type":"ack"}`: {},
		`{"payload":{"code":401,"message":"invalid provider API key"},` +
			`"request_id":"registration","type":"error"}`: {refusal: "v1: invalid provider API key"},
		`{"registration`: {refusal: "a message that is no JSON"},
		``:               {},
	} {
		if got := read(V1, []byte(text)); got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	for _, c := range []struct {
		frame *agentv2.Frame
		want  message
	}{
		{&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{}}}, message{registered: true}},
		{&agentv2.Frame{Body: &agentv2.Frame_HeartbeatAck{HeartbeatAck: &agentv2.HeartbeatAck{}}}, message{}},
		{&agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "c", Message: "m", ReconnectAfterMs: 1500}}},
			message{refusal: "c: m", after: 1500 * time.Millisecond}},
	} {
		if got := read(V2, encode(c.frame)); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.frame, got, c.want)
		}
	}
	if got := read(V2, []byte{0xff}); got.refusal == "" {
		t.Error("no frame is taken for one")
	}
}

func FuzzReadingWhatAHubSays(f *testing.F) {
	f.Add([]byte(`{"type":"error","request_id":"registration","payload":{"message":"m"}}`))
	f.Add(encode(&agentv2.Frame{Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "c"}}}))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = read(V1, b)
		_ = read(V2, b)
	})
}

func TestWhatAgentsSayCanBeRead(t *testing.T) {
	m := Member{Dialect: V2, Key: "k", Node: "node-0001", Models: []string{"a", "b"}}
	f := &agentv2.Frame{}
	switch err := proto.Unmarshal(registerV2(m), f); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case f.GetSeq() != 1:
		t.Errorf("f.GetSeq(): got %d, want 1", f.GetSeq())
	case f.GetRegister().GetToken() != "k":
		t.Errorf(`f.GetRegister().GetToken(): got %q, want "k"`, f.GetRegister().GetToken())
	case len(f.GetRegister().GetModels()) != 2:
		t.Errorf("len(f.GetRegister().GetModels()): got %d, want 2, in %v", len(f.GetRegister().GetModels()), f)
	}
	switch err := proto.Unmarshal(heartbeatV2(7), f); {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case f.GetSeq() != 7:
		t.Errorf("f.GetSeq(): got %d, want 7", f.GetSeq())
	case f.GetHeartbeat() == nil:
		t.Error("f.GetHeartbeat(): got nil, want a value")
	}
	for _, text := range [][]byte{registerV1(m), heartbeatV1(m)} {
		var v struct {
			Type    string
			Payload struct {
				Models []string
			}
		}
		switch err := json.Unmarshal(text, &v); {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", text, err)
		case !strings.Contains("register heartbeat", v.Type):
			t.Errorf("%s: v.Type: got %q, want register or heartbeat", text, v.Type)
		case len(v.Payload.Models) != 2:
			t.Errorf("%s: len(v.Payload.Models): got %d, want 2", text, len(v.Payload.Models))
		}
	}
}

func TestAgentsComeBackByTheRulesOfTheirDialect(t *testing.T) {
	v1 := comeback{dialect: V1}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := v1.refused(5 * time.Second); got != want*time.Second {
			t.Errorf("v1 waits: got %v, want %v", got, want*time.Second)
		}
	}
	if got := v1.lost(time.Second, 0); got != atOnceV1 {
		t.Errorf("v1 waits after a lost connection: got %v, want %v", got, atOnceV1)
	} else if found := v1.refused(0); found != time.Second {
		t.Errorf("v1.refused(0): got %v, want %v", found, time.Second)
	}
	v2 := comeback{dialect: V2}
	if got := v2.refused(5 * time.Second); got < 5*time.Second || got > 6250*time.Millisecond {
		t.Errorf("v2 was told 5 s and waits: got %v, want %v to %v", got, 5*time.Second, 6250*time.Millisecond)
	}
	for ceiling := firstV2; ceiling < 2*longest; ceiling *= 2 {
		if got := v2.lost(time.Second, 0); got < 0 || got >= min(ceiling, longest) {
			t.Errorf("v2 waits: got %v, want at least 0 and less than %v", got, min(ceiling, longest))
		}
	}
	if got := v2.lost(stableV2, 0); got >= firstV2 {
		t.Errorf("v2 waits after a long connection: got %v, want less than %v", got, firstV2)
	}
}
