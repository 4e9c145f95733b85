package plan_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/window"
)

func TestAnOfferThatConsumersDoNotReachIsAskedVisibly(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Active, o.Logprobs = false, true
	all := newWorld(o).run(t, 28)
	if got := count(all, func(p probe.Plan) bool { return p.Flow != probe.Visible }); got != 0 {
		t.Errorf("hidden probes of an inactive offer: got %d, want none", got)
	}
	recalls := count(all, kind(probe.Recall))
	within(t, "visible chats a day", float64(len(all)-recalls)/28, 2, .8)
	within(t, "visible recalls in four weeks", float64(recalls), 4, 1)
	for _, f := range []evidence.Family{evidence.Greedy, evidence.Logprobs} {
		if count(all, func(p probe.Plan) bool { return p.Feeds == f }) == 0 {
			t.Errorf("probes by which %v feeds V: got none, want some", f)
		}
	}
	for _, p := range all {
		if p.Cost != 0 {
			t.Errorf("cost of a visible probe: got %v, want 0", p.Cost)
		}
	}
}

func TestAModelWithoutAReferenceIsNotAsked(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.References = []quant.Class{quant.Bits4}
	if got := len(newWorld(o).run(t, 3)); got != 0 {
		t.Errorf("probes of a class without a reference: got %d, want none", got)
	}
	o.Quantization = ""
	all := newWorld(o).run(t, 3)
	if len(all) == 0 {
		t.Fatal("probes of an unknown class: got none, want some")
	}
	if got := all[0].Plan.Stratum.Class; got != quant.Bits4 {
		t.Errorf("class by which an unknown one is judged: got %v, want %v", got, quant.Bits4)
	}
}

func TestSampledAnswersAreWeighedAgainstCheaperModels(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Alternatives = []evidence.Alternative{evidence.Class8, evidence.Class4, evidence.Sibling}
	o.Quantization, o.References = "q8_0", []quant.Class{quant.Bits8, quant.Bits4}
	want := []evidence.Alternative{evidence.Class4, evidence.Sibling, evidence.Cooler, evidence.Hotter}
	for _, p := range newWorld(o).run(t, 7) {
		if p.Plan.Kind == probe.Sampled && !slices.Equal(p.Plan.Alternatives, want) {
			t.Errorf("alternatives of an 8-bit offer: got %v, want %v", p.Plan.Alternatives, want)
		}
		if p.Plan.Kind == probe.Greedy && p.Plan.Alternatives != nil {
			t.Errorf("alternatives of a greedy probe: got %v, want none", p.Plan.Alternatives)
		}
	}
}

