package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/price"
)

// MaxTokens bounds each token count of an admit request. It is far above any context
// window and far below where a sum could overflow.
const MaxTokens = 1 << 40

// MaxImages bounds the images of an admit request.
const MaxImages = 1000

// concurrencyRetry is the wait for a caller with too many open requests. Nobody knows
// when one of them ends.
const concurrencyRetry = time.Second

// Admitter answers admit requests.
type Admitter struct {
	prices  *price.Book
	batch   *batcher
	slices  Slices
	observe func(Outcome, int)
}

// Deps are the parts an Admitter works with.
type Deps struct {
	// Prices are the prices in force, which admission pins.
	Prices *price.Book
	Store  Decider
	// Slices admit from memory what they can; nil leaves everything to the Store.
	Slices Slices
	// Observe hears how many reservations were decided in one way, from memory or in a batch.
	Observe func(Outcome, int)
}

// NewAdmitter makes an admitter that prices requests from the book. Before Run it answers
// admission_unavailable.
func NewAdmitter(cfg Config, deps Deps) *Admitter {
	return &Admitter{prices: deps.Prices, batch: newBatcher(cfg, deps.Store, deps.Observe), slices: deps.Slices,
		observe: deps.Observe}
}

// Run commits batches until ctx ends. Then it commits the batch under way and refuses the
// callers that still wait.
func (a *Admitter) Run(ctx context.Context) { a.batch.run(ctx) }

// Waiting returns the number of requests that wait for a batch.
func (a *Admitter) Waiting() int { return a.batch.waiting() }

// Running reports whether the admitter takes requests.
func (a *Admitter) Running() bool { return a.batch.isOpen() }

// Admit decides one request. When ctx ends while its batch is under way, the hold may
// exist all the same: the gateway's report releases it, or it expires. Where another replica
// decides about the account, the error wraps a SliceOpen.
func (a *Admitter) Admit(ctx context.Context, o AdmitRequest) (Admission, error) {
	c, err := a.reserve(o)
	if err != nil {
		return Admission{}, err
	}
	v, err := a.decide(ctx, c)
	if err != nil {
		return Admission{}, err
	}
	if err := v.fault(); err != nil {
		return Admission{}, err
	}
	return v.Admission, nil
}

// maxDecisions bounds how often one request is decided about. Each time but the last, the store
// met a slice of its account that opened here just before.
const maxDecisions = 3

// decide decides from memory where that is possible, else by the store.
func (a *Admitter) decide(ctx context.Context, r Reservation) (Decision, error) {
	if a.slices == nil {
		return elsewhere(a.batch.decide(ctx, r))
	}
	for n := 1; ; n++ {
		if d, ok := a.fromSlice(ctx, r); ok {
			return d, nil
		}
		if err := a.slices.Leave(ctx, r.Key); err != nil {
			return Decision{}, notWritten(err)
		}
		d, err := a.batch.decide(ctx, r)
		open, ok := AsSliceOpen(err)
		if ok = ok && a.slices.Owns(open) && n < maxDecisions; !ok {
			if err == nil {
				a.slices.Saw(r, d)
			}
			return elsewhere(d, err)
		}
		if n > 1 {
			if err := a.slices.Recall(ctx, open.Account); err != nil {
				return Decision{}, notWritten(err)
			}
		}
	}
}

func notWritten(err error) error {
	return fault.Wrap(err, fault.Unavailable, fault.AdmissionUnavailable,
		"requests that were admitted before could not be written").After(time.Second)
}

// fromSlice admits a request from memory, or returns false.
func (a *Admitter) fromSlice(ctx context.Context, r Reservation) (Decision, bool) {
	if !a.Running() {
		return Decision{}, false
	}
	d, pin, ok := a.slices.Admit(ctx, r)
	if !ok {
		return Decision{}, false
	}
	d.Admission.Pin = &pin
	a.observe(Admitted, 1)
	crash.At("billing.slice.admitted")
	return d, true
}

// elsewhere makes a decision that is another replica's unavailable here.
func elsewhere(d Decision, err error) (Decision, error) {
	if _, ok := AsSliceOpen(err); ok {
		err = fault.Wrap(err, fault.Unavailable, fault.AdmissionUnavailable,
			"another replica decides about this account").After(time.Second)
	}
	return d, err
}

// reserve pins the price in force. A pinned request is pay-as-you-go even when
// the model costs nothing.
func (a *Admitter) reserve(o AdmitRequest) (Reservation, error) {
	if o.PromptTokens < 0 || o.PromptTokens > MaxTokens || o.MaxCompletionTokens < 0 || o.MaxCompletionTokens > MaxTokens {
		return Reservation{}, fault.New(fault.Invalid, fault.InvalidValue, "token counts must be between 0 and %d",
			int64(MaxTokens)).On("prompt_tokens")
	}
	if o.Images < 0 || o.Images > MaxImages {
		return Reservation{}, fault.New(fault.Invalid, fault.InvalidValue, "images must be between 0 and %d",
			MaxImages).On("images")
	}
	m, err := a.prices.Find(o.Model)
	if err != nil {
		return Reservation{}, err
	}
	if o, err = o.in(m.Rates.Unit); err != nil {
		return Reservation{}, err
	}
	c := Reservation{AdmitRequest: o, Class: m.Class, Tier: m.Tier, ZeroPriced: m.Rates.Free(), Gateway: m.Gateway,
		Billing: PayAsYouGo, Price: m.Version, Rates: m.Rates}
	if m.Rates.Free() && !o.Pinned {
		c.Billing = Free
	}
	c.Amount, err = m.Rates.Charge(money.Tokens{Prompt: o.PromptTokens, Completion: o.MaxCompletionTokens})
	if errors.Is(err, money.ErrOverflow) {
		// Nobody has that much credit, so the answer is the same.
		return Reservation{}, creditShort()
	}
	if err != nil {
		return Reservation{}, fmt.Errorf("price the hold: %w", err)
	}
	return c, nil
}

