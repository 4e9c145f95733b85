package orphan

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/workreceipt"
	"svc.internal/services/billing-ledger/internal/hold"
)

// MaxLate is the time after the end of a hold within which a receipt is taken.
const MaxLate = 24 * time.Hour

// WorkReceipt is a provider's signed receipt, with the proof of the hub that dispatched
// the attempt. Agents keep receipts until they are answered, and hubs pass on only
// receipts of requests that they do not know themselves.
//
// A receipt is evidence where no gateway says what was served. Beside a gateway's count
// the smaller count is charged, and never the prompt. A receipt counts tokens, so a
// request that is priced by images or audio has none.
type WorkReceipt struct {
	workreceipt.Signed
	Key ed25519.PublicKey
	// Hub dispatched the attempt under Price, by the proof.
	Hub   string
	Price ids.PriceVersionID
}

// Outcome is the fate of a receipt.
type Outcome uint8

// The outcomes.
const (
	// AlreadySettled adds nothing, because the request is settled by this attempt.
	AlreadySettled Outcome = iota + 1
	// Stored is kept for the review of its request.
	Stored
	// Refused counts for nothing.
	Refused
)

// Reason says in one word why a receipt is refused.
type Reason string

// The reasons.
const (
	Invalid        Reason = "invalid"
	UnknownRequest Reason = "unknown_request"
	PriceMismatch  Reason = "price_mismatch"
	Altered        Reason = "altered"
	OtherAttempt   Reason = "other_attempt"
	OtherProvider  Reason = "other_provider"
	NothingServed  Reason = "nothing_served"
	TooLate        Reason = "too_late"
)

// Verdict is the answer to a receipt.
type Verdict struct {
	Outcome Outcome
	Reason  Reason
}

// GatewayReport is what a gateway said of a request.
type GatewayReport struct {
	// Last reports whether it is a report. Otherwise it is a renewal, which more may
	// follow.
	Last bool
	// Attempt is 0 before a commit. Provider is zero where the gateway did not name it.
	Attempt       int32
	Provider      ids.ProviderID
	Tokens, Bytes int64
}

// relayed reports whether content of an attempt reached the consumer.
func (w *GatewayReport) relayed(attempt int32) bool {
	return w != nil && w.Attempt == attempt && w.Tokens > 0 && w.Bytes > 0
}

// contradicts returns the reason why the gateway's report and the receipt cannot both be
// true; empty for none.
func (w GatewayReport) contradicts(r WorkReceipt) Reason {
	switch {
	case w.Attempt == 0 && !w.Last:
		return "" // it may have committed to this attempt later
	case w.Attempt == 0:
		return NothingServed
	case w.Attempt != int32(r.Attempt):
		return OtherAttempt
	case !w.Provider.IsZero() && w.Provider != r.Provider:
		return OtherProvider
	case w.Last && (w.Tokens <= 0 || w.Bytes <= 0):
		return NothingServed
	}
	return ""
}

// Request is what is known of the request of a receipt, under lock.
type Request struct {
	Model string
	Price ids.PriceVersionID
	// Unit is the unit that the request is priced in.
	Unit  money.Unit
	State hold.State
	// Late reports whether its hold ended longer than MaxLate ago.
	Late bool
	// Settled is the attempt that settled the request; nil when there is no settled line.
	Settled *Served
	// Report is the gateway's account; nil when there is none.
	Report *GatewayReport
	// Void is the last attempt that its hub called void; 0 for none.
	Void int32
	// Kept has the signatures of the stored receipts, by attempt.
	Kept map[int32][ed25519.SignatureSize]byte
}

// Served names an attempt.
type Served struct {
	Attempt  int32
	Provider ids.ProviderID
}

// Judge answers a receipt. Only a Stored receipt may move money, when it is reviewed.
func (q Request) Judge(r WorkReceipt) Verdict {
	refuse := func(why Reason) Verdict { return Verdict{Refused, why} }
	if r.Model != q.Model || r.Price != q.Price {
		return refuse(PriceMismatch)
	}
	if kept, ok := q.Kept[int32(r.Attempt)]; ok && kept != r.Signature {
		return refuse(Altered)
	}
	switch {
	case q.Settled != nil && q.Settled.Attempt != int32(r.Attempt):
		return refuse(OtherAttempt)
	case q.Settled != nil && q.Settled.Provider != r.Provider:
		return refuse(OtherProvider)
	case q.Settled != nil, q.State == hold.Settled:
		return Verdict{Outcome: AlreadySettled}
	}
	if q.Report != nil {
		if why := q.Report.contradicts(r); why != "" {
			return refuse(why)
		}
	}
	switch {
	case q.Unit != money.Token:
		// A receipt counts tokens, and neither images nor audio have any.
		return refuse(NothingServed)
	case q.Void >= int32(r.Attempt) && !q.Report.relayed(int32(r.Attempt)):
		// An attempt before a void one ended with nothing relayed.
		return refuse(NothingServed)
	case r.SentTokens <= 0 || r.SentBytes <= 0:
		return refuse(NothingServed)
	case q.Has(r):
		return Verdict{Outcome: Stored}
	case q.State != hold.Open && q.Late:
		return refuse(TooLate)
	}
	return Verdict{Outcome: Stored}
}

// Has reports whether the receipt of this attempt is stored.
func (q Request) Has(r WorkReceipt) bool {
	_, ok := q.Kept[int32(r.Attempt)]
	return ok
}

// WorkReceiptStore keeps receipts.
type WorkReceiptStore interface {
	// KeepWorkReceipts has judge answer each receipt by what is known of its request
	// under lock, nil when nothing is. It keeps the receipts that judge stores, each
	// once, and makes a review due at once for each kept receipt whose hold is over. All
	// of it is one transaction, and judge may run more than once.
	KeepWorkReceipts(ctx context.Context, all []WorkReceipt, judge func(WorkReceipt, *Request) Verdict) error
}

// Keeper answers receipts.
type Keeper struct {
	Store WorkReceiptStore
	Log   *slog.Logger
}

// Keep answers receipts in order. After an error no answer is known.
func (k *Keeper) Keep(ctx context.Context, all []WorkReceipt) ([]Verdict, error) {
	verdicts := make(map[workreceipt.Key]Verdict, len(all))
	err := k.Store.KeepWorkReceipts(ctx, all, func(r WorkReceipt, known *Request) Verdict {
		v := Verdict{Refused, UnknownRequest}
		if known != nil {
			v = known.Judge(r)
		}
		verdicts[r.Signed.Key()] = v
		return v
	})
	if err != nil {
		return nil, fmt.Errorf("keep %d receipts: %w", len(all), err)
	}
	out := make([]Verdict, len(all))
	refused := map[Reason]int{}
	for i, r := range all {
		out[i] = verdicts[r.Signed.Key()]
		level, text := slog.LevelDebug, "a receipt adds nothing"
		switch out[i].Outcome {
		case Stored:
			level, text = slog.LevelInfo, "a receipt is kept"
		case Refused:
			text = "a receipt is refused"
			refused[out[i].Reason]++
		case AlreadySettled:
		}
		k.Log.Log(ctx, level, text, "request_id", r.Request.String(), "attempt", r.Attempt,
			"provider_id", r.Provider.String(), "reason", string(out[i].Reason))
	}
	if len(refused) > 0 {
		// One line, however many receipts a provider sends.
		k.Log.WarnContext(ctx, "receipts are refused", "by_reason", refused)
	}
	return out, nil
}
