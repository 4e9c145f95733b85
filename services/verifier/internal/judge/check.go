package judge

import (
	"errors"
	"fmt"
	"slices"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
)

// ErrRecord is the error for a record that cannot be judged, because what the verifier
// itself wrote there cannot be. What a provider or a reference sent is never an error: it
// is void.
var ErrRecord = errors.New("not a record of a probe")

// The bounds of a record.
const (
	// MaxScores bounds the scores: of the model by two hosts, and of each alternative.
	MaxScores = 2 + evidence.Alternatives
	// MaxChunks bounds the chunks of an answer.
	MaxChunks = 8_192
	// MaxHost bounds the name of a reference host.
	MaxHost = 256
	// MaxRequest bounds the body that was sent.
	MaxRequest = 12 << 20
)

// check returns ErrRecord for what the verifier itself cannot have written.
func (r Record) check() error {
	if r.Version < 1 || r.Version > Version {
		return bad("version %d, want 1 to %d", r.Version, Version)
	}
	if err := r.Plan.Check(); err != nil {
		return bad("%v", err)
	}
	switch {
	case !slices.Contains(probe.Kinds(), r.Plan.Kind):
		return bad("the kind %.40q", string(r.Plan.Kind))
	case r.Plan.Flow != probe.Hidden && r.Plan.Flow != probe.Visible:
		return bad("the flow %.40q", string(r.Plan.Flow))
	case r.Plan.Flow == probe.Visible && r.Plan.Feeds != evidence.NoFamily && !slices.Contains(shown, r.Plan.Feeds):
		return bad("V cannot be fed by %v", r.Plan.Feeds)
	case len(r.Answer.Raw) > statistic.MaxBody || len(r.Earlier) > statistic.MaxBody || len(r.Request) > MaxRequest:
		return bad("%d, %d and %d bytes", len(r.Request), len(r.Answer.Raw), len(r.Earlier))
	case r.Answer.Cut != "" && r.Answer.Cut != Slow && r.Answer.Cut != Large:
		return bad("an answer that was cut because it was %.40q", string(r.Answer.Cut))
	case len(r.Answer.Chunks) > MaxChunks || len(r.Scores) > MaxScores:
		return bad("%d chunks, %d scores", len(r.Answer.Chunks), len(r.Scores))
	case len(r.Needles) != len(r.Plan.FromEnd):
		return bad("%d needles at %d places", len(r.Needles), len(r.Plan.FromEnd))
	case slices.ContainsFunc(r.Plan.Asked, func(i int) bool { return i < 0 || i >= len(r.Needles) }):
		return bad("a needle is asked for that is not there")
	case slices.ContainsFunc(r.Plan.Alternatives, func(g evidence.Alternative) bool { return g >= evidence.Alternatives }):
		return bad("an alternative that is none")
	case slices.ContainsFunc(r.Scores, Score.tooLarge):
		return bad("a score or the name of its host is too large")
	case len(r.Calibrations) > len(evidence.Families()):
		return bad("%d calibrations", len(r.Calibrations))
	}
	return nil
}

func (s Score) tooLarge() bool { return len(s.Host) > MaxHost || len(s.Raw) > statistic.MaxBody }

// shown are the families whose statistics may feed V. Family R has no b, and files are E.
var shown = []evidence.Family{evidence.Greedy, evidence.Logprobs, evidence.Recall, evidence.Usage}

// calibrations decodes those of the record that hold for its rules.
func (r Record) calibrations() (map[evidence.Family]calibration.Calibration, error) {
	out := make(map[evidence.Family]calibration.Calibration, len(r.Calibrations))
	for name, form := range r.Calibrations {
		f, err := evidence.ParseFamily(name)
		if err != nil {
			return nil, bad("%v", err)
		}
		c, err := calibration.Decode(form)
		switch {
		case err != nil:
			return nil, bad("%v", err)
		case c.Family != f || c.Stratum.Model != r.Plan.Stratum.Model:
			return nil, bad("the calibration of %v is of %v of %.80q", f, c.Family, c.Stratum.Model)
		}
		if holds := r.Version < trimmed || c.Rules >= r.Version; holds {
			out[f] = c
		}
	}
	return out, nil
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRecord, fmt.Sprintf(format, args...))
}
