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
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
)

// options fix the clock and the random source, so that answers are always the same.
func options() Options {
	return Options{
		Clock:  clock.NewManual(time.Unix(1_800_000_000, 0)),
		Random: func() uint64 { return 42 },
	}
}

func post(t testing.TB, h http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions",
		strings.NewReader(body)))
	return w
}

// request is a body with the given members besides model and one message.
func request(members string) string {
	if members != "" {
		members = "," + members
	}
	return `{"model":"tinylm-1","messages":[{"role":"user","content":"Hello"}]` + members + `}`
}

func decodeAs[T any](t testing.TB, data []byte) T {
	t.Helper()
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return out
}

// keys lists the members of an object, sorted.
func keys(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var names []string
	for name := range decodeAs[map[string]json.RawMessage](t, raw) {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestWholeAnswerHasExactlyTheShapeOfTheAPI(t *testing.T) {
	w := post(t, NewServer(load(t), options()), request(`"temperature":0`))
	if w.Code != http.StatusOK {
		t.Fatalf("w.Code: got %d, want 200", w.Code)
	}
	if w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf(`w.Header().Get("Content-Type"): got %q, want "application/json"`, w.Header().Get("Content-Type"))
	}
	body := w.Body.Bytes()
	if got := keys(t, body); got != "choices created id model object system_fingerprint usage" {
		t.Errorf(`members: got %q, want "choices created id model object system_fingerprint usage"`, got)
	}
	choices := decodeAs[struct{ Choices []json.RawMessage }](t, body).Choices
	if got := keys(t, choices[0]); got != "finish_reason index logprobs message" {
		t.Errorf(`members of a choice: got %q, want "finish_reason index logprobs message"`, got)
	}
	if got := keys(t, decodeAs[struct{ Message json.RawMessage }](t, choices[0]).Message); got != "content refusal role" {
		t.Errorf(`members of a message: got %q, want "content refusal role"`, got)
	}
	got := decodeAs[completion](t, body)
	content := got.Choices[0].Message.Content
	switch {
	case got.ID != "chatcmpl-000000000000002a":
		t.Errorf(`answer: ID: got %q, want "chatcmpl-000000000000002a", with %s`, got.ID, body)
	case got.Object != "chat.completion":
		t.Errorf(`answer: Object: got %q, want "chat.completion", with %s`, got.Object, body)
	case got.Created != 1_800_000_000:
		t.Errorf("answer: Created: got %d, want 1_800_000_000, with %s", got.Created, body)
	case got.Model != ModelName:
		t.Errorf("answer: Model: got %q, want %q, with %s", got.Model, ModelName, body)
	case got.Choices[0].FinishReason != FinishStop:
		t.Errorf("answer: Choices[0].FinishReason: got %q, want %q, with %s", got.Choices[0].FinishReason, FinishStop, body)
	case got.Choices[0].Logprobs != nil:
		t.Errorf("answer: Choices[0].Logprobs: got %+v, want nil, with %s", got.Choices[0].Logprobs, body)
	case content == "":
		t.Errorf(`answer: content: got "", want some text, with %s`, body)
	}
	prompt := len(Prompt([]Message{{RoleUser, "Hello"}}))
	if wanted := usageOf(prompt, len(content)); got.Usage != wanted {
		t.Errorf("usage %+v for a prompt of %d and an answer of %d bytes: Usage: got %+v, want %+v", got.Usage, prompt,
			len(content), got.Usage, wanted)
	} else if got.Usage.TotalTokens != prompt+len(content) {
		t.Errorf("usage %+v for a prompt of %d and an answer of %d bytes: Usage.TotalTokens: got %d, want %d", got.Usage,
			prompt, len(content), got.Usage.TotalTokens, prompt+len(content))
	}
}

func TestLogprobsDescribeEveryToken(t *testing.T) {
	w := post(t, NewServer(load(t), options()),
		request(`"logprobs":true,"top_logprobs":20,"max_tokens":30,"temperature":0.8,"seed":4`))
	got := decodeAs[completion](t, w.Body.Bytes())
	text := ""
	for _, token := range got.Choices[0].Logprobs.Content {
		switch {
		case len(token.Bytes) != 1:
			t.Fatalf("len(token.Bytes): got %d, want 1, in %+v", len(token.Bytes), token)
		case len(token.Top) != 20:
			t.Fatalf("len(token.Top): got %d, want 20, in %+v", len(token.Top), token)
		case token.Logprob > 0:
			t.Fatalf("token.Logprob: got %v, want at most 0", token.Logprob)
		}
		text += string(rune(token.Bytes[0]))
	}
	switch {
	case text != got.Choices[0].Message.Content:
		t.Errorf("tokens: got %q, want %q", text, got.Choices[0].Message.Content)
	case got.Usage.CompletionTokens != 30:
		t.Errorf("Usage.CompletionTokens: got %d, want 30", got.Usage.CompletionTokens)
	case got.Choices[0].FinishReason != FinishLength:
		t.Errorf("Choices[0].FinishReason: got %q, want %q", got.Choices[0].FinishReason, FinishLength)
	}
	w = post(t, NewServer(load(t), options()), request(`"logprobs":true,"max_tokens":3`))
	if !strings.Contains(w.Body.String(), `"top_logprobs":[]`) {
		t.Errorf("without top_logprobs: w.Body: got %q, want %q in it", w.Body.String(), `"top_logprobs":[]`)
	} else if !strings.Contains(w.Body.String(), `"refusal":null}`) {
		t.Errorf("without top_logprobs: w.Body: got %q, want %q in it", w.Body.String(), `"refusal":null}`)
	}
}

func TestAbsentSeedComesFromTheInjectedSource(t *testing.T) {
	h := NewServer(load(t), options())
	content := func(members string) string {
		w := post(t, h, request(`"temperature":1.8,"max_tokens":60`+members))
		return decodeAs[completion](t, w.Body.Bytes()).Choices[0].Message.Content
	}
	if content("") != content(`,"seed":42`) {
		t.Error("an absent seed is not the injected one")
	}
	if content("") == content(`,"seed":43`) {
		t.Error("two seeds gave the same 60 bytes at temperature 1.8")
	}
}

func TestChoicesAreCountedTogether(t *testing.T) {
	w := post(t, NewServer(load(t), options()), request(`"n":8,"max_tokens":10,"temperature":2`))
	got := decodeAs[completion](t, w.Body.Bytes())
	total, texts := 0, map[string]bool{}
	for i, c := range got.Choices {
		if c.Index != i {
			t.Errorf("choice: got %d, want %d", i, c.Index)
		}
		total += len(c.Message.Content)
		texts[c.Message.Content] = true
	}
	switch {
	case len(got.Choices) != 8:
		t.Errorf("%d choices, %d different, %d bytes, usage %+v: len(got.Choices): got %d, want 8", len(got.Choices),
			len(texts), total, got.Usage, len(got.Choices))
	case len(texts) < 2:
		t.Errorf("%d choices, %d different, %d bytes, usage %+v: len(texts): got %d, want at least 2", len(got.Choices),
			len(texts), total, got.Usage, len(texts))
	case got.Usage.CompletionTokens < total || got.Usage.CompletionTokens > 80:
		t.Errorf("%d choices, %d different, %d bytes, usage %+v: Usage.CompletionTokens: got %d, want %d to 80",
			len(got.Choices), len(texts), total, got.Usage, got.Usage.CompletionTokens, total)
	}
}

func TestFaultyRequestsAreRefusedByName(t *testing.T) {
	h := NewServer(load(t), options())
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"x"}]}`:                    "400 model missing_required_parameter",
		`{"model":"tinylm-1"}`:                                            "400 messages missing_required_parameter",
		`{"model":"tinylm-1","messages":[]}`:                              "400 messages missing_required_parameter",
		`{"model":"gpt-9","messages":[{"role":"user","content":"x"}]}`:    "404 model model_not_found",
		`{"model":5,"messages":[{"role":"user","content":"x"}]}`:          "400 model invalid_value",
		`{"model":"tinylm-1","messages":[{"role":"king","content":"x"}]}`: "400 messages[0].role invalid_value",
		`{"model":"tinylm-1","messages":[{"content":"x"}]}`:               "400 messages[0].role missing_required_parameter",
		`{"model":"tinylm-1","messages":[{"role":"user"}]}`: "400 messages[0].content " +
			"missing_required_parameter",
		`{"model":"tinylm-1","messages":[{"role":"user","content":7}]}`: "400 messages[0].content invalid_value",
		`{"model":"tinylm-1","messages":[{"role":"user","content":` +
			`[{"type":"image_url","image_url":{"url":"data:,"}}]}]}`: "400 messages[0].content[0] invalid_value",
		`{"model":"tinylm-1","messages":[{"role":"user","content":"` + strings.Repeat("a", ContextTokens) +
			`"}]}`: "400 messages context_length_exceeded",
		request(`"prompt_logprobs":21`):                                        "400 prompt_logprobs invalid_value",
		request(`"prompt_logprobs":-1`):                                        "400 prompt_logprobs invalid_value",
		request(`"prompt_logprobs":1,"stream":true`):                           "400 prompt_logprobs invalid_value",
		request(`"prompt_logprobs":true`):                                      "400 prompt_logprobs invalid_value",
		request(`"continue_final_message":true`):                               "400 continue_final_message invalid_value",
		request(`"continue_final_message":true,"add_generation_prompt":true`):  "400 continue_final_message invalid_value",
		request(`"continue_final_message":true,"add_generation_prompt":false`): "400 messages[0].role invalid_value",
		continued(strings.Repeat("a", ContextTokens-7), `"prompt_logprobs":0`): "400 messages context_length_exceeded",
		`{`:                                   "400  invalid_value",
		``:                                    "400  invalid_value",
		request("") + `x`:                     "400  invalid_value",
		request(`"temperature":2.1`):          "400 temperature invalid_value",
		request(`"temperature":"hot"`):        "400 temperature invalid_value",
		request(`"top_p":-0.1`):               "400 top_p invalid_value",
		request(`"n":0`):                      "400 n invalid_value",
		request(`"n":9`):                      "400 n invalid_value",
		request(`"n":1.5`):                    "400 n invalid_value",
		request(`"max_tokens":0`):             "400 max_tokens invalid_value",
		request(`"max_completion_tokens":-1`): "400 max_completion_tokens invalid_value",
		request(`"logprobs":true,"top_logprobs":21`):                    "400 top_logprobs invalid_value",
		request(`"top_logprobs":2`):                                     "400 top_logprobs invalid_value",
		request(`"stop":""`):                                            "400 stop invalid_value",
		request(`"stop":["a","b","c","d","e"]`):                         "400 stop invalid_value",
		request(`"stop":[1]`):                                           "400 stop invalid_value",
		request(`"seed":"x"`):                                           "400 seed invalid_value",
		request(`"stop":"` + strings.Repeat("a", maxStopBytes+1) + `"`): "400 stop invalid_value",
		request(`"pad":"` + strings.Repeat("a", maxBodyBytes) + `"`):    "413  request_too_large",
	} {
		if got := describe(t, post(t, h, body)); got != want {
			t.Errorf("%.120s\n got %s\nwant %s", body, got, want)
		}
	}
}

// describe sums up an error response: status, param and code.
func describe(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	got := decodeAs[struct {
		Error struct {
			Message, Type string
			Param, Code   *string
		}
	}](t, w.Body.Bytes()).Error
	if got.Message == "" {
		t.Error(`an error: Message: got "", want some text`)
	} else if got.Type == "" {
		t.Error(`an error: Type: got "", want some text`)
	}
	if members := keys(t, decodeAs[struct{ Error json.RawMessage }](t,
		w.Body.Bytes()).Error); members != "code message param type" {
		t.Errorf(`members of an error: got %q, want "code message param type"`, members)
	}
	return fmt.Sprintf("%d %s %s", w.Code, value(got.Param, ""), value(got.Code, ""))
}

func TestTolerantRequestsAreAnswered(t *testing.T) {
	h := NewServer(load(t), options())
	for _, body := range []string{
		request(`"tools":[],"metadata":{"a":"b"},"frequency_penalty":0.5,"user":"u","unheard_of":[1,{}]`),
		request(`"stop":null,"seed":null,"n":null,"temperature":null,"logprobs":null,"stream":null,"stream_options":null`),
		request(`"seed":-9223372036854775808,"top_p":0,"stop":["a","b","c","d"]`),
		request(`"max_tokens":1000000`),
		`{"model":"tinylm-1","messages":[{"role":"developer","content":"Be kind."},{"role":"user",` +
			`"content":[{"type":"text","text":"Hel"},{"type":"text","text":"lo"}]},{"role":"assistant","content":null,` +
			`"tool_calls":[]},{"role":"tool","tool_call_id":"x","content":"7"}]}`,
	} {
		if w := post(t, h, body); w.Code != http.StatusOK {
			t.Errorf("%s\n%d %s", body, w.Code, w.Body)
		}
	}
	parts := `{"model":"tinylm-1","messages":[{"role":"user","content":[{"type":"text","text":"Hel"},` +
		`{"type":"text","text":"lo"}]}]}`
	if a, b := post(t, h, parts), post(t, h, request("")); a.Body.String() != b.Body.String() {
		t.Errorf("text parts are answered differently from the same string:\n%s\n%s", a.Body, b.Body)
	}
}

func TestModelsAndOtherPaths(t *testing.T) {
	h := NewServer(load(t), options())
	for call, want := range map[string]string{
		"GET /v1/models":            `"id":"tinylm-1","object":"model"`,
		"GET /v1/models/tinylm-1":   `"max_model_len":4096`,
		"GET /v1/models/a/b":        `"code":"model_not_found"`,
		"GET /health":               `"status":"ok"`,
		"GET /v1/chat/completions":  `"code":"method_not_allowed"`,
		"DELETE /v1/models":         `"code":"method_not_allowed"`,
		"GET /":                     `"code":"not_found"`,
		"POST /v1/chat/completion":  `"code":"not_found"`,
		"POST /v1/chat/completions": `"code":"invalid_value"`,
	} {
		method, path, _ := strings.Cut(call, " ")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", call, w.Code, w.Body, want)
		}
	}
}

