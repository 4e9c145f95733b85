package v1

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"svc.internal/services/provider-hub/internal/session"
)

// captured is one message that was seen between an agent of v1 and a hub.
type captured struct {
	Dir   string
	Frame json.RawMessage
}

// decoded is a captured message, decoded as its receiver would.
type decoded struct {
	Type      string          `json:"type"`
	RequestID string          `json:"request_id"`
	Payload   json.RawMessage `json:"payload"`
}

func (c captured) decoded(t testing.TB) (d decoded) {
	t.Helper()
	if err := json.Unmarshal(c.Frame, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// fields decodes the payload.
func (d decoded) fields(t testing.TB) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(d.Payload, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// capturedMessages reads the file; of is "agent->hub" or "hub->agent".
func capturedMessages(t testing.TB, of string) []captured {
	t.Helper()
	f, err := os.Open("testdata/agent-v1-frames.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []captured
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c captured
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Dir != of {
			continue
		}
		var compact bytes.Buffer // as it was on the wire
		if err := json.Compact(&compact, c.Frame); err != nil {
			t.Fatal(err)
		}
		c.Frame = compact.Bytes()
		all = append(all, c)
	}
	if len(all) < 20 {
		t.Fatalf("got %d messages %s, want at least 20", len(all), of)
	}
	return all
}

// raws are the raw values of a payload, by member.
func (m *envelope) raws() map[string][]byte {
	return map[string][]byte{
		"chunk": m.chunk, "response": m.response, "error": m.failure, "status_code": m.status, "done": m.done,
		"success": m.success, "load_time_ms": m.loadTime, "message": m.message,
		"challenge_id": m.challenge, "benchmark_id": m.benchmark, "results": m.results,
	}
}

func TestContractWhatAgentsSayIsReadAsItStands(t *testing.T) {
	t.Parallel()
	for _, c := range capturedMessages(t, "agent->hub") {
		want := c.decoded(t)
		m, err := readEnvelope(c.Frame)
		if err != nil {
			t.Fatalf("%s: got %v, want it read", c.Frame, err)
		}
		if text(m.kind) != want.Type || text(m.id) != want.RequestID {
			t.Errorf("got %s of %s, want %s of %s", m.kind, m.id, want.Type, want.RequestID)
		}
		fields := want.fields(t)
		for name, raw := range m.raws() {
			value, there := fields[name]
			if there != (len(raw) > 0) {
				t.Errorf("%s of %s: got %q, want it there: %v", name, want.RequestID, raw, there)
				continue
			}
			if !there {
				continue
			}
			var got any
			if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, value) {
				t.Errorf("%s of %s: got %s, %v, want %v", name, want.RequestID, raw, err, value)
			}
			if !bytes.Contains(c.Frame, raw) {
				t.Errorf("%s of %s: got %s, want it verbatim", name, want.RequestID, raw)
			}
		}
	}
}

func TestContractEachMessageOfAnAgentIsOfItsKind(t *testing.T) {
	t.Parallel()
	kinds := map[string]session.Kind{
		"register": session.KindRegister, "heartbeat": session.KindHeartbeat, "model_health_update": session.KindHealth,
		"ack": session.KindWhole, "stream_chunk": session.KindEvent, "stream_end": session.KindEnd,
		"error": session.KindRefusal, "verify": session.KindVerified, "benchmark_response": session.KindBenchmarked,
	}
	for _, c := range capturedMessages(t, "agent->hub") {
		d := c.decoded(t)
		var in session.Inbound
		if err := (codec{}).Decode(c.Frame, &in); err != nil {
			t.Errorf("%s: got %v, want it read", c.Frame, err)
			continue
		}
		if in.Kind != kinds[d.Type] {
			t.Errorf("%s: got kind %d, want %d", d.Type, in.Kind, kinds[d.Type])
		}
		if string(in.Name) != d.RequestID {
			t.Errorf("%s: got the name %q, want %q", d.Type, in.Name, d.RequestID)
		}
		if in.Size != int64(len(c.Frame)) {
			t.Errorf("%s: got %d bytes, want %d", d.Type, in.Size, len(c.Frame))
		}
	}
}

// What the hub says has the form of what agents were seen to take. What it never
// says is left out.
func TestContractWhatTheHubSaysHasTheFormThatAgentsTake(t *testing.T) {
	t.Parallel()
	said := map[string]int{}
	for _, c := range capturedMessages(t, "hub->agent") {
		want := c.decoded(t)
		p := want.fields(t)
		var got []byte
		switch want.Type {
		case "ack":
			out := session.Outbound{Kind: session.OutHeartbeat, Name: want.RequestID}
			if p["message"] != "heartbeat" {
				out.Kind, out.Ack = session.OutRegistered, &session.Ack{}
			}
			got = written(t, out)
		case "error":
			got = appendError(nil, want.RequestID, int(p["code"].(float64)), p["message"].(string))
		case "inference":
			var raw struct{ Request json.RawMessage }
			if err := json.Unmarshal(want.Payload, &raw); err != nil {
				t.Fatal(err)
			}
			out := session.Outbound{
				Kind: session.OutOpen, Name: want.RequestID, Model: p["model_id"].(string), Data: raw.Request,
				Open: &session.Request{Stream: p["stream"].(bool)},
			}
			p["endpoint_id"] = out.Provider.String()
			got = written(t, out)
			if !bytes.Contains(got, raw.Request) {
				t.Errorf("got %s, want the request verbatim in it", got)
			}
		case "verify", "benchmark":
			r := taskAsked(want.Type, p)
			if r == nil {
				continue // a type of challenge that agents do not know
			}
			got = written(t, session.Outbound{Kind: session.OutChallenge, Name: want.RequestID, Model: r.Model, Open: r})
		case "warmup":
			p["warmup_type"] = "load"
			got = written(t, session.Outbound{Kind: session.OutWarmUp, Name: want.RequestID, Model: p["model_id"].(string)})
		default:
			continue
		}
		said[want.Type]++
		d := captured{Frame: got}.decoded(t)
		if d.Type != want.Type || d.RequestID != want.RequestID || !reflect.DeepEqual(d.fields(t), p) {
			t.Errorf("got %s, want %s", got, c.Frame)
		}
	}
	for _, kind := range []string{"ack", "error", "inference", "warmup", "verify", "benchmark"} {
		if said[kind] == 0 {
			t.Errorf("%s: got none that was captured, want one", kind)
		}
	}
}

// taskAsked is the task of a captured payload; nil for none that the hub puts. It changes
// the payload in what the hub says otherwise: hashes are decoys, and the expected answers
// of a benchmark are not told.
func taskAsked(kind string, p map[string]any) *session.Request {
	r := &session.Request{Model: p["model_id"].(string), Challenge: &session.Challenge{}}
	if kind == "benchmark" {
		task := &session.Benchmark{Test: p["test_type"].(string)}
		for i, each := range p["prompts"].([]any) {
			fields := each.(map[string]any)
			delete(fields, "expected_answer")
			fields["id"] = fmt.Sprintf("p%d", i+1)
			task.Prompts = append(task.Prompts, fields["prompt"].(string))
		}
		r.Challenge.ID, r.Challenge.Task = p["benchmark_id"].(string), task
		r.Timeout = time.Duration(p["timeout_ms"].(float64)) * time.Millisecond
		return r
	}
	r.Challenge.ID = p["challenge_id"].(string)
	challenge := p["challenge"].(map[string]any)
	switch p["challenge_type"] {
	case "fingerprint":
		task := &session.Fingerprint{Nonce: []byte("nonce")}
		for _, each := range challenge["files"].([]any) {
			fields := each.(map[string]any)
			name := fields["filename"].(string)
			task.Ranges = append(task.Ranges, session.FileRange{File: name, Length: 1})
			task.ChainFiles = append(task.ChainFiles, session.ChainFile{File: name, Size: 1})
			fields["expected_hash"] = files(task)[len(task.Ranges)-1].ExpectedHash
		}
		r.Challenge.Task = task
	case "deterministic":
		r.Challenge.Task = &session.Deterministic{
			Prompt: challenge["prompt"].(string), Seed: int64(challenge["seed"].(float64)),
			MaxTokens: int32(challenge["max_tokens"].(float64)),
		}
	default:
		return nil
	}
	return r
}

// written is a message for an agent.
func written(t testing.TB, out session.Outbound) []byte {
	t.Helper()
	head, body, tail, err := codec{}.Append([]byte("before"), &out)
	if err != nil {
		t.Fatal(err)
	}
	msg, ok := bytes.CutPrefix(head, []byte("before"))
	if !ok {
		t.Fatalf("got %q, want it behind what was there before", head)
	}
	return append(append(bytes.Clone(msg), body...), tail...)
}

// FuzzReadEnvelope reads messages of any content: what it finds is what encoding/json
// finds, and lies within the message.
func FuzzReadEnvelope(f *testing.F) {
	for _, c := range capturedMessages(f, "agent->hub") {
		f.Add([]byte(c.Frame))
	}
	f.Add([]byte(`{"type":"ack","type":"error","payload":{"done":true},"payload":{"done":false}}`))
	f.Add([]byte(`{"payload":{"done":true},"payload":{"chunk":1}}`))
	f.Add([]byte(`{"payload":[],"request_id":5}`))
	f.Fuzz(func(t *testing.T, msg []byte) {
		m, err := readEnvelope(msg)
		if err != nil {
			return
		}
		var all, fields map[string]json.RawMessage
		if err := json.Unmarshal(msg, &all); err != nil {
			t.Fatalf("got it read, want what encoding/json says: %v", err)
		}
		if !bytes.Equal(m.kind, all["type"]) || !bytes.Equal(m.id, all["request_id"]) {
			t.Fatalf("got %q of %q, want %q of %q", m.kind, m.id, all["type"], all["request_id"])
		}
		if json.Unmarshal(all["payload"], &fields) != nil || fields == nil {
			return // a payload that is no object has nothing to read
		}
		for name, raw := range m.raws() {
			if !bytes.Equal(raw, fields[name]) {
				t.Fatalf("%s: got %q, want %q", name, raw, fields[name])
			}
		}
		once := bytes.Count(msg, []byte("request_id")) == 1
		if id := (codec{}).Name(msg); id != nil && once && !bytes.Equal(id, plain(m.id)) {
			t.Fatalf("the beginning: got %q, want %q", id, plain(m.id))
		}
	})
}
