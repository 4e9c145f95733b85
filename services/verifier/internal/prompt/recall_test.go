package prompt_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine/needle"
	"svc.internal/services/verifier/internal/prompt"
)

// plan is a recall prompt of sixteen needles over its whole length.
func plan(tokens int) prompt.RecallPlan {
	p := prompt.RecallPlan{Tokens: tokens}
	for i := range prompt.MaxNeedles {
		p.FromEnd = append(p.FromEnd, tokens*(i+1)/(prompt.MaxNeedles+1))
		if i%2 == 0 {
			p.Asked = append(p.Asked, i)
		}
	}
	return p
}

func recall(t *testing.T, id int, p prompt.RecallPlan) prompt.Recall {
	t.Helper()
	r, err := writer().Recall(number(id), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNeedlesLieWhereTheyArePlanned(t *testing.T) {
	t.Parallel()
	for _, tokens := range []int{2_000, 8_000, 200_000} {
		p := plan(tokens)
		r := recall(t, tokens, p)
		text := r.Messages[0].Content
		if got := float64(len(text)) / 4; math.Abs(got-float64(tokens)) > .02*float64(tokens)+200 {
			t.Errorf("%d tokens: got about %v", tokens, got)
		}
		for i, n := range r.Needles {
			sentence := needle.Needle{Name: n.Name, Code: n.Code}.Sentence()
			if got, want := len(text)-strings.Index(text, sentence), n.BytesFromEnd; got != want {
				t.Errorf("%d tokens, needle %d: got it %d bytes from the end, want %d as told", tokens, i, got, want)
			}
			want := 4 * p.FromEnd[i]
			if got := n.BytesFromEnd; got < want-400 || got > want+100 {
				t.Errorf("%d tokens, needle %d: got it %d bytes from the end, want about %d", tokens, i, got, want)
			}
		}
	}
}

// The demo's wording is that of the engines without a model, which find needles and answer.
func TestTheDemoAsksWhatAFakeEngineAnswers(t *testing.T) {
	t.Parallel()
	r := recall(t, 3, plan(4_000))
	text := r.Messages[0].Content
	if got, want := len(needle.Find(text)), prompt.MaxNeedles; got != want {
		t.Errorf("got %d needles, want %d without the distractors", got, want)
	}
	var asked []string
	for i := 0; i < len(r.Needles); i += 2 {
		asked = append(asked, r.Needles[i].Name)
	}
	if got := needle.Asked(text); !slices.Equal(got, asked) {
		t.Errorf("got the questions %v, want %v", got, asked)
	}
	if want := needle.Question(asked); !strings.HasSuffix(text, want) {
		t.Errorf("got the end %q, want %q", text[len(text)-len(want):], want)
	}
	if got, want := strings.Count(text, "The number of the "), prompt.MaxNeedles; got != want {
		t.Errorf("got %d distractors, want %d", got, want)
	}
}

func TestNamesAndCodesOfAPromptAreDifferent(t *testing.T) {
	t.Parallel()
	for id := range 500 {
		names, codes := map[string]bool{}, map[string]bool{}
		for _, n := range recall(t, id, plan(500)).Needles {
			names[n.Name], codes[n.Code] = true, true
		}
		if len(names) != prompt.MaxNeedles {
			t.Fatalf("prompt %d: got %d names, want %d", id, len(names), prompt.MaxNeedles)
		}
		if len(codes) != prompt.MaxNeedles {
			t.Fatalf("prompt %d: got %d codes, want %d", id, len(codes), prompt.MaxNeedles)
		}
	}
}

func TestARecallPromptFollowsFromSecretAndID(t *testing.T) {
	t.Parallel()
	first := whole(recall(t, 7, plan(500)).Messages)
	if again := whole(recall(t, 7, plan(500)).Messages); again != first {
		t.Errorf("the same id: got %q, want %q", again, first)
	}
	if other := whole(recall(t, 8, plan(500)).Messages); other == first {
		t.Error("another id wrote the same prompt")
	}
}

// A needle beyond the prompt lies at its start, and one within the question before it.
func TestNeedlesOutsideLieAtTheEnds(t *testing.T) {
	t.Parallel()
	p := prompt.RecallPlan{Tokens: 300, FromEnd: []int{10_000, 0}, Asked: []int{0, 1}}
	r := recall(t, 1, p)
	text := r.Messages[0].Content
	if got := r.Needles[0].BytesFromEnd; got != len(text) {
		t.Errorf("a needle beyond the prompt: got it %d bytes from the end, want %d", got, len(text))
	}
	if got, question := r.Needles[1].BytesFromEnd, strings.Index(text, "What is the code"); got <= len(text)-question {
		t.Errorf("a needle within the question: got it %d bytes from the end, want more than %d", got, len(text)-question)
	}
}

func TestPlansThatCannotBeWrittenAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*prompt.RecallPlan){
		"no tokens":          func(p *prompt.RecallPlan) { p.Tokens = 0 },
		"too many tokens":    func(p *prompt.RecallPlan) { p.Tokens = prompt.MaxRecallTokens + 1 },
		"no needles":         func(p *prompt.RecallPlan) { p.FromEnd = nil },
		"too many needles":   func(p *prompt.RecallPlan) { p.FromEnd = make([]int, prompt.MaxNeedles+1) },
		"nothing asked":      func(p *prompt.RecallPlan) { p.Asked = nil },
		"an unknown needle":  func(p *prompt.RecallPlan) { p.Asked = []int{16} },
		"a distance below 0": func(p *prompt.RecallPlan) { p.FromEnd[0] = -1 },
		"bytes NaN":          func(p *prompt.RecallPlan) { p.BytesPerToken = math.NaN() },
		"many bytes":         func(p *prompt.RecallPlan) { p.BytesPerToken = 17 },
	} {
		p := plan(1_000)
		spoil(&p)
		if _, err := writer().Recall(number(1), p); !errors.Is(err, prompt.ErrRecall) {
			t.Errorf("%s: got the error %v, want %v", name, err, prompt.ErrRecall)
		}
	}
}

