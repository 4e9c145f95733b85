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
		if !a.IsLoopback() || seen[a] || a.As4()[1] == 0 {
			t.Fatalf("agent %d has %v", i, a)
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
		if i == 4 && (v1 == 0 || v1 == 4) {
			t.Errorf("%d of the first five speak v1", v1)
		}
		nodes[m.Node] = true
		if len(m.Models) != 2 || m.Models[0] == m.Models[1] {
			t.Errorf("offers %v", m.Models)
		}
	}
	if v1 != 4 || len(nodes) != 10 || members[3].Key != "a" {
		t.Errorf("%d speak v1; %v", v1, members)
	}
	if _, err := Members(10, 4, nil, []string{"m"}); err == nil {
		t.Error("agents without keys")
	}
}

func TestAnswersToARegistrationAreToldFromOthers(t *testing.T) {
	for text, want := range map[string]message{
		`{"payload":{"message":"registered successfully","request_id":"registration","success":true},"request_id":"registration","type":"ack"}`: {registered: true},
		`{"payload":{"message":"no","request_id":"registration","success":false},"request_id":"registration","type":"ack"}`:                     {},
		`{"payload":{"message":"heartbeat","request_id":"beat","success":true},"request_id":"beat","type":"ack"}`:                               {},
		`{"payload":{"code":401,"message":"invalid provider API key"},"request_id":"registration","type":"error"}`:                              {refusal: "v1: invalid provider API key"},
		`{"registration`: {refusal: "a message that is no JSON"},
		``:               {},
	} {
		if got := read(V1, []byte(text)); got != want {
			t.Errorf("%s: %+v", text, got)
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
			t.Errorf("%v: %+v", c.frame, got)
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
	if err := proto.Unmarshal(registerV2(m), f); err != nil || f.GetSeq() != 1 || f.GetRegister().GetToken() != "k" ||
		len(f.GetRegister().GetModels()) != 2 {
		t.Errorf("%v, %v", f, err)
	}
	if err := proto.Unmarshal(heartbeatV2(7), f); err != nil || f.GetSeq() != 7 || f.GetHeartbeat() == nil {
		t.Errorf("%v, %v", f, err)
	}
	for _, text := range [][]byte{registerV1(m), heartbeatV1(m)} {
		var v struct {
			Type    string
			Payload struct {
				Models []string
			}
		}
		if err := json.Unmarshal(text, &v); err != nil || !strings.Contains("register heartbeat", v.Type) ||
			len(v.Payload.Models) != 2 {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAgentsComeBackByTheRulesOfTheirDialect(t *testing.T) {
	v1 := comeback{dialect: V1}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		if got := v1.refused(5 * time.Second); got != want*time.Second {
			t.Errorf("v1 waits %v, not %d s", got, want)
		}
	}
	if got := v1.lost(time.Second, 0); got != atOnceV1 || v1.refused(0) != time.Second {
		t.Errorf("v1 comes back after %v, or remembers refusals", got)
	}
	v2 := comeback{dialect: V2}
	if got := v2.refused(5 * time.Second); got < 5*time.Second || got > 6250*time.Millisecond {
		t.Errorf("v2 was told 5 s and waits %v", got)
	}
	for ceiling := firstV2; ceiling < 2*longest; ceiling *= 2 {
		if got := v2.lost(time.Second, 0); got < 0 || got >= min(ceiling, longest) {
			t.Errorf("v2 waits %v, not below %v", got, min(ceiling, longest))
		}
	}
	if got := v2.lost(stableV2, 0); got >= firstV2 {
		t.Errorf("v2 remembers what is long ago: %v", got)
	}
}
