package calibrate_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/calibrate"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/prompt"
	"svc.internal/services/verifier/internal/quant"
)

func order() calibrate.Order {
	return calibrate.Order{
		Stratum: calibration.Stratum{Model: judgetest.Model, Class: quant.Bits16},
		Hosts: []calibrate.Host{
			{Name: "a", Provider: ids.ProviderID{1, 15: 1}}, {Name: "b", Provider: ids.ProviderID{2, 15: 1}},
		},
		WindowTokens: 8_192, BytesPerToken: 4,
	}
}

func newRound(t *testing.T, o calibrate.Order) *calibrate.Round {
	t.Helper()
	r, err := calibrate.New(probe.RunID{1, 15: 1}, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var writer = plan.NewWriter(prompt.Secret{7}, prompt.Demo())

// answer is a record of a host that answers as the reference does, one needle in some
// recalls aside. other is how likely the reference finds another token than the host's.
func answer(t *testing.T, p probe.Plan, other float64) judge.Record {
	t.Helper()
	rec := judge.Record{
		Version: judge.Version, Plan: p,
		Answer: judge.Answer{
			Served: p.Offer.Provider.String(), Complete: true, Claimed: true, ClaimedPrompt: 50, ClaimedOutput: 24,
		},
	}
	if p.Kind == probe.Recall {
		_, needles, err := writer.Body(p)
		if err != nil {
			t.Fatal(err)
		}
		rec.Needles = needles
		rec.Answer.Raw = chat(t, judgetest.Lines(needles))
		rec.Scores = []judge.Score{{Host: "judge", Raw: chat(t, judgetest.Lines(needles))}}
		return rec
	}
	rec.Answer.Raw = chat(t, judgetest.Answer)
	rec.Scores = []judge.Score{{Host: "judge", Raw: judgetest.Score(judgetest.Answer, 50, -.8, other)}}
	return rec
}

func chat(t *testing.T, text string) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"content": text}, "finish_reason": "length"}},
		"usage":   map[string]any{"prompt_tokens": 50, "completion_tokens": 24},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// finish carries a round on, until stop says so.
func finish(t *testing.T, r *calibrate.Round, stop func() bool) (stored []calibrate.Sample) {
	t.Helper()
	for !stop() {
		b, more := r.Next()
		if !more {
			break
		}
		for _, p := range b.Plans {
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			samples, err := r.Took(answer(t, p, -.7))
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, samples...)
		}
	}
	return stored
}

func never() bool { return false }

func TestEachHostIsAskedAsOftenAsTheLimitsWant(t *testing.T) {
	if testing.Short() {
		t.Skip("it judges eleven thousand answers")
	}
	t.Parallel()
	r := newRound(t, order())
	stored := finish(t, r, never)
	counts := map[string]map[evidence.Family]int{"a": {}, "b": {}}
	for _, s := range stored {
		counts[s.Host][s.Family]++
	}
	for host, families := range counts {
		for f, want := range map[evidence.Family]int{
			evidence.Greedy: 1604, evidence.Sampled: 1604, evidence.Recall: 1604, evidence.Usage: 2158,
		} {
			if families[f] < want {
				t.Errorf("samples of %v of host %s: got %d, want at least %d", f, host, families[f], want)
			}
		}
	}
	all, err := r.Fit()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 {
		t.Errorf("calibrations: got %d, want 4", len(all))
	}
	for _, c := range all {
		if got := c.Reach(2); got != calibration.ReachPenalty {
			t.Errorf("reach of %v with two references: got %v, want %v", c.Family, got, calibration.ReachPenalty)
		}
	}
	if have, want := r.Progress(); have != want {
		t.Errorf("progress at the end: got %d of %d, want all", have, want)
	}
}

func TestARoundGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	o := order()
	o.Challenges = 40
	whole := newRound(t, o)
	finish(t, whole, never)
	want, err := whole.Fit()
	if err != nil {
		t.Fatal(err)
	}
	var stored []calibrate.Sample
	lives := 0
	for done := false; !done; lives++ {
		r := newRound(t, o)
		if err := r.Add(stored...); err != nil {
			t.Fatal(err)
		}
		batches := 0
		stored = append(stored, finish(t, r, func() bool { batches++; return batches > 3 })...)
		done = r.Done()
	}
	if lives < 3 {
		t.Fatalf("lives: got %d, want at least 3", lives)
	}
	seen := map[string]bool{}
	for _, s := range stored {
		key := s.Family.String() + string(rune(s.Number))
		if seen[key] {
			t.Errorf("number %d of %v: got it twice, want it once", s.Number, s.Family)
		}
		seen[key] = true
	}
	last := newRound(t, o)
	slices.Reverse(stored)
	if err := last.Add(slices.Concat(stored, stored)...); err != nil {
		t.Fatal(err)
	}
	got, err := last.Fit()
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i].Largest, want[i].Largest) {
			t.Errorf("limits of %v: got %v, want %v", want[i].Family, got[i].Largest, want[i].Largest)
		}
		n := 0
		for _, s := range stored {
			if s.Family == want[i].Family {
				n++
			}
		}
		if got[i].N != n {
			t.Errorf("challenges of %v: got %d, want the %d that were stored", want[i].Family, got[i].N, n)
		}
	}
}

