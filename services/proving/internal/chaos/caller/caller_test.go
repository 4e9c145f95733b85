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
	if !reflect.DeepEqual(first, wishes(4)) || reflect.DeepEqual(first, wishes(5)) {
		t.Error("the seed does not decide what is asked")
	}
	ends, leaves := map[string]int{}, 0
	for _, w := range first {
		ends[w.end]++
		if w.leaveAfter > 0 {
			leaves++
		}
		if w.tokens > engine.MaxTokens || w.tokens > maxTokens {
			t.Errorf("%d tokens", w.tokens)
		}
	}
	if len(ends) < 5 || leaves == 0 {
		t.Errorf("the load is not mixed: %v, %d leave", ends, leaves)
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
			t.Errorf("%s is recorded as %+v", name, got)
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
		t.Errorf("%v", body.Metadata)
	}
}

func TestAGatewayThatRefusesIsPassedOverAndOnlyThat(t *testing.T) {
	dead, _ := gateway(t, 200, "", "")
	dead.Close()
	server, bodies := gateway(t, 200, "application/json", `{"choices":[]}`)
	if got := ask(t, wish{}, dead.URL, server.URL); !got.Complete || got.Gateway != 1 || got.Err != nil {
		t.Errorf("%+v", got)
	}
	failing, _ := gateway(t, 500, "application/json", `{"error":{"code":"x"}}`)
	if got := ask(t, wish{}, failing.URL, server.URL); got.Status != 500 || len(*bodies) != 1 {
		t.Errorf("a call that failed was made again: %+v", got)
	}
}
