package session_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	. "svc.internal/services/provider-hub/internal/session"
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
	f, err := os.Open("../dialect/v1/testdata/agent-v1-frames.jsonl")
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

// The captured conversations, with the requests that were asked in them: every
// frame of the agent is taken, and each request comes to the end it came to then.
func TestContractConversationsRunToTheirEnds(t *testing.T) {
	ends := map[string]End{
		"req-1": {Status: 200, Complete: true}, "req-2": {Status: 200, Complete: true},
		"req-3": {Status: 404, Error: "model nope not deployed on this provider"},
		"req-4": {Status: 400, Error: "context too long"}, "req-5": {Status: 503, Error: "overloaded"},
		"req-6": {Status: 200, Complete: true}, "req-7": {Status: 200, Complete: true},
		"EARLY": {Status: 200}, "NOSPACE": {Status: 200},
		"ABORT": {Status: 502, Error: "failed to read stream: unexpected EOF"},
	}
	asked := map[string]bool{}
	for _, c := range capturedFrames(t, "hub->agent") {
		if e := c.envelope(t); e.Type == "inference" {
			asked[e.RequestID] = e.fields(t)["stream"].(bool)
		}
	}
	streams := map[string]*Stream{}
	var s *wire
	for _, c := range capturedFrames(t, "agent->hub") {
		e := c.envelope(t)
		if e.Type == "register" {
			s = fresh(Config{}, speakV1())
			t.Cleanup(s.end)
		}
		if stream, ok := asked[e.RequestID]; ok && streams[e.RequestID] == nil {
			st, err := s.Open(Request{RequestID: e.RequestID, Model: "Qwen/Qwen3-8B", Stream: stream, Body: []byte("{}")})
			if err != nil {
				t.Fatal(err)
			}
			sentOld(t, s)
			// The agent repeats what it was given.
			st.Rename(e.RequestID)
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
		if want.Complete && asked[id] != strings.HasSuffix(string(piece), DoneEvent) {
			t.Errorf("%s: %s", id, piece)
		}
	}
	if v, _ := s.View(); len(v.Offers) != 1 || v.Offers[0].Quantization != "fp16" || !v.Offers[0].Healthy {
		t.Errorf("offers %+v", v.Offers)
	}
}

func TestContractHardwareOfRegisterAndHeartbeat(t *testing.T) {
	var s *wire
	for _, c := range capturedFrames(t, "agent->hub") {
		e := c.envelope(t)
		if c.Run != "b" {
			continue
		}
		if e.Type == "register" {
			s = fresh(Config{}, speakV1())
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
	if h.VRAMGB != 23 || h.MemoryMB != 24564 || h.Count != 2 || h.ComputeCapability != "8.9\n8.9" ||
		h.Model != "NVIDIA GeForce RTX 4090" || h.Driver != "550.54.14" || h.Engine != "unknown" {
		t.Errorf("hardware %+v", h)
	}
}

// FuzzOldFrames drives the state machine with messages of any content: it never
// panics, and its accounts stay within their bounds.
func FuzzOldFrames(f *testing.F) {
	for _, c := range capturedFrames(f, "agent->hub") {
		f.Add(bytes.ReplaceAll(c.Frame, []byte("req-2"), []byte("r-1")))
	}
	f.Add([]byte(chunk("r-1", "{}", false) + "\n" + chunk("r-2", "{}", true) + "\n" + streamEnd("r-2", "")))
	f.Fuzz(func(t *testing.T, script []byte) {
		s := fresh(Config{}, speakV1())
		defer s.end()
		if why := s.receive([]byte(registerText("good", "node-0001"))); why != nil {
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
			if why := s.receive(line); why != nil {
				s.Shut(why)
			}
			sentOld(t, s)
		}
		buffered, _ := s.Buffered()
		held, _ := s.Held()
		streams, slots := s.Streams(), s.env.Counts.Slots.Load()
		models, _, names, _ := s.Sizes()
		if buffered > held || streams > 3 || models > MaxModels || slots != int64(streams) || names != streams {
			t.Errorf("%d of %d bytes, %d streams, %d models", buffered, held, streams, models)
		}
	})
}