// in returns the request in the unit of its model. A count that the unit does not have is
// zero, and the images of an image model are its completion.
func (o AdmitRequest) in(unit money.Unit) (AdmitRequest, error) {
	if !unit.CountsPrompt() {
		o.PromptTokens = 0
	}
	if !unit.CountsCompletion() {
		o.MaxCompletionTokens = 0
	}
	if unit != money.Image {
		return o, nil
	}
	if o.MaxCompletionTokens > MaxImages {
		return o, fault.New(fault.Invalid, fault.InvalidValue, "images must be between 0 and %d",
			MaxImages).On("max_completion_tokens")
	}
	o.Images = int32(o.MaxCompletionTokens)
	return o, nil
}

func creditShort() error {
	return fault.New(fault.Precondition, fault.InsufficientCredits,
		"the account's credit does not cover the most that this request can cost")
}

// fault returns the error of a refusal, nil for an admission. The error says what the
// key's rate has left, where the key is valid.
func (v Decision) fault() error {
	refusal := v.refusal()
	f, ok := fault.As(refusal)
	r := v.Admission.Rate
	if !ok || r.Limit <= 0 || f.Kind == fault.Unauthenticated {
		return refusal
	}
	return f.With("limit", fmt.Sprint(r.Limit)).With("remaining", fmt.Sprint(r.Remaining)).
		With("reset_ms", fmt.Sprint(r.Reset.Milliseconds()))
}

// frozen is the refusal of a frozen account. It says why.
func frozen(because []string) error {
	if len(because) == 0 {
		return fault.New(fault.Denied, fault.AccountFrozen, "the account is frozen")
	}
	return fault.New(fault.Denied, fault.AccountFrozen, "the account is frozen: %s", strings.Join(because, "; "))
}

func (v Decision) refusal() error {
	switch v.Outcome {
	case Admitted, Repeated:
		return nil
	case InvalidKey:
		return fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "the API key is not valid")
	case KeyRevoked:
		return fault.New(fault.Unauthenticated, fault.KeyRevoked, "the API key has been revoked")
	case KeyExpired:
		return fault.New(fault.Unauthenticated, fault.KeyExpired, "the API key has expired")
	case ModelNotAllowed:
		return fault.New(fault.Denied, fault.ModelNotAllowed, "the API key may not use this model").On("model")
	case AccountFrozen:
		return frozen(v.FrozenBecause)
	case RateLimited:
		return v.rateLimited("the limit of %d requests a minute has been reached")
	case LeftOften:
		return fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"too many requests of this account were given up within a second of their dispatch, of which %d a minute are free",
			limit.LeftAtOnce).
			After(max(v.Admission.Rate.Retry, time.Millisecond))
	case TooManyOpen:
		return fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded,
			"too many requests of this key are under way").After(concurrencyRetry)
	case CategoryTooManyOpen:
		return fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded,
			"too many requests of this account are under way in the model's category").After(concurrencyRetry)
	case CategoryTokensShort:
		return fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"the account's tokens of the day in the model's category do not cover the most that this request can use").
			After(max(v.Admission.Rate.Retry, time.Millisecond))
	case KeyBudgetShort:
		return v.spent("key_budget", "the budget of this API key")
	case DayCapShort:
		return v.spent("day_cap", "the account's spend cap of the day")
	case MonthCapShort:
		return v.spent("month_cap", "the account's spend cap of the month")
	case CreditShort:
		return creditShort()
	case PlanRateLimited:
		return v.rateLimited("the plan's limit of %d requests a minute has been reached")
	case PlanTooManyOpen:
		return fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded,
			"too many requests of this plan are under way").After(concurrencyRetry)
	case PlanShort:
		return fault.New(fault.Precondition, fault.PlanAllowanceExceeded,
			"the plan has no room for this request, and the account's credit does not cover the most that it can cost")
	case Reused:
		return fault.New(fault.Precondition, fault.IdempotencyKeyReused, "the request id was used for another request").On(
			"request_id")
	}
	return fmt.Errorf("store returned the unknown outcome %q", v.Outcome)
}

// What a refusal says of a budget or cap beside its reason, as members of fault.Fault.Meta:
// which of them it is, and when it begins a new window, in RFC 3339.
const (
	LimitName = "limit_name"
	ResetsAt  = "resets_at"
)

// spent returns the refusal of a request for which a budget or a cap has no room.
func (v Decision) spent(name, what string) error {
	if v.ResetsAt.IsZero() {
		return fault.New(fault.Precondition, fault.InsufficientCredits,
			"%s does not cover the most that this request can cost", what).With(LimitName, name)
	}
	at := v.ResetsAt.UTC().Format(time.RFC3339)
	return fault.New(fault.Precondition, fault.InsufficientCredits,
		"%s does not cover the most that this request can cost; it begins anew at %s", what, at).
		With(LimitName, name).With(ResetsAt, at)
}

// rateLimited returns the refusal with the limit in its text and the time until a request
// would be admitted.
func (v Decision) rateLimited(format string) error {
	r := v.Admission.Rate
	return fault.New(fault.Exhausted, fault.RateLimitExceeded, format, r.Limit).
		After(max(r.Retry, time.Millisecond))
}
