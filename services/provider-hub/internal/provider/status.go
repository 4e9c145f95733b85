package provider

import "svc.internal/pkg/fault"

// Status decides who may connect and who earns.
type Status string

// The statuses.
const (
	// Pending connects and serves no consumers.
	Pending Status = "pending"
	// Active connects and serves.
	Active Status = "active"
	// Suspended does not connect.
	Suspended Status = "suspended"
)

// Statuses returns every status.
func Statuses() []Status { return []Status{Pending, Active, Suspended} }

// Trigger is what moves a provider from one status to another.
type Trigger string

// The triggers.
const (
	// Activate lets a provider serve consumers.
	Activate Trigger = "activate"
	// Return takes a provider back to pending: a suspension that is lifted,
	// or an activation that is withdrawn.
	Return Trigger = "return"
	// Suspend shuts a provider out.
	Suspend Trigger = "suspend"
)

// Triggers returns every trigger.
func Triggers() []Trigger { return []Trigger{Activate, Return, Suspend} }

// transitions is the whole machine. What is not in it is not allowed: a
// suspension is lifted to pending first, so that activation stays a decision
// of its own.
var transitions = map[Status]map[Trigger]Status{
	Pending:   {Activate: Active, Return: Pending, Suspend: Suspended},
	Active:    {Activate: Active, Return: Pending, Suspend: Suspended},
	Suspended: {Return: Pending, Suspend: Suspended},
}

// After is the status that the trigger leads to, which may be the same. It
// fails with transition_not_allowed.
func (s Status) After(t Trigger) (Status, error) {
	to, ok := transitions[s][t]
	if !ok {
		return "", fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"a provider that is %s cannot take %s", s, t)
	}
	return to, nil
}

// TriggerFor is what leads to a status when an operator asks for it by name.
func TriggerFor(to Status) (Trigger, bool) {
	switch to {
	case Active:
		return Activate, true
	case Pending:
		return Return, true
	case Suspended:
		return Suspend, true
	default:
		return "", false
	}
}