func TestAnswersBeyondTheBoundAreRefused(t *testing.T) {
	m := load(t)
	synctest.Test(t, func(t *testing.T) {
		opts := options()
		opts.MaxConcurrent, opts.TokenDelay = 1, time.Second
		h := NewServer(m, opts)
		began := time.Now()
		first := make(chan *httptest.ResponseRecorder)
		go func() { first <- post(t, h, request(`"max_tokens":10`)) }()
		synctest.Wait() // the first answer waits for its first token
		if w := post(t, h, request("")); describe(t, w) != "429  rate_limit_exceeded" ||
			w.Header().Get("Retry-After") != "1" {
			t.Errorf("second request: %d %s", w.Code, w.Body)
		}
		if w := <-first; w.Code != http.StatusOK {
			t.Errorf("first request: w.Code: got %d, want 200", w.Code)
		} else if time.Since(began) != 10*time.Second {
			t.Errorf("first request: time.Since(began): got %v, want %v", time.Since(began), 10*time.Second)
		}
		if w := post(t, h, request(`"max_tokens":1`)); w.Code != http.StatusOK {
			t.Errorf("third request: got %d, want 200", w.Code)
		}
	})
}

func TestHangUpEndsAWholeAnswer(t *testing.T) {
	m := load(t)
	synctest.Test(t, func(t *testing.T) {
		opts := options()
		opts.TokenDelay = time.Hour
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() {
			w := httptest.NewRecorder()
			NewServer(m, opts).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions",
				strings.NewReader(request(""))))
			ended <- w.Body.Len()
		}()
		synctest.Wait()
		began := time.Now()
		hangUp()
		if n := <-ended; n != 0 {
			t.Errorf("the handler wrote: got %d, want 0", n)
		} else if time.Since(began) != 0 {
			t.Errorf("the handler wrote: time.Since(began): got %v, want 0", time.Since(began))
		}
	})
}

