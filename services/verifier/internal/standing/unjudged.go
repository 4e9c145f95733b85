package standing

import (
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/trust"
)

// The rule for offers that nobody can judge. Who is never judged is never caught, so an offer
// whose hidden probes the provider voids goes to the probe lane until one counts again.
//
// Each family has a score: +1 for a probe that the provider voids, −3 for one that counts,
// between 0 and 20. The lane is the probe lane while a score is 20. A provider that is
// judged by one probe of twenty is therefore in main for 3 probes of 23. One that voids less
// than three of four is judged by the rest.
//
// # Honest providers
//
// Be v the chance that an honest probe is void by the provider's doing, whatever was before.
// The score is a random walk that stays at 0 or above. Where v < 3/4, the chance that it is
// at 20 after a probe is at most x^−20 (Lundberg's inequality), x > 1 being the root of
// v·x + (1−v)·x^−3 = 1. With evidence.Horizon probes a year for each of five families the
// chance of a year is at most
//
//	v      x     a year
//	.001   1000  10^−55
//	.01    100   10^−35
//	.05    20    10^−21
//	.15    6.65  4·10^−12
//	.25    3.95  1.2·10^−7
//
// # Slow providers
//
// An answer of at most 512 tokens to a prompt of at most 4,096 that is left because it is too
// slow is void by the provider's doing (package judge). It is left after 2 minutes, and what
// prompt and answer need at 250 and 1.25 tokens a second, and up to a minute more: 128 tokens
// behind 1,000 have 226 to 286 seconds, and 512 behind 4,096 have 546 to 606. The slowest
// provider that passes a benchmark (5 tokens a second, 5 seconds to the first) needs 31 and 107,
// so that an honest machine must be 5 to 7 times as slow as it once was, for 20 probes: ten
// hours at 48 a day, two and a half days at eight. Its consumers have waited as long. It is in
// main again with the first answer that counts, and nothing else follows: no watch and no
// evidence. Answers without a bound, and those that never begin, blame nobody: the first may be
// long by the model's doing, the second late by the platform's.
//
// # Measured
//
// Measured on the laboratory's model (package calibrate): 1 of 3,025 answers of honest hosts
// shows nothing, and all others join, so that v is at most .0016 with confidence .95. The
// chance is far below 10^−6 a year for every v up to .15, which leaves room for engines that
// cut texts otherwise.
const (
	// UnjudgedVoids is the score from which an offer is in the probe lane.
	UnjudgedVoids = 20
	// unjudgedCounts is what a probe that counts takes off a score.
	unjudgedCounts = 3
	// unjudgedLapse is after how long without a probe that asks for a family its score is
	// forgotten: the provider no longer declares log-probabilities, for example.
	unjudgedLapse = 14 * 24 * time.Hour
)

// Unjudged are the scores by family. The zero value is an offer that is judged.
type Unjudged struct {
	scores [takenFamilies]unjudged
}

// unjudged is the score of a family, at the last probe that moved it.
type unjudged struct {
	n  int
	at time.Time
}

// Family returns the first family that is not judged, NoFamily where all are.
func (k Unjudged) Family() evidence.Family {
	for i, s := range k.scores {
		if s.n >= UnjudgedVoids {
			return evidence.Family(i + 1)
		}
	}
	return evidence.NoFamily
}

// Lane is Probe while a family is not judged.
func (k Unjudged) Lane() trust.Lane {
	if k.Family() != evidence.NoFamily {
		return trust.Probe
	}
	return trust.Main
}

// observe moves the score of a family by a probe.
func (k *Unjudged) observe(f evidence.Family, void bool, at time.Time) {
	s := &k.scores[int(f)-1]
	if void {
		s.n = min(s.n+1, UnjudgedVoids)
	} else {
		s.n = max(s.n-unjudgedCounts, 0)
	}
	if s.at = at; s.n == 0 {
		*s = unjudged{}
	}
}

// lapse forgets scores of families that no probe asked for.
func (k *Unjudged) lapse(at time.Time) {
	for i, s := range k.scores {
		if s.n > 0 && at.Sub(s.at) >= unjudgedLapse {
			k.scores[i] = unjudged{}
		}
	}
}

// zero reports whether the offer has no score.
func (k Unjudged) zero() bool { return k == Unjudged{} }
