package lab

import (
	"context"
	"errors"
	"flag"
	"math"
	"testing"

	"svc.internal/pkg/tinylm"
	"svc.internal/pkg/tinylm/internal/corpus"
)

// heldOutNats is the mean of -ln p over every eighth held-out answer and its end.
func heldOutNats(t *testing.T, m *tinylm.Model) float64 {
	t.Helper()
	held := corpus.HeldOut()
	sum, n := 0.0, 0
	for i := 0; i < len(held); i += 8 {
		scores := score(t, m, question(held[i].Question), []byte(held[i].Answer))
		for _, p := range append(scores.Answer, scores.End) {
			sum -= p.Logprob(p.Byte)
			n++
		}
	}
	return sum / float64(n)
}

func question(text string) []byte {
	return tinylm.Prompt([]tinylm.Message{{Role: tinylm.RoleUser, Text: text}})
}

func score(t *testing.T, m *tinylm.Model, prompt, answer []byte) *tinylm.Scores {
	t.Helper()
	scores, err := m.Score(t.Context(), prompt, answer)
	if err != nil {
		t.Fatal(err)
	}
	return scores
}

// answer generates at temperature 0.
func answer(t *testing.T, m *tinylm.Model, prompt []byte, maxTokens int) []byte {
	t.Helper()
	state, err := m.Read(t.Context(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	_, err = state.Generate(t.Context(), tinylm.Params{TopP: 1, MaxTokens: maxTokens}, func(token tinylm.Token) error {
		out = append(out, token.Byte)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// statistic is B of an answer, and how many of its bytes are informative.
func statistic(scores *tinylm.Scores) (mean float64, informative int) {
	for i := range scores.Answer {
		p := &scores.Answer[i]
		top := p.Top(2)
		mean += min(2, top[0].Logprob-p.Logprob(p.Byte)) / float64(len(scores.Answer))
		if len(top) > 1 && top[0].Logprob-top[1].Logprob < 2 {
			informative++
		}
	}
	return mean, informative
}

func TestModelsAreAsSureAsStated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model      *tinylm.Model
		parameters int
		nats       float64
	}{"base": {Base(), 70_272, .8}, "smaller": {Smaller(), 32_448, 2.05}} {
		if got := c.model.Parameters(); got != c.parameters {
			t.Errorf("parameters of %s: got %d, want %d", name, got, c.parameters)
		}
		if got := heldOutNats(t, c.model); math.Abs(got-c.nats) > .15 {
			t.Errorf("nats a byte of %s: got %.3f, want %.2f ± .15", name, got, c.nats)
		}
	}
}

func TestAQuarterToAThirdOfTheBytesOfBaseAreInformative(t *testing.T) {
	t.Parallel()
	model, held := Base(), corpus.HeldOut()
	informative, all := 0, 0
	for i := 0; i < len(held); i += 8 {
		prompt := question(held[i].Question)
		text := answer(t, model, prompt, 64)
		_, n := statistic(score(t, model, prompt, text))
		informative += n
		all += len(text)
	}
	if got := float64(informative) / float64(all); math.Abs(got-.29) > .07 {
		t.Errorf("informative share of greedy answers: got %.3f, want .29 ± .07", got)
	}
}

func TestGreedyAnswersOfBaseHaveNoGapOnBase(t *testing.T) {
	t.Parallel()
	model, talks := Base(), NewConversations(3)
	for range 40 {
		prompt := tinylm.Prompt(talks.Next())
		for i, p := range score(t, model, prompt, answer(t, model, prompt, 100)).Answer {
			if gap := p.Logprob(p.Best()) - p.Logprob(p.Byte); gap != 0 {
				t.Fatalf("gap of byte %d: got %v, want 0", i, gap)
			}
		}
	}
}

func TestConversationsOfASeedRepeat(t *testing.T) {
	t.Parallel()
	one, two := NewConversations(1), NewConversations(1)
	for range 20 {
		if a, b := tinylm.Prompt(one.Next()), tinylm.Prompt(two.Next()); string(a) != string(b) {
			t.Fatalf("conversation: got %q, want %q", b, a)
		}
	}
}

// trial is one screened prompt.
type trial struct {
	prompt    []byte
	maxTokens int
}

// screened draws n prompts whose greedy answers on the reference have 24 bytes or more,
// of which 15 % or more are informative.
func screened(t *testing.T, reference *tinylm.Model, n int) []trial {
	t.Helper()
	var out []trial
	for talks, drawn := NewConversations(99), 0; len(out) < n; drawn++ {
		x := trial{tinylm.Prompt(talks.Next()), 48 + 37*drawn%113}
		text := answer(t, reference, x.prompt, x.maxTokens)
		_, informative := statistic(score(t, reference, x.prompt, text))
		if len(text) >= 24 && 100*informative >= 15*len(text) {
			out = append(out, x)
		}
	}
	return out
}

// power is the share of trials in which B of the host's answer is above the threshold.
// Answers under 24 bytes are void.
func power(t *testing.T, reference, host *tinylm.Model, trials []trial, threshold float64) float64 {
	t.Helper()
	above, counted := 0, 0
	for _, x := range trials {
		text := answer(t, host, x.prompt, x.maxTokens)
		if len(text) < 24 {
			continue
		}
		counted++
		if b, _ := statistic(score(t, reference, x.prompt, text)); b > threshold {
			above++
		}
	}
	return float64(above) / float64(counted)
}

// The whole measurement is go test -run GreedyStatistic -v -args -honest 1604 -trials 400.
var (
	honestTrials = flag.Int("honest", 0, "honest trials that calibrate the threshold; 0 takes a known one")
	cheatTrials  = flag.Int("trials", 60, "trials of each host")
)

// knownThreshold is 1.1 times the largest statistic of 1,604 honest trials.
const knownThreshold = .00044

// calibrated measures the threshold.
func calibrated(t *testing.T, reference *tinylm.Model, trials []trial) float64 {
	t.Helper()
	hosts := []*tinylm.Model{Honest(Base(), 100), Honest(Base(), 101)}
	largest := 0.0
	for i, x := range trials {
		b, _ := statistic(score(t, reference, x.prompt, answer(t, hosts[i%2], x.prompt, x.maxTokens)))
		largest = max(largest, b)
	}
	return largest * 1.1
}

// TestGreedyStatisticSeesCheats is a smoke test of what B sees: the verifier's
// laboratory holds the gates.
func TestGreedyStatisticSeesCheats(t *testing.T) {
	t.Parallel()
	base, cold := Base(), 1.0
	reference, threshold := Honest(base, 1), knownThreshold
	trials := screened(t, reference, max(*cheatTrials, *honestTrials))
	if *honestTrials > 0 {
		threshold = calibrated(t, reference, trials)
	}
	t.Logf("threshold: %.5f", threshold)
	trials = trials[:*cheatTrials]
	for name, c := range map[string]struct {
		host        *tinylm.Model
		least, most float64
	}{
		"honest":         {Honest(base, 2), 0, .05},
		"8 bits":         {Host(base, tinylm.Variant{Seed: 2, WeightBits: 8}), 0, .35},
		"5 bits":         {Host(base, tinylm.Variant{Seed: 2, WeightBits: 5}), .6, 1},
		"4 bits":         {Host(base, tinylm.Variant{Seed: 2, WeightBits: 4}), .7, 1},
		"fine-tune":      {Host(FineTune(), tinylm.Variant{Seed: 2}), .35, .9},
		"other training": {Honest(OtherTraining(), 2), .8, 1},
		"other size":     {Honest(Smaller(), 2), .95, 1},
		"16 tokens kept": {Host(base, tinylm.Variant{Seed: 2, KeepTokens: 16}), .5, 1},
		"temperature 1":  {Host(base, tinylm.Variant{Seed: 2, Temperature: &cold}), .95, 1},
		"bfloat16 state": {variant(t, base, tinylm.Variant{Seed: 2, State: tinylm.RoundBF16}), 0, .1},
	} {
		got := power(t, reference, c.host, trials, threshold)
		t.Logf("%s: %.2f", name, got)
		if got < c.least || got > c.most {
			t.Errorf("share of answers above the threshold, %s: got %.2f, want %.2f to %.2f", name, got, c.least, c.most)
		}
	}
}

func variant(t *testing.T, m *tinylm.Model, v tinylm.Variant) *tinylm.Model {
	t.Helper()
	out, err := m.Variant(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestScoringEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Base().Score(ctx, question("Hello"), []byte("Hi")); !errors.Is(err, context.Canceled) {
		t.Errorf("error of a scoring whose context has ended: got %v, want %v", err, context.Canceled)
	}
}
