package rewrite

import (
	"strings"
	"testing"
	"time"
)

// completions are the forms of the answers to several prompts, with n choices each.
func completions(m *Merge, prompts int, s Spec) []Form {
	var forms []Form
	for i := range prompts {
		inner := s
		inner.Kind, inner.ShowUsage = Completion, false
		forms = append(forms, m.Form(i, New(&inner, func() time.Time { return time.Unix(17, 0) })))
	}
	return forms
}

func TestChoicesOfSeveralPromptsHavePlacesOfTheirOwn(t *testing.T) {
	m := NewMerge("req", 2, 2, false)
	forms := completions(m, 2, Spec{RequestID: "inner", Model: "m", Choices: 2})
	for i, text := range []string{"a", "b"} {
		answer := `{"id":"x","choices":[{"index":0,"message":{"content":"` + text + `"}},` +
			`{"index":7,"message":{"content":"` + text + `"}}]}`
		body, ok := forms[i].Accept([]byte(answer))
		if !ok {
			t.Fatalf("answer %d is not accepted", i)
		}
		forms[i].Whole(body, Usage{})
	}
	all := string(m.Whole(Usage{Prompt: 3, Completion: 4}))
	for _, want := range []string{
		`"id":"cmpl-req"`, `"index":0,"text":"a"`, `"index":1,"text":"a"`, `"index":2,"text":"b"`, `"index":3,"text":"b"`,
		`"prompt_tokens":3`, `"completion_tokens":4`,
	} {
		if strings.Count(all, want) != 1 {
			t.Errorf("the answer is %s, want %s in it once", all, want)
		}
	}
}

func TestEventsOfSeveralPromptsAreOneStream(t *testing.T) {
	m := NewMerge("req", 2, 1, true)
	forms := completions(m, 2, Spec{RequestID: "inner", Model: "m", Stream: true})
	events := forms[1].Event(nil, Event{JSON: []byte(`{"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}`)})
	if len(events) != 1 {
		t.Fatalf("%d events come of one, want 1", len(events))
	}
	for _, want := range []string{`"id":"cmpl-req"`, `"index":1`, `"text":"a"`, `"usage":null`} {
		if got := string(events[0].JSON); !strings.Contains(got, want) {
			t.Errorf("the event is %s, want %s in it", got, want)
		}
	}
	if got := string(m.UsageEvent(Usage{Prompt: 3, Completion: 4})); !strings.Contains(got, `"id":"cmpl-req"`) ||
		!strings.Contains(got, `"prompt_tokens":3`) {
		t.Errorf("the last event is %s, want the stream's id and what is billed in it", got)
	}
}

func TestAnswersToSeveralPromptsShareOneRoom(t *testing.T) {
	m := NewMerge("req", 3, 1, false)
	forms := completions(m, 3, Spec{RequestID: "inner", Model: "m"})
	answer := func(size int) []byte {
		return []byte(`{"choices":[{"message":{"content":"` + strings.Repeat("x", size) + `"}}]}`)
	}
	if _, ok := forms[0].Accept(answer(maxMerged / 2)); !ok {
		t.Error("half of the room is refused")
	}
	if _, ok := forms[1].Accept(answer(maxMerged / 2)); ok {
		t.Error("more than the room is accepted")
	}
	if _, ok := forms[2].Accept(answer(10)); !ok {
		t.Error("what fits beside the first is refused")
	}
	if _, ok := forms[2].Accept([]byte(`{"choices":1}`)); ok {
		t.Error("an answer without choices is accepted")
	}
}

func TestOnlyAnswersThatHaveComeHaveChoices(t *testing.T) {
	m := NewMerge("req", 2, 1, false)
	if got := m.Choices(); len(got) != 0 {
		t.Errorf("the choices are %s before any answer, want none", got)
	}
	forms := completions(m, 2, Spec{RequestID: "inner", Model: "m"})
	forms[1].Whole([]byte(`{"choices":[{"message":{"content":"b"}}]}`), Usage{})
	if got := string(m.Choices()); !strings.Contains(got, `"index":1`) || strings.HasPrefix(got, ",") {
		t.Errorf("the choices are %s, want the one of the second prompt", got)
	}
}
