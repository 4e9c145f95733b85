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
//			...                                        // or run.NotAsked, Offline, Lost
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
// run is disturbed, which makes it void. A fingerprint that cannot be asked for, because no
// reference or catalog knows the files, is left out.
//
// Where no reference serves the model, as many questions of B and C are asked as without a
// calibration, and feed nothing: the run says that it is uncalibrated.
//
// A provider that has begun to answer and loses its connection leaves questions unanswered,
// and the run ends as soon as there are too many. It is void then and no failure, because an
// honest provider may have a bad line: whoever cannot stay connected remains unproven, and
// void runs are repeated after pauses that grow (package work).
package bench

import (
	"fmt"
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/probe"
)

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

// Lost hears of a question that reached the provider, whose connection was lost before its
// answer was whole. It counts as unanswered, because a provider that has read a question
// could else choose which ones it answers.
func (r Run) Lost(id probe.ID, now time.Time) (Run, error) {
	return r.Took(Report{Plan: id, Offline: true}, now)
}

// Offline hears of a question that found its provider not connected. It is asked again. A
// provider that stays away counts as not asked where it has answered nothing yet, else the
// question counts as unanswered.
func (r Run) Offline(id probe.ID, now time.Time) (Run, error) {
	if q, ok := r.pending(id); ok && len(r.Reports) > 0 && r.Tries[q.name] == MaxTries-1 {
		return r.Lost(id, now)
	}
	return r.NotAsked(id, now)
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
	switch {
	case tries[q.name] < MaxTries:
	case q.plan.Kind == probe.Fingerprint:
		r.Setup.Fingerprint = false // no benchmark passes or fails by it
		return r.advance(now), nil
	default:
		r.Disturbed, r.Stage, r.StageAt = true, Done, now.UTC()
	}
	return r, nil
}

// Missed returns how often a question of the run did not reach the provider so far.
func (r Run) Missed() int {
	missed := 0
	for _, n := range r.Tries {
		missed += n
	}
	return missed
}

// advance moves the run over the stages of which everything is answered.
func (r Run) advance(now time.Time) Run {
	if r.hopeless() {
		r.Stage, r.StageAt = Done, now.UTC()
		return r
	}
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

// hopeless reports whether so many questions are unanswered that the run fails whatever
// else is answered. A provider that answers nothing would else keep a place among the runs
// for hours, ten minutes a question.
func (r Run) hopeless() bool {
	unanswered := 0
	for _, p := range r.Reports {
		if !p.Answered {
			unanswered++
		}
	}
	return unanswered > maxUnanswered
}

// after returns the stage after one, without those that ask this offer nothing.
func (r Run) after(s Stage) Stage {
	for s = stages[s]; s != Judging && r.skips(s); {
		s = stages[s]
	}
	return s
}

// skips reports whether a stage asks the offer nothing.
func (r Run) skips(s Stage) bool {
	r.Stage = s
	return len(r.questions()) == 0
}
