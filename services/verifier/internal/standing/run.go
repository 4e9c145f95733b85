package standing

import (
	"slices"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/ladder"
)

// run moves the ladder of benchmarks by a run that ended.
func (m *move) run(r RunJudged) error {
	if r.Traffic != nil {
		return m.renew(*r.Traffic)
	}
	j := battery.Judge(r.Facts)
	var result ladder.Result
	switch j.Outcome {
	case battery.Pass:
		result = ladder.Pass
	case battery.Fail:
		result = ladder.Fail
	case battery.Void:
		result = ladder.Spoiled
	case battery.AskAgain, battery.TimeAgain:
		return refuse("the run has not ended: %s", j.Outcome)
	default:
		return refuse("a run never ends with %.40q", string(j.Outcome))
	}
	off := m.world.Brakes.PenaltiesOff || len(m.Open) >= MaxOpen
	if result == ladder.Fail && slices.Contains(j.Findings, battery.OtherAnswers) {
		// What the 40 questions say rests on the calibration.
		off = off || m.world.Brakes.WatchOnly
		if m.world.Brakes.CommonCause {
			result, m.out.Held = ladder.Spoiled, ladder.CommonCause
		}
	}
	calm := m.Level == ladder.Normal || m.Level == ladder.Watch
	if result == ladder.Pass && calm && m.CapTokens > 0 {
		// The run saw the stated window. A cheat that only shows it to benchmarks is found by
		// the next recall.
		m.CapTokens, m.MeasuredTokens, m.Refused = 0, 0, false
	}
	return m.finish(result, off)
}

// renew is a renewal by traffic: it counts as a pass of an offer that passed before. A watched
// offer wants a run, because one whose answers nobody can judge has no M that speaks
// against it.
func (m *move) renew(t battery.Traffic) error {
	if t.M = m.Process.M(); m.Run != ladder.Proven || m.Level != ladder.Normal || !t.Renews() {
		return refuse("the traffic does not stand for a benchmark")
	}
	return m.finish(ladder.Pass, false)
}

// finish takes the step of a run's result.
func (m *move) finish(result ladder.Result, off bool) error {
	to, e, held, err := ladder.AfterRun(m.Run, result, off)
	if err != nil {
		return refuse("%v", err)
	}
	if held != ladder.NotHeld {
		m.out.Held = held
	}
	m.Run, m.RunAt, m.LastResult = to, m.at, result
	if e.Lane != "" {
		m.BenchLane = e.Lane
	}
	switch result {
	case ladder.Pass:
		m.PassedAt = m.at
		m.tell(Benchmark, string(result), e)
	case ladder.Fail:
		m.unclean()
		if e.Slash > 0 {
			m.sanction(Benchmark, string(result), e)
			break
		}
		m.tell(Benchmark, string(result), e)
	case ladder.Spoiled, ladder.Expire, ladder.Undo:
	}
	return nil
}
