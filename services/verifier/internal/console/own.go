package console

import (
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
	"svc.internal/services/verifier/internal/trust"
)

// Tally counts the hidden probes of a day and kind.
type Tally struct {
	Model           string
	Kind            probe.Kind
	Day             time.Time
	Probes, Counted int
}

// OfTally is what a provider is told of a tally. It reports false while the day is too
// young.
func OfTally(t Tally, now time.Time) (Challenge, bool) {
	day := t.Day.UTC().Truncate(24 * time.Hour)
	if now.Before(day.Add(24*time.Hour + Delay)) {
		return Challenge{}, false
	}
	c := Challenge{Model: t.Model, Flow: probe.Hidden, Kind: t.Kind, At: day, Result: Counted}
	if 2*t.Counted < t.Probes {
		c.Result = Void
	}
	return c, true
}

// ShownBefore is the end of the youngest day whose hidden probes are shown at a time.
func ShownBefore(now time.Time) time.Time {
	return now.UTC().Add(-Delay).Truncate(24 * time.Hour)
}

// Own is where a provider is with one model, as it is told.
type Own struct {
	Model     string
	Lane      trust.Lane
	CapTokens int64
	// Standing is none, notice or penalty. Kind and Since are of a notice or a penalty.
	Standing string
	Kind     string
	Since    time.Time
	// Benchmark is the standing of benchmarks, and ExpiresAt until when the last pass counts.
	Benchmark ladder.Run
	ExpiresAt time.Time
	NextStep  string
	Penalty   probe.VerdictID
	// LaneReason is why the lane is not main, one of the words of package standing, and
	// Unjudged the family that nobody can judge of the offer, NoFamily for none.
	LaneReason string
	Unjudged   evidence.Family
}

// OwnOf is what a provider is told of the standing of one of its models.
func OwnOf(model string, s standing.State, p standing.Published) Own {
	own := Own{Model: model, Lane: p.Lane, CapTokens: p.CapTokens, Standing: "none", Benchmark: s.Run,
		LaneReason: s.Reason(p.Lane, p.Proven), Unjudged: s.Unjudged.Family()}
	if p.Proven {
		own.ExpiresAt = p.PassedAt.Add(standing.Fresh)
	}
	switch s.Level {
	case ladder.Notice, ladder.Confirm:
		own.Standing, own.Kind, own.Since = "notice", kindOf(s.Led), s.NoticedAt
	case ladder.Penalty:
		own.Standing, own.Kind, own.Since = "penalty", kindOf(s.Led), s.Since
	case ladder.Normal, ladder.Watch: // a watch is silent
	}
	for _, open := range s.Open {
		if !open.Pending {
			own.Penalty = open.Verdict
			if open.Kind == standing.Benchmark && own.Standing == "none" {
				own.Standing, own.Kind, own.Since = "penalty", string(open.Kind), s.RunAt
			}
		}
	}
	own.NextStep = nextStep(own)
	return own
}

func kindOf(f evidence.Family) string {
	if f == evidence.NoFamily {
		return ""
	}
	return f.String()
}

// nextStep says what a provider can do, in words.
func nextStep(o Own) string {
	switch {
	case o.Penalty != probe.VerdictID{}:
		return "Read the evidence of the penalty, and appeal within 48 hours if it is wrong " +
			"(POST /api/v1/provider/penalties/{penalty_id}/appeal)."
	case o.Standing == "notice" && o.Kind == evidence.Recall.String():
		return "State the context window that the engine really takes, or serve the stated window. The cap is " +
			"lifted once answers agree with it."
	case o.Standing == "notice":
		return "Serve the model, the quantization and the context window that are stated, or change what is stated. " +
			"Correct answers lift the notice by themselves."
	case o.Benchmark == ladder.Warned, o.Benchmark == ladder.Fined, o.Benchmark == ladder.Removed,
		o.Benchmark == ladder.Lapsed:
		return "The last benchmark was not passed. Mend what it found and ask for another (POST " +
			"/api/v1/provider/benchmarks)."
	case o.Unjudged == evidence.Logprobs:
		return "Answers lack the log-probabilities that the model declares, or these do not fit the text. Return them as " +
			"the engine writes them, or declare none. The model gets more requests once they can be compared."
	case o.Unjudged != evidence.NoFamily:
		return "Answers cannot be compared, because their text is not one that an engine writes. Return the text as the " +
			"engine writes it. The model gets more requests once answers can be compared."
	case o.ExpiresAt.IsZero():
		return "The model waits for its benchmark, which runs by itself once the model is connected and healthy."
	default:
		return "Nothing: the model is served."
	}
}

// Visible is a visible challenge.
type Visible struct {
	Model string
	Kind  probe.Kind
	At    time.Time
	// Done reports whether it was carried out, and Exceeded whether an observation of it
	// exceeded.
	Done, Exceeded bool
}

// OfVisible is what a provider is told of a visible challenge. That files differ is no
// secret, because nothing but their bytes decides it.
func OfVisible(v Visible) Challenge {
	c := Challenge{Model: v.Model, Flow: probe.Visible, Kind: v.Kind, At: v.At, Result: Counted}
	switch {
	case !v.Done:
		c.Result = Void
	case v.Kind == probe.Fingerprint && v.Exceeded:
		c.Result = Differs
	}
	return c
}
