package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// captured is one frame that was seen between an agent of v1 and a hub.
type captured struct {
	Run   string
	Dir   string
	Frame json.RawMessage
}

// envelope is a captured frame, decoded as its receiver would.
type envelope struct {
	Type      string          `json:"type"`
	RequestID string          `json:"request_id"`
	Payload   json.RawMessage `json:"payload"`
}

func (c captured) envelope(t testing.TB) (e envelope) {
	t.Helper()
	if err := json.Unmarshal(c.Frame, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// fields decodes the payload.
func (e envelope) fields(t testing.TB) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(e.Payload, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// capturedFrames reads the file; of is "agent->hub" or "hub->agent".
func capturedFrames(t testing.TB, of string) []captured {
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
		if c.Dir == of {
			all = append(all, c)
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d frames %s", len(all), of)
	}
	return all
}

func TestContractWhatAgentsSayIsReadAsItStands(t *testing.T) {
	for _, c := range capturedFrames(t, "agent->hub") {
		e := c.envelope(t)
		var compact bytes.Buffer // as it was on the wire
		if err := json.Compact(&compact, c.Frame); err != nil {
			t.Fatal(err)
		}
		m, err := readV1(compact.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", c.Frame, err)
		}
		if text(m.kind) != e.Type || text(m.id) != e.RequestID {
			t.Errorf("read %s of %s, want %s of %s", m.kind, m.id, e.Type, e.RequestID)
		}
		fields := e.fields(t)
		for name, raw := range map[string][]byte{
			"chunk": m.chunk, "response": m.response, "error": m.failure, "status_code": m.status, "done": m.done,
		} {
			want, there := fields[name]
			if there != (len(raw) > 0) {
				t.Errorf("%s of %s: %q", name, e.RequestID, raw)
				continue
			}
			if !there {
				continue
			}
			var got any
			if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %s: %s", name, e.RequestID, raw)
			}
			if !bytes.Contains(compact.Bytes(), raw) {
				t.Errorf("%s of %s is not verbatim", name, e.RequestID)
			}
		}
	}
}

// What the hub says has the form of what agents were seen to take. What it never
// says, challenges and the like, is left out.
func TestContractWhatTheHubSaysHasTheFormThatAgentsTake(t *testing.T) {
	said := map[string]int{}
	for _, c := range capturedFrames(t, "hub->agent") {
		e := c.envelope(t)
		p := e.fields(t)
		var f *v1Frame
		switch e.Type {
		case "ack":
			f = v1Ack(e.RequestID, p["success"].(bool), p["message"].(string))
		case "error":
			f = v1Error(e.RequestID, int(p["code"].(float64)), p["message"].(string))
		case "inference":
			var raw struct{ Request json.RawMessage }
			if err := json.Unmarshal(e.Payload, &raw); err != nil {
				t.Fatal(err)
			}
			f = v1Inference(e.RequestID, p["endpoint_id"].(string), p["model_id"].(string), raw.Request, p["stream"].(bool))
			whole := encoded(t, f)
			if !bytes.Contains(whole, raw.Request) {
				t.Error("a request is not verbatim in its frame")
			}
		case "warmup":
			f = v1Warmup(e.RequestID, p["model_id"].(string))
			p["warmup_type"] = "load"
		default:
			continue
		}
		said[e.Type]++
		whole := encoded(t, f)
		got := captured{Frame: whole}.envelope(t)
		if got.Type != e.Type || got.RequestID != e.RequestID || !reflect.DeepEqual(got.fields(t), p) {
			t.Errorf("said %s, want %s", whole, c.Frame)
		}
	}
	for _, kind := range []string{"ack", "error", "inference", "warmup"} {
		if said[kind] == 0 {
			t.Errorf("no %s was captured", kind)
		}
	}
}

// The captured conversations, with the requests that were asked in them: every
// frame of the agent is taken, and each request comes to the end it came to then.
func TestContractConversationsRunToTheirEnds(t *testing.T) {
	ends := map[string]End{
		"req-1": {Status: 200, Complete: true}, "req-2": {Status: 200, Complete: true},
		"req-3": {Status: 404, Error: "model nope not deployed on this provider"},
		"req-4": {Status: 400, Error: "context too long"}, "req-5": {Status: 503, Error: "overloaded"},
		"req-6": {Status: 200, Complete: true}, "req-7": {Status: 200, Complete: true},
		"EARLY": {Status: 200}, "NOSPACE": {Status: 200}, "ABORT": {Status: 502, Error: "failed to read stream: unexpected EOF"},
	}
	asked := map[string]bool{}
	for _, c := range capturedFrames(t, "hub->agent") {
		if e := c.envelope(t); e.Type == "inference" {
			asked[e.RequestID] = e.fields(t)["stream"].(bool)
		}
	}
	streams := map[string]*Stream{}
	var s *Session
	for _, c := range capturedFrames(t, "agent->hub") {
		e := c.envelope(t)
		if e.Type == "register" {
			s = fresh(Config{}, speakV1)
			t.Cleanup(s.end)
		}
		if stream, ok := asked[e.RequestID]; ok && streams[e.RequestID] == nil {
			st, err := s.Open(Request{RequestID: e.RequestID, Model: "Qwen/Qwen3-8B", Stream: stream, Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
			sentOld(t, s)
			// The agent repeats what it was given.
			d := s.wire.(*v1)
			own := d.at(st)
			delete(d.requests, own.name)
			own.name = e.RequestID
			d.requests[own.name] = own
			streams[e.RequestID] = st
		}
		tell(t, s, string(c.Frame))
		s.admission.Wait()
		if e.Type == "register" || e.Type == "heartbeat" {
			out := sentOld(t, s)
			if len(out) != 1 || out[0].Type != "ack" || out[0].RequestID != e.RequestID || out[0].Payload["success"] != true {
				t.Errorf("%s is answered with %v", e.Type, out)
			}
		}
	}
	for id, want := range ends {
		if streams[id] == nil {
			t.Errorf("%s was not asked", id)
			continue
		}
		piece, end, err := streams[id].Take()
		if end == nil || *end != want || err != nil {
			t.Errorf("%s ended with %+v, %v", id, end, err)
		}
		if want.Complete && asked[id] != strings.HasSuffix(string(piece), doneEvent) {
			t.Errorf("%s: %s", id, piece)
		}
	}
	if v, _ := s.View(); len(v.Offers) != 1 || v.Offers[0].Quantization != "fp16" || !v.Offers[0].Healthy {
		t.Errorf("offers %+v", v.Offers)
	}
}

func TestContractHardwareOfRegisterAndHeartbeat(t *testing.T) {
	var s *Session
	for _, c := range capturedFrames(t, "agent->hub") {
		e := c.envelope(t)
		if c.Run != "b" {
			continue
		}
		if e.Type == "register" {
			s = fresh(Config{}, speakV1)
			t.Cleanup(s.end)
		}
		tell(t, s, string(c.Frame))
		s.admission.Wait()
	}
	v, ok := s.View()
	if !ok || v.Hardware == nil || v.Offers[0].ContextLength != 32768 {
		t.Fatalf("view %+v", v)
	}
	h := *v.Hardware
	if h.VRAMGB != 23 || h.MemoryMB != 24564 || h.Count != 2 || h.ComputeCapability != "8.9\n8.9" || h.Model != "NVIDIA GeForce RTX 4090" ||
		h.Driver != "550.54.14" || h.Engine != "unknown" {
		t.Errorf("hardware %+v", h)
	}
}

// FuzzReadV1 reads messages of any content: what it finds is what encoding/json
// finds, and lies within the message.
func FuzzReadV1(f *testing.F) {
	for _, c := range capturedFrames(f, "agent->hub") {
		f.Add([]byte(c.Frame))
	}
	f.Add([]byte(`{"type":"ack","type":"error","payload":{"done":true},"payload":{"done":false}}`))
	f.Add([]byte(`{"payload":[],"request_id":5}`))
	f.Fuzz(func(t *testing.T, msg []byte) {
		m, err := readV1(msg)
		if err != nil {
			return
		}
		var all, fields map[string]json.RawMessage
		if err := json.Unmarshal(msg, &all); err != nil {
			t.Fatalf("read what encoding/json refuses: %v", err)
		}
		if !bytes.Equal(m.kind, all["type"]) || !bytes.Equal(m.id, all["request_id"]) {
			t.Fatalf("read %q of %q", m.kind, m.id)
		}
		if json.Unmarshal(all["payload"], &fields) != nil || fields == nil {
			return // a payload that is no object has nothing to read
		}
		for name, raw := range map[string][]byte{"chunk": m.chunk, "response": m.response, "error": m.failure, "status_code": m.status, "done": m.done} {
			if !bytes.Equal(raw, fields[name]) {
				t.Fatalf("%s: %q, encoding/json has %q", name, raw, fields[name])
			}
		}
		if id, ok := headID(msg); ok && string(id) != string(m.id) && bytes.Count(msg, []byte("request_id")) == 1 {
			t.Fatalf("the beginning says %q", id)
		}
	})
}

// FuzzOldFrames drives the state machine with messages of any content: it never
// panics, and its accounts stay within their bounds.
func FuzzOldFrames(f *testing.F) {
	for _, c := range capturedFrames(f, "agent->hub") {
		f.Add(bytes.ReplaceAll(c.Frame, []byte("req-2"), []byte("r-1")))
	}
	f.Add([]byte(chunk("r-1", "{}", false) + "\n" + chunk("r-2", "{}", true) + "\n" + streamEnd("r-2", "")))
	f.Fuzz(func(t *testing.T, script []byte) {
		s := fresh(Config{}, speakV1)
		defer s.end()
		if why := s.wire.receive([]byte(registerText("good", "node-0001"))); why != nil {
			t.Fatal(why)
		}
		s.admission.Wait()
		for i := range 3 {
			if _, err := s.Open(Request{RequestID: "r", Model: "m", Stream: i < 2, Body: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
		sentOld(t, s)
		for line := range bytes.SplitSeq(script, []byte("\n")) {
			if why := s.wire.receive(line); why != nil {
				s.Shut(why)
			}
			sentOld(t, s)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		held := int64(0)
		for _, st := range s.streams {
			held += int64(len(st.in))
		}
		if held > s.held || len(s.streams) > 3 || len(s.models) > maxModels || s.house.counts.Slots.Load() != int64(len(s.streams)) ||
			len(s.wire.(*v1).requests) != len(s.streams) {
			t.Errorf("%d of %d bytes, %d streams, %d models", held, s.held, len(s.streams), len(s.models))
		}
	})
}