func FuzzDecodeChat(f *testing.F) {
	f.Add([]byte(request(`"stop":["a"],"n":3,"stream":true,"stream_options":{"include_usage":true}`)))
	f.Add([]byte(request(`"logprobs":true,"top_logprobs":5,"max_completion_tokens":9,"seed":-1`)))
	f.Add([]byte(continued(`H\u00e9`, `"prompt_logprobs":3`)))
	f.Add([]byte(`{"model":"tinylm-1","messages":[{"role":"user","content":[{"type":"text","text":"\u0004\ud800"}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, fault := decodeChat(body, ModelName)
		if fault != nil {
			switch {
			case fault.status < 400 || fault.status > 499:
				t.Errorf("fault.status: got %d, want 400 to 499", fault.status)
			case fault.message == "":
				t.Error(`fault.message: got "", want some text`)
			case fault.code == "":
				t.Error(`fault.code: got "", want some text`)
			}
			return
		}
		p := c.params
		switch {
		case c.choices < 1 || c.choices > maxChoices:
			t.Errorf("accepted: c.choices: got %d, want 1 to %d", c.choices, maxChoices)
		case p.MaxTokens < 1:
			t.Errorf("p.MaxTokens: got %d, want at least 1", p.MaxTokens)
		case p.Temperature < 0 || p.Temperature > 2:
			t.Errorf("p.Temperature: got %v, want 0 to 2", p.Temperature)
		case p.TopP < 0 || p.TopP > 1:
			t.Errorf("p.TopP: got %v, want 0 to 1", p.TopP)
		case p.TopLogprobs < 0 || p.TopLogprobs > 20:
			t.Errorf("p.TopLogprobs: got %d, want 0 to 20", p.TopLogprobs)
		case len(p.Stop) > 4:
			t.Errorf("len(p.Stop): got %d, want at most 4", len(p.Stop))
		case slices.Contains(p.Stop, ""):
			t.Errorf(`p.Stop: got %q, want it without ""`, p.Stop)
		case c.scoredTop < 0 || c.scoredTop > 20:
			t.Errorf("c.scoredTop: got %d, want 0 to 20", c.scoredTop)
		case len(c.prompt) == 0:
			t.Errorf("accepted: len(c.prompt): got 0, want at least 1, in %+v", c)
		}
	})
}
