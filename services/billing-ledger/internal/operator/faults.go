package operator

import "svc.internal/pkg/fault"

// NotFound is the error for an operator that does not exist.
func NotFound() error {
	return fault.New(fault.NotFound, fault.OperatorNotFound, "there is no such operator").On("operator_id")
}

// NameTaken is the error for a name that was given before.
func NameTaken() error {
	return fault.New(fault.Conflict, fault.AlreadyExists, "the name was given to an operator before").On("name")
}

// TooMany is the error for an operator beyond the bound.
func TooMany() error {
	return fault.New(fault.Precondition, fault.TooManyOperators, "there are as many operators as there may be")
}

// LastAdmin is the error for a change that leaves no admin.
func LastAdmin() error { return notAllowed("the last admin stays active") }

// HasEnded is the error for a change of an operator who has ended.
func HasEnded() error { return notAllowed("the operator has ended") }

// NotFirst is the error for a first operator while an admin is active.
func NotFirst() error {
	return notAllowed("an admin is active; an admin invites further operators")
}

func notAllowed(format string, args ...any) error {
	return fault.New(fault.Precondition, fault.TransitionNotAllowed, format, args...)
}

// wrong is the one error for everything that may be wrong with what somebody signs in with.
func wrong() error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials, "the name, the password or the code is wrong")
}

func noTicket() error {
	return fault.New(fault.Unauthenticated, fault.InvalidCredentials,
		"the invitation or the confirmation is wrong, used or over")
}
