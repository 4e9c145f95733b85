package judge

import (
	"maps"
	"slices"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// Judge computes what a record says. It is pure: the same record gives the same judgement.
// It fails with ErrRecord.
func Judge(r Record) (Judgement, error) {
	if err := r.check(); err != nil {
		return Judgement{}, err
	}
	chosen, err := r.calibrations()
	if err != nil {
		return Judgement{}, err
	}
	j := judging{
		Record: r, calibrations: chosen,
		out: Judgement{
			Parts: map[evidence.Family]statistic.Parts{}, Voids: map[evidence.Family]statistic.Void{},
			Ratios:       map[evidence.Alternative]float64{},
			Calibrations: map[evidence.Family]calibration.Hash{},
		},
	}
	if err := j.judge(); err != nil {
		return Judgement{}, err
	}
	slices.SortFunc(j.out.Observations, func(a, b evidence.Observation) int { return int(a.Family()) - int(b.Family()) })
	j.out.Silent = slices.ContainsFunc(slices.Collect(maps.Values(j.out.Voids)), statistic.Void.Provider)
	return j.out, nil
}

// judge fills the judgement.
func (j *judging) judge() error {
	asked := j.asked()
	if v := j.usable(); v != statistic.None {
		j.out.Failed, j.out.Refused = j.Answer.Failed, j.Answer.TooLong
		j.void(v, asked...)
		return nil
	}
	if j.Plan.Kind == probe.Fingerprint {
		j.files()
		return nil
	}
	var v statistic.Void
	if j.reply, v = read(j.Answer.Raw); v != statistic.None {
		j.void(v, asked...)
		return nil
	}
	switch j.Plan.Kind {
	case probe.Embedding:
		return j.embedding(asked)
	case probe.Recall, probe.Measure, probe.Check:
		return j.recall(asked)
	case probe.Greedy, probe.Sampled, probe.Logprobs, probe.Replay, probe.Fingerprint:
	}
	return j.scored(asked)
}
