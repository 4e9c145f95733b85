package ladder

import (
	"fmt"
	"time"

	"svc.internal/services/verifier/internal/trust"
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
	// Undo reverses a penalty of this ladder.
	Undo Result = "undo"
)

// Results returns every result.
func Results() []Result { return []Result{Pass, Fail, Spoiled, Expire, Undo} }

// runs is the whole machine of benchmarks. A pair that is not in it is not allowed. A
// removed provider that failed again stays removed without another penalty, because it
// earns nothing and only asks to be let in. An appeal may be won after later runs: a
// standing that such runs led to stays, because it says nothing of the failure that is
// undone.
var runs = map[Run]map[Result]Run{
	Unproven: {Pass: Proven, Fail: Unproven, Spoiled: Unproven, Expire: Unproven, Undo: Unproven},
	Proven:   {Pass: Proven, Fail: Warned, Spoiled: Proven, Expire: Proven, Undo: Proven},
	Warned:   {Pass: Proven, Fail: Fined, Spoiled: Warned, Expire: Lapsed, Undo: Warned},
	Fined:    {Pass: Proven, Fail: Removed, Spoiled: Fined, Expire: Lapsed, Undo: Warned},
	Removed:  {Pass: Proven, Fail: Removed, Spoiled: Removed, Expire: Lapsed, Undo: Fined},
	Lapsed:   {Pass: Proven, Fail: Warned, Spoiled: Lapsed, Expire: Lapsed, Undo: Lapsed},
}

// Routed reports whether the model may be routed in this standing.
func (r Run) Routed() bool { return r == Proven }

// Lane returns the lane of benchmarks in this standing.
func (r Run) Lane() trust.Lane {
	if r.Routed() {
		return trust.Main
	}
	return trust.Shut
}

// AfterRun returns the standing after the result, the effects, and why a penalty was not
// opened. A held penalty leaves a provider warned: with penalties off nobody is fined or
// removed, and the failures in a row stay at one.
func AfterRun(from Run, result Result, penaltiesOff bool) (Run, Effects, Held, error) {
	to, ok := runs[from][result]
	if !ok {
		return "", Effects{}, NotHeld, fmt.Errorf("%w: %s cannot take %s", ErrTransition, from, result)
	}
	if result == Fail && penaltiesOff && (to == Fined || to == Removed && from != Removed) {
		return from, Effects{Tell: true, Lane: from.Lane()}, PenaltiesOff, nil
	}
	e := Effects{Lane: to.Lane()}
	switch result {
	case Fail:
		e.Tell = true
		e.fine(from, to)
	case Undo:
		e.Tell, e.VoidObservations, e.Reinstate, e.Count = true, true, true, -1
	case Pass, Spoiled, Expire:
	}
	return to, e, NotHeld, nil
}

// fine adds the penalty of a failure.
func (e *Effects) fine(from, to Run) {
	switch {
	case to == Fined:
		e.Slash, e.Count = FirstPenalty, 1
	case to == Removed && from != Removed:
		e.Slash, e.Remove, e.NeedsOperator, e.Count = NextPenalty, true, true, 1
	}
}

// AskPause lies between two benchmarks that a provider asks for, and before a void one is
// repeated.
const AskPause = time.Hour

// MayRun reports whether a benchmark may run. last is the result of the last run, "" if none
// ran; sinceLast is the time since then. A first run and the renewal of a passed one may run
// at any time, and a run that was asked for may run AskPause after the last. A void run of an offer
// without a failure is repeated unasked after the same pause, because the platform was what
// failed. A failed benchmark is never run again unasked, because a row of failures costs
// money.
func MayRun(r Run, last Result, asked bool, sinceLast time.Duration) bool {
	switch {
	case last == "":
		return true
	case asked, last == Spoiled && (r == Unproven || r == Proven):
		return sinceLast >= AskPause
	}
	return r == Proven
}
