package apierror

import (
	"net/http"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/openai"
)

// Reasons of the public table that the gateway itself gives.
const (
	UnsupportedEncoding         fault.Reason = "unsupported_encoding"
	UnknownRoute                fault.Reason = "unknown_route"
	MethodNotAllowed            fault.Reason = "method_not_allowed"
	UnsupportedEndpointForModel fault.Reason = "unsupported_endpoint_for_model"
	MissingAPIKey               fault.Reason = "missing_api_key"
	WrongKeyType                fault.Reason = "wrong_key_type"
	RequestedProviderFailed     fault.Reason = "requested_provider_failed"
	UpstreamError               fault.Reason = "upstream_error"
	IdempotencyAnswerGone       fault.Reason = "idempotency_answer_gone"
	OriginNotAllowed            fault.Reason = "origin_not_allowed"
	// LoopDetected refuses a request that one of our hubs sent.
	LoopDetected    fault.Reason = "loop_detected"
	DuplicateField  fault.Reason = "duplicate_field"
	MissingRequired fault.Reason = "missing_required_parameter"
	// IdempotencyKeyMissing refuses an act on money without an Idempotency-Key.
	IdempotencyKeyMissing fault.Reason = "idempotency_key_missing"
	// OwnerRequired refuses an act on a provider's money that its owner does not do.
	OwnerRequired fault.Reason = "owner_required"
	// RoleNotAllowed refuses an operator's call that the caller may not make: because of its role,
	// or because it is a machine or became an operator of late.
	RoleNotAllowed fault.Reason = "role_not_allowed"
)

// Reasons of settlement, of payouts and conversions.
const (
	PayoutNotFound fault.Reason = "payout_not_found"
	refundOpen     fault.Reason = "refund_open"
	accountMissing fault.Reason = "account_missing"
)

// PenaltyNotFound is settlement's word for a penalty that does not exist for the caller.
const PenaltyNotFound fault.Reason = "penalty_not_found"

// Reasons of the verifier.
const (
	OfferingNotFound fault.Reason = "offering_not_found"
	VerdictNotFound  fault.Reason = "verdict_not_found"
	EffectNotFound   fault.Reason = "effect_not_found"
	BenchmarkTooSoon fault.Reason = "benchmark_too_soon"
	EvidenceDeleted  fault.Reason = "evidence_deleted"
	NoReference      fault.Reason = "no_reference"
	NotCalibrated    fault.Reason = "not_calibrated"
)

// StatusClientClosed is logged when the client has left. It is never sent.
const StatusClientClosed = 499

// Row is the answer to one reason.
type Row struct {
	Status int
	Type   string
	// Final tells SDKs not to send the same request again by themselves.
	Final bool
	// RetryAfter is sent when the fault itself has no time.
	RetryAfter time.Duration
}

