package provider

import (
	"time"

	"svc.internal/pkg/fault"
)

// Status decides who may connect and who earns. Offline is no status: it is shown instead
// of active when no node is connected.
type Status string

// The statuses.
const (
	// Pending connects and serves no consumers, because collateral, GPU or benchmark is
	// missing.
	Pending Status = "pending"
	// UnderReview connects and waits for an operator's decision.
	UnderReview Status = "under_review"
	// Approved connects. An operator agreed, and collateral is missing.
	Approved Status = "approved"
	// Activating connects. Collateral is there, and a machine or a benchmark is missing.
	Activating Status = "activating"
	// Active connects, serves and earns.
	Active Status = "active"
	// Suspended does not connect.
	Suspended Status = "suspended"
	// Rejected does not connect, and may ask for a review after ReapplyAfter. Verdicts may
	// keep it rejected, see Removal.
	Rejected Status = "rejected"
)

// Statuses returns every status.
func Statuses() []Status {
	return []Status{Pending, UnderReview, Approved, Activating, Active, Suspended, Rejected}
}

// MayConnect reports whether nodes of a provider in this status are let in.
func (s Status) MayConnect() bool { return s != Suspended && s != Rejected }

// Trigger is what moves a provider from one status to another.
type Trigger string

// The triggers.
const (
	// RequestReview is a provider's request that an operator look at the account.
	RequestReview Trigger = "request_review"
	// Approve and Reject are an operator's decisions in a review.
	Approve Trigger = "approve"
	Reject  Trigger = "reject"
	// ConfirmCollateral confirms collateral. It moves only providers that are approved;
	// for all others it is a fact that is kept.
	ConfirmCollateral Trigger = "collateral_confirmed"
	// Qualify follows by itself once collateral, machine and benchmark hold. It begins a
	// probation of 24 hours.
	Qualify Trigger = "qualify"
	// FailProbation ends an activation with too little uptime. Like Lift it uses the
	// benchmark up, because the next activation would otherwise follow at once.
	FailProbation Trigger = "fail_probation"
	// ExpireBenchmark ends an activation whose benchmark is too old.
	ExpireBenchmark Trigger = "expire_benchmark"
	// Withdraw ends a status that rested on a withdrawn confirmation.
	Withdraw Trigger = "withdraw"
	// Suspend shuts a provider out by its first cause (suspension.go).
	Suspend Trigger = "suspend"
	// Lift ends a suspension with its last cause.
	Lift Trigger = "lift"
	// Expel removes a provider from the network by a verdict, and Reinstate takes that
	// back once every verdict of the removal is reversed. Both keep the facts, so that
	// activation follows a Reinstate at once.
	Expel     Trigger = "expel"
	Reinstate Trigger = "reinstate"
)

// Triggers returns every trigger.
func Triggers() []Trigger {
	return []Trigger{
		RequestReview, Approve, Reject, ConfirmCollateral, Qualify,
		FailProbation, ExpireBenchmark, Withdraw, Suspend, Lift, Expel, Reinstate,
	}
}

// transitions is the whole machine. A pair that is not in it is not allowed. A status
// that leads to itself accepts the trigger, because a trigger may come twice, and nothing
// changes. The conditions are in life.go. The database refuses every pair of statuses
// that is not here, and wants a verdict that stands with Expel and only reversed ones with
// Reinstate (store/functions/provider_transition_allowed.sql).
var transitions = map[Status]map[Trigger]Status{
	Pending: {
		RequestReview: UnderReview, ConfirmCollateral: Pending, Qualify: Active, Suspend: Suspended, Expel: Rejected,
	},
	UnderReview: {
		RequestReview: UnderReview, Approve: Approved, Reject: Rejected, ConfirmCollateral: UnderReview, Suspend: Suspended,
		Expel: Rejected,
	},
	Approved: {
		Approve: Approved, ConfirmCollateral: Activating, Withdraw: Pending, Suspend: Suspended, Expel: Rejected,
	},
	Activating: {
		Approve: Activating, ConfirmCollateral: Activating, Qualify: Active, Withdraw: Pending, Suspend: Suspended,
		Expel: Rejected,
	},
	Active: {
		Approve: Active, ConfirmCollateral: Active, FailProbation: Pending, ExpireBenchmark: Pending,
		Withdraw: Pending, Suspend: Suspended, Expel: Rejected,
	},
	Suspended: {ConfirmCollateral: Suspended, Suspend: Suspended, Lift: Pending, Expel: Rejected},
	Rejected: {
		RequestReview: UnderReview, Reject: Rejected, ConfirmCollateral: Rejected, Suspend: Suspended,
		Expel: Rejected, Reinstate: Pending,
	},
}

// The times of a provider's life.
const (
	// Probation is how long an activation is watched, and PassingUptime the part of it in
	// which a node must be connected.
	Probation     = 24 * time.Hour
	PassingUptime = 0.5
	// BenchmarkValidity is how long a passed benchmark counts.
	BenchmarkValidity = 30 * 24 * time.Hour
	// RestKept is how long after the reversal of a removal what was left of a probation
	// counts.
	RestKept = 7 * 24 * time.Hour
	// ReapplyAfter is how long after a rejection a review may be asked for.
	ReapplyAfter = 7 * 24 * time.Hour
)

// After is the status that the trigger leads to, which may be the same status. It fails
// with transition_not_allowed.
func (s Status) After(t Trigger) (Status, error) {
	to, ok := transitions[s][t]
	if !ok {
		return "", fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"a provider that is %s cannot take %s", s, t)
	}
	return to, nil
}
