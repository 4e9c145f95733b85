// Package standing keeps everything that is known against and for one offer, and decides
// what each event changes.
//
// A State moves by Apply alone, a pure function of the state, an event, a time and a World.
// The world is whatever else the decision depends on, in plain values. Evidence keeps all
// four with the state that came of them, so that a replay (package replay) computes the
// same bits, and finds whatever somebody changed.
//
// The rules are those of the packages that Apply calls: what an answer says (judge), what
// observations are worth (evidence), the ladders of misrepresentation and of benchmarks
// (ladder, battery), the measured window (window), trust (trust). What is decided here is
// their order:
//
//   - a probe moves evidence, recovery and the hours of a notice, or in confirm the
//     confirmation alone; then the ladder takes at most one step (judged.go, step.go);
//   - a benchmark run moves the ladder of benchmarks (run.go);
//   - a penalty is open until settlement says what became of it (penalty.go);
//   - an offer whose probes the provider voids is in the probe lane (unjudged.go);
//   - an operator may void observations, agree to a penalty, or refuse it (penalty.go);
//   - time alone ends what lasts so long (tick.go).
//
// Apply never panics. It returns ErrEvent for an event that cannot be in the state, and the
// state that was. It knows nothing of repeated delivery: the store gives each event to it
// once.
package standing

import (
	"slices"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/trust"
	"svc.internal/services/verifier/internal/window"
)

// State is everything that is known against and for one offer. New makes it. Times are in
// UTC and whole microseconds, which is what the database keeps; the zero time is never.
// A State is a value: Apply returns another one and leaves what it was given as it is.
type State struct {
	// Process is the evidence, M. It was last set to 0 at ResetAt.
	Process evidence.Process
	ResetAt time.Time
	// Pairs is F.
	Pairs evidence.Pairs
	// Level is the ladder's, since Since.
	Level ladder.Level
	Since time.Time
	// NoticedAt is when the last notice was given, Led the family that led to it, and
	// AvoidHost the reference host whose scores did, which does not score in confirm.
	NoticedAt time.Time
	Led       evidence.Family
	AvoidHost string
	// LastHost is the reference host of the last exceedance, which was at ExceededAt.
	LastHost   string
	ExceededAt time.Time
	// Recovery is the way back, from Notice on. Hours are at most MaxHours different UTC
	// hours with b = 1 since M was last set to 0, in hours since 1970, ascending.
	Recovery evidence.Recovery
	Hours    []int64
	// Confirmation is meaningful in Confirm. Tried reports whether one has ended without
	// proof since the last way back, at ConfirmEndedAt.
	Confirmation   evidence.Confirmation
	Tried          bool
	ConfirmEndedAt time.Time
	// RecoveredAt is when the last recovery was. The fresh M lives on for CleanPeriod.
	RecoveredAt time.Time
	// Run is the ladder of benchmarks. RunAt and LastResult are those of the last run,
	// PassedAt that of the last pass, and Asked is when the provider last asked for one.
	Run        ladder.Run
	RunAt      time.Time
	LastResult ladder.Result
	PassedAt   time.Time
	Asked      time.Time
	// MisrepLane and BenchLane are the lanes of the two ladders; the worse counts.
	MisrepLane, BenchLane trust.Lane
	// CapTokens is the context window that is shown and routed at most, 0 for no cap.
	CapTokens int64
	// Measurement is under way or was the last, nil if none was. Refused reports that it
	// began with a refusal, and MeasuredTokens is the last result, 0 without one.
	Measurement    *window.Measurement
	Refused        bool
	MeasuredTokens int64
	// Passed is n of trust as of PassedSince.
	Passed      float64
	PassedSince time.Time
	// RecalledAt is when a recall last passed that was as long as what is Owed.
	RecalledAt time.Time
	Owed       Owed
	// SilentAt are the last voids that the provider caused, at most ladder.SilentVoids.
	SilentAt []time.Time
	// Unjudged are the scores of probes that the provider voids.
	Unjudged Unjudged
	// FilesWrongAt is when the first of two wrong fingerprints came.
	FilesWrongAt time.Time
	// Last are the last observations, for the guard against common causes.
	Last Last
	// Taken counts observations by week.
	Taken Taken
	// UncleanAt is when something last spoke against the provider: a watch, a notice, a
	// penalty or a failed benchmark. CleanedAt is when nothing had for
	// ladder.CleanPeriod; penalties that are older than that do not count any more.
	UncleanAt, CleanedAt time.Time
	// Open are the penalties of which settlement has not said the last word, at most
	// MaxOpen.
	Open []Penalty
}

// The bounds of a state.
const (
	// MaxHours is how many hours with b = 1 are kept; a penalty needs no more.
	MaxHours = ladder.PenaltyHours
	// MaxOpen bounds the open penalties. While so many are open, no further one is opened.
	MaxOpen = 4
)

// Kind is what a verdict or a penalty is for.
type Kind string

// The kinds.
const (
	Misrepresentation Kind = "misrepresentation"
	Benchmark         Kind = "benchmark"
)

// Penalty is one that is not final.
type Penalty struct {
	Verdict probe.VerdictID
	Kind    Kind
	// Pending reports that an operator must agree first. Slash and Remove are what they
	// agree to.
	Pending bool
	Slash   ladder.BasisPoints
	Remove  bool
}

// New returns the state of an offer that was first seen now.
func New(now time.Time) State {
	now = micros(now)
	return State{
		ResetAt: now, Level: ladder.Normal, Since: now,
		Recovery: evidence.NewRecovery(evidence.NoFamily), Confirmation: evidence.NewConfirmation(),
		Run: ladder.Unproven, MisrepLane: trust.Main, BenchLane: ladder.Unproven.Lane(),
		PassedSince: now,
	}
}

// OpenPenalty returns the open penalty of a kind, the oldest of several.
func (s State) OpenPenalty(k Kind) (Penalty, bool) {
	i := slices.IndexFunc(s.Open, func(p Penalty) bool { return p.Kind == k })
	if i < 0 {
		return Penalty{}, false
	}
	return s.Open[i], true
}

// HeldLane is the worse of the lanes that answers led to: that of the ladder of
// misrepresentation, and that of an offer that nobody can judge. An account that takes the
// place of this one inherits it.
func (s State) HeldLane() trust.Lane { return trust.Worse(s.MisrepLane, s.Unjudged.Lane()) }

// clone returns a state that shares no memory with s.
func (s State) clone() State {
	s.Hours, s.SilentAt, s.Open = slices.Clone(s.Hours), slices.Clone(s.SilentAt), slices.Clone(s.Open)
	if s.Measurement != nil {
		m := *s.Measurement
		s.Measurement = &m
	}
	return s
}

// micros returns a time as a state keeps it: between 1970 and the year 9999.
func micros(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Microsecond)
	switch {
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t
}

var (
	earliest = time.UnixMicro(1).UTC()
	latest   = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
)

// lasted returns how long ago a time was; a time that is yet to come was just now, because
// a clock that is set back ends no waiting.
func lasted(since, now time.Time) time.Duration { return max(0, now.Sub(since)) }