// Table has the row of each public reason.
var Table = map[fault.Reason]Row{
	fault.InvalidRequest:        {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	fault.InvalidValue:          {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	DuplicateField:              {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	MissingRequired:             {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	IdempotencyKeyMissing:       {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	fault.InvalidSignature:      {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	fault.ContextLengthExceeded: {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	fault.InvalidProvider:       {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	UnsupportedEndpointForModel: {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	UnsupportedEncoding:         {http.StatusUnsupportedMediaType, openai.TypeInvalidRequest, true, 0},
	fault.RequestTooLarge:       {http.StatusRequestEntityTooLarge, openai.TypeInvalidRequest, true, 0},

	MissingAPIKey:            {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	WrongKeyType:             {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	fault.InvalidAPIKey:      {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	fault.KeyRevoked:         {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	fault.KeyExpired:         {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	fault.InvalidCredentials: {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	fault.InvalidSession:     {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	fault.SessionExpired:     {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},

	fault.InsufficientCredits:   {http.StatusPaymentRequired, openai.TypeInsufficientQuota, true, 0},
	fault.PlanAllowanceExceeded: {http.StatusPaymentRequired, openai.TypeInsufficientQuota, true, 0},
	fault.ModelNotAllowed:       {http.StatusForbidden, openai.TypePermission, true, 0},
	fault.EmailNotConfirmed:     {http.StatusForbidden, openai.TypePermission, true, 0},
	fault.FreshSignInRequired:   {http.StatusForbidden, openai.TypePermission, true, 0},
	fault.AccountFrozen:         {http.StatusForbidden, openai.TypePermission, true, 0},
	OriginNotAllowed:            {http.StatusForbidden, openai.TypePermission, true, 0},
	OwnerRequired:               {http.StatusForbidden, openai.TypePermission, true, 0},
	RoleNotAllowed:              {http.StatusForbidden, openai.TypePermission, true, 0},

	UnknownRoute:           {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.ModelNotFound:    {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.RequestNotFound:  {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.AccountNotFound:  {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.KeyNotFound:      {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.ProviderNotFound: {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.ProposalNotFound: {http.StatusNotFound, openai.TypeNotFound, true, 0},
	PayoutNotFound:         {http.StatusNotFound, openai.TypeNotFound, true, 0},
	PenaltyNotFound:        {http.StatusNotFound, openai.TypeNotFound, true, 0},
	OfferingNotFound:       {http.StatusNotFound, openai.TypeNotFound, true, 0},
	VerdictNotFound:        {http.StatusNotFound, openai.TypeNotFound, true, 0},
	EffectNotFound:         {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.UserNotFound:     {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.OperatorNotFound: {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.CheckoutNotFound: {http.StatusNotFound, openai.TypeNotFound, true, 0},

	fault.SubscriptionNotFound: {http.StatusNotFound, openai.TypeNotFound, true, 0},

	fault.WebhookNotFound:   {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.EndpointNotFound:  {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.ContactNotFound:   {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.ChangeNotFound:    {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.IssuerNotFound:    {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.IdentityNotFound:  {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.SessionNotFound:   {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.StatementNotFound: {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.DocumentNotFound:  {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.MonthNotClosed:    {http.StatusNotFound, openai.TypeNotFound, true, 0},
	MethodNotAllowed:        {http.StatusMethodNotAllowed, openai.TypeInvalidRequest, true, 0},

	fault.RateLimitExceeded:        {http.StatusTooManyRequests, openai.TypeRateLimit, false, time.Second},
	fault.ConcurrencyLimitExceeded: {http.StatusTooManyRequests, openai.TypeRateLimit, false, time.Second},
	LoopDetected:                   {http.StatusLoopDetected, openai.TypeInvalidRequest, true, 0},
	BenchmarkTooSoon:               {http.StatusTooManyRequests, openai.TypeRateLimit, false, time.Hour},

	fault.NoProviderOnline:             {http.StatusServiceUnavailable, openai.TypeServer, false, 5 * time.Second},
	fault.ProvidersBusy:                {http.StatusServiceUnavailable, openai.TypeServer, false, 2 * time.Second},
	fault.RequestedProviderUnavailable: {http.StatusServiceUnavailable, openai.TypeServer, true, 5 * time.Second},
	RequestedProviderFailed:            {http.StatusBadGateway, openai.TypeServer, true, 0},
	UpstreamError:                      {http.StatusBadGateway, openai.TypeServer, false, 0},
	fault.AdmissionUnavailable:         {http.StatusServiceUnavailable, openai.TypeServer, false, time.Second},
	fault.ServiceUnavailable:           {http.StatusServiceUnavailable, openai.TypeServer, false, time.Second},
	fault.ProcessorUnavailable:         {http.StatusServiceUnavailable, openai.TypeServer, false, 5 * time.Second},
	fault.ChainHalted:                  {http.StatusServiceUnavailable, openai.TypeServer, false, time.Minute},
	fault.DeadlineExceeded:             {http.StatusGatewayTimeout, openai.TypeServer, false, 0},
	fault.ClientClosed:                 {StatusClientClosed, openai.TypeInvalidRequest, true, 0},
	fault.InternalError:                {http.StatusInternalServerError, openai.TypeServer, false, 0},

	// Only routes under /api/v1 give these. 409 is never an answer of /v1, because SDKs
	// retry it.
	fault.PayoutPending:        {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.PayoutTooFrequent:    {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.BeneficiaryCooling:   {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.RefundBlocked:        {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.AlreadyExists:        {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.TransitionNotAllowed: {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	EvidenceDeleted:            {http.StatusGone, openai.TypeInvalidRequest, true, 0},
	NoReference:                {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	NotCalibrated:              {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.EarningsHeld:         {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.InsufficientEarnings: {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.BeneficiaryMissing:   {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	refundOpen:                 {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	accountMissing:             {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.BelowMinimum:         {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.IdempotencyKeyReused: {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	IdempotencyAnswerGone:      {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.TooManyKeys:          {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.TooManyWebhooks:      {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.TooManyEndpoints:     {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.TooManyChanges:       {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.TooManyOperators:     {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
}

// reasonOfKind names the public reason for faults whose own reason is internal to the
// fleet (a draining hub, a full journal).
var reasonOfKind = map[fault.Kind]fault.Reason{
	fault.Unavailable: fault.ServiceUnavailable,
	fault.Timeout:     fault.DeadlineExceeded,
	fault.Canceled:    fault.ClientClosed,
}

// kindRows answers reasons that the table does not list. A newer service may send them,
// and they keep their code.
var kindRows = map[fault.Kind]Row{
	fault.Invalid:         {http.StatusBadRequest, openai.TypeInvalidRequest, true, 0},
	fault.Unauthenticated: {http.StatusUnauthorized, openai.TypeAuthentication, true, 0},
	fault.Denied:          {http.StatusForbidden, openai.TypePermission, true, 0},
	fault.NotFound:        {http.StatusNotFound, openai.TypeNotFound, true, 0},
	fault.Precondition:    {http.StatusUnprocessableEntity, openai.TypeInvalidRequest, true, 0},
	fault.Conflict:        {http.StatusConflict, openai.TypeInvalidRequest, true, 0},
	fault.Exhausted:       {http.StatusTooManyRequests, openai.TypeRateLimit, false, time.Second},
}