func TestTheOrderOfSamplesMovesNoBit(t *testing.T) {
	t.Parallel()
	o := order()
	o.Challenges = 20
	r := newRound(t, o)
	stored := finish(t, r, never)
	one, err := r.Fit()
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(stored)
	again := newRound(t, o)
	if err := again.Add(stored...); err != nil {
		t.Fatal(err)
	}
	two, err := again.Fit()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one, two) {
		t.Errorf("calibrations of the reversed samples: got %v, want %v", two, one)
	}
}

func TestAFamilyThatTheModelDoesNotHaveIsGivenUp(t *testing.T) {
	t.Parallel()
	o := order()
	o.Challenges = 60
	r := newRound(t, o)
	recalls := 0
	for b, more := r.Next(); more; b, more = r.Next() {
		for _, p := range b.Plans {
			rec := answer(t, p, -.7)
			if p.Kind == probe.Recall {
				recalls++
				rec.Scores[0].Raw = chat(t, "I do not know.")
			}
			if _, err := r.Took(rec); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := r.GivenUp(), []evidence.Family{evidence.Recall}; !slices.Equal(got, want) {
		t.Errorf("given up: got %v, want %v", got, want)
	}
	if most := 2 * (calibrate.GiveUp + calibrate.MaxBatch); recalls > most {
		t.Errorf("recalls without a sample: got %d, want at most %d", recalls, most)
	}
	all, err := r.Fit()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 {
		t.Errorf("calibrations without recalls: got %d, want 3", len(all))
	}
}

func TestMissedChallengesAreAskedAgainAndAnsweredOnesAreNot(t *testing.T) {
	t.Parallel()
	o := order()
	o.Challenges = 10
	r := newRound(t, o)
	answered, missed := map[probe.ID]bool{}, map[probe.ID]bool{}
	for b, more := r.Next(); more; b, more = r.Next() {
		for _, p := range b.Plans {
			if answered[p.ID] {
				t.Errorf("challenge %v: got it after its answer, want it once", p.ID)
			}
			if !missed[p.ID] && p.ID[15]%2 == 0 {
				missed[p.ID] = true
				r.Missed(p)
				continue
			}
			answered[p.ID] = true
			if _, err := r.Took(answer(t, p, -.7)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if have, want := r.Progress(); have != want {
		t.Errorf("samples: got %d of %d, want all", have, want)
	}
}

func TestHostsThatAreAwayUseUpNoNumbers(t *testing.T) {
	t.Parallel()
	o := order()
	o.Challenges = 10
	r := newRound(t, o)
	for range calibrate.MaxNumber {
		b, more := r.Next()
		if !more {
			t.Fatal("a round whose hosts are away: got its end, want it to go on")
		}
		for _, p := range b.Plans {
			r.Missed(p)
		}
	}
	finish(t, r, never)
	if have, want := r.Progress(); have != want {
		t.Errorf("samples: got %d of %d, want all", have, want)
	}
}

func TestBatchesAreOfOneToThirtyTwo(t *testing.T) {
	t.Parallel()
	r := newRound(t, order())
	sizes := map[int]int{}
	for range 100 {
		b, _ := r.Next()
		sizes[len(b.Plans)]++
		for _, p := range b.Plans {
			if _, err := r.Took(answer(t, p, -.7)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for size := 1; size <= calibrate.MaxBatch; size *= 2 {
		if sizes[size] == 0 {
			t.Errorf("batches of %d: got none of 100, want some", size)
		}
	}
}

func TestHostsThatDifferAreNamedAndSpoilNoOtherFamily(t *testing.T) {
	t.Parallel()
	o := order()
	o.Challenges = 150
	r := newRound(t, o)
	for b, more := r.Next(); more; b, more = r.Next() {
		for _, p := range b.Plans {
			other := -.7
			if b.Host.Name == "b" {
				other = -.2
			}
			if _, err := r.Took(answer(t, p, other)); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := r.Fit()
	if !errors.Is(err, calibration.ErrSplit) {
		t.Errorf("error of hosts that differ: got %v, want %v", err, calibration.ErrSplit)
	}
	if len(all) != 3 {
		t.Errorf("other calibrations: got %d, want 3", len(all))
	}
}

func TestOrdersThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*calibrate.Order){
		"no model":           func(o *calibrate.Order) { o.Stratum.Model = "" },
		"no host":            func(o *calibrate.Order) { o.Hosts = nil },
		"a host twice":       func(o *calibrate.Order) { o.Hosts[1].Name = "a" },
		"a host without one": func(o *calibrate.Order) { o.Hosts[1].Provider = ids.ProviderID{} },
		"only cheaper hosts": func(o *calibrate.Order) { o.Hosts[0].Cheaper, o.Hosts[1].Cheaper = true, true },
		"no cheaper class":   func(o *calibrate.Order) { o.Hosts[1].Cheaper = true },
		"no window":          func(o *calibrate.Order) { o.WindowTokens = 0 },
		"absurd tokens":      func(o *calibrate.Order) { o.BytesPerToken = 1e9 },
		"too many hosts":     func(o *calibrate.Order) { o.Hosts = append(o.Hosts, make([]calibrate.Host, 7)...) },
	} {
		o := order()
		spoil(&o)
		if _, err := calibrate.New(probe.RunID{1}, o); !errors.Is(err, calibrate.ErrOrder) {
			t.Errorf("%s: got the error %v, want %v", name, err, calibrate.ErrOrder)
		}
	}
}

func TestSamplesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	r := newRound(t, order())
	eight := make([]byte, 8)
	for name, s := range map[string]calibrate.Sample{
		"no number":      {Family: evidence.Greedy, Host: "a", Body: eight},
		"a large number": {Family: evidence.Greedy, Host: "a", Number: calibrate.MaxNumber + 1, Body: eight},
		"no host":        {Family: evidence.Greedy, Number: 1, Body: eight},
		"another family": {Family: evidence.Visible, Number: 1, Host: "a", Body: eight},
		"too few parts":  {Family: evidence.Usage, Number: 1, Host: "a", Body: eight},
		"NaN":            {Family: evidence.Greedy, Number: 1, Host: "a", Body: []byte{0x7f, 0xf8, 0, 0, 0, 0, 0, 1}},
		"no ratio":       {Family: evidence.Sampled, Number: 1, Host: "a"},
		"ratios in chaos": {
			Family: evidence.Sampled, Number: 1, Host: "a", Body: slices.Concat([]byte{5}, eight, []byte{4}, eight),
		},
	} {
		if err := r.Add(s); !errors.Is(err, calibrate.ErrSample) {
			t.Errorf("%s: got the error %v, want %v", name, err, calibrate.ErrSample)
		}
	}
	stranger := answer(t, probe.Plan{ID: probe.ID{9}, Offer: judgetest.Offer}, -.7)
	if _, err := r.Took(stranger); !errors.Is(err, calibrate.ErrSample) {
		t.Errorf("a record that nobody asked for: got the error %v, want %v", err, calibrate.ErrSample)
	}
}

func TestACalibrationIsDueAfterThirtyDays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for last, want := range map[time.Time]bool{
		{}: true, now.Add(-calibrate.Interval): true, now.Add(-calibrate.Interval + time.Second): false,
	} {
		if got := calibrate.Due(last, now); got != want {
			t.Errorf("due after %v: got %v, want %v", now.Sub(last), got, want)
		}
	}
}

func FuzzSamples(f *testing.F) {
	f.Add(uint8(evidence.Greedy), make([]byte, 8))
	f.Add(uint8(evidence.Sampled), append([]byte{7}, make([]byte, 8)...))
	f.Fuzz(func(t *testing.T, family uint8, body []byte) {
		r, err := calibrate.New(probe.RunID{1}, order())
		if err != nil {
			t.Fatal(err)
		}
		err = r.Add(calibrate.Sample{Family: evidence.Family(family), Number: 1, Host: "a", Body: body},
			calibrate.Sample{Family: evidence.Family(family), Number: 2, Host: "b", Body: body})
		if err != nil {
			if !errors.Is(err, calibrate.ErrSample) {
				t.Fatalf("error: got %v, want %v", err, calibrate.ErrSample)
			}
			return
		}
		if _, err := r.Fit(); err != nil && !errors.Is(err, calibration.ErrData) {
			t.Errorf("fit of samples that were taken: got the error %v, want none or %v", err, calibration.ErrData)
		}
	})
}

// A host that declares no log-probabilities would give none, and a window that holds no
// needles would be overrun by them.
func TestFamiliesThatAreNotCalibratedAreNotAsked(t *testing.T) {
	t.Parallel()
	o := order()
	o.WindowTokens, o.Challenges = 600, 60
	r := newRound(t, o)
	for b, more := r.Next(); more; b, more = r.Next() {
		for _, p := range b.Plans {
			if p.Kind != probe.Greedy && p.Kind != probe.Sampled {
				t.Fatalf("a question: got %v, want a chat without log-probabilities", p.Kind)
			}
			if _, err := r.Took(answer(t, p, -.7)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
