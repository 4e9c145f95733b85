package window_test

import (
	"bytes"
	"errors"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"svc.internal/services/verifier/internal/evidence/form"
	"svc.internal/services/verifier/internal/evidence/years"
	"svc.internal/services/verifier/internal/window"
)

const smallest, largest = 1_024, 131_072

func begin(t testing.TB) window.Measurement {
	t.Helper()
	m, err := window.New(smallest, largest)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// provider is a simulated provider. It loses what lies more than reads tokens from a
// prompt's end, refuses prompts above takes, and returns what it reads with the chance
// recall.
type provider struct {
	reads, takes int
	recall       float64
}

// reply gives a measurement the provider's answer to the planned prompt.
func (p provider) reply(t testing.TB, s years.Source, m *window.Measurement) {
	t.Helper()
	plan := m.Plan()
	if plan.Tokens > p.takes {
		if err := m.Refused(plan.Tokens); err != nil {
			t.Fatal(err)
		}
		return
	}
	needles := make([]window.Needle, 0, window.Needles)
	for _, at := range plan.FromEnd {
		returned := s.Below(p.recall) && at <= p.reads
		needles = append(needles, window.Needle{FromEnd: at, Recall: p.recall, Returned: returned})
	}
	if err := m.Answered(needles); err != nil {
		t.Fatal(err)
	}
}

// measure measures until the interval is narrow or prompts are at an end.
func (p provider) measure(t testing.TB, s years.Source, m *window.Measurement) {
	t.Helper()
	for m.Phase() == window.Measuring {
		p.reply(t, s, m)
	}
}

// spread draws a number of tokens evenly in the logarithm.
func spread(s years.Source, low, high float64) int {
	return int(low * math.Pow(high/low, s.Float()))
}

// off returns how far the measured window is from the true one.
func off(m *window.Measurement, tokens int) float64 {
	return math.Abs(float64(m.Window())/float64(tokens) - 1)
}

func runs() int {
	if testing.Short() {
		return 400
	}
	return 3_000
}

// §5 of the design: within 3% in at most 6 prompts.
func TestAWindowIsMeasuredWithinThreePercentInSixPrompts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		recall, want float64
		median       int
	}{{1, .999, 3}, {.95, .999, 3}, {.9, .999, 3}, {.6, .99, 4}} {
		s := years.NewSource(1, uint64(1_000*c.recall))
		good, worst := 0, 0.0
		numbers := make([]int, runs())
		for i := range numbers {
			tokens := spread(s, smallest, largest)
			m := begin(t)
			provider{tokens, largest, c.recall}.measure(t, s, &m)
			numbers[i] = m.Prompts()
			worst = max(worst, off(&m, tokens))
			if m.Phase() == window.Checking && off(&m, tokens) <= .03 && m.Prompts() <= 6 {
				good++
			}
		}
		got, median := float64(good)/float64(len(numbers)), years.Quantile(numbers, .5)
		t.Logf("recall %v: %.4f, median %d, most %d, worst %.3f", c.recall, got, median, slices.Max(numbers), worst)
		want := c.want
		if testing.Short() {
			want -= .003
		}
		if got < want {
			t.Errorf("recall %v: got %v of the windows, want at least %v", c.recall, got, want)
		}
		if median > c.median {
			t.Errorf("recall %v: got a median of %d prompts, want at most %d", c.recall, median, c.median)
		}
	}
}

func TestARefusedLengthIsMeasured(t *testing.T) {
	t.Parallel()
	s := years.NewSource(2, 2)
	most := 0
	for range runs() / 10 {
		tokens := spread(s, smallest+100, largest)
		m := begin(t)
		provider{reads: largest, takes: tokens, recall: .95}.measure(t, s, &m)
		most = max(most, m.Prompts())
		if off(&m, tokens) > .035 {
			t.Errorf("%d tokens: got %d", tokens, m.Window())
		}
		if got := m.Phase(); got != window.Checking {
			t.Errorf("%d tokens: got %v, want checking", tokens, got)
		}
	}
	t.Logf("most prompts: %d", most)
	if most > 12 {
		t.Errorf("got %d prompts, want at most 12", most)
	}
}

