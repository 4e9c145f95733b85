package statistic_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/exact"
	"svc.internal/services/verifier/internal/statistic"
)

func TestUsageHasThreeParts(t *testing.T) {
	t.Parallel()
	base := statistic.Usage{ClaimedPrompt: 100, Prompt: 100, ClaimedOutput: 50, Output: 50, Asked: 100}
	for _, c := range []struct {
		name  string
		spoil func(*statistic.Usage)
		want  statistic.Parts
	}{
		{"honest", func(*statistic.Usage) {}, statistic.Parts{0, 0, 0}},
		{"prompt above", func(u *statistic.Usage) { u.ClaimedPrompt = 130 }, statistic.Parts{30, 0, 0}},
		{"prompt below", func(u *statistic.Usage) { u.ClaimedPrompt = 0 }, statistic.Parts{100, 0, 0}},
		{"output above", func(u *statistic.Usage) { u.ClaimedOutput = 75 }, statistic.Parts{0, 0.5, 0}},
		{"absurd", func(u *statistic.Usage) { u.ClaimedPrompt = math.MaxInt64 },
			statistic.Parts{statistic.MaxTokens - 100, 0, 0}},
		{"length early", func(u *statistic.Usage) { u.Ending = statistic.Length }, statistic.Parts{0, 0, 50}},
		{"length", func(u *statistic.Usage) { u.Ending, u.Asked = statistic.Length, 50 }, statistic.Parts{0, 0, 0}},
		{"stop", func(u *statistic.Usage) {
			u.Ending, u.Scored, u.Best, u.End = statistic.Stop, true, -exact.Nats, -4*exact.Nats
		}, statistic.Parts{0, 0, 3}},
		{"stop without a score", func(u *statistic.Usage) { u.Ending, u.End = statistic.Stop, -4 }, statistic.Parts{0, 0, 0}},
	} {
		u := base
		c.spoil(&u)
		if got := must(t)(u.Judge()); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestImpossibleUsageIsVoid(t *testing.T) {
	t.Parallel()
	base := statistic.Usage{ClaimedPrompt: 100, Prompt: 100, ClaimedOutput: 50, Output: 50, Asked: 100}
	for name, c := range map[string]struct {
		spoil func(*statistic.Usage)
		want  statistic.Void
	}{
		"below zero": {func(u *statistic.Usage) { u.ClaimedPrompt = math.MinInt64 }, statistic.Malformed},
		"its output": {func(u *statistic.Usage) { u.Output = statistic.MaxTokens + 1 }, statistic.TooLarge},
		"our count":  {func(u *statistic.Usage) { u.Prompt = statistic.MaxTokens + 1 }, statistic.NoReference},
		"nothing":    {func(u *statistic.Usage) { u.Output = 0 }, statistic.TooShort},
		"end above best": {func(u *statistic.Usage) {
			u.Ending, u.Scored, u.Best = statistic.Stop, true, -1
		}, statistic.NoReference},
	} {
		u := base
		c.spoil(&u)
		if _, got := u.Judge(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestOnlyNeedlesThatTheReferenceRecallsAreMissed(t *testing.T) {
	t.Parallel()
	needles := []string{"111111", "222222", "333333"}
	const reference = "ash: 111111, oak 222222."
	for answer, want := range map[string]float64{
		reference:                    0,
		"333333 222222 111111":       0,
		"222222":                     1,
		"1111112 0222222 111 111":    2,
		"":                           2,
		"a111111b":                   1,
		"\xff\xfe111111\xff222222\n": 0,
	} {
		if got := must(t)(statistic.Recall(needles, reference, answer)); got[0] != want {
			t.Errorf("%q: got %v missing, want %v", answer, got[0], want)
		}
	}
	long := strings.Repeat("1", statistic.MaxAnswerBytes+1)
	for _, c := range []struct {
		needles           []string
		reference, answer string
		want              statistic.Void
	}{
		{needles, "nothing", reference, statistic.NoReference},
		{nil, reference, reference, statistic.NoReference},
		{[]string{"12345"}, reference, reference, statistic.NoReference},
		{[]string{"12345x"}, reference, reference, statistic.NoReference},
		{needles, long, reference, statistic.NoReference},
		{needles, reference, long, statistic.TooLarge},
		{slices.Repeat(needles, 6), reference, reference, statistic.NoReference},
	} {
		if _, got := statistic.Recall(c.needles, c.reference, c.answer); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// A lost part of the context is a stretch, in the order of the prompt or against it.
func TestALostStretchCountsMoreThanNeedlesOverlooked(t *testing.T) {
	t.Parallel()
	needles := []string{"100000", "200000", "300000", "400000", "500000", "600000", "700000", "800000"}
	all := strings.Join(needles, " ")
	for answer, want := range map[string]float64{
		"500000 600000 700000 800000":               4, // the first half is lost
		"100000 200000 700000 800000":               4, // the middle
		"200000 400000 600000 800000":               1, // every second one
		"100000 300000 400000 600000 700000 800000": 1,
		"600000": 5,
		"":       8,
	} {
		if got := must(t)(statistic.Recall(needles, all, answer)); got[0] != want {
			t.Errorf("%q: got %v, want %v", answer, got[0], want)
		}
		back := slices.Clone(needles)
		slices.Reverse(back)
		if got := must(t)(statistic.Recall(back, all, answer)); got[0] != want {
			t.Errorf("%q, against the order: got %v, want %v", answer, got[0], want)
		}
	}
}

func TestEmbeddingIsOneMinusCosine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{2, 4, 6}, 0},
		{[]float64{1, 0}, []float64{0, 7}, 1},
		{[]float64{1, 0}, []float64{-3, 0}, 2},
		{[]float64{1, 0}, []float64{1, 0, 0}, 2},
	} {
		if got := must(t)(statistic.Embedding(c.a, c.b)); math.Abs(got[0]-c.want) > 1e-12 {
			t.Errorf("%v and %v: got %v, want %v", c.a, c.b, got[0], c.want)
		}
	}
	for want, b := range map[statistic.Void][]float64{
		statistic.TooShort:  nil,
		statistic.Malformed: {math.NaN(), 1},
		statistic.TooLarge:  make([]float64, statistic.MaxDimensions+1),
	} {
		if _, got := statistic.Embedding([]float64{1, 0}, b); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, b := range [][]float64{{0, 0}, {math.Inf(1), 0}, {1e300, 0}} {
		if _, got := statistic.Embedding([]float64{1, 0}, b); got != statistic.Malformed {
			t.Errorf("%v: got %q, want %q", b, got, statistic.Malformed)
		}
	}
}

func TestAReplayIsAnImprobableAnswerTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		earlier, answer string
		sum             exact.Logprob
		want            bool
	}{
		{"a", "a", -16 * exact.Nats, true}, {"a", "a", -16*exact.Nats + 1, false},
		{"a", "b", -90 * exact.Nats, false}, {"", "", -90 * exact.Nats, false},
	} {
		if got := statistic.Replayed(c.earlier, c.answer, c.sum); got != c.want {
			t.Errorf("%+v: got %v, want %v", c, got, c.want)
		}
	}
}

// Every statistic of seeded answers, to the last bit. Another machine must give the same.
func TestTheBitsAreKnown(t *testing.T) {
	t.Parallel()
	h := sha256.New()
	r := rand.New(rand.NewPCG(21, 21))
	write := func(p statistic.Parts, v statistic.Void) {
		if v != statistic.None {
			t.Fatalf("got void %q, want numbers", v)
		}
		for _, x := range p {
			_ = binary.Write(h, binary.BigEndian, math.Float64bits(x))
		}
	}
	ratio := func(x float64, v statistic.Void) { write(statistic.Parts{x}, v) }
	for seed := range uint64(120) {
		// Integer logarithms come without math.Log, whose last bits differ by machine.
		ours, theirs := integers(r, 40, 20), integers(r, 40, 5)
		if seed%2 == 0 {
			theirs = slices.Clone(ours)
		}
		for i := range theirs {
			theirs[i].Own.Token = ours[i].Own.Token
		}
		write(statistic.Greedy(ours))
		write(statistic.Declared(ours, theirs, text(ours), true))
		ratio(statistic.RatioAgainst(ours, theirs))
		ratio(statistic.RatioAtTemperature(ours, statistic.Cool))
		ratio(statistic.RatioAtTemperature(ours, statistic.Hot))
		a, b := make([]float64, 50), make([]float64, 50)
		for i := range a {
			a[i], b[i] = r.Float64(), r.Float64()
		}
		write(statistic.Embedding(a, b))
	}
	const want = "7c3e4c10ee9ddee4752c3392a78218f7b08df720011a4a278fc96e9d306eb578"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// integers makes positions with k falling logarithms each.
func integers(r *rand.Rand, n, k int) []statistic.Position {
	out := make([]statistic.Position, n)
	for i := range out {
		l := exact.Logprob(-1_200_000)
		for e := range k {
			out[i].Top = append(out[i].Top, statistic.Entry{Token: token(e), Logprob: l})
			l -= exact.Logprob(700_000 + r.IntN(900_000))
		}
		out[i].Own = out[i].Top[r.IntN(3)]
		if i%7 == 3 {
			out[i].Own = statistic.Entry{Token: "rare", Logprob: l}
		}
	}
	return out
}
