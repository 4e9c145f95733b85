package pg

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"svc.internal/pkg/fault"
)

// lostRetry is how long a caller should wait before it repeats a call that lost its
// connection: a server that restarts takes a second or more.
const lostRetry = time.Second

// SQLSTATE codes on which this package decides.
const (
	codeUniqueViolation       = "23505"
	codeCheckViolation        = "23514"
	codeSerialization         = "40001"
	codeDeadlock              = "40P01"
	codeTooManyConnections    = "53300"
	codeAdminShutdown         = "57P01"
	codeCrashShutdown         = "57P02"
	codeCannotConnectNow      = "57P03"
	codeIdleSessionTimeout    = "57P05"
	codeIdleInTransaction     = "25P03"
	codeDuplicateObject       = "42710"
	codeDuplicateSchema       = "42P06"
	codeUndefinedTable        = "42P01"
	codeUndefinedSchema       = "3F000"
	codeInsufficientPrivilege = "42501"
	codeInternal              = "XX000"
	classConnectionTroubles   = "08"
	classIntegrity            = "23"
)

func sqlState(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// IsUnique reports whether err is a violation of the named unique constraint
// or index; an empty name means any.
func IsUnique(err error, constraint string) bool {
	return violates(err, codeUniqueViolation, constraint)
}

// IsCheck reports whether err is a violation of the named CHECK constraint; an
// empty name means any.
func IsCheck(err error, constraint string) bool {
	return violates(err, codeCheckViolation, constraint)
}

// IsIntegrity reports whether err is a violation of any constraint, or of a rule that a trigger
// keeps by an error of that class.
func IsIntegrity(err error) bool { return strings.HasPrefix(sqlState(err), classIntegrity) }

func violates(err error, code, constraint string) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == code && (constraint == "" || pe.ConstraintName == constraint)
}

func isRetryable(err error) bool {
	code := sqlState(err)
	return code == codeSerialization || code == codeDeadlock
}

// IsUnavailable reports whether err means that the server could not be reached, closed
// the connection, or takes no connections now, so that the same request may succeed later
// or elsewhere. It does not say whether a statement had its effect. A context that the
// caller cancelled, a statement timeout and a refused login are not unavailability.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if code := sqlState(err); code != "" {
		return unavailableState(code)
	}
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return brokenConnection(err)
}

// Fault returns what an unavailable server means to a caller in another service, and nil
// for every error that IsUnavailable does not accept. The servers' interceptors use it
// (see serve.Classify), so a store need not name the fault.
func Fault(err error) *fault.Fault {
	if !IsUnavailable(err) {
		return nil
	}
	return fault.Wrap(err, fault.Unavailable, fault.ServiceUnavailable, "a part of the service cannot be reached").After(
		lostRetry)
}

func unavailableState(code string) bool {
	switch code {
	case codeTooManyConnections, codeAdminShutdown, codeCrashShutdown, codeCannotConnectNow, codeIdleSessionTimeout,
		codeIdleInTransaction:
		return true
	}
	return strings.HasPrefix(code, classConnectionTroubles)
}

func brokenConnection(err error) bool {
	for _, target := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	var oe *net.OpError
	return errors.As(err, &oe) || pgconn.SafeToRetry(err)
}
