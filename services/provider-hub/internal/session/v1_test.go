package session_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "svc.internal/services/provider-hub/internal/session"
)

func TestWholeAnswersAndErrorsAreReadAsTheEngineSaidThem(t *testing.T) {
	const failed = `,"response":null,"error":`
	for payload, want := range map[string]struct {
		body string
		end  End
	}{
		`,"response":{"id":"c0" , "x":1},"latency_ms":1`: {`{"id":"c0" , "x":1}`, End{Status: 200, Complete: true}},
		failed + `"model server returned HTTP 404: model nope not deployed","status_code":404`: {
			"", End{Status: 404, Error: "model nope not deployed"},
		},
		failed + `"model server returned HTTP 429: provider rate limit exceeded, wait","status_code":429`: {
			"", End{Status: 429, Error: "provider rate limit exceeded, wait", Busy: true},
		},
		failed + `"provider concurrency limit","status_code":429`: {
			"", End{Status: 429, Error: "provider concurrency limit", Busy: true},
		},
		failed + `"dial tcp: refused"`: {"", End{Status: 0, Error: "dial tcp: refused"}},
		`,"response":null`:             {"", End{Status: 200}},
	} {
		s := liveOld(t, Config{})
		st, id := ask(t, s, false)
		tell(t, s, answer(id, payload))
		piece, end, err := st.Take()
		switch {
		case string(piece) != want.body:
			t.Errorf("%s: piece: got %q, want %q", payload, string(piece), want.body)
		case end == nil:
			t.Errorf("%s: end: got nil, want a value", payload)
		case *end != want.end:
			t.Errorf("%s: *end: got %+v, want %+v", payload, *end, want.end)
		case err != nil:
			t.Errorf("%s: got the error %v, want none", payload, err)
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
		"whole": {func(id string) []string {
			return []string{chunk(id, "null", true), streamEnd(id, "")}
		}, End{Status: 200, Complete: true}},
		"cut short": {func(id string) []string {
			return []string{chunk(id, "{}", false), streamEnd(id, "")}
		}, End{Status: 200}},
		"aborted": {func(id string) []string {
			return []string{streamEnd(id, `,"status_code":502,"error":"failed to read stream: unexpected EOF"`)}
		}, End{Error: "failed to read stream: unexpected EOF"}},
		"refused": {func(id string) []string {
			return []string{`{"type":"error","request_id":"` + id +
				`","payload":{"code":501,"message":"streaming not supported"}}`}
		}, End{Error: "streaming not supported"}},
		"an ack": {func(id string) []string { return []string{answer(id, `,"response":{}`)} }, End{Status: 200}},
	} {
		s := liveOld(t, Config{})
		st, id := ask(t, s, true)
		for _, m := range c.messages(id) {
			tell(t, s, m)
		}
		switch _, end, err := st.Take(); {
		case end == nil:
			t.Errorf("%s: end: got nil, want a value", name)
		case *end != c.end:
			t.Errorf("%s: *end: got %+v, want %+v", name, *end, c.end)
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		}
	}
}

func TestOldStreamsAreBoundedEachForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveOld(t, Config{})
		slow, id := ask(t, s, true)
		other, otherID := ask(t, s, true)
		for range MaxChunks {
			tell(t, s, chunk(id, "{}", false))
		}
		tell(t, s, chunk(id, "{}", false)) // a burst is no sign of a slow consumer
		if _, _, err := slow.Take(); err != nil {
			t.Fatal(err)
		}
		for range MaxChunks {
			tell(t, s, chunk(id, "{}", false))
		}
		time.Sleep(ChunkPatience + time.Millisecond) //nolint:forbidigo // of a synctest bubble
		tell(t, s, chunk(id, "{}", false))
		if _, _, err := slow.Take(); !errors.Is(err, ErrBehind) {
			t.Errorf("a consumer that took nothing: got the error %v, want %v", err, ErrBehind)
		}
		piece := `"` + strings.Repeat("x", 1<<16) + `"`
		for range 15 {
			tell(t, s, chunk(otherID, piece, false))
		}
		tell(t, s, chunk(otherID, piece, false))
		if got, _, err := other.Take(); !errors.Is(err, ErrBehind) {
			t.Errorf("got the error %v, want %v", err, ErrBehind)
		} else if len(got) > MaxUntaken {
			t.Errorf("len(got): got %d, want at most %d", len(got), MaxUntaken)
		}
		// The slots stay taken until the agent has ended, and the rest is
		// passed over.
		slow.Close(true)
		tell(t, s, chunk(id, "{}", false))
		if n := len(sentOld(t, s)); n != 0 {
			t.Errorf("len(sentOld(t, s)): got %d, want 0", n)
		} else if s.Streams() != 2 {
			t.Errorf("s.Streams(): got %d, want 2", s.Streams())
		}
		tell(t, s, streamEnd(id, ""))
		if s.Streams() != 1 {
			t.Errorf("streams: got %d, want 1", s.Streams())
		}
		other.Close(false)
		time.Sleep(311 * time.Second) //nolint:forbidigo // of a synctest bubble
		synctest.Wait()
		if s.Streams() != 0 {
			t.Errorf("streams after the agent's own bound: got %d, want 0", s.Streams())
		}
	})
}

func TestLineEndsOfAChunkAreBlanksOfItsEvent(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		s := liveOld(t, Config{})
		st, id := ask(t, s, true)
		tell(t, s, chunk(id, `{"a":`+end+`1}`, false))
		want := `data: {"a":` + strings.Repeat(" ", len(end)) + "1}\n\n"
		if got, _, err := st.Take(); string(got) != want || err != nil {
			t.Errorf("a chunk with %q: got %q, %v, want %q", end, got, err, want)
		}
	}
}