func TestBrokenWordingIsRefused(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*prompt.Bank){
		"a canary without words": func(b *prompt.Bank) { b.Canary = "Use these." },
		"a canary of two lists":  func(b *prompt.Bank) { b.Canary = "{words} {words}" },
		"no wording":             func(b *prompt.Bank) { b.Recall = prompt.Wording{} },
		"a fact without a code":  func(b *prompt.Bank) { b.Recall.Fact = "The code of the {name}." },
		"a strange slot":         func(b *prompt.Bank) { b.Recall.Ask = "What is the {thing} of the {name}?" },
		"a code in the form":     func(b *prompt.Bank) { b.Recall.Form = "Say {code}." },
		"no form":                func(b *prompt.Bank) { b.Recall.Form = "" },
		"few names":              func(b *prompt.Bank) { b.Recall.Names = b.Recall.Names[:63] },
		"a name in another":      func(b *prompt.Bank) { b.Recall.Names[0] = "mill" },
		"a name at a word's end": func(b *prompt.Bank) { b.Recall.Names[0] = "ue mill" },
		"a name twice":           func(b *prompt.Bank) { b.Recall.Names[0] = b.Recall.Names[1] },
		"a name in the wording":  func(b *prompt.Bank) { b.Recall.Names[0] = "code" },
		"a name in capitals":     func(b *prompt.Bank) { b.Recall.Names[0] = "Old Mill" },
	} {
		bank := prompt.Demo()
		breakIt(&bank)
		text, err := json.Marshal(bank)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := prompt.ReadBank(text); !errors.Is(err, prompt.ErrBank) {
			t.Errorf("%s: got the error %v, want %v", name, err, prompt.ErrBank)
		}
	}
}
