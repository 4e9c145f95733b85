package payout

import "svc.internal/pkg/fault"

// State is where a payout stands.
type State string

// The states.
const (
	// Requested waits for the books, for screening, and for an operator where it is large.
	Requested State = "requested"
	// Approved waits for its turn to be sent.
	Approved State = "approved"
	// Signing has its nonce and content, for ever.
	Signing State = "signing"
	// Submitted has signed bytes that may be sent.
	Submitted State = "submitted"
	// Confirmed is final: a final block has paid it.
	Confirmed State = "confirmed"
	// Failed is final: it was provably not paid, and the money is payable again.
	Failed State = "failed"
	// Cancelled is final: it was taken back before it had a nonce.
	Cancelled State = "cancelled"
)

// States returns every state.
func States() []State {
	return []State{Requested, Approved, Signing, Submitted, Confirmed, Failed, Cancelled}
}

// Final reports whether no cause leads out of the state.
func (s State) Final() bool { return s == Confirmed || s == Failed || s == Cancelled }

// Cause is what changes a payout.
type Cause string

// The causes.
const (
	// Ask begins it.
	Ask Cause = "request"
	// Reserve: the books have set the money aside (line 16).
	Reserve Cause = "reserve"
	// Refuse: the books did not, so there is nothing to give back.
	Refuse Cause = "refuse"
	// Consent is an operator's word where two are needed.
	Consent Cause = "consent"
	// Approve is the last word that it needs: the platform's or an operator's.
	Approve Cause = "approve"
	// Cancel is the owner's or an operator's wish. The money is given back next (End).
	Cancel Cause = "cancel"
	// Reject: the transfer would fail on chain. The money is given back next (End).
	Reject Cause = "reject"
	// End: the money of a payout that was not sent has been given back (line 18).
	End Cause = "end"
	// Send fixes nonce and content.
	Send Cause = "send"
	// Submit: bytes are stored.
	Submit Cause = "submit"
	// Confirm: the books have the final receipt of success (line 17).
	Confirm Cause = "confirm"
	// Fail: the final receipt is a revert, or that of the cancel, and the money has been given back (line 18).
	Fail Cause = "fail"
)

// Causes returns every cause but Ask, which begins a payout.
func Causes() []Cause {
	return []Cause{Reserve, Refuse, Consent, Approve, Cancel, Reject, End, Send, Submit, Confirm, Fail}
}

// transitions is the whole machine: a transition that is not in it is not allowed. A cause that leads to its own state
// changes a fact of the payout. End leads to the state that was decided for the payout (ends_as). The database refuses
// every pair of states that is not here (table payout_transition).
var transitions = map[State]map[Cause][]State{
	Requested: {
		Reserve: {Requested}, Refuse: {Failed}, Consent: {Requested}, Approve: {Approved}, Cancel: {Requested},
		End: {Cancelled},
	},
	Approved: {
		Cancel: {Approved}, Reject: {Approved}, End: {Cancelled, Failed}, Send: {Signing},
	},
	Signing:   {Submit: {Submitted}},
	Submitted: {Confirm: {Confirmed}, Fail: {Failed}},
}

// After returns the states that a cause leads to from a state.
func (s State) After(c Cause) []State { return transitions[s][c] }

func notAllowed(format string, args ...any) error {
	return fault.New(fault.Precondition, fault.TransitionNotAllowed, format, args...)
}
