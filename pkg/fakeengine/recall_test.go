package fakeengine

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeengine/needle"
	"svc.internal/pkg/openai"
)

// haystack holds n needles with filler before each of them, and its names.
func haystack(n, fillerWords int) (text string, needles []needle.Needle, names []string) {
	var out strings.Builder
	for i := range n {
		x := needle.Needle{Name: "mill " + strings.Repeat(string(rune('a'+i%26)), 1+i/26), Code: fmt.Sprint(100_000 + i)}
		out.WriteString(strings.Join(Words(fillerWords), "") + ". " + x.Sentence() + "\n")
		needles, names = append(needles, x), append(names, x.Name)
	}
	return out.String(), needles, names
}

type recalled struct {
	status int
	text   string
	usage  openai.UsageMessage
	body   string
}

// inquire asks the model for names behind a text.
func inquire(t *testing.T, e *Engine, model, text string, names []string) recalled {
	t.Helper()
	messages, err := json.Marshal([]map[string]any{
		{"role": "user", "content": text},
		{"role": "user", "content": []map[string]string{{"type": "text", "text": needle.Question(names)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	resp := post(t.Context(), t, e, `{"model":"`+model+`","messages":`+string(messages)+`}`)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Choices []struct{ Message struct{ Content string } }
		Usage   openai.UsageMessage
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	out := recalled{status: resp.StatusCode, usage: got.Usage, body: string(body)}
	if len(got.Choices) > 0 {
		out.text = got.Choices[0].Message.Content
	}
	return out
}

// recalledOf counts the needles that the answer gives rightly.
func recalledOf(answer string, needles []needle.Needle) int {
	n := 0
	for _, x := range needles {
		if code, _ := needle.Code(answer, x.Name); code == x.Code {
			n++
		}
	}
	return n
}

func TestRecallAnswersWhatIsAsked(t *testing.T) {
	t.Parallel()
	e := New(t)
	text, needles, names := haystack(16, 40)
	got := inquire(t, e, "recall", text, names[:8])
	if n := recalledOf(got.text, needles); n != 8 {
		t.Errorf("needles in the answer: got %d, want 8, in %q", n, got.text)
	}
	want := int64(openai.EstimateTokens([]byte(text + "\n" + needle.Question(names[:8]) + "\n")))
	if got.usage.PromptTokens != want {
		t.Errorf("prompt tokens: got %d, want %d", got.usage.PromptTokens, want)
	}
	if got := inquire(t, e, "recall", text, []string{"unheard of"}).text; got != "unheard of: unknown" {
		t.Errorf("answer for a needle that is not there: got %q, want %q", got, "unheard of: unknown")
	}
	if got := inquire(t, e, "recall", text, nil).text; got != strings.Join(Words(defaultTokens), "") {
		t.Errorf("answer without a question: got %q, want the default answer", got)
	}
}

func TestNeedlesBeyondTheWindowAreForgotten(t *testing.T) {
	t.Parallel()
	e := New(t)
	text, needles, names := haystack(40, 200)
	whole := text + "\n" + needle.Question(names) + "\n"
	total := openai.EstimateTokens([]byte(whole))
	exact := openai.EstimateTokens([]byte(whole[needle.Find(whole)[20].Offset:]))
	for _, window := range []int{exact - 1, exact, total / 10, total / 2, total * 9 / 10, total, total + 1} {
		e.Script("m", Behaviour{Recall: &Recall{WindowTokens: window}})
		want := 0
		for _, n := range needle.Find(whole) {
			if openai.EstimateTokens([]byte(whole[n.Offset:])) <= window {
				want++
			}
		}
		got := inquire(t, e, "m", text, names)
		if n := recalledOf(got.text, needles); n != want {
			t.Errorf("needles within %d of %d tokens: got %d, want %d", window, total, n, want)
		}
		if got.usage.PromptTokens != int64(total) {
			t.Errorf("prompt tokens claimed: got %d, want %d", got.usage.PromptTokens, total)
		}
	}
	e.Script("m", Behaviour{Recall: &Recall{WindowTokens: 500, ClaimWindow: true}})
	if got := inquire(t, e, "m", text, names).usage.PromptTokens; got != 500 {
		t.Errorf("prompt tokens claimed by a truncating engine: got %d, want 500", got)
	}
}

func TestPromptsBeyondTheWindowAreRefused(t *testing.T) {
	t.Parallel()
	e := New(t)
	text, needles, names := haystack(4, 50)
	total := openai.EstimateTokens([]byte(text + "\n" + needle.Question(names) + "\n"))
	e.Script("m", Behaviour{Recall: &Recall{WindowTokens: total - 1, Refuse: true}})
	got := inquire(t, e, "m", text, names)
	if got.status != http.StatusBadRequest {
		t.Errorf("status: got %d, want 400", got.status)
	}
	if want := `"code":"context_length_exceeded"`; !strings.Contains(got.body, want) {
		t.Errorf("body: got %q, want %q in it", got.body, want)
	}
	e.Script("m", Behaviour{Recall: &Recall{WindowTokens: total, Refuse: true}})
	if n := recalledOf(inquire(t, e, "m", text, names).text, needles); n != 4 {
		t.Errorf("needles of a prompt that fits: got %d, want 4", n)
	}
}

func TestNeedlesAreRecalledWithTheirProbability(t *testing.T) {
	t.Parallel()
	e := New(t)
	text, needles, names := haystack(500, 3)
	for _, p := range []float64{.9, .6, .2} {
		e.Script("m", Behaviour{Recall: &Recall{Probability: p, Seed: 3}})
		first := inquire(t, e, "m", text, names).text
		got, deviation := float64(recalledOf(first, needles))/500, math.Sqrt(p*(1-p)/500)
		if math.Abs(got-p) > 4*deviation {
			t.Errorf("share recalled: got %v, want %v ± %v", got, p, 4*deviation)
		}
		if again := inquire(t, e, "m", text, names).text; again != first {
			t.Errorf("second answer at %v: got another, want the first", p)
		}
		e.Script("m", Behaviour{Recall: &Recall{Probability: p, Seed: 4}})
		if other := inquire(t, e, "m", text, names).text; other == first {
			t.Errorf("answer of another seed at %v: got the same, want another", p)
		}
	}
	e.Script("m", Behaviour{Recall: &Recall{Probability: -1}})
	if n := recalledOf(inquire(t, e, "m", text, names).text, needles); n != 0 {
		t.Errorf("needles without recall: got %d, want 0", n)
	}
}

func TestRecallIsStreamedToo(t *testing.T) {
	t.Parallel()
	e := New(t)
	text, _, names := haystack(2, 5)
	content, err := json.Marshal(text + needle.Question(names))
	if err != nil {
		t.Fatal(err)
	}
	resp := post(t.Context(), t, e, `{"model":"recall","stream":true,"messages":[{"role":"user","content":`+
		string(content)+`}]}`)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"content":"mill"`, `"content":" 10"`, `[DONE]`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("stream: got %q, want %s in it", body, want)
		}
	}
}
