package session

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func chunk(id, chunk string, done bool) string {
	return `{"type":"stream_chunk","request_id":"` + id + `","payload":{"request_id":"` + id + `","chunk":` + chunk + `,"done":` + strconv.FormatBool(done) + `}}`
}

func streamEnd(id, more string) string {
	return `{"type":"stream_end","request_id":"` + id + `","payload":{"request_id":"` + id + `","latency_ms":1` + more + `}}`
}

func answer(id, more string) string {
	return `{"type":"ack","request_id":"` + id + `","payload":{"request_id":"` + id + `"` + more + `}}`
}

func TestOldAgentRegistersServesAndIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		a := e.oldAgent(t)
		if m := a.register("good", strings.Repeat("04", 65)); m.Type != "ack" || m.RequestID != "r-1" || m.Payload["success"] != true {
			t.Fatalf("registered with %v", m)
		}
		s := e.desk.session(t)
		v, ok := s.View()
		if !ok || v.Dialect != "v1" || v.Capacity != 50 || !v.TakesWarmups || len(v.NodeID) != 35 || !strings.HasPrefix(v.NodeID, "v1-") ||
			strings.Join(v.Capabilities, " ") != "chat stream logprobs" || v.Offers[0].Capacity != 10 {
			t.Errorf("view %+v", v)
		}
		a.send(`{"type":"heartbeat","request_id":"h-1","payload":{"metrics":{"active_requests":3}}}`)
		if m := a.hears(); m.Type != "ack" || m.RequestID != "h-1" || m.Payload["success"] != true {
			t.Errorf("a heartbeat is answered with %v", m)
		}
		body := `{ "model":"m","seed":9007199254740993,"x":"é\u00e9"}`
		st, err := s.Open(Request{RequestID: "req", Model: "m", Stream: true, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		m := a.hears()
		if m.Type != "inference" || m.Payload["model_id"] != "m" || m.Payload["stream"] != true {
			t.Fatalf("asked with %v", m)
		}
		a.send(chunk(m.RequestID, "{\"a\":\n1}", false))
		a.send(chunk(m.RequestID, "null", true))
		a.send(streamEnd(m.RequestID, ""))
		var got []byte
		for {
			<-st.Ready()
			piece, end, err := st.Take()
			got = append(got, piece...)
			if err != nil {
				t.Fatal(err)
			}
			if end != nil {
				if *end != (End{Status: 200, Complete: true}) {
					t.Errorf("end %+v", end)
				}
				break
			}
		}
		if string(got) != "data: {\"a\": 1}\n\ndata: [DONE]\n\n" {
			t.Errorf("answered %q", got)
		}
	})
}

func TestOldAgentThatIsRefusedIsHeldThirtySeconds(t *testing.T) {
	for key, want := range map[string]float64{"bad": 401, "": 401} {
		synctest.Test(t, func(t *testing.T) {
			e := serveSessions(t, Config{})
			began := time.Now()
			a := e.oldAgent(t)
			if m := a.register(key, "node-0001"); m.Type != "error" || m.Payload["code"] != want {
				t.Errorf("key %q: %v", key, m)
			}
			if status := a.ends(); status != 1008 || time.Since(began) < 30*time.Second {
				t.Errorf("closed with %d after %v", status, time.Since(began))
			}
		})
	}
}

func TestOldAgentIsNotForgottenWhileKeysCannotBeLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		e.desk.failing = 12
		began := time.Now()
		if m := e.oldAgent(t).register("good", "node-0001"); m.Payload["success"] != true || time.Since(began) < 30*time.Second {
			t.Errorf("%v after %v", m, time.Since(began))
		}
		a := e.oldAgent(t)
		began = time.Now()
		m := a.register("down", "node-0002")
		if m.Type != "error" || m.Payload["code"] != 503.0 || time.Since(began) < 4*time.Minute || time.Since(began) > 6*time.Minute {
			t.Errorf("%v after %v", m, time.Since(began))
		}
		a.ends()
	})
}

