//go:build engine

package engine

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// Answers of temperature 0 are short, because a longer greedy walk may repeat itself, and
// Ollama breaks off after thirty repetitions.
const greedy = `,"temperature":0,"seed":1,"max_tokens":20`

func TestAWholeAnswerIsTheEnginesAndChargedByItsUsage(t *testing.T) {
	m := open(t, tiny)
	direct := m.engine.ask(t, trial.Chat(tiny, greedy))
	answer, id := m.chat(t, trial.Chat(tiny, greedy))
	if got, want := content(t, answer), content(t, direct); got != want {
		t.Errorf("the answer: got %q, want %q", got, want)
	} else if got == "" {
		t.Error(`the answer: got "", want some text`)
	}
	wantPrompt, wantCompletion := tokens(direct["usage"])
	switch prompt, completion := tokens(answer["usage"]); {
	case prompt != wantPrompt:
		t.Errorf("prompt: got %v, want %v", prompt, wantPrompt)
	case completion != wantCompletion:
		t.Errorf("completion: got %v, want %v", completion, wantCompletion)
	case completion != 20:
		t.Errorf("completion: got %v, want 20", completion)
	}
	if answer["model"] != tiny {
		t.Errorf(`answer["model"]: got %v, want %v`, answer["model"], tiny)
	} else if got := trial.At(answer, "choices", 0, "finish_reason"); got != "length" {
		t.Errorf(`the answer: trial.At(…): got %v, want "length"`, got)
	}
	prompt, completion := m.settled(t, id, "completed")
	if prompt != wantPrompt {
		t.Errorf("%v and %v tokens are charged, the engine has counted %v and %v: prompt: got %v, want %v", prompt,
			completion, wantPrompt, wantCompletion, prompt, wantPrompt)
	} else if completion != wantCompletion {
		t.Errorf("%v and %v tokens are charged, the engine has counted %v and %v: completion: got %v, want %v", prompt,
			completion, wantPrompt, wantCompletion, completion, wantCompletion)
	}
	m.spent(t, prompt, completion)
	m.Balanced(t)
}

func TestAStreamedAnswerEqualsTheWholeOne(t *testing.T) {
	m := open(t, tiny)
	whole, _ := m.chat(t, trial.Chat(tiny, greedy))
	for name, options := range map[string]string{
		"usage asked for":     `,"stream":true,"stream_options":{"include_usage":true}`,
		"usage not asked for": `,"stream":true`,
	} {
		s, id := m.stream(t, trial.Chat(tiny, greedy+options))
		switch {
		case s.text != content(t, whole):
			t.Errorf("%s: the stream: got %q, want %q", name, s.text, content(t, whole))
		case s.finish != "length":
			t.Errorf(`%s: s.finish: got %v, want "length"`, name, s.finish)
		case !s.done:
			t.Errorf("%s: s.done: got false, want true", name)
		case s.failed != nil:
			t.Errorf("%s: s.failed: got %v, want nil", name, s.failed)
		}
		if strings.HasPrefix(name, "usage asked") {
			last := s.chunks[len(s.chunks)-1]
			switch {
			case len(s.usage) != 1:
				t.Errorf("%s: usage: len(s.usage): got %d, want 1, in %v", name, len(s.usage), s.usage)
			case last["usage"] == nil:
				t.Errorf(`%s: last["usage"]: got nil, want a value`, name)
			case len(last["choices"].([]any)) != 0:
				t.Errorf(`%s: len(last["choices"].([]any)): got %d, want 0, in %v`, name, len(last["choices"].([]any)), last)
			}
		} else if len(s.usage) != 0 ||
			slices.ContainsFunc(s.chunks, func(c map[string]any) bool { return trial.At(c, "choices", 0) == nil }) {
			t.Errorf("%s: chunks nobody asked for: %v", name, s.chunks)
		}
		wantPrompt, wantCompletion := tokens(whole["usage"])
		if prompt, completion := m.settled(t, id, "completed"); prompt != wantPrompt {
			t.Errorf("%s: prompt: got %v, want %v", name, prompt, wantPrompt)
		} else if completion != wantCompletion {
			t.Errorf("%s: completion: got %v, want %v", name, completion, wantCompletion)
		}
		for _, usage := range s.usage {
			if prompt, completion := tokens(usage); prompt != wantPrompt {
				t.Errorf("%s: usage %v: prompt: got %v, want %v", name, usage, prompt, wantPrompt)
			} else if completion != wantCompletion {
				t.Errorf("%s: usage %v: completion: got %v, want %v", name, usage, completion, wantCompletion)
			}
		}
	}
}

