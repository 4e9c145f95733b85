package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// metInUse are problems that developers with ordinary clients met.
func metInUse() []Case {
	return []Case{
		{Hole: "IN_USE", Name: "one_at_a_time_with_a_limit_of_1", Before: "most get 429", Run: oneAfterTheOther(1)},
		{Hole: "IN_USE", Name: "eight_workers_with_a_limit_of_8", Before: "24 of 40 get 429", Run: oneAfterTheOther(8)},
		{Hole: "IN_USE", Name: "streams_made_whole", Before: "helpers throw", Run: madeWhole},
		{Hole: "IN_USE", Name: "nobody_online", Before: "Retry-After 30, twice", Run: nobodyOnline},
		{Hole: "IN_USE", Name: "slow_first_token", Before: "504 after 20 s", Long: true, Run: slowFirstToken},
		{Hole: "IN_USE", Name: "image_at_the_engines_address", Before: "the engine's own address is handed out",
			Run: imageAddress},
		{Hole: "IN_USE", Name: "image_as_base64", Before: "asked as the client said", Run: imageBase64},
		{Hole: "IN_USE", Name: "several_prompts", Before: "400", Run: severalPrompts},
		{Hole: "IN_USE", Name: "pinned_unavailable", Before: "no Retry-After of 5", Run: pinnedUnavailable},
		{Hole: "IN_USE", Name: "end_without_done", Before: "passes", Run: endWithoutDone},
		{Hole: "IN_USE", Name: "video_url_passes", Before: "400", Run: videoPasses},
	}
}