func measurement(t *testing.T, largest int) *window.Measurement {
	t.Helper()
	m, err := window.New(256, largest)
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// answer answers a prompt of a measurement as a window of so many tokens does.
func answer(t *testing.T, m *window.Measurement, p probe.Plan, tokens int) {
	t.Helper()
	seen := make([]window.Needle, len(p.FromEnd))
	passed := true
	for i, at := range p.FromEnd {
		seen[i] = window.Needle{FromEnd: at, Recall: .95, Returned: at <= tokens}
		passed = passed && seen[i].Returned
	}
	err := error(nil)
	switch {
	case p.Kind == probe.Measure:
		err = m.Answered(seen)
	case m.Phase() == window.Checking:
		err = m.Checked(passed)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAMeasurementIsAskedHourlyAndThenCheckedSixTimesADay(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level, o.Measurement = ladder.Notice, measurement(t, 131_000)
	w := newWorld(o)
	w.hour = func(_ time.Time, planned []plan.Hour) {
		for _, h := range planned {
			for _, p := range h.Probes {
				if p.Plan.Kind == probe.Measure || p.Plan.Kind == probe.Check {
					answer(t, w.offers[0].Measurement, p.Plan, 16_384)
				}
			}
		}
	}
	all := w.run(t, 11)
	if got := w.offers[0].Measurement.Phase(); got != window.Measured {
		t.Fatalf("phase after ten days: got %v, want %v", got, window.Measured)
	}
	if got := count(all, kind(probe.Measure)); got > 6 {
		t.Errorf("prompts of a measurement: got %d, want at most 6", got)
	}
	within(t, "measured window", float64(w.offers[0].Measurement.Window()), 16_384, .03*16_384)
	within(t, "checks a day", float64(count(all, kind(probe.Check)))/11, 6, .3)
}

func TestAMeasurementAboveTheEffectiveWindowIsVisible(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.EffectiveTokens, o.Measurement = 8_192, measurement(t, 131_000)
	measures := 0
	for _, p := range newWorld(o).run(t, 1) {
		if p.Plan.Kind != probe.Measure {
			continue
		}
		if measures++; p.Plan.Flow != probe.Visible {
			t.Errorf("a prompt of %d tokens to an offer of 8192: got it %s, want it visible", p.Plan.PromptTokens, p.Plan.Flow)
		}
	}
	if measures != 24 {
		t.Errorf("prompts of a measurement in a day: got %d, want 24", measures)
	}
}

func TestAStatedWindowBeyondTheEffectiveOneIsAskedForVisibly(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.EffectiveTokens = 32_768
	beyond := count(newWorld(o).run(t, 28), func(p probe.Plan) bool {
		return p.Flow == probe.Visible && p.Kind == probe.Recall && p.PromptTokens > 32_768
	})
	within(t, "recalls of the stated window in four weeks", float64(beyond), 4, 1)
}

func TestAHostIsAvoidedAndFilesAreAskedForDailyUnderWatch(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level, o.AvoidHost, o.Fingerprint = ladder.Confirm, "reference/1", true
	o.AvoidAccounts = []ids.ProviderID{{7}}
	all := newWorld(o).run(t, 14)
	within(t, "fingerprints in two weeks of confirm", float64(count(all, kind(probe.Fingerprint))), 14, 0)
	if got := count(all, func(p probe.Plan) bool { return p.AvoidHost != "reference/1" }); got != 0 {
		t.Errorf("probes that the avoided host may score: got %d, want none", got)
	}
	if got := count(all, func(p probe.Plan) bool { return !slices.Equal(p.AvoidAccounts, o.AvoidAccounts) }); got != 0 {
		t.Errorf("probes that its owner's hosts may score: got %d, want none", got)
	}
	o.Level = ladder.Normal
	within(t, "fingerprints in 90 days", float64(count(newWorld(o).run(t, 90), kind(probe.Fingerprint))), 30, 12)
}

func TestEmbeddingsAreAskedForVectors(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Embeddings = true
	all := newWorld(o).run(t, 3)
	if len(all) == 0 {
		t.Fatal("probes: got none, want some")
	}
	if got := count(all, kind(probe.Embedding)); got != len(all) {
		t.Errorf("embeddings: got %d of %d probes, want all", got, len(all))
	}
	r, _ := read(t, writer(), all[0].Plan)
	if r.Input == "" {
		t.Error("input of an embedding: got none, want a text")
	}
}

func TestTheCostOfAProbeIsItsTokensAtTheModelsPrice(t *testing.T) {
	t.Parallel()
	p := probe.Plan{Flow: probe.Hidden, PromptTokens: 128_000, MaxTokens: 100}
	if got, want := plan.Cost(p, prices), money.NanoUSD(12_840_000); got != want {
		t.Errorf("cost: got %v, want %v", got, want)
	}
	if got := plan.Cost(p, money.Rates{Input: 1 << 62}); got < 1<<60 {
		t.Errorf("cost at an absurd price: got %v, want more than any budget", got)
	}
}

func TestAPriceThatIsTooHighMakesRecallsSmaller(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Rates.Input *= 2 // a near-full recall would cost $.025
	recalls := 0
	for _, p := range newWorld(o).run(t, 28) {
		if p.Plan.Kind != probe.Recall {
			continue
		}
		recalls++
		if p.Cost > money.USD/50 {
			t.Errorf("cost of a recall: got %v, want at most $.02", p.Cost)
		}
	}
	within(t, "recalls in four weeks", float64(recalls), 12, 3)
}

func TestAPastIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level = ladder.Watch
	w := newWorld(o)
	w.organic = map[cover.Shape]int64{{Streamed: true, Length: 9}: 10_000}
	w.run(t, 6)
	form, err := w.offers[0].Past.Form()
	if err != nil {
		t.Fatal(err)
	}
	again, err := plan.ReadPast(form)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := again.Form(); string(got) != string(form) {
		t.Errorf("form: got %s, want %s", got, form)
	}
	if len(again.Waiting) == 0 {
		t.Error("waiting probes of a watched week: got none, want some")
	}
}

func FuzzPast(f *testing.F) {
	form, _ := plan.Past{Day: 5, Waiting: []plan.Repeat{{
		ID: probe.ID{1}, After: monday, PromptTokens: 1, MaxTokens: 1,
	}}}.Form()
	f.Add(form)
	f.Add([]byte(`{"hour":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := plan.ReadPast(b)
		if err != nil {
			if !errors.Is(err, plan.ErrPast) {
				t.Fatalf("error: got %v, want %v", err, plan.ErrPast)
			}
			return
		}
		again, err := p.Form()
		if err != nil {
			t.Fatal(err)
		}
		if string(again) != string(b) {
			t.Errorf("form: got %s, want %s", again, b)
		}
	})
}

// A replica that begins late in an hour, or whose clock leapt, has not asked a recall that was due
// before. The offer's requests come in one hour of the day, and no other is planned.
func TestARecallThatIsNotSentIsStillLacking(t *testing.T) {
	t.Parallel()
	o := offer(1)
	o.Level, o.Hours[12] = ladder.Watch, 1
	w := newWorld(o)
	sent := 0
	for day := range 4 * 7 {
		w.fleet.Spent = 0
		at := monday.AddDate(0, 0, day).Add(12*time.Hour + 30*time.Minute)
		for _, hour := range w.planner.Plan(&w.fleet, at, w.offers) {
			w.offers[0].Past = hour.Past
			for _, p := range hour.Probes {
				if p.Plan.Kind == probe.Recall {
					sent++
				}
			}
		}
	}
	if sent < 10 {
		t.Errorf("recalls in four weeks that are planned half an hour late: got %d, want 10 at least", sent)
	}
}
