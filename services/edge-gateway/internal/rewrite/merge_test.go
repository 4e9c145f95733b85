package rewrite

import (
	"strings"
	"testing"
)

// promptForm is the form of an attempt at prompt i of a merge.
func promptForm(m *Merge, i int, stream bool) Form {
	return m.Form(i, New(&Spec{Kind: Completion, RequestID: "r-" + string(rune('0'+i)), Model: "m", Stream: stream}, noon))
}

// answered is a merge whose prompts have been answered with these bodies; an empty
// one has not come.
func answered(t *testing.T, choices int, bodies ...string) *Merge {
	t.Helper()
	m := NewMerge("r-0", len(bodies), choices, true)
	for i, body := range bodies {
		if body == "" {
			continue
		}
		form := promptForm(m, i, false)
		accepted, ok := form.Accept([]byte(body))
		if !ok {
			t.Fatalf("the answer to prompt %d was refused: %s", i, body)
		}
		form.Whole(accepted, Usage{Prompt: 1, Completion: 1})
	}
	return m
}

func TestTheChoicesOfPromptsStandInTheirPlaces(t *testing.T) {
	m := answered(t, 2,
		`{"id":"chatcmpl-a","created":5,"model":"m","choices":[{"index":1,"message":{"content":"a1"},`+
			`"finish_reason":"stop"},`+
			`{"index":0,"message":{"content":"a0"},"finish_reason":"stop"}],"usage":{"prompt_tokens":99},"x":1.50}`,
		`{"choices":[{"message":{"content":"b0"},"finish_reason":"stop"},{"index":7,"message":{"content":"b9"},`+
			`"finish_reason":"stop"}]}`)
	const choices = `{"logprobs":null,"index":1,"text":"a1","finish_reason":"stop"},` +
		`{"logprobs":null,"index":0,"text":"a0","finish_reason":"stop"},` +
		`{"index":2,"logprobs":null,"text":"b0","finish_reason":"stop"},` +
		`{"logprobs":null,"index":3,"text":"b9","finish_reason":"stop"}`
	if got := string(m.Choices()); got != choices {
		t.Errorf("got the choices\n  %s, want\n  %s", got, choices)
	}
	const want = `{"object":"text_completion","id":"cmpl-r-0","created":5,"model":"m","choices":[` + choices +
		`],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5,"cost":0.5},"x":1.50}`
	if got := string(m.Whole(Usage{Prompt: 2, Completion: 3, Cost: "0.5"})); got != want {
		t.Errorf("got the answer\n  %s, want\n  %s", got, want)
	}
}

func TestAnswersThatHaveNotComeOrAreEmptyAddNoChoices(t *testing.T) {
	const text = `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`
	const choice = `{"logprobs":null,"index":1,"text":"a","finish_reason":"stop"}`
	for name, c := range map[string]struct {
		bodies []string
		want   string
	}{
		"none has come":        {[]string{"", "", ""}, ""},
		"only the second has":  {[]string{"", text, ""}, choice},
		"the others are empty": {[]string{`{"choices":[]}`, text, `{"choices":[ ]}`}, choice},
	} {
		if got := string(answered(t, 1, c.bodies...).Choices()); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestAnAnswerWithoutChoicesIsNoneOfAPrompt(t *testing.T) {
	form := promptForm(NewMerge("r-0", 2, 1, false), 0, false)
	for _, body := range []string{``, `{}`, `[]`, `{"choices":{}}`, `{"choices":[`, `{"Choices":[]}`} {
		if _, ok := form.Accept([]byte(body)); ok {
			t.Errorf("%q was accepted, want it to be refused", body)
		}
	}
}

// A prompt beyond the room is refused before anybody is committed to it, and a prompt
// that fits is still accepted.
func TestTheAnswersToAllPromptsHaveOneRoom(t *testing.T) {
	m := NewMerge("r-0", 4, 1, false)
	sized := func(size int) []byte {
		const around = `{"choices":[],"x":""}`
		return []byte(`{"choices":[],"x":"` + strings.Repeat("y", size-len(around)) + `"}`)
	}
	for i, c := range []struct {
		size int
		want bool
	}{{maxMerged - 100, true}, {101, false}, {100, true}, {21, false}} {
		if _, got := promptForm(m, i, false).Accept(sized(c.size)); got != c.want {
			t.Errorf("answer %d of %d bytes: got %v, want %v", i, c.size, got, c.want)
		}
	}
}

// Every event has the stream's name and its prompt's indexes, and says that it has
// no usage when the last one will tell it.
func TestEventsOfPromptsStandInTheirPlaces(t *testing.T) {
	const chunk = `{"id":"a","object":"o","created":5,"model":"m","choices":[{"index":1,"delta":{"content":"x"}}]}`
	for _, showUsage := range []bool{true, false} {
		m := NewMerge("r-0", 3, 2, showUsage)
		before := Event{JSON: []byte(`{"id":"before"}`)}
		got := promptForm(m, 2, true).Event([]Event{before}, event("", chunk))
		if len(got) != 2 || string(got[0].JSON) != string(before.JSON) {
			t.Fatalf("got %d events, the first %s; want one more behind %s", len(got), got[0].JSON, before.JSON)
		}
		want := `{"id":"cmpl-r-0","object":"text_completion","created":5,"model":"m",` +
			`"choices":[{"finish_reason":null,"logprobs":null,"index":5,"text":"x"}]}`
		if showUsage {
			want = `{"usage":null,` + want[1:]
		}
		if string(got[1].JSON) != want {
			t.Errorf("usage %v: got %s, want %s", showUsage, got[1].JSON, want)
		}
		promptForm(m, 0, true).Event(nil, event("", `{"id":"b","created":9,"model":"other","choices":[]}`))
		const usage = `{"id":"cmpl-r-0","created":5,"model":"m","object":"text_completion","choices":[],` +
			`"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}`
		if got := string(m.UsageEvent(Usage{Prompt: 2, Completion: 3})); got != usage {
			t.Errorf("got the usage event %s, want it like the first event: %s", got, usage)
		}
	}
}