func TestBothLossesTogetherAreMeasured(t *testing.T) {
	t.Parallel()
	s := years.NewSource(3, 3)
	good, count := 0, runs()/5
	for range count {
		takes := spread(s, 2*smallest, largest)
		reads := spread(s, smallest, float64(takes))
		m := begin(t)
		provider{reads, takes, .9}.measure(t, s, &m)
		if off(&m, reads) <= .035 && m.Prompts() <= 12 {
			good++
		}
	}
	if got := float64(good) / float64(count); got < .99 {
		t.Errorf("got %v of the windows, want at least .99", got)
	}
}

func TestAnHonestProviderIsMeasuredAtItsStatement(t *testing.T) {
	t.Parallel()
	for stream := range uint64(50) {
		s := years.NewSource(4, stream)
		m := begin(t)
		honest := provider{largest, largest, .9}
		honest.measure(t, s, &m)
		if got := off(&m, largest); got > .03 {
			t.Errorf("stream %d: got %d tokens, want %d", stream, m.Window(), largest)
		}
	}
}

func TestAWindowBelowTheSmallestIsTheSmallest(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]provider{
		"refuses": {largest, 100, 1}, "loses": {100, largest, 1}, "returns nothing": {0, largest, .9},
	} {
		m := begin(t)
		p.measure(t, years.NewSource(5, 5), &m)
		if got := m.Window(); got != smallest {
			t.Errorf("%s: got %d tokens, want %d", name, got, smallest)
		}
		if got := m.Phase(); got != window.Checking {
			t.Errorf("%s: got %v, want checking", name, got)
		}
	}
}

func TestAPlanAsksTheIntervalInAPromptThatIsAllowed(t *testing.T) {
	t.Parallel()
	s := years.NewSource(6, 6)
	for range 100 {
		m := begin(t)
		p := provider{spread(s, smallest, largest), spread(s, smallest, largest), .9}
		for m.Phase() == window.Measuring {
			low, high := m.Interval()
			plan := m.Plan()
			if plan.Tokens < smallest || plan.Tokens > largest {
				t.Fatalf("got a prompt of %d tokens, want %d to %d", plan.Tokens, smallest, largest)
			}
			if got := float64(plan.Tokens); got > 1.1*high+1 {
				t.Fatalf("got a prompt of %v tokens, want at most 1.1 times %v", got, high)
			}
			if !slices.IsSorted(plan.FromEnd[:]) {
				t.Fatalf("got needles at %v, want them ascending", plan.FromEnd)
			}
			if got := float64(plan.FromEnd[0]); got < low-1 {
				t.Fatalf("got a needle at %v, want none below %v", got, low)
			}
			if got := plan.FromEnd[window.Needles-1]; got > plan.Tokens {
				t.Fatalf("got a needle at %d of a prompt of %d", got, plan.Tokens)
			}
			p.reply(t, s, &m)
		}
	}
}

func TestACheckEndsTheMeasurementOrBeginsItAnew(t *testing.T) {
	t.Parallel()
	s := years.NewSource(7, 7)
	p := provider{30_000, largest, .95}
	m := begin(t)
	if err := m.Checked(true); !errors.Is(err, window.ErrPhase) {
		t.Errorf("checked too soon: got the error %v, want %v", err, window.ErrPhase)
	}
	p.measure(t, s, &m)
	if got, want := m.CheckTokens(), int(.97*float64(m.Window())); got != want {
		t.Errorf("check: got %d tokens, want %d", got, want)
	}
	if err := m.Answered(nil); !errors.Is(err, window.ErrPhase) {
		t.Errorf("answered while checking: got the error %v, want %v", err, window.ErrPhase)
	}
	before := m.Prompts()
	if err := m.Checked(false); err != nil {
		t.Fatal(err)
	}
	if got := m.Phase(); got != window.Measuring {
		t.Fatalf("a check that failed: got %v, want measuring", got)
	}
	if low, high := m.Interval(); high/low < 100 {
		t.Errorf("a check that failed: got the interval %v to %v, want the whole span", low, high)
	}
	p.measure(t, s, &m)
	if err := m.Checked(true); err != nil {
		t.Fatal(err)
	}
	if got := m.Phase(); got != window.Measured {
		t.Fatalf("a check that passed: got %v, want measured", got)
	}
	if got := m.Prompts(); got <= before+2 {
		t.Errorf("got %d prompts, want more than %d", got, before+2)
	}
	if err := m.Refused(10); !errors.Is(err, window.ErrPhase) {
		t.Errorf("refused at the end: got the error %v, want %v", err, window.ErrPhase)
	}
}

