// Package judge computes what one probe says: a Record in, a Judgement out, nothing else
// read. The same record gives the same judgement to the last bit on every machine, which
// is what replay rests on.
package judge

import (
	"time"

	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/statistic"
	"svc.internal/services/verifier/internal/window"
)

// Version is that of the rules and of the form of records. It grows with every change that
// may give another judgement. Records of earlier versions are judged by their own rules.
const Version = 3

// trimmed is the version from which on
//
//   - answers are scored and joined without the blanks around them, and by tokens that are
//     parts of a character;
//   - a list that does not join is the provider's fault only where it joins to the question;
//   - a recall passes where family D has an observation of it;
//   - calibrations judge that were made by the rules of the record. Those of version 3 have
//     recalls that ask for all needles: a stretch of lost ones is longer among 16 than among 8.
const trimmed = 2

// wholeFirst is the version from which on an answer begins with the first token of its first
// character. Before, it began with the last token of that character where engines write the
// character with it, so that family C compared the log-probabilities of two other tokens.
const wholeFirst = 3

// countsCuts is the version from which on an answer that is too slow or too large is void by the
// provider's doing, instead of one that failed.
const countsCuts = 3

// Chunk is when a piece of an answer arrived, and how many bytes it had.
type Chunk struct {
	AtMicros int64 `json:"at_us"`
	Bytes    int   `json:"bytes"`
}

// Answer is what came back from the provider.
type Answer struct {
	// RequestID names the request at the gateway; empty for a visible probe.
	RequestID string `json:"request_id,omitempty"`
	// Served is the provider that served it.
	Served string `json:"served"`
	// Status is the HTTP status, 0 where there is none. Complete reports whether the
	// answer ended as its protocol demands, without an error.
	Status   int  `json:"status"`
	Complete bool `json:"complete"`
	// Failed reports that the provider failed (lost, timed out, 5xx), which is F's.
	Failed bool `json:"failed,omitempty"`
	// TooLong reports that the provider or its engine refused the prompt as too long.
	TooLong bool `json:"too_long,omitempty"`
	// Cut is why the answer was left before its end; empty for an answer that was not, and for
	// an answer that the plan leaves.
	Cut Cut `json:"cut,omitempty"`
	// Raw is the body, a stream's events included, at most statistic.MaxBody bytes.
	Raw []byte `json:"raw"`
	// Chunks are at most 8,192; the pieces of a longer answer are joined.
	Chunks []Chunk `json:"chunks,omitempty"`
	// Claimed reports whether the engine's own claim is known, from the usage event of
	// the request (hidden) or from the body (visible).
	Claimed       bool  `json:"claimed,omitempty"`
	ClaimedPrompt int64 `json:"claimed_prompt,omitempty"`
	ClaimedOutput int64 `json:"claimed_output,omitempty"`
}

// Cut is why an answer that had begun was left before its end.
type Cut string

// The reasons.
const (
	// Slow answers took several times as long as their tokens need at the slowest speed that
	// passes a benchmark (package flow).
	Slow Cut = "slow"
	// Large answers had several times as many bytes as engines write for their tokens.
	Large Cut = "large"
)

// Score is what a reference said of the answer, or answered itself.
type Score struct {
	// Host is the reference's provider and node.
	Host string `json:"host"`
	// Class is the quantization class that the reference serves.
	Class uint8 `json:"class"`
	// Alternative names the alternative of family R that this reference stands for;
	// empty for the model itself.
	Alternative string `json:"alternative,omitempty"`
	// Raw is the body of the engine's answer.
	Raw []byte `json:"raw"`
}

// Record is everything that a judgement depends on.
type Record struct {
	Version int        `json:"version"`
	Plan    probe.Plan `json:"plan"`
	// Sent and Ended are by the verifier's database.
	Sent  time.Time `json:"sent"`
	Ended time.Time `json:"ended"`
	// Request is the body that was sent.
	Request []byte `json:"request"`
	// Needles are the digits of the needles, in the order of Plan.FromEnd.
	Needles []string `json:"needles,omitempty"`
	Answer  Answer   `json:"answer"`
	// Scores are what references said: of the model itself first, then alternatives. For
	// recall the first is the reference's own answer to the same request.
	Scores []Score `json:"scores,omitempty"`
	// Expected are the digests that a reference returned to the same fingerprint
	// challenge, as its JSON object.
	Expected []byte `json:"expected,omitempty"`
	// Earlier is the answer to the probe that a Replay repeats.
	Earlier []byte `json:"earlier,omitempty"`
	// Calibrations are the binary forms of those that judge, by family name.
	Calibrations map[string][]byte `json:"calibrations,omitempty"`
}

// Judgement is what a record says.
type Judgement struct {
	// Observations are at most one a family, in the order of families.
	Observations []evidence.Observation
	// Parts and Voids explain them by family. A family that was asked and says nothing
	// has a Void.
	Parts map[evidence.Family]statistic.Parts
	// Ratios are the likelihood ratios of family R, which has no parts.
	Ratios map[evidence.Alternative]float64
	Voids  map[evidence.Family]statistic.Void
	// Calibrations are the hashes of those that judged.
	Calibrations map[evidence.Family]calibration.Hash
	// Failed reports that the provider failed the probe: no family hears of it.
	Failed bool
	// Silent reports that declared log-probabilities are missing or unusable by the
	// provider's fault.
	Silent bool
	// Compared reports whether two hosts scored the answer, and Apart how far their X is
	// apart, an X above calibration.Tau counting as Tau: what both call an exceedance is no
	// difference of theirs.
	Compared bool
	Apart    float64
	// Needles are those of a measuring probe, and Refused that it was refused as too long.
	Needles []window.Needle
	Refused bool
	// Recalled reports that a recall passed, CheckPassed that a Check did.
	Recalled, CheckPassed bool
	// FilesWrong reports that a fingerprint differs. Two at least 24 hours apart are one
	// b of family E, which package standing decides.
	FilesWrong, FilesRight bool
}

// Host returns the reference host that scored the answer, "" where none did.
func (r Record) Host() string {
	if len(r.Scores) == 0 {
		return ""
	}
	return r.Scores[0].Host
}
