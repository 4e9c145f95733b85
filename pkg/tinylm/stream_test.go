package tinylm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// events splits an event stream, and checks that it ends with [DONE].
func events(t testing.TB, w *httptest.ResponseRecorder) []chunk {
	t.Helper()
	if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK {
		t.Fatalf("w.Code: got %d, want 200", w.Code)
	} else if got != "text/event-stream; charset=utf-8" {
		t.Fatalf(`w.Header().Get("Content-Type"): got %q, want "text/event-stream; charset=utf-8"`, got)
	}
	parts := strings.Split(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n")
	if parts[len(parts)-1] != "data: [DONE]" {
		t.Fatalf(`stream ends: got %q, want "data: [DONE]"`, parts[len(parts)-1])
	}
	var out []chunk
	for _, part := range parts[:len(parts)-1] {
		data, ok := strings.CutPrefix(part, "data: ")
		if !ok {
			t.Fatalf(`event %q: ok of strings.CutPrefix(part, "data: "): got false, want true`, part)
		}
		if !utf8.ValidString(data) {
			t.Fatalf("event %q: utf8.ValidString(data): got false, want true", part)
		}
		out = append(out, decodeAs[chunk](t, []byte(data)))
	}
	return out
}

func TestStreamConcatenatesToTheWholeAnswer(t *testing.T) {
	h := NewServer(load(t), options())
	for _, members := range []string{
		`"temperature":0,"max_tokens":300`,
		`"temperature":1.1,"n":4,"seed":5,"logprobs":true,"top_logprobs":2`,
		`"temperature":2,"seed":6,"max_tokens":200`,
		`"temperature":0.7,"stop":["o","ing"],"seed":8,"n":2`,
		`"temperature":0,"max_tokens":5,"logprobs":true`,
	} {
		whole := decodeAs[completion](t, post(t, h, request(members)).Body.Bytes())
		stream := events(t, post(t, h, request(members+`,"stream":true,"stream_options":{"include_usage":true}`)))
		last := stream[len(stream)-1]
		if len(last.Choices) != 0 {
			t.Errorf("%s: last chunk: len(last.Choices): got %d, want 0, in %+v", members, len(last.Choices), last)
		} else if wanted := mustJSON(t, whole.Usage); string(last.Usage) != wanted {
			t.Errorf("%s: last chunk: last.Usage: got %q, want %q", members, string(last.Usage), wanted)
		}
		rebuilt := make([]choice, len(whole.Choices))
		for i := range rebuilt {
			rebuilt[i] = choice{Index: i, FinishReason: ""}
		}
		for _, c := range stream[:len(stream)-1] {
			switch {
			case string(c.Usage) != "null":
				t.Fatalf(`%s: chunk: c.Usage: got %q, want "null"`, members, string(c.Usage))
			case c.ID != whole.ID:
				t.Fatalf("%s: whole.ID: got %q, want %q", members, whole.ID, c.ID)
			case c.Created != whole.Created:
				t.Fatalf("%s: whole.Created: got %d, want %d", members, whole.Created, c.Created)
			case c.Object != "chat.completion.chunk":
				t.Fatalf(`%s: chunk: c.Object: got %q, want "chat.completion.chunk"`, members, c.Object)
			case len(c.Choices) != 1:
				t.Fatalf("%s: chunk: len(c.Choices): got %d, want 1, in %+v", members, len(c.Choices), c)
			}
			gather(t, &rebuilt[c.Choices[0].Index], c.Choices[0])
		}
		if got, want := mustJSON(t, rebuilt), mustJSON(t, whole.Choices); got != want {
			t.Errorf("%s:\nstream %s\n whole %s", members, got, want)
		}
	}
}

// gather appends a chunk's choice to the choice gathered so far.
func gather(t testing.TB, to *choice, c chunkChoice) {
	t.Helper()
	if to.FinishReason != "" {
		t.Errorf(`a choice after its finish reason: got %q, want ""`, to.FinishReason)
	}
	if (to.Message.Role == "") != (c.Delta.Role == RoleAssistant) {
		t.Errorf(`the role, in the first delta alone: to.Message.Role == "": got %t, want %t`,
			to.Message.Role == "", c.Delta.Role == RoleAssistant)
	}
	if c.Delta.Role != "" {
		to.Message.Role = c.Delta.Role
	}
	to.Message.Content += value(c.Delta.Content, "")
	if c.Logprobs != nil {
		if to.Logprobs == nil {
			to.Logprobs = &logprobs{}
		}
		to.Logprobs.Content = append(to.Logprobs.Content, c.Logprobs.Content...)
	}
	if c.FinishReason != nil {
		to.FinishReason = *c.FinishReason
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestUsageIsStreamedOnlyWhenAskedFor(t *testing.T) {
	w := post(t, NewServer(load(t), options()), request(`"stream":true`))
	for _, c := range events(t, w) {
		if len(c.Choices) == 0 {
			t.Error("a chunk without choices was sent unasked")
		}
	}
	if strings.Contains(w.Body.String(), `"usage"`) {
		t.Errorf("a stream without usage asked for: got %q, want it without %q", w.Body.String(), `"usage"`)
	}
}

func TestPiecesAreWordsAndNeverSplitCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"Hello, small world.":           "Hello,| small| world.",
		"a  b\n\nc ":                    "a|  b|\n\nc| ",
		"你好，你好，你好":                      "你好，你好，|你好",
		"abcdefghijklmnopqrstuvwxyz":    "abcdefghijklmnop|qrstuvwxyz",
		"cut \xe4\xbd":                  "cut| ",
		strings.Repeat("é", 9) + "\xc3": "éééééééé|é",
		"":                              "",
	} {
		if got := strings.Join(texts(text), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// texts groups the bytes of text into pieces.
func texts(text string) []string {
	var g grouper
	var out []string
	for i := range len(text) {
		if p, ok := g.add(Token{Byte: text[i]}); ok {
			out = append(out, p.text)
		}
	}
	if p, ok := g.rest(); ok {
		out = append(out, p.text)
	}
	return out
}

func FuzzPieces(f *testing.F) {
	f.Add("Hello, 世界 and all that", 9)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if !utf8.ValidString(text) {
			t.Skip()
		}
		cut = min(max(cut, 0), len(text))
		want := text[:cut]
		for !utf8.ValidString(want) {
			want = want[:len(want)-1]
		}
		pieces := texts(text[:cut])
		for _, p := range pieces {
			if !utf8.ValidString(p) {
				t.Errorf("piece: utf8.ValidString(p): got false, want true, with %q", p)
			} else if len(p) > maxPieceBytes+utf8.UTFMax {
				t.Errorf("piece: len(p): got %d, want at most %d, in %q", len(p), maxPieceBytes+utf8.UTFMax, p)
			}
		}
		if got := strings.Join(pieces, ""); got != want {
			t.Errorf(`strings.Join(pieces, ""): got %q, want %q`, got, want)
		}
	})
}

// hangUpWriter cancels the request when it has seen a number of events.
type hangUpWriter struct {
	*httptest.ResponseRecorder
	hangUp func()
	after  int
	seen   int
}

func (w *hangUpWriter) Write(p []byte) (int, error) {
	if w.seen++; w.seen == w.after {
		w.hangUp()
	}
	return w.ResponseRecorder.Write(p)
}

func TestHangUpEndsAStreamWithinOneToken(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &hangUpWriter{ResponseRecorder: httptest.NewRecorder(), hangUp: cancel, after: 3}
	body := request(`"stream":true,"n":8,"max_tokens":4000,"stream_options":{"include_usage":true}`)
	NewServer(load(t), options()).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions",
		strings.NewReader(body)))
	if w.seen != 3 {
		t.Errorf("events written: w.seen: got %d, want 3", w.seen)
	} else if strings.Contains(w.Body.String(), "[DONE]") {
		t.Errorf(`events written: w.Body: got %q, want it without "[DONE]"`, w.Body.String())
	}
}

// TestHangUpReachesTheModelOverHTTP proves that a hang-up ends a stream through a real
// connection too.
func TestHangUpReachesTheModelOverHTTP(t *testing.T) {
	opts, ended := options(), make(chan struct{})
	opts.TokenDelay = 1 << 40 // about 18 minutes: only the hang-up can end the handler
	h := NewServer(load(t), opts)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions",
		strings.NewReader(request(`"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	hangUp()
	<-ended
}

// writerOnly has no Flush.
type writerOnly struct{ http.ResponseWriter }

func TestStreamSurvivesAWriterThatCannotFlush(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
		strings.NewReader(request(`"stream":true,"temperature":0`)))
	NewServer(load(t), options()).ServeHTTP(writerOnly{w}, r)
	if got := events(t, w); len(got) < 3 || slices.ContainsFunc(got, func(c chunk) bool { return c.Model != ModelName }) {
		t.Errorf("stream: %s", fmt.Sprint(got))
	}
}