func TestARefusedCheckMeasuresBelowIt(t *testing.T) {
	t.Parallel()
	m := begin(t)
	provider{30_000, largest, 1}.measure(t, years.NewSource(8, 8), &m)
	refused := m.CheckTokens()
	if err := m.Refused(refused); err != nil {
		t.Fatal(err)
	}
	if got := m.Phase(); got != window.Measuring {
		t.Fatalf("got %v, want measuring", got)
	}
	low, high := m.Interval()
	if high >= float64(refused) {
		t.Errorf("got the upper end %v, want it below %d", high, refused)
	}
	if low > 1.2*smallest {
		t.Errorf("got the lower end %v, want it at the smallest window", low)
	}
}

func TestAMeasurementIsAbandonedAfterItsPrompts(t *testing.T) {
	t.Parallel()
	m := begin(t)
	for range window.MaxPrompts {
		if m.Phase() != window.Measuring {
			t.Fatalf("after %d prompts: got %v, want measuring", m.Prompts(), m.Phase())
		}
		// A reference that recalls nothing says nothing.
		if err := m.Answered([]window.Needle{{FromEnd: 2_000, Recall: 0}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.Phase(); got != window.Abandoned {
		t.Errorf("got %v, want abandoned", got)
	}
}

func TestAWindowBelowTheSmallestIsSeenToBeAtIt(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[int]bool{smallest / 2: true, 2 * smallest: false} {
		m := begin(t)
		provider{tokens, largest, 1}.measure(t, years.NewSource(10, 10), &m)
		if got := m.AtSmallest(); got != want {
			t.Errorf("a window of %d tokens is at the smallest: got %t, want %t", tokens, got, want)
		}
	}
}

func TestAMeasurementCanBeGivenUpUntilItHasAResult(t *testing.T) {
	t.Parallel()
	m := begin(t)
	m.Abandon()
	if got := m.Phase(); got != window.Abandoned {
		t.Errorf("given up: got %v, want abandoned", got)
	}
	roundTrip(t, &m)
	m = begin(t)
	provider{30_000, largest, 1}.measure(t, years.NewSource(10, 10), &m)
	if err := m.Checked(true); err != nil {
		t.Fatal(err)
	}
	m.Abandon()
	if got := m.Phase(); got != window.Measured {
		t.Errorf("given up with a result: got %v, want measured", got)
	}
}

// A check may be the last prompt: passed it ends the measurement, failed it leaves none.
func TestTheLastPromptMayBeTheCheck(t *testing.T) {
	t.Parallel()
	for passed, want := range map[bool]window.Phase{true: window.Measured, false: window.Abandoned} {
		m := begin(t)
		for m.Prompts() < window.MaxPrompts-3 {
			if err := m.Answered([]window.Needle{{FromEnd: 2_000, Recall: 0}}); err != nil {
				t.Fatal(err)
			}
		}
		s := years.NewSource(10, 10)
		provider{30_000, largest, 1}.measure(t, s, &m)
		// With this seed and full recall two prompts are enough.
		if got, want := m.Prompts(), window.MaxPrompts-1; got != want {
			t.Fatalf("got %d prompts before the check, want %d", got, want)
		}
		if err := m.Checked(passed); err != nil {
			t.Fatal(err)
		}
		if got := m.Phase(); got != want {
			t.Errorf("passed is %v: got %v, want %v", passed, got, want)
		}
	}
}

// Answers that contradict each other widen the posterior and never break it.
func TestContradictionsLeaveAPosterior(t *testing.T) {
	t.Parallel()
	m := begin(t)
	for i := 0; m.Phase() == window.Measuring; i++ {
		needles := make([]window.Needle, window.Needles)
		for j := range needles {
			needles[j] = window.Needle{FromEnd: 2_000 + 8_000*j, Recall: .99, Returned: (i+j)%2 == 0}
		}
		if err := m.Answered(needles); err != nil {
			t.Fatal(err)
		}
		if got := m.Window(); got < smallest || got > largest {
			t.Fatalf("got %d tokens", got)
		}
		roundTrip(t, &m)
	}
}

func TestSpansAndPromptsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int{
		{63, 1_000}, {1_000, 1_000}, {1_000, 999}, {64, 64*4_096 + 4_096}, {1 << 28, window.MaxTokens + 1},
	} {
		if _, err := window.New(c[0], c[1]); !errors.Is(err, window.ErrSpan) {
			t.Errorf("%v: got the error %v, want %v", c, err, window.ErrSpan)
		}
	}
	m := begin(t)
	before := m
	for _, needles := range [][]window.Needle{
		nil, make([]window.Needle, window.Needles+1), {{FromEnd: 0, Recall: .5}}, {{FromEnd: 5, Recall: math.NaN()}},
		{{FromEnd: 5, Recall: 1.1}}, {{FromEnd: 5, Recall: -.1}}, {{FromEnd: window.MaxTokens + 1, Recall: .5}},
	} {
		if err := m.Answered(needles); !errors.Is(err, window.ErrPrompt) {
			t.Errorf("%v: got the error %v, want %v", needles, err, window.ErrPrompt)
		}
	}
	for _, tokens := range []int{-1, 0, 2*window.MaxTokens + 1} {
		if err := m.Refused(tokens); !errors.Is(err, window.ErrPrompt) {
			t.Errorf("%d tokens: got the error %v, want %v", tokens, err, window.ErrPrompt)
		}
	}
	if m != before {
		t.Error("a refused prompt changed the measurement")
	}
}

func roundTrip(t testing.TB, m *window.Measurement) {
	t.Helper()
	b, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back window.Measurement
	if err := back.UnmarshalBinary(b); err != nil {
		t.Fatalf("%v after %d prompts: %v", m.Phase(), m.Prompts(), err)
	}
	if back != *m {
		t.Errorf("%v after %d prompts: another state came back", m.Phase(), m.Prompts())
	}
}

// states returns the forms of a measurement after each prompt, with refusals and a failed
// check.
func states(t testing.TB) [][]byte {
	t.Helper()
	s := years.NewSource(9, 9)
	m := begin(t)
	p := provider{20_000, 60_000, .9}
	var forms [][]byte
	for m.Phase() != window.Measured {
		roundTrip(t, &m)
		b, _ := m.MarshalBinary()
		forms = append(forms, b)
		if m.Phase() == window.Measuring {
			p.reply(t, s, &m)
			continue
		}
		if err := m.Checked(m.Prompts() > 12); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := m.MarshalBinary()
	return append(forms, b)
}

func TestStatesAreReadBackToTheBit(t *testing.T) {
	t.Parallel()
	if got := len(states(t)); got < 10 {
		t.Errorf("got %d states, want at least 10", got)
	}
}

// The bits are those of every machine: a replay compares them.
func TestTheBitsOfAMeasurementAreKnown(t *testing.T) {
	t.Parallel()
	hash := fnv.New64a()
	for _, b := range states(t) {
		_, _ = hash.Write(b)
	}
	if got, want := hash.Sum64(), uint64(0x5be057db976a8c4e); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}

func TestDamagedStatesAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	m := begin(t)
	before := m
	for _, b := range states(t) {
		bad := [][]byte{b[:len(b)-1], append(bytes.Clone(b), 0), nil}
		// The version, the span, the phase, and the first probability.
		for _, at := range []int{1, 6, 2 + 24 + 3, 2 + 28} {
			other := bytes.Clone(b)
			other[at] ^= 0x55
			bad = append(bad, other)
		}
		// A probability that is in order by itself, in a sum that is not 1.
		other := bytes.Clone(b)
		copy(other[2+28:], form.AppendFloats(nil, .5))
		bad = append(bad, other)
		for i, other := range bad {
			if err := m.UnmarshalBinary(other); !errors.Is(err, form.ErrForm) {
				t.Errorf("damage %d: got the error %v, want %v", i, err, form.ErrForm)
			}
		}
	}
	if m != before {
		t.Error("a refused form changed the measurement")
	}
}

// What is read is written again byte for byte, and a measurement goes on from it without
// numbers that are none.
func FuzzMeasurementsHaveOneForm(f *testing.F) {
	for _, b := range states(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m window.Measurement
		if m.UnmarshalBinary(b) != nil {
			return
		}
		again, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("got the form %x, want %x", again, b)
		}
		if m.Phase() == window.Measuring {
			plan := m.Plan()
			if err := m.Answered([]window.Needle{{FromEnd: plan.FromEnd[3], Recall: .5, Returned: true}}); err != nil {
				t.Fatal(err)
			}
			roundTrip(t, &m)
		}
	})
}
