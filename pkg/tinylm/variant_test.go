package tinylm

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func vary(t testing.TB, m *Model, v Variant) *Model {
	t.Helper()
	out, err := m.Variant(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// logprobsUnder scores a fixed text.
func logprobsUnder(t testing.TB, m *Model) []float64 {
	t.Helper()
	text := []byte("Once upon a time there was a robot.")
	scores, err := m.Score(t.Context(), Prompt([]Message{{RoleUser, "Tell me a story"}}), text)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(text))
	for i, b := range text {
		out[i] = scores.Answer[i].Logprob(b)
	}
	return out
}

func TestVariantsAreDeterministicBySeedAndDiffer(t *testing.T) {
	t.Parallel()
	m := load(t)
	plain := logprobsUnder(t, m)
	for name, v := range map[string]Variant{
		"4 bits": {WeightBits: 4}, "5 bits": {WeightBits: 5}, "8 bits": {WeightBits: 8},
		"noise": {WeightNoise: .05}, "fp16 state": {State: RoundFP16}, "bf16 state": {State: RoundBF16},
		"fp16 logits": {Logits: RoundFP16}, "bf16 logits": {Logits: RoundBF16}, "jitter": {LogitJitter: .004},
		"kept tokens": {KeepTokens: 3},
	} {
		v.Seed = 9
		first := logprobsUnder(t, vary(t, m, v))
		if again := logprobsUnder(t, vary(t, m, v)); !slices.Equal(first, again) {
			t.Errorf("%s of the same seed: got %v, want %v", name, again, first)
		}
		if slices.Equal(first, plain) {
			t.Errorf("%s: got the log-probabilities of the plain model, want others", name)
		}
		v.Seed = 10
		random := v.WeightNoise > 0 || v.LogitJitter > 0
		if equal := slices.Equal(first, logprobsUnder(t, vary(t, m, v))); equal == random {
			t.Errorf("%s of another seed gives the same numbers: got %t, want %t", name, equal, !random)
		}
	}
	if got := logprobsUnder(t, vary(t, m, Variant{})); !slices.Equal(got, plain) {
		t.Errorf("the zero variant: got %v, want %v", got, plain)
	}
	if got := logprobsUnder(t, m); !slices.Equal(got, plain) {
		t.Errorf("a model of which variants were made: got %v, want %v", got, plain)
	}
}

func TestJitterStaysWithinItsBound(t *testing.T) {
	t.Parallel()
	v, logits := Variant{LogitJitter: .004}, make([]float32, 4096)
	v.disturb(logits, 77)
	var sum float64
	for i, x := range logits {
		if math.Abs(float64(x)) > .004 {
			t.Fatalf("jitter %d: got %v, want at most .004", i, x)
		}
		sum += float64(x) * float64(x)
	}
	if got, want := math.Sqrt(sum/4096), .004/math.Sqrt(3); math.Abs(got-want) > want/20 {
		t.Errorf("deviation of the jitter: got %v, want %v ± 5 %%", got, want)
	}
}

func TestJitterDiffersFromContextToContext(t *testing.T) {
	t.Parallel()
	m := load(t)
	text, prompt := []byte("aaaa"), Prompt([]Message{{RoleUser, "Hello"}})
	plain, err := m.Score(t.Context(), prompt, text)
	if err != nil {
		t.Fatal(err)
	}
	rough, err := vary(t, m, Variant{LogitJitter: .004}).Score(t.Context(), prompt, text)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for i := range text {
		off := rough.Answer[i].dist.logits['b'] - plain.Answer[i].dist.logits['b']
		seen[int(math.Round(float64(off)*1e5))] = true
	}
	if len(seen) < 2 {
		t.Errorf("different errors of one byte in four contexts: got %d, want at least 2", len(seen))
	}
}

func TestQuantizedBlocksHaveTheirLevels(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{2, 4, 5, 8} {
		w := make([]float32, 80) // the last block is half a block
		for i := range w {
			w[i] = float32(int(mix(uint64(i))%2001)-1000) / 1000
		}
		was := slices.Clone(w)
		quantize(w, bits)
		for at := 0; at < len(w); at += block {
			part, old := w[at:min(at+block, len(w))], was[at:min(at+block, len(w))]
			largest := float32(0)
			for _, x := range old {
				largest = max(largest, x, -x)
			}
			step := largest / float32(int(1)<<(bits-1)-1)
			for i, x := range part {
				if off := math.Abs(float64(x - old[i])); off > float64(step)*.5001 {
					t.Fatalf("%d bits, weight %d: error: got %v, want at most %v", bits, at+i, off, step/2)
				}
				if level := float64(x / step); math.Abs(level-math.Round(level)) > 1e-3 {
					t.Fatalf("%d bits, weight %d: level: got %v, want an integer", bits, at+i, level)
				}
			}
		}
	}
	zeros := make([]float32, block)
	if quantize(zeros, 4); slices.Max(zeros) != 0 {
		t.Errorf("a block of zeros: got %v, want zeros", zeros)
	}
}

func TestNoiseHasItsRelativeSize(t *testing.T) {
	t.Parallel()
	m := load(t)
	loud := vary(t, m, Variant{Seed: 1, WeightNoise: .05})
	var noise, signal float64
	for i, x := range m.set.Recurrent {
		off := float64(loud.set.Recurrent[i] - x)
		noise += off * off
		signal += float64(x) * float64(x)
	}
	if got := math.Sqrt(noise / signal); math.Abs(got-.05) > .001 {
		t.Errorf("relative size of the noise: got %v, want .05", got)
	}
	if !slices.Equal(loud.set.OutputBias, m.set.OutputBias) {
		t.Error("biases of a noisy variant: got others, want those of the model")
	}
}

func TestForcedTemperatureReplacesTheRequests(t *testing.T) {
	t.Parallel()
	m, hot := load(t), 1.5
	want, _, _ := ask(t, m, "Tell me a story", Params{Temperature: hot, TopP: 1, Seed: 3, MaxTokens: 60})
	got, _, _ := ask(t, vary(t, m, Variant{Temperature: &hot}), "Tell me a story",
		Params{Temperature: .1, TopP: 1, Seed: 3, MaxTokens: 60})
	if got != want {
		t.Errorf("answer at a forced temperature: got %q, want %q", got, want)
	}
}

func TestKeptTokensAreReadAndAllAreClaimed(t *testing.T) {
	t.Parallel()
	m := load(t)
	prompt := Prompt([]Message{{RoleUser, "Please forget this. What is 2+2?"}})
	short, err := vary(t, m, Variant{KeepTokens: 14}).Read(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Read(t.Context(), prompt[len(prompt)-14:])
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(short.hidden, want.hidden) {
		t.Error("state of a truncated prompt: got another, want that of its last 14 tokens")
	}
	if got := short.Tokens(); got != len(prompt) {
		t.Errorf("tokens claimed: got %d, want %d", got, len(prompt))
	}
}

func TestAbsurdVariantsAreRefused(t *testing.T) {
	t.Parallel()
	m, cold, nan := load(t), -1.0, math.NaN()
	for _, v := range []Variant{
		{WeightBits: 1}, {WeightBits: 9}, {WeightBits: -4}, {WeightNoise: -.1}, {WeightNoise: nan}, {WeightNoise: 1.1},
		{LogitJitter: -1}, {LogitJitter: nan}, {KeepTokens: -1}, {Temperature: &cold}, {Temperature: &nan},
		{State: 3}, {Logits: 3},
	} {
		if _, err := m.Variant(v); !errors.Is(err, ErrVariant) {
			t.Errorf("%+v: got %v, want %v", v, err, ErrVariant)
		}
	}
}
