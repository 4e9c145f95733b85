package caller

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"svc.internal/services/proving/internal/chaos/engine"
	"svc.internal/services/proving/internal/chaos/record"
)

func config(gateways ...string) Config {
	return Config{
		Seed: 1, Accounts: []Account{{Name: "a", ID: "1", Key: "k", Weight: 3}, {Name: "b", ID: "2", Key: "l", Weight: 1}},
		Models: []string{"m", "n"}, Gateways: gateways, Bound: 2 * time.Minute,
	}
}

func TestOneSeedAsksTheSame(t *testing.T) {
	wishes := func(seed uint64) []wish {
		random := rand.New(rand.NewPCG(seed, 1))
		var all []wish
		for i := range 300 {
			all = append(all, config("x", "y").wish(random, fmt.Sprint(i)))
		}
		return all
	}
	first := wishes(4)
	if want := wishes(4); !reflect.DeepEqual(first, want) {
		t.Errorf("what a seed decides to ask: first: got %+v, want %+v", first, want)
	} else if want := wishes(5); reflect.DeepEqual(first, want) {
		t.Errorf("what a seed decides to ask: first: got %+v, want any but %+v", first, want)
	}
	ends, leaves := map[string]int{}, 0
	for _, w := range first {
		ends[w.end]++
		if w.leaveAfter > 0 {
			leaves++
		}
		if w.tokens > engine.MaxTokens {
			t.Errorf("w.tokens: got %d, want at most %d", w.tokens, engine.MaxTokens)
		} else if w.tokens > maxTokens {
			t.Errorf("w.tokens: got %d, want at most %d", w.tokens, maxTokens)
		}
	}
	if len(ends) < 5 {
		t.Errorf("the mixed load: len(ends): got %d, want at least 5, in %v", len(ends), ends)
	} else if leaves == 0 {
		t.Error("the mixed load: leaves: got 0, want any but 0")
	}
}

// gateway answers as given, and remembers the bodies.
func gateway(t *testing.T, status int, header, body string) (*httptest.Server, *[]string) {
	t.Helper()
	var mu sync.Mutex
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body) // a test's own
		mu.Lock()
		bodies = append(bodies, string(text))
		mu.Unlock()
		w.Header().Set("Content-Type", header)
		w.Header().Set(requestIDHeader, "r")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s, &bodies
}

func ask(t *testing.T, s wish, gateways ...string) Call {
	t.Helper()
	l := &Load{cfg: config(gateways...), http: &http.Client{}}
	return l.call(t.Context(), s)
}

func TestACallIsRecordedAsItsClientSawIt(t *testing.T) {
	const sse, whole = "text/event-stream", "application/json"
	content := `data: {"choices":[{"delta":{"content":"one"}}]}` + "\n\n" +
		`data: {"choices":[{"delta":{"content":" two"}}]}` + "\n\n"
	usage := `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}` + "\n\n"
	for name, c := range map[string]struct {
		status       int
		header, body string
		wish         wish
		want         record.Client
	}{
		"a stream": {200, sse, content + usage + "data: [DONE]\n\n", wish{stream: true}, record.Client{Status: 200,
			ContentTokens: 2, ContentBytes: 7, Complete: true, Usage: &record.Usage{PromptTokens: 7, CompletionTokens: 2}}},
		"a stream cut": {200, sse, content + `data: {"error":{"code":"upstream_error"}}` + "\n\n", wish{stream: true},
			record.Client{Status: 200, ContentTokens: 2, ContentBytes: 7, ErrorEvent: true, ErrorCode: "upstream_error"}},
		"a stream left": {200, sse, content + "data: [DONE]\n\n", wish{stream: true, leaveAfter: 1},
			record.Client{Status: 200, ContentTokens: 1, ContentBytes: 3, Left: true}},
		"a whole answer": {200, whole, `{"choices":[{"message":{"content":"one two"}}]}`, wish{},
			record.Client{Status: 200, ContentTokens: 2, ContentBytes: 7, Complete: true}},
		"an error": {503, whole, `{"error":{"code":"no_provider_online"}}`, wish{},
			record.Client{Status: 503, ErrorCode: "no_provider_online"}},
		"an unnamed error": {400, whole, `{"error":{"type":"invalid_request_error"}}`, wish{},
			record.Client{Status: 400, ErrorCode: "invalid_request_error"}},
	} {
		server, _ := gateway(t, c.status, c.header, c.body)
		got := ask(t, c.wish, server.URL).Client
		c.want.RequestID, c.want.Stream, c.want.SentAt, c.want.EndedAt = "r", c.wish.stream, got.SentAt, got.EndedAt
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s is recorded: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestTheBodyTellsTheEngineWhatToDo(t *testing.T) {
	server, bodies := gateway(t, 200, "application/json", `{}`)
	ask(t, wish{nonce: "n", model: "m", tokens: 5, pause: time.Millisecond, end: engine.EndSilent}, server.URL)
	var body struct{ Metadata map[string]string }
	if err := json.Unmarshal([]byte((*bodies)[0]), &body); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{engine.MetaNonce: "n", engine.MetaTokens: "5", engine.MetaPause: "1000",
		engine.MetaEnd: engine.EndSilent}
	if !reflect.DeepEqual(body.Metadata, want) {
		t.Errorf("body.Metadata: got %v, want %v", body.Metadata, want)
	}
}

func TestAGatewayThatRefusesIsPassedOverAndOnlyThat(t *testing.T) {
	dead, _ := gateway(t, 200, "", "")
	dead.Close()
	server, bodies := gateway(t, 200, "application/json", `{"choices":[]}`)
	switch got := ask(t, wish{}, dead.URL, server.URL); {
	case !got.Complete:
		t.Error("Complete: got false, want true")
	case got.Gateway != 1:
		t.Errorf("Gateway: got %d, want 1", got.Gateway)
	case got.Err != nil:
		t.Errorf("Err: got the error %v, want none", got.Err)
	}
	failing, _ := gateway(t, 500, "application/json", `{"error":{"code":"x"}}`)
	if got := ask(t, wish{}, failing.URL, server.URL); got.Status != 500 {
		t.Errorf("a call that failed was made again: Status: got %d, want 500", got.Status)
	} else if len(*bodies) != 1 {
		t.Errorf("a call that failed was made again: len(*bodies): got %d, want 1", len(*bodies))
	}
}
