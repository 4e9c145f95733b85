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
	if got, want := content(t, answer), content(t, direct); got != want || got == "" {
		t.Errorf("the answer is %q, the engine's own %q", got, want)
	}
	wantPrompt, wantCompletion := tokens(direct["usage"])
	if prompt, completion := tokens(answer["usage"]); prompt != wantPrompt || completion != wantCompletion ||
		completion != 20 {
		t.Errorf("usage %v, the engine's %v", answer["usage"], direct["usage"])
	}
	if answer["model"] != tiny || trial.At(answer, "choices", 0, "finish_reason") != "length" {
		t.Errorf("the answer is %v", answer)
	}
	prompt, completion := m.settled(t, id, "completed")
	if prompt != wantPrompt || completion != wantCompletion {
		t.Errorf("%v and %v tokens are charged, the engine has counted %v and %v", prompt, completion, wantPrompt,
			wantCompletion)
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
		if s.text != content(t, whole) || s.finish != "length" || !s.done || s.failed != nil {
			t.Errorf("%s: the stream says %q, the whole answer %q; finish %v, done %v, error %v", name, s.text,
				content(t, whole), s.finish, s.done, s.failed)
		}
		if strings.HasPrefix(name, "usage asked") {
			last := s.chunks[len(s.chunks)-1]
			if len(s.usage) != 1 || last["usage"] == nil || len(last["choices"].([]any)) != 0 {
				t.Errorf("%s: usage %v, last chunk %v", name, s.usage, last)
			}
		} else if len(s.usage) != 0 ||
			slices.ContainsFunc(s.chunks, func(c map[string]any) bool { return trial.At(c, "choices", 0) == nil }) {
			t.Errorf("%s: chunks nobody asked for: %v", name, s.chunks)
		}
		wantPrompt, wantCompletion := tokens(whole["usage"])
		if prompt, completion := m.settled(t, id, "completed"); prompt != wantPrompt || completion != wantCompletion {
			t.Errorf("%s: %v and %v tokens are charged, the whole answer had %v", name, prompt, completion, whole["usage"])
		}
		for _, usage := range s.usage {
			if prompt, completion := tokens(usage); prompt != wantPrompt || completion != wantCompletion {
				t.Errorf("%s: usage %v", name, usage)
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
		t.Errorf("one seed says %q and %q", first, again)
	}
	if first == other {
		t.Errorf("two seeds say %q", first)
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
			if p, ok := trial.At(entry, "logprob").(float64); !ok || p > 0 || len(top) != 3 || trial.At(top, 0, "bytes") == nil {
				t.Errorf("%s: %v", name, entry)
			}
		}
		if len(got) != 20 || string(spelt) != content(t, whole) {
			t.Errorf("%s: %d entries spell %q, the answer is %q", name, len(got), spelt, content(t, whole))
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
		if err := decoder.Decode(&verdict); err != nil || verdict.OK == nil || verdict.Kind != "a" && verdict.Kind != "b" {
			t.Errorf("%s: %v: %q", name, err, text)
		}
	}
	if s.finish != "stop" || !s.done {
		t.Errorf("the stream ends with %v", s.finish)
	}
}

func TestAPromptThatTheEngineCutsIsChargedAsCut(t *testing.T) {
	m := open(t, narrow)
	long := strings.Repeat("many words ", 4*narrowWindow)
	for _, stream := range []string{"false", "true"} {
		body := `{"model":"` + narrow + `","max_tokens":5,"temperature":0,"stream":` + stream +
			`,"messages":[{"role":"user","content":"` + long + `"}]}`
		status, header, text := m.Call(t, http.MethodPost, trial.ChatPath, m.key, body)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		prompt, completion := m.settled(t, header.Get(trial.RequestIDHeader), "completed")
		if prompt != narrowWindow || completion != 5 {
			t.Errorf("stream %s: %v and %v tokens are charged; the engine has read %d of a much longer prompt", stream, prompt,
				completion, narrowWindow)
		}
	}
}

func TestWhatTheEngineRefusesIsToldInItsWordsAndFree(t *testing.T) {
	m := open(t, tiny)
	tools := `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`
	status, header, body := m.Call(t, http.MethodPost, trial.ChatPath, m.key, trial.Chat(tiny, tools))
	message, _ := trial.At(trial.Decode(t, body), "error", "message").(string)
	if status != http.StatusBadRequest || !strings.Contains(message, "does not support tools") {
		t.Errorf("%d %s", status, body)
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
	if status != http.StatusNotFound || trial.At(trial.Decode(t, body), "error", "code") != "model_not_found" {
		t.Errorf("%d %s", status, body)
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
		if r.err != nil || r.status != http.StatusOK {
			t.Fatalf("caller %d: %+v", i, r)
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
	if billed != shown || billed < 1 || billed >= counted {
		t.Errorf("%v prompt tokens are billed and %v shown; the engine has counted %v", billed, shown, counted)
	}
	m.spent(t, billed, completion)
}