func TestTheSeedReachesTheEngine(t *testing.T) {
	m := open(t, tiny)
	say := func(seed string) string {
		answer, _ := m.chat(t, trial.Chat(tiny, `,"temperature":1,"max_tokens":24,"seed":`+seed))
		return content(t, answer)
	}
	first, again, other := say("5"), say("5"), say("6")
	if first != again {
		t.Errorf("one seed: got %q, want %q", again, first)
	}
	if first == other {
		t.Errorf("two seeds say: got %q, want any but %q", first, other)
	}
}

func TestLogprobsArriveWithTheirBytes(t *testing.T) {
	m := open(t, tiny)
	extra := greedy + `,"logprobs":true,"top_logprobs":3`
	whole, _ := m.chat(t, trial.Chat(tiny, extra))
	s, _ := m.stream(t, trial.Chat(tiny, extra+`,"stream":true`))
	var streamed []any
	for _, chunk := range s.chunks {
		list, _ := trial.At(chunk, "choices", 0, "logprobs", "content").([]any)
		streamed = append(streamed, list...)
	}
	list, _ := trial.At(whole, "choices", 0, "logprobs", "content").([]any)
	for name, got := range map[string][]any{"whole": list, "streamed": streamed} {
		var spelt []byte
		for _, entry := range got {
			raw, _ := trial.At(entry, "bytes").([]any)
			for _, b := range raw {
				spelt = append(spelt, byte(b.(float64)))
			}
			top, _ := trial.At(entry, "top_logprobs").([]any)
			switch p, ok := trial.At(entry, "logprob").(float64); {
			case !ok:
				t.Errorf("%s: %v: ok: got false, want true", name, entry)
			case p > 0:
				t.Errorf("%s: %v: p: got %v, want 0", name, entry, p)
			case len(top) != 3:
				t.Errorf("%s: %v: len(top): got %d, want 3", name, entry, len(top))
			case trial.At(top, 0, "bytes") == nil:
				t.Errorf(`%s: %v: trial.At(top, 0, "bytes"): got nil, want a value`, name, entry)
			}
		}
		if len(got) != 20 {
			t.Errorf("%s: len(got): got %d, want 20, with %q", name, len(got), spelt)
		} else if string(spelt) != content(t, whole) {
			t.Errorf("%s: spelt: got %q, want %q", name, string(spelt), content(t, whole))
		}
	}
}

func TestAnswersKeepToAJSONSchema(t *testing.T) {
	m := open(t, tiny)
	body := trial.Chat(tiny, `,"temperature":0,"max_tokens":200`+schema)
	whole, _ := m.chat(t, body)
	s, _ := m.stream(t, strings.TrimSuffix(body, "}")+`,"stream":true}`)
	for name, text := range map[string]string{"whole": content(t, whole), "streamed": s.text} {
		var verdict struct {
			OK   *bool  `json:"ok"`
			Kind string `json:"kind"`
		}
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		switch err := decoder.Decode(&verdict); {
		case err != nil:
			t.Errorf("%s: %q: got the error %v, want none", name, text, err)
		case verdict.OK == nil:
			t.Errorf("%s: %q: verdict.OK: got nil, want a value", name, text)
		case verdict.Kind != "a" && verdict.Kind != "b":
			t.Errorf(`%s: %q: verdict.Kind: got %q, want "a" or "b", with %q`, name, text, verdict.Kind, text)
		}
	}
	if s.finish != "stop" {
		t.Errorf(`the stream ends: got %v, want "stop"`, s.finish)
	} else if !s.done {
		t.Error("s.done: got false, want true")
	}
}

// The agent offers no more than the engine holds, so no prompt reaches an engine that cuts it.
func TestAPromptThatTheEngineWouldCutIsRefusedAndFree(t *testing.T) {
	m := open(t, narrow)
	long := strings.Repeat("many words ", 4*narrowWindow)
	for _, stream := range []string{"false", "true"} {
		body := `{"model":"` + narrow + `","max_tokens":5,"temperature":0,"stream":` + stream +
			`,"messages":[{"role":"user","content":"` + long + `"}]}`
		status, _, text := m.Call(t, http.MethodPost, trial.ChatPath, m.key, body)
		if status != http.StatusBadRequest {
			t.Fatalf("status: got %d, want 400 (text is %s)", status, text)
		}
		if want := strconv.Itoa(narrowWindow) + " tokens"; !strings.Contains(string(text), want) {
			t.Errorf("stream %s: got %s, want %q in it", stream, text, want)
		}
	}
	m.spent(t, 0, 0)
}