func TestWholeAnswersAndErrorsAreReadAsTheEngineSaidThem(t *testing.T) {
	for payload, want := range map[string]struct {
		body string
		end  End
	}{
		`,"response":{"id":"c0" , "x":1},"latency_ms":1`:                                                                  {`{"id":"c0" , "x":1}`, End{Status: 200, Complete: true}},
		`,"response":null,"error":"model server returned HTTP 404: model nope not deployed","status_code":404`:            {"", End{Status: 404, Error: "model nope not deployed"}},
		`,"response":null,"error":"model server returned HTTP 429: provider rate limit exceeded, wait","status_code":429`: {"", End{Status: 429, Error: "provider rate limit exceeded, wait", Busy: true}},
		`,"response":null,"error":"provider concurrency limit","status_code":429`:                                         {"", End{Status: 429, Error: "provider concurrency limit", Busy: true}},
		`,"response":null,"error":"dial tcp: refused"`:                                                                    {"", End{Status: 0, Error: "dial tcp: refused"}},
		`,"response":null`: {"", End{Status: 200}},
	} {
		s := liveOld(t, Config{})
		st, id := ask(t, s, false)
		tell(t, s, answer(id, payload))
		piece, end, err := st.Take()
		if string(piece) != want.body || end == nil || *end != want.end || err != nil {
			t.Errorf("%s: %q %+v %v", payload, piece, end, err)
		}
		if s.Streams() != 0 {
			t.Error("the slot is still taken")
		}
	}
}

func TestStreamIsCompleteOnlyBehindItsDoneMark(t *testing.T) {
	for name, c := range map[string]struct {
		messages func(id string) []string
		end      End
	}{
		"whole":     {func(id string) []string { return []string{chunk(id, "null", true), streamEnd(id, "")} }, End{Status: 200, Complete: true}},
		"cut short": {func(id string) []string { return []string{chunk(id, "{}", false), streamEnd(id, "")} }, End{Status: 200}},
		"aborted": {func(id string) []string {
			return []string{streamEnd(id, `,"status_code":502,"error":"failed to read stream: unexpected EOF"`)}
		}, End{Status: 502, Error: "failed to read stream: unexpected EOF"}},
		"refused": {func(id string) []string {
			return []string{`{"type":"error","request_id":"` + id + `","payload":{"code":501,"message":"streaming not supported"}}`}
		}, End{Error: "streaming not supported"}},
		"an ack": {func(id string) []string { return []string{answer(id, `,"response":{}`)} }, End{Status: 200}},
	} {
		s := liveOld(t, Config{})
		st, id := ask(t, s, true)
		for _, m := range c.messages(id) {
			tell(t, s, m)
		}
		if _, end, err := st.Take(); end == nil || *end != c.end || err != nil {
			t.Errorf("%s: %+v, %v", name, end, err)
		}
	}
}

func TestOldStreamsAreBoundedEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveOld(t, Config{})
		slow, id := ask(t, s, true)
		other, otherID := ask(t, s, true)
		for range v1Chunks {
			tell(t, s, chunk(id, "{}", false))
		}
		tell(t, s, chunk(id, "{}", false)) // a burst is no sign of a slow consumer
		if _, _, err := slow.Take(); err != nil {
			t.Fatal(err)
		}
		for range v1Chunks {
			tell(t, s, chunk(id, "{}", false))
		}
		time.Sleep(v1Patience + time.Millisecond) //nolint:forbidigo // of a synctest bubble
		tell(t, s, chunk(id, "{}", false))
		if _, _, err := slow.Take(); !errors.Is(err, ErrBehind) {
			t.Errorf("a consumer that took nothing: %v", err)
		}
		piece := `"` + strings.Repeat("x", 1<<16) + `"`
		for range 15 {
			tell(t, s, chunk(otherID, piece, false))
		}
		tell(t, s, chunk(otherID, piece, false))
		if got, _, err := other.Take(); !errors.Is(err, ErrBehind) || len(got) > v1Held {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		// The slots stay taken until the agent has ended, and the rest is
		// passed over.
		slow.Close(true)
		tell(t, s, chunk(id, "{}", false))
		if n := len(sentOld(t, s)); n != 0 || s.Streams() != 2 {
			t.Errorf("%d messages, %d streams", n, s.Streams())
		}
		tell(t, s, streamEnd(id, ""))
		if s.Streams() != 1 {
			t.Errorf("%d streams", s.Streams())
		}
		other.Close(false)
		time.Sleep(311 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if s.Streams() != 0 {
			t.Errorf("%d streams after the agent's own bound", s.Streams())
		}
	})
}
