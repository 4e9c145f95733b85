package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"svc.internal/pkg/fakeengine"
)

// unbounded is the limit of a request that names none.
const unbounded = 1 << 30

// lengthRule is an engine's rule for the length of an answer. Each rule is the engine's
// own documentation in a few lines. limit is unbounded where the request says nothing,
// and least is the length that the answer must have before it may end by itself. An error
// is a request that the engine refuses.
type lengthRule struct {
	name string
	read func(fields) (limit, least int, err error)
}

type fields map[string]json.RawMessage

// number is an integer member; null and a missing one are absent.
func (f fields) number(name string) (n int, ok bool) {
	v, err := strconv.ParseFloat(string(f[name]), 64)
	return int(v), err == nil
}

// first is the first of some members that is present.
func (f fields) first(names ...string) int {
	for _, name := range names {
		if n, ok := f.number(name); ok {
			return n
		}
	}
	return unbounded
}

func (f fields) yes(name string) bool { return string(f[name]) == "true" }

// fourEngines are the engines whose rules the gateway must never underestimate.
var fourEngines = []lengthRule{
	// vLLM: max_completion_tokens goes before max_tokens; min_tokens may not be above it;
	// with ignore_eos the answer runs to the limit.
	{"vLLM", func(f fields) (int, int, error) {
		limit := f.first("max_completion_tokens", "max_tokens")
		least, _ := f.number("min_tokens")
		if least > limit {
			return 0, 0, fmt.Errorf("min_tokens must be less than or equal to max_tokens=%d, got %d", limit, least)
		}
		if f.yes("ignore_eos") {
			least = limit
		}
		return limit, least, nil
	}},
	// SGLang: max_tokens goes before max_completion_tokens; min_tokens is
	// min_new_tokens.
	{"SGLang", func(f fields) (int, int, error) {
		limit := f.first("max_tokens", "max_completion_tokens")
		least, _ := f.number("min_tokens")
		if least > limit {
			return 0, 0, fmt.Errorf("min_new_tokens must be in [0, max_new_tokens], got %d", least)
		}
		if f.yes("ignore_eos") {
			least = limit
		}
		return limit, least, nil
	}},
	// llama.cpp's server: n_predict goes before max_tokens, also in a chat; below
	// zero it is without end.
	{"llama.cpp", func(f fields) (int, int, error) {
		limit := f.first("n_predict", "max_tokens", "max_completion_tokens")
		if limit < 0 {
			limit = unbounded
		}
		if f.yes("ignore_eos") {
			return limit, limit, nil
		}
		return limit, 0, nil
	}},
	// Ollama: max_tokens is num_predict; the chat of OpenAI's form knows no other
	// member.
	{"Ollama", func(f fields) (int, int, error) { return f.first("max_tokens"), 0, nil }},
}

// vendors are engines that put a member of their own before OpenAI's.
func vendor(member string) lengthRule {
	return lengthRule{member, func(f fields) (int, int, error) {
		return f.first(member, "max_tokens", "max_completion_tokens"), 0, nil
	}}
}

// lengthEngine answers with as many words as its rule allows, at most longest.
type lengthEngine struct {
	url     string
	rule    lengthRule
	longest int
	models  []string

	mu    sync.Mutex
	limit int
	asked int
	body  fields
}

// last is the limit of the last request, its body, and the number of requests.
func (e *lengthEngine) last() (limit int, body fields, asked int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limit, e.body, e.asked
}

func (e *lengthEngine) obey(rule lengthRule) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rule = rule
}

func newLengthEngine(t testing.TB, rule lengthRule, longest int, models ...string) *lengthEngine {
	t.Helper()
	e := &lengthEngine{rule: rule, longest: longest, models: models}
	server := httptest.NewServer(e)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	e.url = server.URL
	return e
}

func (e *lengthEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Content-Type", "application/json")
		list := make([]map[string]string, len(e.models))
		for i, id := range e.models {
			list[i] = map[string]string{"id": id, "object": "model"}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": list})
		return
	}
	var body fields
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, `{"error":{"message":"not JSON","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	limit, least, err := e.rule.read(body)
	e.limit, e.body, e.asked = limit, body, e.asked+1
	e.mu.Unlock()
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error","code":400}}`, err.Error())
		return
	}
	choices := max(1, body.first("n")%unbounded)
	n := min(limit, max(e.longest, min(least, 4*e.longest)))
	finish := "stop"
	if n == limit {
		finish = "length"
	}
	if body.yes("stream") {
		e.stream(w, r, n, choices, finish)
		return
	}
	e.whole(w, n, choices, finish)
}

func usage(n, choices int) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, fakeengine.PromptTokens, n*choices,
		fakeengine.PromptTokens+n*choices)
}

func (e *lengthEngine) stream(w http.ResponseWriter, r *http.Request, n, choices int, finish string) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	event := func(choice string) bool {
		_, err := fmt.Fprintf(w,
			"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[%s]}\n\n",
			choice)
		return err == nil && r.Context().Err() == nil
	}
	for i, word := range fakeengine.Words(n) {
		for c := range choices {
			if !event(fmt.Sprintf(`{"index":%d,"delta":{"role":"assistant","content":%q},"finish_reason":null}`, c, word)) {
				return
			}
		}
		if i%16 == 0 {
			_ = flush.Flush()
		}
	}
	for c := range choices {
		event(fmt.Sprintf(`{"index":%d,"delta":{},"finish_reason":%q}`, c, finish))
	}
	fmt.Fprintf(w,
		"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],"+
			"\"usage\":%s}\n\ndata: [DONE]\n\n", usage(n, choices))
}

func (e *lengthEngine) whole(w http.ResponseWriter, n, choices int, finish string) {
	text := ""
	for _, word := range fakeengine.Words(n) {
		text += word
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[`)
	for c := range choices {
		if c > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, `{"index":%d,"message":{"role":"assistant","content":%q},"finish_reason":%q}`, c, text, finish)
	}
	fmt.Fprintf(w, `],"usage":%s}`, usage(n, choices))
}
