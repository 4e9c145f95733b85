package tinylm

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func load(t testing.TB) *Model {
	t.Helper()
	m, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask returns the answer to one user text.
func ask(t testing.TB, m *Model, question string, p Params) (string, []Token, Finish) {
	t.Helper()
	state, err := m.Read(t.Context(), Prompt([]Message{{RoleUser, question}}))
	if err != nil {
		t.Fatal(err)
	}
	var tokens []Token
	finish, err := state.Generate(t.Context(), p, func(token Token) error {
		tokens = append(tokens, token)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return textOf(tokens), tokens, finish
}

func textOf(tokens []Token) string {
	var text strings.Builder
	for _, token := range tokens {
		text.WriteByte(token.Byte)
	}
	return text.String()
}

func TestSameSeedGivesSameBytes(t *testing.T) {
	m := load(t)
	answers := map[string]bool{}
	for seed := range uint64(8) {
		p := Params{Temperature: 1.2, TopP: 0.95, Seed: seed, MaxTokens: 80}
		first, _, _ := ask(t, m, "Tell me a story.", p)
		second, _, _ := ask(t, m, "Tell me a story.", p)
		if first != second {
			t.Fatalf("seed %d: got %q, want %q", seed, second, first)
		}
		answers[first] = true
	}
	if len(answers) < 2 {
		t.Errorf("different answers of eight seeds: got %d, want at least 2", len(answers))
	}
}

func TestChoicesOfOneSeedDiffer(t *testing.T) {
	m := load(t)
	answers := map[string]bool{}
	for choice := range 8 {
		text, _, _ := ask(t, m, "Tell me a story.", Params{Temperature: 1.5, TopP: 1, Seed: 7, Choice: choice, MaxTokens: 80})
		answers[text] = true
	}
	if len(answers) < 2 {
		t.Errorf("different answers of eight choices: got %d, want at least 2", len(answers))
	}
}

func TestTemperatureZeroTakesTheLikeliestByte(t *testing.T) {
	m := load(t)
	for _, p := range []Params{
		{Temperature: 0, TopP: 1, Seed: 1},
		{Temperature: 0, TopP: 0.1, Seed: 2},
		{Temperature: 1, TopP: 0, Seed: 3},
	} {
		p.MaxTokens, p.TopLogprobs = 200, 20
		_, tokens, _ := ask(t, m, "What can you do?", p)
		for i, token := range tokens {
			if token.Byte != token.Top[0].Byte {
				t.Fatalf("%+v: token %d: token.Byte: got %q, want %q", p, i, token.Byte, token.Top[0].Byte)
			}
			if token.Logprob != token.Top[0].Logprob {
				t.Fatalf("%+v: token %d: token.Logprob: got %v, want %v", p, i, token.Logprob, token.Top[0].Logprob)
			}
		}
	}
}

func TestProbabilitiesSumToOne(t *testing.T) {
	m := load(t)
	_, tokens, _ := ask(t, m, "Say hello in Russian.", Params{Temperature: 2, TopP: 1, Seed: 5, MaxTokens: 60,
		TopLogprobs: 256})
	for i, token := range tokens {
		sum := 0.0
		for j, c := range token.Top {
			sum += math.Exp(c.Logprob)
			if j > 0 && c.Logprob > token.Top[j-1].Logprob {
				t.Fatalf("token %d: candidate %d is likelier than the one before it", i, j)
			}
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Fatalf("token %d: probabilities sum: got %v, want at most 1e-5", i, math.Abs(sum-1))
		}
	}
}

func TestStopStringsNeverAppear(t *testing.T) {
	m := load(t)
	for _, stop := range [][]string{{"tiny"}, {" "}, {"a tiny model", "language"}, {"e", "ell"}, {"zzzz"},
		{"l", "lo", "lm", "lan"}} {
		for seed := range uint64(6) {
			p := Params{Temperature: 0.9, TopP: 1, Seed: seed, MaxTokens: 120}
			free, _, freeFinish := ask(t, m, "Hello", p)
			p.Stop = stop
			text, _, finish := ask(t, m, "Hello", p)
			want, wantFinish := cutBefore(free, stop), FinishStop
			if want == free {
				wantFinish = freeFinish
			}
			if text != want {
				t.Errorf("stop %q, seed %d: text: got %q, want %q", stop, seed, text, want)
			} else if finish != wantFinish {
				t.Errorf("stop %q, seed %d: finish: got %q, want %q", stop, seed, finish, wantFinish)
			}
		}
	}
}

// cutBefore cuts text before the stop string that is completed first. When one byte
// completes several stop strings, the longest of them counts.
func cutBefore(text string, stops []string) string {
	for end := range len(text) + 1 {
		longest := 0
		for _, stop := range stops {
			if strings.HasSuffix(text[:end], stop) {
				longest = max(longest, len(stop))
			}
		}
		if longest > 0 {
			return text[:end-longest]
		}
	}
	return text
}

func TestAnswersAreValidTextAtAnyTemperature(t *testing.T) {
	m := load(t)
	for seed := range uint64(20) {
		text, _, finish := ask(t, m, "Say hello in Chinese.", Params{Temperature: 2, TopP: 1, Seed: seed, MaxTokens: 150})
		if finish == FinishStop && !utf8.ValidString(text) {
			t.Errorf("seed %d: %q is not UTF-8", seed, text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }); i >= 0 {
			t.Errorf("seed %d: the index of a control character: got %d, want less than 0, with %q", seed, i, text)
		}
	}
}

func TestMaxTokensIsRespected(t *testing.T) {
	m := load(t)
	for _, limit := range []int{1, 2, 17} {
		_, tokens, finish := ask(t, m, "Hello", Params{MaxTokens: limit, TopP: 1})
		if len(tokens) != limit {
			t.Errorf("limit %d: len(tokens): got %d, want %d, with %s", limit, len(tokens), limit, finish)
		} else if finish != FinishLength {
			t.Errorf("limit %d: finish: got %q, want %q", limit, finish, FinishLength)
		}
	}
	// Bytes held back for a stop string that is not completed belong to the answer.
	if text, _, _ := ask(t, m, "Hello", Params{MaxTokens: 4, TopP: 1, Stop: []string{"Hello, world"}}); text != "Hell" {
		t.Errorf("with a half-matched stop string: got %q, want %q", text, "Hell")
	}
}

func TestContextBoundsPromptAndAnswer(t *testing.T) {
	m := load(t)
	prompt := Prompt([]Message{{RoleUser, strings.Repeat("a", ContextTokens-3)}})
	if len(prompt) != ContextTokens-1 {
		t.Fatalf("prompt: got %d, want %d", len(prompt), ContextTokens-1)
	}
	state, err := m.Read(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	finish, err := state.Generate(t.Context(), Params{Temperature: 1, TopP: 1, MaxTokens: 100,
		Stop: []string{"never said"}}, func(Token) error {
		written++
		return nil
	})
	if err != nil {
		t.Errorf("wrote %d tokens (%s) where one had room: got the error %v, want none", written, finish, err)
	} else if written > 1 {
		t.Errorf("wrote %d tokens (%s, %v) where one had room: written: got %d, want at most 1", written, finish, err,
			written)
	}
	var tooLong *ContextLengthError
	if _, err := m.Read(t.Context(), append(prompt, 'a')); !errors.As(err, &tooLong) {
		t.Errorf("got the error %v, want a %T", err, tooLong)
	} else if tooLong.Tokens != ContextTokens {
		t.Errorf("tooLong.Tokens: got %d, want %d", tooLong.Tokens, ContextTokens)
	}
}

func TestEndOfContextStopsWithinOneToken(t *testing.T) {
	m := load(t)
	ctx, cancel := context.WithCancel(t.Context())
	state, err := m.Read(ctx, Prompt([]Message{{RoleUser, "Hello"}}))
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	_, err = state.Generate(ctx, Params{TopP: 1, MaxTokens: 1000}, func(Token) error {
		if written++; written == 5 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got the error %v, want %v", err, context.Canceled)
	} else if written != 5 {
		t.Errorf("wrote: got %d, want 5", written)
	}
	if _, err := m.Read(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Read with an ended context: got the error %v, want %v", err, context.Canceled)
	}
}

func TestGenerateReturnsTheConsumersError(t *testing.T) {
	m, broken := load(t), errors.New("broken")
	state, err := m.Read(t.Context(), Prompt([]Message{{RoleUser, "Hello"}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Generate(t.Context(), Params{TopP: 1, MaxTokens: 9},
		func(Token) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got the error %v, want %v", err, broken)
	}
}

func BenchmarkGenerate(b *testing.B) {
	m := load(b)
	state, err := m.Read(b.Context(), Prompt([]Message{{RoleUser, "Tell me a story."}}))
	if err != nil {
		b.Fatal(err)
	}
	tokens := 0
	for b.Loop() {
		p := Params{Temperature: 1, TopP: 0.9, Seed: uint64(b.N), MaxTokens: 128, TopLogprobs: 5}
		if _, err := state.Generate(b.Context(), p, func(Token) error { tokens++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(tokens)/b.Elapsed().Seconds(), "tokens/s")
}

func BenchmarkRead(b *testing.B) {
	m, prompt := load(b), []byte(strings.Repeat("a quiet day ", 50))
	for b.Loop() {
		if _, err := m.Read(b.Context(), prompt); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(prompt))/b.Elapsed().Seconds(), "tokens/s")
}
