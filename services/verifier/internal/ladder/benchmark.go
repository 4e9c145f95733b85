package ladder

import (
	"fmt"
	"time"
)

// Run is where a provider stands with one model's benchmarks.
type Run string

// The standings of benchmarks.
const (
	// Unproven never passed. Failures are warnings.
	Unproven Run = "unproven"
	// Proven passed last time.
	Proven Run = "proven"
	// Warned failed once since it passed, and is not routed.
	Warned Run = "warned"
	// Fined failed twice in a row.
	Fined Run = "fined"
	// Removed failed three times in a row.
	Removed Run = "removed"
	// Lapsed failed, and was clean for CleanPeriod: not routed, and with no failure that
	// counts.
	Lapsed Run = "lapsed"
)

// Runs returns every standing.
func Runs() []Run { return []Run{Unproven, Proven, Warned, Fined, Removed, Lapsed} }

// Result is what moves a provider from one standing to another.
type Result string

// The results.
const (
	// Pass and Fail are judged runs, and Spoiled is a void one.
	Pass    Result = "pass"
	Fail    Result = "fail"
	Spoiled Result = "void"
	// Expire follows CleanPeriod without a failure.
	Expire Result = "expire"
	// Undo reverses the penalty of the last failure.
	Undo Result = "undo"
)

// Results returns every result.
func Results() []Result { return []Result{Pass, Fail, Spoiled, Expire, Undo} }

// runs is the whole machine of benchmarks. A pair that is not in it is not allowed. A
// removed provider that failed again stays removed without another penalty, because it
// earns nothing and only asks to be let in.
var runs = map[Run]map[Result]Run{
	Unproven: {Pass: Proven, Fail: Unproven, Spoiled: Unproven, Expire: Unproven},
	Proven:   {Pass: Proven, Fail: Warned, Spoiled: Proven, Expire: Proven},
	Warned:   {Pass: Proven, Fail: Fined, Spoiled: Warned, Expire: Lapsed},
	Fined:    {Pass: Proven, Fail: Removed, Spoiled: Fined, Expire: Lapsed, Undo: Warned},
	Removed:  {Pass: Proven, Fail: Removed, Spoiled: Removed, Expire: Lapsed, Undo: Fined},
	Lapsed:   {Pass: Proven, Fail: Warned, Spoiled: Lapsed, Expire: Lapsed},
}

// Routed reports whether the model may be routed in this standing.
func (r Run) Routed() bool { return r == Proven }

// AfterRun returns the standing after the result, the effects, and why a penalty was not
// opened. A held penalty leaves a provider warned: with penalties off nobody is fined or
// removed, and the failures in a row stay at one.
func AfterRun(from Run, result Result, penaltiesOff bool) (Run, Effects, Held, error) {
	to, ok := runs[from][result]
	if !ok {
		return "", Effects{}, NotHeld, fmt.Errorf("%w: %s cannot take %s", ErrTransition, from, result)
	}
	switch {
	case result == Fail && penaltiesOff && (to == Fined || to == Removed && from != Removed):
		return from, Effects{Tell: true, Lane: ShutLane}, PenaltiesOff, nil
	case result == Fail:
		return to, failed(from, to), NotHeld, nil
	case result == Pass:
		return to, Effects{Lane: MainLane}, NotHeld, nil
	case result == Undo:
		return to, Effects{Tell: true, VoidObservations: true, Reinstate: from == Removed, Count: -1}, NotHeld, nil
	}
	return to, Effects{}, NotHeld, nil
}

// failed are the effects of a failure.
func failed(from, to Run) Effects {
	e := Effects{Tell: true, Lane: ShutLane}
	switch {
	case to == Fined:
		e.Slash, e.Count = FirstPenalty, 1
	case to == Removed && from != Removed:
		e.Slash, e.Remove, e.NeedsOperator, e.Count = NextPenalty, true, true, 1
	}
	return e
}

// AskPause lies between two benchmarks that a provider asks for.
const AskPause = time.Hour

// MayRun reports whether a benchmark may run: a first one, a renewal of a passed one, or
// one that was asked for at least AskPause after the last. A failed benchmark is never
// run again unasked, because a row of failures costs money.
func MayRun(r Run, asked, ever bool, sinceLast time.Duration) bool {
	switch {
	case !ever:
		return true
	case asked:
		return sinceLast >= AskPause
	}
	return r == Proven
}
