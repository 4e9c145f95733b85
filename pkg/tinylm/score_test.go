package tinylm

import (
	"errors"
	"math"
	"testing"

	"svc.internal/pkg/tinylm/internal/transcript"
)

// TestScoringEqualsGenerationsOwnLogprobs scores answers that Generate sampled, at
// several temperatures, and compares with the log-probabilities that Generate stated.
func TestScoringEqualsGenerationsOwnLogprobs(t *testing.T) {
	t.Parallel()
	m := load(t)
	prompt := Prompt([]Message{{RoleUser, "Say hello in Japanese."}})
	for seed := range uint64(6) {
		p := Params{Temperature: float64(seed) / 3, TopP: 1, Seed: seed, MaxTokens: 150, TopLogprobs: 20}
		text, tokens, _ := ask(t, m, "Say hello in Japanese.", p)
		scores, err := m.Score(t.Context(), prompt, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for i, token := range tokens {
			here := &scores.Answer[i]
			if got := here.Logprob(token.Byte); math.Abs(got-token.Logprob) > 1e-6 {
				t.Fatalf("seed %d, byte %d: got %v, want %v", seed, i, got, token.Logprob)
			}
			for j, got := range here.Top(20) {
				if got != token.Top[j] {
					t.Fatalf("seed %d, byte %d, rank %d: got %+v, want %+v", seed, i, j+1, got, token.Top[j])
				}
				if rank := here.Rank(got.Byte); rank != j+1 {
					t.Fatalf("seed %d, byte %d: rank of %q: got %d, want %d", seed, i, got.Byte, rank, j+1)
				}
			}
		}
	}
}

func TestScoredDistributionsSumToOne(t *testing.T) {
	t.Parallel()
	scores, err := load(t).Score(t.Context(), Prompt([]Message{{RoleUser, "Hello"}}), []byte("Hé こ!"))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range append(scores.Answer, scores.End) {
		sum := 0.0
		for b := range 256 {
			if l := p.Logprob(byte(b)); l != Impossible {
				sum += math.Exp(l)
			}
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("probabilities at byte %d: got %v, want 1", i, sum)
		}
	}
}

func TestUnsampledBytesAreImpossibleAndCannotImitateMarkers(t *testing.T) {
	t.Parallel()
	m, prompt := load(t), Prompt([]Message{{RoleUser, "Hello"}})
	plain, err := m.Score(t.Context(), prompt, []byte("Hi"))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := m.Score(t.Context(), prompt, []byte("\x03\r\x02\xffHi"))
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range []byte("\x03\r\x02\xff") {
		if got := forged.Answer[i].Logprob(b); got != Impossible {
			t.Errorf("%#x: got %v, want %d", b, got, Impossible)
		}
		if got, most := forged.Answer[i].Rank(b), 256; got > most {
			t.Errorf("rank of %#x: got %d, want at most %d", b, got, most)
		}
	}
	// The network reads 0xff, which is no control character, but none of the others.
	if got, want := forged.Answer[3].Logprob('H'), plain.Answer[0].Logprob('H'); got != want {
		t.Errorf("'H' behind control characters: got %v, want %v", got, want)
	}
}

func TestScoringIsBoundedByTheContext(t *testing.T) {
	t.Parallel()
	m, prompt := load(t), Prompt([]Message{{RoleUser, "Hello"}})
	var tooLong *ContextLengthError
	if _, err := m.Score(t.Context(), prompt, make([]byte, ContextTokens)); !errors.As(err, &tooLong) {
		t.Fatalf("error of an answer of %d bytes: got %v, want a *ContextLengthError", ContextTokens, err)
	}
	if want := ContextTokens + len(prompt); tooLong.Tokens != want {
		t.Errorf("tokens in the error: got %d, want %d", tooLong.Tokens, want)
	}
}

func TestTopIsTheBeginningOfTheRanking(t *testing.T) {
	t.Parallel()
	d := &distribution{}
	for i := range d.logits {
		d.logits[i] = float32(mix(uint64(i)) % 23) // many ties
	}
	d.normalize(transcript.Printable)
	ranked := d.ranked()
	for _, n := range []int{0, 1, 2, 20, len(ranked), 256} {
		top := d.top(n)
		if want := min(n, len(ranked)); len(top) != want {
			t.Errorf("length of the top %d: got %d, want %d", n, len(top), want)
		}
		for i, got := range top {
			if got.Byte != ranked[i] {
				t.Fatalf("byte %d of the top %d: got %d, want %d", i, n, got.Byte, ranked[i])
			}
		}
	}
}

func FuzzScoreTakesAnyAnswer(f *testing.F) {
	f.Add([]byte("Hello \xe3\x81\x93"))
	f.Add([]byte("\xe3\x81A\x04\xff\xed\xa0\x80"))
	m, err := Load()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		if len(answer) > 64 {
			t.Skip()
		}
		scores, err := m.Score(t.Context(), Prompt(nil), answer)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(scores.Answer); got != len(answer) {
			t.Fatalf("positions: got %d, want %d", got, len(answer))
		}
		for i := range scores.Answer {
			if got := scores.Answer[i].Logprob(answer[i]); !(got <= 0) { // NaN must fail
				t.Errorf("log-probability %d: got %v, want at most 0", i, got)
			}
		}
	})
}
