// Package fault has the errors that a caller in another service must distinguish.
//
// A domain returns a *Fault where a caller acts on the difference. Every other error is
// wrapped with what was attempted and becomes Internal at the edge of the service. A
// Fault crosses gRPC as a status with an ErrorInfo (see ToStatus and FromError). Only the
// gateway turns it into an HTTP status with an OpenAI error body.
package fault

import (
	"errors"
	"fmt"
	"time"
)

// Kind says what a caller can do about a fault. Each maps to one gRPC code.
type Kind uint8

// The kinds of faults.
const (
	// Internal is a fault of the service; its text is for operators only.
	Internal Kind = iota
	// Invalid is a request that can never succeed as it is.
	Invalid
	// Unauthenticated is a caller that did not prove its identity.
	Unauthenticated
	// Denied is a known caller that may not do this.
	Denied
	// NotFound is a resource that does not exist for this caller.
	NotFound
	// Precondition is a request that the present state forbids.
	Precondition
	// Exhausted is a limit that was reached.
	Exhausted
	// Unavailable is a fault that passes; RetryAfter says when to try again.
	Unavailable
	// Timeout is work that took too long.
	Timeout
	// Canceled is a caller that left.
	Canceled
	// Conflict is a resource that exists already and may exist only once.
	Conflict

	kinds // how many there are
)

// Kinds returns every kind, for tests that walk them all.
func Kinds() []Kind {
	all := make([]Kind, 0, kinds)
	for k := range kinds {
		all = append(all, k)
	}
	return all
}

// Reason is a machine-readable code that never changes. The reasons that reach consumers
// are the codes of the public error table.
type Reason string

// Reasons that more than one service uses.
const (
	InvalidRequest               Reason = "invalid_request"
	InvalidValue                 Reason = "invalid_value"
	InvalidAPIKey                Reason = "invalid_api_key"
	KeyRevoked                   Reason = "key_revoked"
	KeyExpired                   Reason = "key_expired"
	InvalidCredentials           Reason = "invalid_credentials" //nolint:gosec // a code, and no secret
	InvalidSession               Reason = "invalid_session"
	SessionExpired               Reason = "session_expired"
	ModelNotAllowed              Reason = "model_not_allowed"
	EmailNotConfirmed            Reason = "email_not_confirmed"
	FreshSignInRequired          Reason = "fresh_sign_in_required"
	AccountFrozen                Reason = "account_frozen"
	InsufficientCredits          Reason = "insufficient_credits"
	InsufficientEarnings         Reason = "insufficient_earnings"
	EarningsHeld                 Reason = "earnings_held"
	BelowMinimum                 Reason = "below_minimum"
	PayoutPending                Reason = "payout_pending"
	PayoutTooFrequent            Reason = "payout_too_frequent"
	BeneficiaryMissing           Reason = "beneficiary_missing"
	BeneficiaryCooling           Reason = "beneficiary_cooling"
	RefundBlocked                Reason = "refund_blocked"
	InvalidSignature             Reason = "invalid_signature"
	ProcessorUnavailable         Reason = "processor_unavailable"
	ChainHalted                  Reason = "chain_halted"
	DayOpen                      Reason = "day_open"
	CountsDiffer                 Reason = "counts_differ"
	StatementNotFound            Reason = "statement_not_found"
	MonthNotClosed               Reason = "month_not_closed"
	DocumentNotFound             Reason = "document_not_found"
	PlanAllowanceExceeded        Reason = "plan_allowance_exceeded"
	RateLimitExceeded            Reason = "rate_limit_exceeded"
	ConcurrencyLimitExceeded     Reason = "concurrency_limit_exceeded"
	ModelNotFound                Reason = "model_not_found"
	ContextLengthExceeded        Reason = "context_length_exceeded"
	InvalidProvider              Reason = "invalid_provider"
	RequestTooLarge              Reason = "request_too_large"
	NoProviderOnline             Reason = "no_provider_online"
	ProvidersBusy                Reason = "providers_busy"
	RequestedProviderUnavailable Reason = "requested_provider_unavailable"
	AdmissionUnavailable         Reason = "admission_unavailable"
	SessionGone                  Reason = "session_gone"
	ProviderBusy                 Reason = "provider_busy"
	HubDraining                  Reason = "hub_draining"
	JournalFull                  Reason = "journal_full"
	ChallengeUnsupported         Reason = "challenge_unsupported"
	AccountNotFound              Reason = "account_not_found"
	KeyNotFound                  Reason = "key_not_found"
	UserNotFound                 Reason = "user_not_found"
	OperatorNotFound             Reason = "operator_not_found"
	ProviderNotFound             Reason = "provider_not_found"
	ProposalNotFound             Reason = "proposal_not_found"
	RequestNotFound              Reason = "request_not_found"
	CheckoutNotFound             Reason = "checkout_not_found"
	SessionNotFound              Reason = "session_not_found"
	IdentityNotFound             Reason = "identity_not_found"
	IssuerNotFound               Reason = "issuer_not_found"
	SubscriptionNotFound         Reason = "subscription_not_found"
	WebhookNotFound              Reason = "webhook_not_found"
	EndpointNotFound             Reason = "endpoint_not_found"
	ContactNotFound              Reason = "contact_not_found"
	ChangeNotFound               Reason = "change_not_found"
	RouteNotFound                Reason = "unknown_route"
	TransitionNotAllowed         Reason = "transition_not_allowed"
	AlreadyExists                Reason = "already_exists"
	IdempotencyKeyReused         Reason = "idempotency_key_reused"
	TooManyKeys                  Reason = "too_many_keys"
	TooManyAccounts              Reason = "too_many_accounts"
	TooManyWebhooks              Reason = "too_many_webhooks"
	TooManyEndpoints             Reason = "too_many_endpoints"
	TooManyOperators             Reason = "too_many_operators"
	TooManyChanges               Reason = "too_many_changes"
	VerificationBudgetSpent      Reason = "verification_budget_spent"
	TimeInFuture                 Reason = "time_in_future"
	ServiceUnavailable           Reason = "service_unavailable"
	CallerNotAllowed             Reason = "caller_not_allowed"
	UnknownKey                   Reason = "unknown_key"
	ChainNotAllowed              Reason = "chain_not_allowed"
	DestinationNotAllowed        Reason = "destination_not_allowed"
	CapExceeded                  Reason = "cap_exceeded"
	NonceUsed                    Reason = "nonce_used"
	NonceGap                     Reason = "nonce_gap"
	DeadlineExceeded             Reason = "timeout"
	ClientClosed                 Reason = "client_closed"
	InternalError                Reason = "internal_error"
)

