package bench

import (
	"time"

	"svc.internal/services/verifier/internal/battery"
)

// Facts are what the run measured so far.
func (r Run) Facts() battery.Facts {
	f := battery.Facts{
		Disturbed: r.Disturbed, ClassMedian: r.Setup.ClassMedian, Small: r.small() || r.Setup.Quick,
		StatedTokens: int64(r.Setup.StatedTokens), Quick: r.Setup.Quick, Uncalibrated: !r.Setup.Calibrated,
		MeasuredTokens: r.measured(),
	}
	f.First = r.speed(Alone, FirstTokens)
	for _, s := range []Stage{Repeat, SecondRepeat} {
		if len(r.in(s)) > 0 {
			f.Repeats = append(f.Repeats, r.speed(s, s))
		}
	}
	for _, p := range r.Reports {
		f.Asked++
		if p.Answered {
			f.Answered++
		}
		if p.Offline {
			f.Offline++
		}
	}
	f.Questions = r.observed(Questions)
	if len(r.in(Others)) > 0 {
		f.Again = append([]battery.Question{}, r.observed(Others)...)
	}
	return f
}

// in returns the reports of a stage.
func (r Run) in(s Stage) []Report {
	of := r
	of.Stage = s
	var in []Report
	for _, q := range of.questions() {
		if p, there := r.report(q.plan.ID); there {
			in = append(in, p)
		}
	}
	return in
}

// speed returns what two stages timed. Only answers to prompts of 4,096 tokens count for the
// time to first token.
func (r Run) speed(alone, first Stage) battery.Speed {
	var s battery.Speed
	for _, q := range r.alone(alone) {
		if p, there := r.report(q.plan.ID); there && p.Answered {
			s.Answers = append(s.Answers, battery.Timing{Tokens: p.Tokens, Took: p.took()})
		}
	}
	for _, q := range r.first(first) {
		if p, there := r.report(q.plan.ID); there && p.Answered && q.plan.PromptTokens == firstAt {
			s.FirstTokens = append(s.FirstTokens, micros(p.FirstMicros))
		}
	}
	return s
}

// took is how long the answer took from its first bytes to its last. An answer that came in
// one chunk is timed from its question, which understates its speed.
func (p Report) took() time.Duration {
	if p.Micros > 0 {
		return micros(p.Micros)
	}
	return micros(p.FirstMicros)
}

// observed returns the questions of a stage that are not void, at most as many as battery
// takes.
func (r Run) observed(s Stage) []battery.Question {
	var all []battery.Question
	for _, p := range r.in(s) {
		if p.Judged && r.Setup.Calibrated {
			all = append(all, battery.Question{ID: p.Plan.String(), Exceeded: p.Exceeded})
		}
	}
	return all[:min(len(all), battery.Questions)]
}

// measured returns the context window: the stated one less what lies before the oldest
// needle that came back, 0 while no recall was answered or where the connection was lost during
// those of the whole window, and the stated one where none can be asked.
func (r Run) measured() int64 {
	of := r
	of.Stage = Recalls
	asked := of.questions()
	if len(asked) == 0 {
		return int64(r.Setup.StatedTokens)
	}
	measured, offline, whole := 0, false, false
	for i, q := range asked {
		p, there := r.report(q.plan.ID)
		offline, whole = offline || p.Offline, whole || i > 0 && there && !p.Offline
		switch {
		case !there || q.plan.PromptTokens == 0:
		case p.Unknown && p.Answered:
			measured = max(measured, r.Setup.StatedTokens)
		case p.Oldest > 0 && q.name == asked[0].name:
			measured = max(measured, p.Oldest)
		case p.Oldest > 0:
			measured = max(measured, r.Setup.StatedTokens-(q.plan.PromptTokens-p.Oldest))
		}
	}
	if offline && !whole {
		return 0 // the whole window was not measured, because the connection was lost
	}
	if measured == 0 && len(r.in(Recalls)) > 0 {
		return 1 // not one needle came back: asked and lost is not unmeasured
	}
	return int64(min(measured, r.Setup.StatedTokens))
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
