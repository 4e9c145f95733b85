package dispatch

import (
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/provider-hub/internal/meter"
)

// Bounds of an order.
const (
	// MaxAttempt is the highest number of an attempt.
	MaxAttempt = 16
	maxBody    = 10 << 20
	maxForm    = 26 << 20 // of a transcription
	maxChoices = 128
	maxImages  = 10
	maxInputs  = 2048
	maxTimeout = time.Hour
	maxIDText  = 256
	maxTag     = 8
	maxTicket  = 512

	defaultFirstContent = 20 * time.Second
	defaultTotal        = 600 * time.Second
)

// RouteMode says whether the consumer pinned a provider.
type RouteMode int32

// FallbackReason says why a pinned request went elsewhere.
type FallbackReason int32

// Route is how the request came to this provider. It is only passed on. The numbers are
// the numbers of the events' contract.
type Route struct {
	Mode              RouteMode
	RequestedProvider string
	Fallback          FallbackReason
}

// Order is one attempt to serve one request.
type Order struct {
	Request  ids.RequestID
	Attempt  uint32
	Provider ids.ProviderID
	Node     string
	Epoch    int64
	// Kind is what the engine is asked for.
	Kind meter.Kind
	// Model is the catalog's name. Answers carry it, whatever the engine wrote.
	Model  string
	Stream bool
	// Text reports that the whole answer is plain text and no JSON.
	Text bool
	// Body is nil once it was handed to the session.
	Body []byte
	// ContentType is the body's media type with its parameters; empty for JSON.
	ContentType string
	// ModelOffset and ModelLength say where in Body the model's name stands: a JSON
	// string with its quotes, or in a form the bare text.
	ModelOffset, ModelLength uint32
	// IncludeUsage reports that the consumer asked for usage in the stream.
	IncludeUsage bool
	// EstimatedPrompt, HeldPrompt (what the hold covers) and MaxOutput (the bound of one
	// choice) are counts in the unit of Rates.
	EstimatedPrompt int64
	HeldPrompt      int64
	MaxOutput       int64
	Choices         int64
	// StopAsked reports that the request names texts that end its answer. HiddenReasoning
	// reports that the model bills for thoughts that it does not show.
	StopAsked, HiddenReasoning bool
	// NamesMedia reports that messages name media by address, which agents fetch before
	// they ask their engine. EngineMembers reports that the body has members that are an
	// engine's own, any of which an owner may keep from the engine.
	NamesMedia, EngineMembers bool
	// Inputs is how many vectors are asked for.
	Inputs       int64
	PriceVersion string
	Rates        money.Rates
	Route        Route
	// FirstContent bounds the wait for the first content of a stream, Total
	// the whole answer.
	FirstContent, Total time.Duration
	Traceparent         string
	// AccountTag is equal for the orders of one consumer account, and says nothing else
	// of the account; empty where the account is not known. FailedElsewhere reports that
	// another provider has failed the request already.
	AccountTag      []byte
	FailedElsewhere bool
	// UsualFirstContent is the model's usual time to first content of a stream at this
	// prompt's length; 0 where it is not known.
	UsualFirstContent time.Duration
	// LedgerMAC is the ledger's proof of admission. It is only passed on.
	LedgerMAC []byte
	// Ticket is what the request's hold says, sealed by the ledger; empty for none. It is only
	// passed on.
	Ticket []byte
	// External and Vendor are those of the provider's session. The dispatcher sets them
	// before the order is journalled.
	External, Vendor bool

	// asked is the model's name in Body where it is not Model; else empty.
	asked string
}

// Check refuses a malformed order with invalid_request, and fills the timeouts that are
// not set.
func (o *Order) Check() error {
	refuse := func(what string) error {
		return fault.New(fault.Invalid, fault.InvalidRequest, "%s", what).On(what)
	}
	switch {
	case o.Attempt < 1 || o.Attempt > MaxAttempt:
		return refuse("attempt")
	case o.Node == "" || len(o.Node) > maxIDText:
		return refuse("node_id")
	case o.Model == "" || len(o.Model) > maxIDText:
		return refuse("model_id")
	case len(o.PriceVersion) > maxIDText || len(o.Route.RequestedProvider) > maxIDText:
		return refuse("price_version_id")
	case o.Kind >= meter.Kind(len(meter.Kinds())):
		return refuse("endpoint")
	case len(o.Body) == 0 || len(o.Body) > o.maxBody():
		return refuse("body")
	case !validMediaType(o.ContentType):
		return refuse("content_type")
	case o.Stream && (o.Kind == meter.Embeddings || o.Text):
		return refuse("stream")
	case o.Text && o.Kind != meter.Transcriptions:
		return refuse("answer_form")
	case o.Kind == meter.Embeddings && (o.Inputs < 1 || o.Inputs > maxInputs):
		return refuse("inputs")
	case uint64(o.ModelOffset)+uint64(o.ModelLength) > uint64(len(o.Body)):
		return refuse("model_offset")
	case len(o.LedgerMAC) > maxIDText:
		return refuse("ledger_mac")
	case len(o.Ticket) > maxTicket:
		return refuse("ticket")
	case o.EstimatedPrompt < 0 || o.HeldPrompt < 0:
		return refuse("estimated_prompt_tokens")
	case o.MaxOutput < o.leastOutput():
		return refuse("max_output_tokens")
	case o.Choices < o.leastOutput() || o.Choices > maxChoices, o.Kind == meter.Images && o.Choices > maxImages:
		return refuse("choices")
	case o.Rates.Unit != unitOf(o.Kind):
		return refuse("rates")
	case len(o.AccountTag) > maxTag:
		return refuse("account_tag")
	case o.UsualFirstContent < 0:
		return refuse("usual_first_content_ms")
	case o.FirstContent < 0 || o.Total < 0 || o.Total > maxTimeout:
		return refuse("total_timeout_ms")
	}
	if o.FirstContent == 0 {
		o.FirstContent = defaultFirstContent
	}
	if o.Total == 0 {
		o.Total = defaultTotal
	}
	return nil
}

