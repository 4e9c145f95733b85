package usage

import (
	"crypto/sha256"
	"maps"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Source says what a settled request is paid from.
type Source string

// The sources.
const (
	// PayAsYouGo is charged to the consumer's credit.
	PayAsYouGo Source = "payg"
	// Free costs nothing and pays nothing.
	Free Source = "free"
	// Plan is paid from the account's plan: nothing is charged, and the provider's payout
	// is held until the month is closed.
	Plan Source = "plan"
	// Orphan is work whose hold was closed before its usage arrived: the platform pays.
	Orphan Source = "orphan"
)

// Sources returns every source, for metrics.
func Sources() []Source { return []Source{PayAsYouGo, Free, Plan, Orphan} }

// Result is the fate of one event.
type Result string

// The results: settled now, settled before, to be delivered again, or the reason of a quarantine.
const (
	Settled        Result = "settled"
	Orphaned       Result = "orphaned"
	Duplicate      Result = "duplicate"
	Early          Result = "early"
	Undecodable    Result = "undecodable"
	Invalid        Result = "invalid"
	UnknownRequest Result = "unknown_request"
	Altered        Result = "altered"
	PriceMismatch  Result = "price_mismatch"
	AboveHold      Result = "above_hold"
	Refused        Result = "refused"
	// Forged lacks the seal of the hub that it names, or the ledger's MAC of its
	// request.
	Forged Result = "forged"
	// UnknownKey is sealed with a key that its hub has not handed over.
	UnknownKey Result = "unknown_key"
)

// Results returns every result, for metrics and tests.
func Results() []Result {
	return []Result{
		Settled, Orphaned, Duplicate, Early, Undecodable, Invalid, UnknownRequest,
		Altered, PriceMismatch, AboveHold, Refused,
		Forged, UnknownKey,
	}
}

// Quarantined reports whether the event is kept for a person instead of settled.
func (r Result) Quarantined() bool {
	switch r {
	case Settled, Orphaned, Duplicate, Early:
		return false
	case Undecodable, Invalid, UnknownRequest, Altered, PriceMismatch, AboveHold, Refused, Forged, UnknownKey:
	}
	return true
}

// Hold is what the store shows of a hold, under lock.
type Hold struct {
	Account ids.AccountID
	Key     ids.KeyID
	Model   string
	Billing hold.BillingType
	Amount  money.NanoUSD
	// Prompt is the estimate with its margin. MaxCompletion bounds the answer. Both are
	// in the unit of Rates.
	Prompt        int64
	MaxCompletion int64
	Price         ids.PriceVersionID
	Rates         money.Rates
	State         hold.State
	// Cover is the plan that covers the request, if one does.
	Cover plan.Cover
	// Spend names the budgets and caps that count the request.
	Spend SpendPin
	// Discount lowers what the request is charged.
	Discount money.Discount
	// Category names the places and tokens of the account's terms that count the request.
	Category CategoryPin
}

// Tokens returns the tokens in counts, for plans. Images and milliseconds are no tokens.
func (h Hold) Tokens(counts money.Tokens) int64 {
	if h.Rates.Unit != money.Token {
		return 0
	}
	return counts.Prompt + counts.Completion
}

// Estimate returns the tokens with which admission counted the request.
func (h Hold) Estimate() int64 {
	return h.Tokens(money.Tokens{Prompt: h.Prompt, Completion: h.MaxCompletion})
}

// Wallet is the credit of an account, and the part of it that open holds set aside.
type Wallet struct{ Posted, Held money.NanoUSD }

// Snapshot has the rows on which a batch of events is decided. All of them are locked but
// the settled ones, which never change.
type Snapshot struct {
	Holds map[ids.RequestID]Hold
	// Wallets may be left out until Effects.NeedsWallets asks for them, because most
	// requests cost no more than their hold and every admission of an account waits for
	// its wallet. When they are there, they are the wallets of all Accounts.
	Wallets map[ids.AccountID]Wallet
	// Settled has the requests that were settled before.
	Settled map[ids.RequestID]First
	// Truncated has what the gateway relayed of requests whose answer failed after it had
	// begun, when the hub had not said what it bills.
	Truncated map[ids.RequestID]Relayed
	// Voids are the void attempts of the requests that have any.
	Voids map[ids.RequestID]Void
	// Reported are the requests whose end a gateway has reported. Their places in the
	// concurrency of account and plan are free already.
	Reported map[ids.RequestID]bool
	// Related are the providers that have the same owner as an account of Holds.
	Related map[Pair]Rule
	// Vendors are the providers that are known to be vendors.
	Vendors map[ids.ProviderID]bool
	// GrantedCredit are the accounts of Related that ever had credit for which nobody
	// paid.
	GrantedCredit map[ids.AccountID]bool
}

// Accounts returns the accounts of the open holds, each once, in no order.
func (b Snapshot) Accounts() []ids.AccountID {
	accounts := map[ids.AccountID]struct{}{}
	for _, h := range b.Holds {
		if h.State == hold.Open {
			accounts[h.Account] = struct{}{}
		}
	}
	return slices.Collect(maps.Keys(accounts))
}

// capToEvidence returns the event by which a request is settled, given all else that is
// known of the request. It reports whether that event differs from e.
func (b Snapshot) capToEvidence(e Event, h Hold) (settled Event, overruled bool) {
	if b.Voids[e.Request].voids(e) {
		return Relayed{}.capped(e, h.MaxCompletion)
	}
	if relayed, ok := b.Truncated[e.Request]; ok {
		return relayed.capped(e, h.MaxCompletion)
	}
	return e, false
}

// First is the event that settled a request, as far as it matters to later events.
type First struct {
	Hash           [sha256.Size]byte
	EvidenceSource EvidenceSource
}

// repeated judges another event of a settled request. Two evidence sources of one request
// differ by nature, so the first one in the stream stands. Two different events of one
// hub are altered usage.
func (f First) repeated(e Event, sum [sha256.Size]byte) Result {
	if f.Hash == sum || f.EvidenceSource != Hub || e.EvidenceSource != Hub || e.Settled {
		return Duplicate
	}
	return Altered
}

// Line is one settled request.
type Line struct {
	Event Event
	// Hash identifies what the event says.
	Hash      [sha256.Size]byte
	Account   ids.AccountID
	Key       ids.KeyID
	Source    Source
	ListPrice money.NanoUSD
	Payout    money.NanoUSD
	Charged   money.NanoUSD
	Shortfall money.NanoUSD
	// Discount is what the account's discount takes off the list price.
	Discount money.NanoUSD
	// Held is the rule by which the payout is held back until a person has looked at it;
	// empty when it is not held.
	Held Rule
}

// Effects is what a batch of events does. Results has one entry for each event, in order.
type Effects struct {
	Results []Result
	Lines   []Line
	// Vendors are the vendors of the lines that were not known as vendors before.
	Vendors []ids.ProviderID
	// Closed are the holds that the batch settles.
	Closed []ids.RequestID
	// Overruled are the requests that are settled by another count than their event's.
	// Settlement must hear of them.
	Overruled []ids.RequestID
	Moves
	// NeedsWallets says that an event cannot be decided on a snapshot without wallets.
	// All other effects are void then.
	NeedsWallets bool
}

// Decide settles events one after the other, each on the state that the earlier ones
// left. It does not change the snapshot.
func Decide(b Snapshot, events []Event) Effects {
	settled := make(map[ids.RequestID]First, len(events)+len(b.Settled))
	maps.Copy(settled, b.Settled)
	b.Settled, b.Wallets = settled, maps.Clone(b.Wallets)
	fx := Effects{Results: make([]Result, len(events)), Moves: NewMoves()}
	for i, e := range events {
		fx.Results[i] = fx.decide(b, e)
	}
	return fx
}

func (fx *Effects) decide(b Snapshot, e Event) Result {
	sum := e.Hash()
	if first, ok := b.Settled[e.Request]; ok {
		return first.repeated(e, sum)
	}
	h, ok := b.Holds[e.Request]
	if !ok {
		return UnknownRequest
	}
	if h.State == hold.Settled {
		// Its line is in a partition that was dropped. The line cannot be compared any
		// more, and the event must have no second effect.
		return Duplicate
	}
	e.Vendor = e.Vendor || b.Vendors[e.Provider]
	line, result := price(h, e)
	if result != Settled {
		return result
	}
	if came, other := b.capToEvidence(e, h); other {
		if line, result = price(h, came); result != Settled {
			return result
		}
		e, sum = came, came.Hash()
		fx.Overruled = append(fx.Overruled, e.Request)
	}
	line.Hash = sum
	b.Settled[e.Request] = First{Hash: sum, EvidenceSource: e.EvidenceSource}
	if e.Vendor && !b.Vendors[e.Provider] && !slices.Contains(fx.Vendors, e.Provider) {
		fx.Vendors = append(fx.Vendors, e.Provider)
	}
	if h.State != hold.Open {
		line.Source = Orphan
		line.Held = b.held(h, line)
		fx.Lines = append(fx.Lines, line)
		return Orphaned
	}
	fx.settle(b, h, line)
	return Settled
}

// An event's prompt is believed up to promptFactor times the estimate, or promptSlack
// tokens above it, whichever is more, because the estimate knows neither the tokenizer
// nor the chat template. Hubs keep to the estimate and its margin by themselves; the
// bound is for a hub that does not.
const (
	promptFactor = 4
	promptSlack  = 512
)

// promptBound is the largest prompt that is believed of an event. Only tokens are
// estimated: audio is measured before it is admitted.
func (h Hold) promptBound() int64 {
	if h.Rates.Unit != money.Token {
		return h.Prompt
	}
	return max(promptFactor*h.Prompt, h.Prompt+promptSlack)
}

// price checks the event against the pinned rates and computes its amounts.
func price(h Hold, e Event) (Line, Result) {
	switch {
	case e.Price != h.Price || e.Rates != h.Rates || e.Model != h.Model:
		return Line{}, PriceMismatch
	case e.Billable.Completion > h.MaxCompletion || e.Billable.Prompt > h.promptBound():
		return Line{}, AboveHold
	}
	list, err := h.Rates.Charge(e.Billable)
	if err != nil {
		return Line{}, AboveHold
	}
	payout, err := h.payout(&e)
	if err != nil {
		return Line{}, AboveHold
	}
	return Line{Event: e, Account: h.Account, Key: h.Key, ListPrice: list, Payout: payout}, Settled
}

// payout returns what is owed for the answer: its payout to a provider, and its cost to a vendor.
// A vendor's cached tokens count up to the billable prompt.
func (h Hold) payout(e *Event) (money.NanoUSD, error) {
	if !e.Vendor {
		return h.Rates.Payout(e.Billable)
	}
	e.CachedPrompt = min(e.CachedPrompt, e.Billable.Prompt)
	return h.Rates.VendorCost(e.Billable, e.CachedPrompt)
}

// settle charges an open hold the list price less the account's discount, but never more than
// the hold and the credit that is available beside it. The platform bears the rest. A request that a plan covers
// is not charged, however much was used.
func (fx *Effects) settle(b Snapshot, h Hold, line Line) {
	w, known := b.Wallets[h.Account]
	line.Source = sourceOf(h.Billing)
	if line.Source != Plan {
		line.Discount = h.Discount.Of(line.ListPrice)
		line.Charged = line.ListPrice - line.Discount
	}
	if line.Charged > h.Amount {
		// Only then does the credit beside the hold matter, which is never below zero.
		line.Charged = min(line.Charged, h.Amount+(w.Posted-w.Held))
		fx.NeedsWallets = fx.NeedsWallets || !known
	}
	if line.Source != Plan {
		line.Shortfall = line.ListPrice - line.Discount - line.Charged
	}
	line.Held = b.held(h, line)
	request, used := line.Event.Request, line.Event.Billable
	fx.Lines = append(fx.Lines, line)
	fx.Closed = append(fx.Closed, request)
	if !b.Reported[request] {
		fx.Leave(h)
	}
	fx.touch(h, Change{Charged: line.Charged, Released: h.Amount})
	fx.count(h, CategoryMove{Tokens: h.Tokens(used) - h.Estimate()})
	fx.correct(request, h, used, line.ListPrice, used == money.Tokens{} && line.Event.platformFailed())
	if known {
		b.Wallets[h.Account] = Wallet{Posted: w.Posted - line.Charged, Held: w.Held - h.Amount}
	}
}

func sourceOf(b hold.BillingType) Source {
	switch b {
	case hold.Free:
		return Free
	case hold.Plan:
		return Plan
	case hold.PayAsYouGo:
	}
	return PayAsYouGo
}