// oneAfterTheOther has as many workers as the limit, each with one request after the
// other and no pause.
func oneAfterTheOther(limit int) func(t testing.TB, s *stage) Outcome {
	return func(t testing.TB, s *stage) Outcome {
		const each = 8
		id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
		account, key := s.Consumer(t, "50")
		s.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits",
			fmt.Sprintf(`{"requests_per_minute":-1,"concurrent_requests":%d}`, limit))
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for w := range limit {
			wg.Go(func() {
				for i := range each {
					stream := ""
					if (i+w)%2 == 0 {
						stream = `,"stream":true`
					}
					if r := s.chat(t, key, trial.Chat(id, `,"max_tokens":8`+stream)); r.status != http.StatusOK {
						mu.Lock()
						refused++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if refused > 0 {
			t.Errorf("got %d of %d requests refused that never were more than %d at once, want none", refused, limit*each, limit)
		}
		return Outcome{Got: fmt.Sprintf("%d of %d", limit*each-refused, limit*each), Paid: "the requests", Harm: "none"}
	}
}

// madeWhole is an engine that leaves out everything that it may.
func madeWhole(t testing.TB, s *stage) Outcome {
	raw := `data: {"choices":[{"delta":{"content":"Hel"}}]}

data: {"choices":[{"delta":{"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f",` +
		`"arguments":"{}"}}]}}]}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}

data: [DONE]

`
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{Raw: raw, ContentType: "text/event-stream"})
	_, key := s.caller(t)
	r := s.chat(t, key,
		trial.Chat(id, `,"stream":true,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`))
	var missing []string
	events := 0
	for _, line := range strings.Split(r.body, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		var v any
		if !ok || json.Unmarshal([]byte(data), &v) != nil || trial.At(v, "choices", 0) == nil {
			continue
		}
		events++
		choice := trial.At(v, "choices", 0)
		if trial.At(choice, "index") != 0.0 {
			missing = append(missing, "choices[0].index")
		}
		if events == 1 && trial.At(choice, "delta", "role") != "assistant" {
			missing = append(missing, "role")
		}
		if call := trial.At(choice, "delta", "tool_calls", 0); call != nil && trial.At(call, "index") != 0.0 {
			missing = append(missing, "tool_calls[0].index")
		}
	}
	if len(missing) > 0 || events < 3 {
		t.Errorf("got %d events without %v, want each made whole: %s", events, missing, trial.Tail(r.body, 400))
	}
	return Outcome{Got: fmt.Sprintf("%d events, missing %d", events, len(missing)), Paid: "the answer", Harm: "none"}
}

func nobodyOnline(t testing.TB, s *stage) Outcome {
	id := s.put(t, model{})
	_, key := s.caller(t)
	var r reply
	trial.Until(t, "the model is known", func() bool {
		r = s.chat(t, key, trial.Chat(id, ""))
		return trial.ErrorCode([]byte(r.body)) == "no_provider_online"
	})
	after, again := r.header.Get("Retry-After"), r.header.Get("X-Should-Retry")
	if r.status != http.StatusServiceUnavailable || after != "5" || again != "false" {
		t.Errorf("got %d with Retry-After %q and x-should-retry %q, want 503, 5 and false", r.status, after, again)
	}
	return Outcome{Got: fmt.Sprintf("%d, Retry-After %s, x-should-retry %s", r.status, after, again), Paid: "nothing",
		Harm: "none"}
}

func slowFirstToken(t testing.TB, s *stage) Outcome {
	release := make(chan struct{})
	id, engine, _ := s.served(t, model{}, fakeengine.Behaviour{BeforeFirstToken: release})
	_, key := s.caller(t)
	done := make(chan reply, 1)
	go func() { done <- s.chat(t, key, trial.Chat(id, `,"stream":true`)) }()
	arrived(t, engine, 1)
	pass(t, 22*time.Second)
	close(release)
	r := <-done
	if r.failed || r.words() == 0 {
		t.Errorf("got %d %s of a first token after 22 s from the only provider, want the answer", r.status,
			trial.Tail(r.body, 200))
	}
	return Outcome{Got: fmt.Sprintf("%d, %d tokens", r.status, r.words()), Paid: "the answer", Harm: "none"}
}

// image asks for an image of an engine with that answer.
func (s *stage) image(
	t testing.TB, extra string, b fakeengine.Behaviour,
) (status int, body string, engine *fakeengine.Engine) {
	t.Helper()
	id := "attack/" + s.title()
	s.PutModelOf(t, "image", id)
	engine = fakeengine.New(t)
	engine.Script(id, b)
	s.Join(t, s.title(), engine.URL, id)
	_, key := s.caller(t)
	status, _, answer := s.Call(t, http.MethodPost, "/v1/images/generations", key,
		fmt.Sprintf(`{"model":%q,"prompt":"a cat"%s}`, id, extra))
	return status, string(answer), engine
}

func imageAddress(t testing.TB, s *stage) Outcome {
	status, body, _ := s.image(t, `,"response_format":"url"`, fakeengine.Behaviour{
		Raw: `{"created":1,"data":[{"url":"http://10.1.2.3:7860/files/1.png"}]}`, ContentType: "application/json"})
	if strings.Contains(body, "10.1.2.3") || status == http.StatusOK {
		t.Errorf("got %d with %s, want the engine's private address refused", status, trial.Tail(body, 200))
	}
	return Outcome{Got: fmt.Sprint(status), Paid: "nothing", Harm: "the provider's network is told"}
}

func imageBase64(t testing.TB, s *stage) Outcome {
	status, body, engine := s.image(t, "", fakeengine.Behaviour{})
	asked := ""
	if seen := engine.Requests(); len(seen) > 0 {
		asked = string(seen[0].Body)
	}
	if status != http.StatusOK || !strings.Contains(asked, `"b64_json"`) || !strings.Contains(body, `"b64_json"`) {
		t.Errorf("got %d; the engine was asked %s; want b64_json asked for and answered", status, asked)
	}
	return Outcome{Got: fmt.Sprint(status), Paid: "the image", Harm: "none"}
}

func severalPrompts(t testing.TB, s *stage) Outcome {
	id, engine, _ := s.served(t, model{}, fakeengine.Behaviour{})
	account, key := s.caller(t)
	status, _, body := s.Call(t, http.MethodPost, "/v1/completions", key,
		fmt.Sprintf(`{"model":%q,"prompt":["one","two","three"],"max_tokens":8}`, id))
	choices := 0
	for i := range 4 {
		if c := trial.At(trial.Decode(t, body), "choices", i); c != nil && trial.At(c, "index") == float64(i) {
			choices++
		}
	}
	if status != http.StatusOK || choices != 3 || len(engine.Requests()) != 3 {
		t.Errorf("got %d with %d choices of %d requests, want 200 with three: %s", status, choices, len(engine.Requests()),
			trial.Tail(string(body), 200))
	}
	tokens, _, refusal := s.Call(t, http.MethodPost, "/v1/completions", key,
		fmt.Sprintf(`{"model":%q,"prompt":[1,2,3],"max_tokens":8}`, id))
	if tokens != http.StatusBadRequest || trial.At(trial.Decode(t, refusal), "error", "param") != "prompt" {
		t.Errorf("an array of tokens: got %d %s, want 400 naming prompt", tokens, refusal)
	}
	return Outcome{Got: fmt.Sprintf("%d, %d choices", status, choices), Paid: fmt.Sprintf("%d nano-USD",
		s.spent(t, account)), Harm: "none"}
}

func pinnedUnavailable(t testing.TB, s *stage) Outcome {
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	away := s.Provider(t, s.title())
	_, key := s.caller(t)
	r := s.chat(t, key, trial.Chat(id, ""), "X-Svc-Provider", away.ID, "X-Svc-Allow-Fallbacks", "false")
	after := r.header.Get("Retry-After")
	if code := trial.ErrorCode([]byte(r.body)); code != "requested_provider_unavailable" || after != "5" {
		t.Errorf("got %d %s with Retry-After %q, want requested_provider_unavailable and 5", r.status, code, after)
	}
	return Outcome{Got: fmt.Sprintf("%d, Retry-After %s", r.status, after), Paid: "nothing", Harm: "none"}
}

func endWithoutDone(t testing.TB, s *stage) Outcome {
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{End: fakeengine.EndNoDone})
	_, key := s.caller(t)
	r := s.chat(t, key, trial.Chat(id, `,"stream":true`))
	if r.failed || !strings.Contains(r.body, "[DONE]") || r.words() != 5 {
		t.Errorf("got %d %s, want the stream with a proper end", r.status, trial.Tail(r.body, 200))
	}
	return Outcome{Got: fmt.Sprintf("%d tokens", r.words()), Paid: s.bill(t, key, r.id()).String(), Harm: "none"}
}

func videoPasses(t testing.TB, s *stage) Outcome {
	id, engine, _ := s.served(t, model{category: "multimodal"}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	r := s.chat(t, key,
		fmt.Sprintf(
			`{"model":%q,"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"data:video/mp4;base64,`+
				`AAAAHGZ0eXA="}}]}]}`, id))
	if r.status != http.StatusOK || len(engine.Requests()) == 0 {
		t.Errorf("got %d %s, want the part passed on", r.status, trial.Tail(r.body, 200))
	}
	return Outcome{Got: fmt.Sprint(r.status), Paid: "the answer", Harm: "none"}
}

// messages are refusals that must say what to change.
func messages() []Case {
	ask := func(method, path, template string, want ...string) func(t testing.TB, s *stage) Outcome {
		return func(t testing.TB, s *stage) Outcome {
			body := template
			_, key := s.caller(t)
			if strings.Contains(body, "MODEL") {
				id := s.put(t, model{window: 512, maxOutput: 64})
				engine := fakeengine.New(t)
				engine.Script(id, fakeengine.Behaviour{})
				s.Join(t, s.title(), engine.URL, id)
				body = strings.ReplaceAll(body, "MODEL", id)
			}
			_, _, answer := s.Call(t, method, path, key, body)
			for _, w := range want {
				text, absent := strings.CutPrefix(w, "!")
				if strings.Contains(string(answer), text) == absent {
					t.Errorf("got %s, want %q in it: %v", trial.Tail(string(answer), 300), text, !absent)
				}
			}
			return Outcome{Got: trial.ErrorCode(answer), Paid: "nothing", Harm: "none"}
		}
	}
	chat := func(extra string) string {
		return `{"model":"MODEL","messages":[{"role":"user","content":"` + strings.Repeat("long ", 9000) + `"}]` + extra + `}`
	}
	return []Case{
		{Hole: "IN_USE", Name: "says_max_tokens_only_if_sent", Before: `"max_tokens asks for 0"`,
			Run: ask(http.MethodPost, trial.ChatPath, chat(""), "!asks for", "context_length_exceeded")},
		{Hole: "IN_USE", Name: "says_the_unknown_route", Before: "neither method nor path",
			Run: ask(http.MethodPost, "/chat/completions", "{}", "POST", "/chat/completions", "The API is under /v1")},
		{Hole: "IN_USE", Name: "says_the_unknown_model", Before: "names no model", Run: ask(http.MethodPost, trial.ChatPath,
			`{"model":"acme/nowhere-1","messages":[{"role":"user","content":"x"}]}`, "acme/nowhere-1")},
		{Hole: "IN_USE", Name: "says_what_stop_may_be", Before: "obscure", Run: ask(http.MethodPost, trial.ChatPath,
			`{"model":"MODEL","messages":[{"role":"user","content":"x"}],"stop":5}`, `"param":"stop"`, "string")},
		{Hole: "IN_USE", Name: "messages_in_its_own_envelope", Before: "OpenAI's envelope",
			Run: ask(http.MethodPost, "/v1/messages", `{}`, `"type":"error"`, `"request_id"`, "not_found")},
	}
}
