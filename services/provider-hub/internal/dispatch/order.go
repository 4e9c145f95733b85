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

	defaultFirstContent = 20 * time.Second
	defaultTotal        = 600 * time.Second
)

// RouteMode says whether the consumer pinned a provider.
type RouteMode int32

// FallbackReason says why a pinned request went elsewhere.
type FallbackReason int32

// Route is how the request came to this provider. It is only passed on; the
// numbers are those of the events' contract.
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
	// Model is the catalog's name, which answers are restored to.
	Model  string
	Stream bool
	// Text tells that the whole answer is text as it is, and no JSON.
	Text bool
	// Body is nil once it is on its way.
	Body []byte
	// ContentType is the body's media type with its parameters; empty for
	// JSON.
	ContentType string
	// ModelOffset and ModelLength say where in Body the model's name stands: a
	// JSON string, quotes included, or in a form the bare text.
	ModelOffset, ModelLength uint32
	// IncludeUsage tells that the consumer asked for usage in the stream.
	IncludeUsage bool
	// EstimatedPrompt, HeldPrompt (what the hold covers) and MaxOutput, that of
	// a choice, are counts in the unit of Rates.
	EstimatedPrompt int64
	HeldPrompt      int64
	MaxOutput       int64
	Choices         int64
	// StopAsked reports that the request names what ends its answer,
	// HiddenReasoning that the model bills for thoughts that it does not show.
	StopAsked, HiddenReasoning bool
	// NamesMedia reports that messages name media by address, which agents fetch before
	// they ask their engine, EngineMembers that the body has members that are an
	// engine's own, any of which an owner may keep from it.
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
	// AccountTag says which orders are of one consumer account, and nothing else of
	// it; empty where it is not known. FailedElsewhere says that another provider has
	// failed the request already.
	AccountTag      []byte
	FailedElsewhere bool
	// UsualFirstContent is the model's usual time to first content of a stream at
	// this prompt's length; 0 where it is not known.
	UsualFirstContent time.Duration
	// LedgerMAC is what the ledger gave for the request; it is only passed on.
	LedgerMAC []byte

	// asked is the model's name in Body where it is not Model; else empty.
	asked string
}

// Check refuses an order that no caller in its senses sends, with
// invalid_request, and fills the timeouts that are not set.
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

// leastOutput is 0 where nothing is counted of an answer.
func (o *Order) leastOutput() int64 {
	if o.Kind == meter.Chat || o.Kind == meter.Images {
		return 1
	}
	return 0
}

// unitOf is the unit that a kind is priced in. Another would turn counts into
// money that nobody agreed on.
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

// validMediaType lets only what is harmless in a header through.
func validMediaType(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) <= maxIDText
}

// Usage is what a committed attempt comes to.
type Usage struct {
	Order  *Order
	Served meter.Served
	Bill   meter.Bill
	// FirstContent is how long the consumer waited for it.
	FirstContent      time.Duration
	Dispatched, Ended time.Time
}

// Outcome is what an attempt says about its provider's health.
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
	// FirstContent is that of a stream: a whole answer shows nothing before its end.
	FirstContent time.Duration
	Duration     time.Duration
	// Blocked is the part of Duration in which the caller did not take what was there.
	Blocked time.Duration
	Tokens  int64
	// Chat says that the request was one, and Prompt is the estimate of its tokens.
	Chat   bool
	Prompt int64
	// AccountTag is the order's. Excused is a failure that says little of the
	// provider: see excused.
	AccountTag []byte
	Excused    bool
	// Probe is what became of a warm-up, and no attempt.
	Probe bool
	// AnsweredAs is what the engine called the model, 200 printable characters at
	// most, where that is neither what it was asked for nor the catalog's name;
	// else empty.
	AnsweredAs string
	// Excess tells that the answer was longer than it may be, and was cut or
	// refused.
	Excess bool
}

// reportOf reports an order, without what only an attempt that began can know.
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
	// Retryable tells that nothing was relayed and that the fault is this
	// provider's.
	Retryable bool
	Code      string
	// EngineStatus is the engine's HTTP status, 0 when it never answered.
	EngineStatus int
	Message      string
	Busy         bool
	// What the engine itself said of a refusal.
	EngineType, EngineParam, EngineCode string
}

// The codes of failures.
const (
	CodeUpstream = "upstream_error"
	CodeTimeout  = "timeout"
	CodeRefused  = "engine_refused"
)