func TestWhatTheEngineRefusesIsToldInItsWordsAndFree(t *testing.T) {
	m := open(t, tiny)
	tools := `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.key, trial.Chat(tiny, tools))
	message, _ := trial.At(trial.Decode(t, body), "error", "message").(string)
	if status != http.StatusBadRequest {
		t.Errorf("status: got %d, want 400, with %s", status, body)
	} else if !strings.Contains(message, "does not support tools") {
		t.Errorf(`message: got %q, want "does not support tools" in it, with %s`, message, body)
	}
	m.free(t, header.Get(trial.RequestIDHeader))
	m.spent(t, 0, 0)
	if answer, _ := m.chat(t, trial.Chat(tiny, greedy)); content(t, answer) == "" {
		t.Error("the provider is not asked any more")
	}
}

func TestAnUnknownModelIsNotFound(t *testing.T) {
	m := open(t, tiny)
	status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, m.key, trial.Chat("engine/none", ""))
	if status != http.StatusNotFound {
		t.Errorf("status: got %d, want 404, with %s", status, body)
	} else if got := trial.At(trial.Decode(t, body), "error", "code"); got != "model_not_found" {
		t.Errorf(`trial.At(…): got %v, want "model_not_found", with %s`, got, body)
	}
	m.spent(t, 0, 0)
}

func TestAnswersToManyAtOnceAreNotMixedUp(t *testing.T) {
	m := open(t, tiny)
	const callers = 12
	bodies, want := make([]string, callers), make([]string, callers)
	for i := range callers {
		bodies[i] = strings.Replace(trial.Chat(tiny, greedy), "something", "number "+strconv.Itoa(i), 1)
		want[i] = content(t, m.engine.ask(t, bodies[i]))
	}
	var all sync.WaitGroup
	replies := make([]reply, callers)
	for i, body := range bodies {
		all.Go(func() {
			if i%2 == 0 {
				body = strings.TrimSuffix(body, "}") + `,"stream":true}`
			}
			replies[i] = m.post(t.Context(), body)
		})
	}
	all.Wait()
	var prompts, completions float64
	for i, r := range replies {
		if r.err != nil {
			t.Fatalf("caller %d: r.err: got the error %v, want none", i, r.err)
		}
		if r.status != http.StatusOK {
			t.Fatalf("caller %d: r.status: got %d, want 200", i, r.status)
		}
		got := ""
		if i%2 == 0 {
			got = read(t, strings.NewReader(r.text)).text
		} else {
			got = content(t, trial.Decode(t, []byte(r.text)))
		}
		if got != want[i] {
			t.Errorf("caller %d got %q, want %q", i, got, want[i])
		}
		prompt, completion := m.settled(t, r.header.Get(trial.RequestIDHeader), "completed")
		prompts, completions = prompts+prompt, completions+completion
	}
	m.spent(t, prompts, completions)
	m.Balanced(t)
}

// The models' tokenizer knows almost no words, so a prompt has several times as many
// tokens as any estimate. Tokens beyond the hold are not billed, and the client sees what
// is billed.
func TestAPromptIsNotBilledBeyondWhatWasHeldForIt(t *testing.T) {
	m := open(t, tiny)
	body := strings.Replace(trial.Chat(tiny, greedy), "something", strings.Repeat("qzxjqzxjqzxj ", 40), 1)
	counted, _ := tokens(m.engine.ask(t, body)["usage"])
	answer, id := m.chat(t, body)
	shown, _ := tokens(answer["usage"])
	billed, completion := m.settled(t, id, "completed")
	if billed != shown {
		t.Errorf("%v prompt tokens are billed and %v shown; the engine has counted %v: billed: got %v, want %v", billed,
			shown, counted, billed, shown)
	} else if billed < 1 || billed >= counted {
		t.Errorf("%v prompt tokens are billed and %v shown; the engine has counted %v: billed: got %v, want at least 1 and "+
			"less than %v", billed, shown, counted, billed, counted)
	}
	m.spent(t, billed, completion)
}
