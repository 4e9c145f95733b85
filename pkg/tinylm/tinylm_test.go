package tinylm

import (
	"math"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/tinylm/internal/corpus"
	"svc.internal/pkg/tinylm/internal/transcript"
	"svc.internal/pkg/tinylm/internal/weights"
)

func TestEmbeddedWeightsAreIntactAndSmall(t *testing.T) {
	if len(embedded) > 800<<10 {
		t.Errorf("weights take: got %d, want at most 800<<10", len(embedded))
	}
	m := load(t)
	for i, tensor := range m.set.Tensors() {
		if slices.ContainsFunc(tensor, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }) {
			t.Errorf("tensor %d holds what is not a number", i)
		}
	}
	if !strings.HasPrefix(m.Fingerprint(), "fp_") {
		t.Errorf(`fingerprint: got %q, want the prefix "fp_"`, m.Fingerprint())
	}
}

// TestModelSpeaksTheTruthAboutItsSize ties the sentence in the training text
// to the weights.
func TestModelSpeaksTheTruthAboutItsSize(t *testing.T) {
	m := load(t)
	if n := m.Parameters(); n < 295_000 || n > 305_000 {
		t.Errorf("parameters: got %d, want 295_000 to 305_000", n)
	}
	for _, question := range []string{"Who are you?", "Are you ChatGPT?", "How big are you?"} {
		if text, _, _ := ask(t, m, question, Params{MaxTokens: 200, TopP: 1}); !strings.Contains(text,
			"about 300 thousand parameters") {
			t.Errorf(`%s: got %q, want "about 300 thousand parameters" in it`, question, text)
		}
	}
	if text, _, _ := ask(t, m, "What is your context window?", Params{MaxTokens: 200, TopP: 1}); !strings.Contains(text,
		"4096 tokens") {
		t.Errorf(`context window: got %q, want "4096 tokens" in it`, text)
	}
}

func TestCommonPromptsGetReadableAnswers(t *testing.T) {
	m := load(t)
	for question, want := range map[string]string{
		"Hello": "Hello! I am tinylm, a tiny language model. Ask me who I am, " +
			"what this service is, or ask for a story.",
		"Who are you?": "I am tinylm, a tiny byte-level model of about 300 thousand parameters. " +
			"I run inside this program, and I am not a large model.",
		"What is this service?": "This is a marketplace for AI inference. You call one OpenAI-compatible API, " +
			"and independent GPU providers run the models.",
		"Count to five":                  "1, 2, 3, 4, 5.",
		"Count to ten.":                  "1, 2, 3, 4, 5, 6, 7, 8, 9, 10.",
		"Say this is a test":             "This is a test.",
		"What is 2+2?":                   "2 + 2 = 4.",
		"What colour is the sky?":        "The sky is blue.",
		"What is the capital of France?": "The capital of France is Paris.",
		"Spell house.":                   "H-O-U-S-E.",
		"Say hello in Japanese.":         "こんにちは！",
		"What day comes after Tuesday?":  "After Tuesday comes Wednesday.",
	} {
		if got, _, finish := ask(t, m, question, Params{MaxTokens: 300, TopP: 1}); got != want || finish != FinishStop {
			t.Errorf("%s\n got %s (%s)\nwant %s", question, got, finish, want)
		}
	}
	story, _, finish := ask(t, m, "Tell me a story", Params{MaxTokens: 400, TopP: 1})
	if finish != FinishStop {
		t.Errorf("story: finish: got %q, want %q", finish, FinishStop)
	} else if !strings.Contains(story, "One day it rained, and there was work to do.") {
		t.Errorf(`story: got %q, want "One day it rained, and there was work to do." in it`, story)
	}
}

func TestUnknownQuestionsAreAdmitted(t *testing.T) {
	m := load(t)
	for _, question := range []string{"How do I bake bread?", "Explain quantum computing in simple terms",
		"Who was Julius Caesar?"} {
		if text, _, _ := ask(t, m, question, Params{MaxTokens: 300, TopP: 1}); !strings.Contains(text, "I do not know that") {
			t.Errorf(`%s: got %q, want "I do not know that" in it`, question, text)
		}
	}
}

// TestHeldOutLossBeatsTheUnigramBaseline is the evidence of training. On
// phrasings that training never saw, the model needs at most an eighth of the bits
// that byte frequencies would need, although the frequencies are learned from the
// very same answers.
func TestHeldOutLossBeatsTheUnigramBaseline(t *testing.T) {
	m, every := load(t), 24
	var model, baseline float64
	total, frequency := 0, map[byte]float64{}
	held := corpus.HeldOut()
	for i := 0; i < len(held); i += every {
		for _, b := range []byte(held[i].Answer) {
			frequency[b]++
			total++
		}
	}
	for i := 0; i < len(held); i += every {
		model += loss(t, m, held[i])
		for _, b := range []byte(held[i].Answer) {
			baseline -= math.Log(frequency[b] / float64(total))
		}
	}
	model, baseline = model/float64(total)/math.Ln2, baseline/float64(total)/math.Ln2
	t.Logf("held-out answers: model %.3f bits per byte, unigram %.3f", model, baseline)
	if model > baseline/8 {
		t.Errorf("%.3f bits per byte, unigram %.3f: got %.3f, want at most %.3f", model, baseline, model, baseline/8)
	}
}

// TestHeldOutPhrasingsAreMostlyUnderstood asks questions in words that training
// never saw. A model this small is expected to make mistakes, but not many.
func TestHeldOutPhrasingsAreMostlyUnderstood(t *testing.T) {
	m, every := load(t), 9
	held := corpus.HeldOut()
	asked, right := 0, 0
	for i := 0; i < len(held); i += every {
		asked++
		if text, _, _ := ask(t, m, held[i].Question, Params{MaxTokens: 400, TopP: 1}); text == held[i].Answer {
			right++
		}
	}
	t.Logf("%d of %d answered exactly", right, asked)
	if right*4 < asked*3 {
		t.Errorf("only: right*4: got %d, want at least %d", right*4, asked*3)
	}
}

// loss is -ln of the probability of the answer, its end included.
func loss(t *testing.T, m *Model, x corpus.Exchange) float64 {
	t.Helper()
	state, err := m.Read(t.Context(), Prompt([]Message{{RoleUser, x.Question}}))
	if err != nil {
		t.Fatal(err)
	}
	var d distribution
	sum, scratch := 0.0, make([]float32, 3*m.set.Hidden)
	for _, b := range append([]byte(x.Answer), transcript.End) {
		state.logits(d.logits[:])
		d.normalize(func(byte) bool { return true })
		sum -= d.logprob(b)
		state.read(b, scratch)
	}
	return sum
}

func TestPromptCannotBeForged(t *testing.T) {
	got := Prompt([]Message{{RoleSystem, " Be\x02 kind. "}, {RoleUser, "a\x03b\x04\x00c\x7f\n\td\r"},
		{RoleAssistant, "e\x04"}, {RoleTool, "7"}})
	if want := "\x01Be kind.\x02abc\n\td\x03e\x04\x027\x03"; string(got) != want {
		t.Errorf("prompt %q, want %q", got, want)
	}
}

func TestDamagedWeightsAreNotServed(t *testing.T) {
	bad := slices.Clone(embedded)
	bad[len(bad)/2] ^= 1
	if _, err := weights.Decode(bad); err == nil {
		t.Error("a flipped bit went unnoticed")
	}
}
