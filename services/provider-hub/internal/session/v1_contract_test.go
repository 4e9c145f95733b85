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
		t.Fatalf("frames %s: got %d, want at least 20", of, len(all))
	}
	return all
}

// The captured conversations, with their requests: every frame of the agent is taken, and
// each request has the end that it had when the conversation was captured.
func TestContractConversationsRunToTheirEnds(t *testing.T) {
	ends := map[string]End{
		"req-1": {Status: 200, Complete: true}, "req-2": {Status: 200, Complete: true},
		"req-3": {Status: 404, Error: "model nope not deployed on this provider"},
		"req-4": {Status: 400, Error: "context too long"}, "req-5": {Status: 503, Error: "overloaded"},
		"req-6": {Status: 200, Complete: true}, "req-7": {Status: 200, Complete: true},
		"EARLY": {Status: 200}, "NOSPACE": {Status: 200},
		"ABORT": {Error: "failed to read stream: unexpected EOF"},
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
			// The captured agent repeats the name that it was given then.
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
		switch {
		case end == nil:
			t.Errorf("%s ended: end: got nil, want a value", id)
		case *end != want:
			t.Errorf("%s ended: *end: got %+v, want %+v", id, *end, want)
		case err != nil:
			t.Errorf("%s ended: got the error %v, want none", id, err)
		}
		if want.Complete && asked[id] != strings.HasSuffix(string(piece), DoneEvent) {
			t.Errorf("%s: %s", id, piece)
		}
	}
	switch v, _ := s.View(); {
	case len(v.Offers) != 1:
		t.Errorf("len(v.Offers): got %d, want 1, in %+v", len(v.Offers), v.Offers)
	case v.Offers[0].Quantization != "fp16":
		t.Errorf(`v.Offers[0].Quantization: got %q, want "fp16"`, v.Offers[0].Quantization)
	case !v.Offers[0].Healthy:
		t.Error("v.Offers[0].Healthy: got false, want true")
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
	switch {
	case !ok:
		t.Fatal("ok of s.View(): got false, want true")
	case v.Hardware == nil:
		t.Fatal("view: v.Hardware: got nil, want a value")
	case v.Offers[0].ContextLength != 32768:
		t.Fatalf("view: v.Offers[0].ContextLength: got %d, want 32768", v.Offers[0].ContextLength)
	}
	h := *v.Hardware
	switch {
	case h.VRAMGB != 23:
		t.Errorf("hardware: h.VRAMGB: got %d, want 23", h.VRAMGB)
	case h.MemoryMB != 24564:
		t.Errorf("hardware: h.MemoryMB: got %d, want 24564", h.MemoryMB)
	case h.Count != 2:
		t.Errorf("hardware: h.Count: got %d, want 2", h.Count)
	case h.ComputeCapability != "8.9\n8.9":
		t.Errorf("hardware: h.ComputeCapability: got %q, want %q", h.ComputeCapability, "8.9\n8.9")
	case h.Model != "NVIDIA GeForce RTX 4090":
		t.Errorf(`hardware: h.Model: got %q, want "NVIDIA GeForce RTX 4090"`, h.Model)
	case h.Driver != "550.54.14":
		t.Errorf(`hardware: h.Driver: got %q, want "550.54.14"`, h.Driver)
	case h.Engine != "unknown":
		t.Errorf(`hardware: h.Engine: got %q, want "unknown"`, h.Engine)
	}
}

// FuzzOldFrames drives the state machine with messages of any content. The session never
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
		switch {
		case buffered > held:
			t.Errorf("%d of %d bytes, %d streams, %d models: buffered: got %d, want at most %d", buffered, held, streams, models,
				buffered, held)
		case streams > 3:
			t.Errorf("%d of %d bytes, %d streams, %d models: streams: got %d, want at most 3", buffered, held, streams, models,
				streams)
		case models > MaxModels:
			t.Errorf("%d of %d bytes, %d streams, %d models: models: got %d, want at most %d", buffered, held, streams, models,
				models, MaxModels)
		case slots != int64(streams):
			t.Errorf("%d of %d bytes, %d streams, %d models: slots: got %d, want %d", buffered, held, streams, models, slots,
				int64(streams))
		case names != streams:
			t.Errorf("%d of %d bytes, %d streams, %d models: names: got %d, want %d", buffered, held, streams, models, names,
				streams)
		}
	})
}
