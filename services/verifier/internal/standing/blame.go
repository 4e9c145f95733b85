package standing

import (
	"slices"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// unjudgedSince is the first version of records that move scores of voids.
const unjudgedSince = 2

// unjudged moves the scores by a hidden probe. While a common cause is suspected none moves.
func (m *move) unjudged(r judge.Record, j judge.Judgement) {
	if r.Version < unjudgedSince || r.Plan.Flow != probe.Hidden || m.world.Brakes.CommonCause {
		return
	}
	for _, f := range evidence.Families() {
		switch v, void := j.Voids[f]; {
		case void && blames(r, f, v):
			m.Unjudged.observe(f, true, m.at)
		case !void && speaks(j, f):
			m.Unjudged.observe(f, false, m.at)
		}
	}
}

// speaks reports whether a probe says something of a family, calibrated or not.
func speaks(j judge.Judgement, f evidence.Family) bool {
	if f == evidence.Sampled && len(j.Ratios) > 0 || len(j.Parts[f]) > 0 {
		return true
	}
	return slices.ContainsFunc(j.Observations, func(o evidence.Observation) bool { return o.Family() == f })
}

// blames reports whether the provider is to blame that a probe says nothing of a family: by
// what it sent, or because it sent it too slowly. A family without a calibration that holds
// blames nobody. Engines write tokens
// in ways of their own, so that how stated log-probabilities are cut is held only against
// engines of which honest hosts were calibrated; that there are none, against all.
func blames(r judge.Record, f evidence.Family, v statistic.Void) bool {
	c, err := calibration.Decode(r.Calibrations[f.String()])
	slow := v == statistic.TooSlow
	if !v.Provider() && !slow || err != nil || c.Rules < r.Version {
		return false
	}
	if f != evidence.Logprobs || v == statistic.NoLogprobs || slow || r.Answer.Cut != "" {
		return true
	}
	return c.Stratum.Engine != "" && c.Stratum.Engine == r.Plan.Stratum.Engine
}

// recalled moves the time of the last passed recall.
func (m *move) recalled(r judge.Record, j judge.Judgement) {
	if r.Version < unjudgedSince {
		if j.Recalled {
			m.RecalledAt = m.at
		}
		return
	}
	if !m.Owed.at.IsZero() && lasted(m.Owed.at, m.at) >= owedLapse {
		m.Owed = Owed{}
	}
	switch {
	case j.Recalled && m.Owed.pays(r.Plan.PromptTokens):
		m.RecalledAt, m.Owed = m.at, Owed{}
	case evaded(r, j):
		m.Owed = Owed{tokens: max(m.Owed.tokens, int64(r.Plan.PromptTokens)), at: m.at}
	}
}

// evaded reports whether the provider failed or voided a hidden recall, or answered it so
// slowly, or with so much, that it was left. A prompt that it refuses as too long caps the
// window instead.
func evaded(r judge.Record, j judge.Judgement) bool {
	if r.Plan.Kind != probe.Recall || r.Plan.Flow != probe.Hidden || j.Refused {
		return false
	}
	for _, v := range j.Voids {
		if v.Provider() {
			return true
		}
	}
	return j.Failed || r.Answer.Cut != ""
}
