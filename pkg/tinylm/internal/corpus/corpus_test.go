package corpus

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSamplerIsFixedByItsSeed(t *testing.T) {
	a, b, other := NewSampler(3), NewSampler(3), NewSampler(4)
	differs := false
	for range 500 {
		x := a.Next()
		if !reflect.DeepEqual(x, b.Next()) {
			t.Fatal("the same seed drew different conversations")
		}
		differs = differs || !reflect.DeepEqual(x, other.Next())
	}
	if !differs {
		t.Error("two seeds drew the same conversations")
	}
}

func TestHeldOutPhrasingsAreNeverTrained(t *testing.T) {
	trained, held := map[string]bool{}, HeldOut()
	for _, topic := range NewSampler(1).topics {
		for _, intent := range topic.Intents {
			if len(intent.Questions) == 0 {
				t.Errorf("%s: phrasings of an intent to train on: got 0, want at least 1", topic.Name)
			}
			for _, q := range intent.Questions {
				trained[q] = true
			}
		}
	}
	for _, x := range held {
		if trained[x.Question] {
			t.Errorf("%q is held out and trained on", x.Question)
		}
	}
	if share := float64(len(held)) / float64(len(held)+len(trained)); share < 0.04 || share > 0.12 {
		t.Errorf("%% of the phrasings are held out: got %v, want 0.04 to 0.12", share)
	}
}

// TestQuestionsHaveOneAnswer leaves out the requests for a story, because a request
// that names no hero has several stories as its answers.
func TestQuestionsHaveOneAnswer(t *testing.T) {
	answers := map[string]string{}
	for _, topic := range Topics() {
		for _, intent := range topic.Intents {
			for _, q := range intent.Questions {
				if before, seen := answers[q]; seen && before != intent.Answer && topic.Name != "stories" {
					t.Errorf("%q is answered with %q and %q", q, before, intent.Answer)
				}
				answers[q] = intent.Answer
			}
		}
	}
}

func TestTextIsCleanAndBounded(t *testing.T) {
	s := NewSampler(9)
	for range 3000 {
		c := s.Next()
		if len(c.Turns) < 1 || len(c.Turns) > 4 {
			t.Fatalf("turns: got %d, want 1 to 4", len(c.Turns))
		}
		for _, x := range c.Turns {
			for _, text := range []string{c.System, x.Question, x.Answer} {
				if !utf8.ValidString(text) || len(text) > 400 ||
					strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' }) {
					t.Fatalf("text %q", text)
				}
			}
			if x.Answer == "" {
				t.Fatalf(`the answer to %q: got "", want some text`, x.Question)
			}
		}
	}
}
