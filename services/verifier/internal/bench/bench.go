// Package bench carries a benchmark run of an offer from its first question to the facts
// that package battery judges.
//
// A Run is a value: its setup, and the reports of the questions that were answered. What is
// asked next, what was measured and how the run ended follow from these alone. So a
// run that is stored after each report goes on after a crash where it was: the same
// questions with the same ids, and the same facts at the end.
//
//	run, _ := bench.Begin(id, setup, now)
//	for !run.Ended() {
//		for _, plan := range run.Next(now) {           // to be asked at once
//			record, err := runner.Run(ctx, plan)       // package flow
//			run, _ = run.Took(bench.Read(record, judgement), now)
//			...                                        // or run.NotAsked(plan.ID, now)
//		}
//	}
//	facts := run.Facts()
//
// # Stages
//
// One table (stage.go): five answers of 256 tokens alone; the time to first token at 256
// and 4,096 tokens and a quarter of the window; as many at once as the offer has slots; 40
// questions of B and C, each of which feeds V by the family that was chosen for it; two
// recalls; a fingerprint. Where too many answers exceed, 40 other questions follow at once.
// Where the run is slow, the speed is timed again after one and six hours.
//
// # Windows
//
// A recall asks for all of its needles. One that comes back proves that the window reaches
// it, because its six digits are guessed with 2 in 1,000 at most. The measured window is
// the stated one less what lies before the oldest needle that came back. Where the
// reference recalls nothing itself, the model cannot, and the stated window stands.
//
// # Void runs
//
// A question that never reached the provider, because the hub, the network or a reference
// failed or the provider was not connected, is asked again, MaxTries times in all. Then the
// run is disturbed, which makes it void.
package bench

import (
	"errors"
	"fmt"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/probe"
)

// Basis is why a run was made.
type Basis string

// The bases.
const (
	// First is an offer's first run, Asked one that its provider asked for, Renewal one
	// before 30 days end, and Again one after a void one.
	First   Basis = "first"
	Asked   Basis = "asked"
	Renewal Basis = "renewal"
	Again   Basis = "again"
	// Traffic is a renewal by consumers' requests (ByTraffic). Nothing is asked.
	Traffic Basis = "traffic"
)

// Bases returns every basis.
func Bases() []Basis { return []Basis{First, Asked, Renewal, Again, Traffic} }

// The bounds of a run.
const (
	// MaxTries bounds how often a question is put that does not reach the provider.
	MaxTries = 3
	// MaxCapacity bounds how many questions are asked at once.
	MaxCapacity = 16
	// maxQuestions bounds the questions of B and C with those that take the place of void
	// ones.
	maxQuestions = battery.Questions * 3 / 2
	// maxReports bounds the reports of a run, and maxRun its form in bytes.
	maxReports = 512
	maxRun     = 1 << 20
)

// Setup is what a run depends on. It is fixed when the run begins.
type Setup struct {
	Offer   probe.Offer         `json:"offer"`
	Basis   Basis               `json:"basis"`
	Stratum calibration.Stratum `json:"stratum"`
	// StatedTokens is the context window as the provider states it.
	StatedTokens int `json:"stated_tokens"`
	// Capacity is how many requests the offer takes at once.
	Capacity int `json:"capacity"`
	// ClassMedian is the median speed of the GPU class in tokens per second, 0 if unknown.
	ClassMedian   float64 `json:"class_median"`
	BytesPerToken float64 `json:"bytes_per_token"`
	// Logprobs and Fingerprint are declared. Embeddings is a model that makes vectors.
	Logprobs    bool `json:"logprobs,omitempty"`
	Fingerprint bool `json:"fingerprint,omitempty"`
	Embeddings  bool `json:"embeddings,omitempty"`
	// Calibrated reports whether B, and C where it is declared, have a usable calibration.
	Calibrated bool `json:"calibrated,omitempty"`
	// Quick is a development's run (battery.Facts).
	Quick bool `json:"quick,omitempty"`
}