func (o *Order) maxBody() int {
	if o.Kind == meter.Transcriptions {
		return maxForm
	}
	return maxBody
}

// leastOutput is the least MaxOutput of a kind: 0 where an answer has no count.
func (o *Order) leastOutput() int64 {
	if o.Kind == meter.Chat || o.Kind == meter.Images {
		return 1
	}
	return 0
}

// unitOf is the unit that a kind is priced in. An order in another unit is refused,
// because its counts would become money that nobody agreed on.
func unitOf(k meter.Kind) money.Unit {
	switch k {
	case meter.Images:
		return money.Image
	case meter.Transcriptions:
		return money.AudioMinute
	case meter.Chat, meter.Embeddings:
	}
	return money.Token
}

// validMediaType reports whether a media type is harmless in a header.
func validMediaType(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) <= maxIDText
}

// Usage is what is billable of a committed attempt.
type Usage struct {
	Order  *Order
	Served meter.Served
	Bill   meter.Bill
	// FirstContent is how long the consumer waited for it.
	FirstContent      time.Duration
	Dispatched, Ended time.Time
}

// Outcome says what an attempt means for its provider's health.
type Outcome uint8

// The outcomes.
const (
	Served Outcome = iota + 1
	Failed
	Refused
	Cancelled
	Busy
)

// Outcomes returns every outcome.
func Outcomes() []Outcome { return []Outcome{Served, Failed, Refused, Cancelled, Busy} }

// String names the outcome for metrics.
func (o Outcome) String() string {
	switch o {
	case Served:
		return "served"
	case Failed:
		return "failed"
	case Refused:
		return "refused"
	case Cancelled:
		return "cancelled"
	case Busy:
		return "busy"
	default:
		return "unknown"
	}
}

// Report is an attempt that has ended, for the routers.
type Report struct {
	Request  ids.RequestID
	Attempt  uint32
	Provider ids.ProviderID
	Node     string
	Epoch    int64
	Model    string
	Outcome  Outcome
	// FirstContent is the time to first content of a stream. A whole answer shows nothing
	// before its end, so it has none.
	FirstContent time.Duration
	Duration     time.Duration
	// Blocked is the part of Duration in which the caller did not take events that were
	// there.
	Blocked time.Duration
	Tokens  int64
	// Chat reports that the request is chat. Prompt is the estimate of its tokens.
	Chat   bool
	Prompt int64
	// AccountTag is the order's. Excused reports that the failure says little of the
	// provider; see excused.
	AccountTag []byte
	Excused    bool
	// Probe reports that this is the outcome of a warm-up, and no attempt.
	Probe bool
	// AnsweredAs is the engine's name of the model, at most 200 printable characters,
	// where it is neither the name that the engine was asked for nor the catalog's; else
	// empty.
	AnsweredAs string
	// Excess reports that the answer was longer than its bound, and was cut or refused.
	Excess bool
}

// reportOf is the report of an order, without what only an attempt that began can know.
func reportOf(o *Order, outcome Outcome) Report {
	r := Report{
		Request: o.Request, Attempt: o.Attempt, Provider: o.Provider, Node: o.Node, Epoch: o.Epoch, Model: o.Model,
		Outcome: outcome, AccountTag: o.AccountTag,
	}
	if o.Kind == meter.Chat {
		r.Chat, r.Prompt = true, o.EstimatedPrompt
	}
	return r
}

// Failure is what the caller hears of an attempt that failed.
type Failure struct {
	// Retryable reports that nothing was relayed and that the provider is at fault.
	Retryable bool
	Code      string
	// EngineStatus is the engine's HTTP status, 0 when the engine never answered or broke off before
	// content.
	EngineStatus int
	Message      string
	Busy         bool
	// What the engine itself said of its refusal.
	EngineType, EngineParam, EngineCode string
}

// The codes of failures.
const (
	CodeUpstream = "upstream_error"
	CodeTimeout  = "timeout"
	CodeRefused  = "engine_refused"
)