// Fault is an error with a kind and a reason. Its message is safe to show to the caller:
// it holds no secret, no prompt and no text of a driver.
type Fault struct {
	Kind    Kind
	Reason  Reason
	Message string
	// Param names the field at fault, if there is one.
	Param string
	// RetryAfter is the wait before another try; 0 names none.
	RetryAfter time.Duration
	// Meta holds figures that the caller may need, for example max_context_length: a
	// handful at most.
	Meta map[string]string

	cause error
}

// New makes a fault. The format and its arguments become the message, so they
// must be safe to show.
func New(kind Kind, reason Reason, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes a fault with a cause, which is for the log and never shown.
func Wrap(cause error, kind Kind, reason Reason, format string, args ...any) *Fault {
	f := New(kind, reason, format, args...)
	f.cause = cause
	return f
}

// On names the field at fault.
func (f *Fault) On(param string) *Fault {
	f.Param = param
	return f
}

// After sets the wait before another try.
func (f *Fault) After(d time.Duration) *Fault {
	f.RetryAfter = d
	return f
}

// With adds a figure to Meta.
func (f *Fault) With(name, value string) *Fault {
	f.note(name, value)
	return f
}

func (f *Fault) note(name, value string) {
	if f.Meta == nil {
		f.Meta = map[string]string{}
	}
	f.Meta[name] = value
}

// Error returns the reason, the message and, for the log, the cause.
func (f *Fault) Error() string {
	text := string(f.Reason) + ": " + f.Message
	if f.cause != nil {
		text += ": " + f.cause.Error()
	}
	return text
}

// Unwrap returns the cause, if there is one.
func (f *Fault) Unwrap() error { return f.cause }

// Is reports whether err is or wraps a fault of this reason.
func Is(err error, reason Reason) bool {
	f, ok := As(err)
	return ok && f.Reason == reason
}

// As finds the fault in err.
func As(err error) (*Fault, bool) { return errors.AsType[*Fault](err) }