// Run is a benchmark run.
type Run struct {
	ID    probe.RunID `json:"id"`
	Setup Setup       `json:"setup"`
	Began time.Time   `json:"began"`
	// Stage is what is asked now, from StageAt on.
	Stage   Stage     `json:"stage"`
	StageAt time.Time `json:"stage_at"`
	// Reports are the answers, in the order in which they came.
	Reports []Report `json:"reports,omitempty"`
	// Tries counts how often questions did not reach the provider, by their name.
	Tries map[string]int `json:"tries,omitempty"`
	// Disturbed reports whether one did not MaxTries times.
	Disturbed bool `json:"disturbed,omitempty"`
	// Traffic is what a renewal by traffic rests on.
	Traffic *battery.Traffic `json:"traffic,omitempty"`
}

// ErrRun is the error for what cannot be a run or a report of it.
var ErrRun = errors.New("not a benchmark run")

// Begin begins a run.
func Begin(id probe.RunID, s Setup, now time.Time) (Run, error) {
	r := Run{ID: id, Setup: s, Began: now.UTC(), StageAt: now.UTC()}
	r.Setup.Capacity = max(1, min(s.Capacity, MaxCapacity))
	if s.Basis == Traffic {
		return Run{}, fmt.Errorf("%w: traffic asks nothing", ErrRun)
	}
	r.Stage = r.after(Begins)
	return r, r.check()
}

// ByTraffic returns a run that consumers' requests stand for, if they do.
func ByTraffic(id probe.RunID, s Setup, t battery.Traffic, now time.Time) (Run, bool) {
	s.Basis, s.Capacity = Traffic, max(1, min(s.Capacity, MaxCapacity))
	r := Run{ID: id, Setup: s, Began: now.UTC(), StageAt: now.UTC(), Stage: Done, Traffic: &t}
	return r, t.Renews() && r.check() == nil
}

// Ended reports whether nothing more is asked.
func (r Run) Ended() bool { return r.Stage == Done }

// Due returns from when on the run goes on.
func (r Run) Due() time.Time { return r.StageAt }

// Judgement judges the run: battery's word on its facts, or a pass by traffic.
func (r Run) Judgement() battery.Judgement {
	if r.Traffic != nil {
		return battery.Judgement{Outcome: battery.Pass}
	}
	return battery.Judge(r.Facts())
}

// Took adds the report of a question, and moves the run on. A report that the run has
// already changes nothing, so that an answer may be told twice.
func (r Run) Took(report Report, now time.Time) (Run, error) {
	if err := report.check(); err != nil {
		return r, err
	}
	if _, there := r.report(report.Plan); there {
		return r, nil
	}
	q, ok := r.pending(report.Plan)
	if !ok {
		return r, fmt.Errorf("%w: nothing is asked by %v", ErrRun, report.Plan)
	}
	report.Name = q.name
	r.Reports = append(r.Reports[:len(r.Reports):len(r.Reports)], report)
	return r.advance(now), nil
}

// NotAsked hears of a question that did not reach the provider. It is asked again, or ends
// the run.
func (r Run) NotAsked(id probe.ID, now time.Time) (Run, error) {
	q, ok := r.pending(id)
	if !ok {
		return r, fmt.Errorf("%w: nothing is asked by %v", ErrRun, id)
	}
	tries := map[string]int{}
	for name, n := range r.Tries {
		tries[name] = n
	}
	tries[q.name]++
	r.Tries = tries
	if tries[q.name] >= MaxTries {
		r.Disturbed, r.Stage, r.StageAt = true, Done, now.UTC()
	}
	return r, nil
}

// advance moves the run over the stages of which everything is answered.
func (r Run) advance(now time.Time) Run {
	for r.Stage != Done && len(r.open()) == 0 {
		r.StageAt = now.UTC()
		next := r.after(r.Stage)
		if next != Judging {
			r.Stage = next
			continue
		}
		j := battery.Judge(r.Facts())
		r.Stage = judged[j.Outcome](len(r.Facts().Repeats))
		r.StageAt = r.StageAt.Add(j.Wait)
	}
	return r
}
