package peers

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/position"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
)

// CollateralBooks is billing-ledger as collateral sees it: the books, and payments by card.
type CollateralBooks struct {
	Posting  billingv1.PostingServiceClient
	Accruals billingv1.AccrualServiceClient
	Cards    billingv1.CardServiceClient
	// Assets are what the collateral contracts of chains hold.
	Terms position.Terms
}

var (
	_ position.Ledger = CollateralBooks{}
	_ position.Cards  = CollateralBooks{}
	_ slash.Ledger    = CollateralBooks{}
	_ refund.Ledger   = CollateralBooks{}
	_ refund.Cards    = CollateralBooks{}
)

func (b CollateralBooks) post(ctx context.Context, fact string, req *billingv1.PostRequest) (ids.EntryID, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Posting.Post(ctx, req)
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("post %s: %w", fact, err)
	}
	id, err := ids.ParseEntry(resp.GetEntryId())
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("post %s: %w", fact, err)
	}
	return id, nil
}

// CustodyMoved implements position.Ledger.
func (b CollateralBooks) CustodyMoved(ctx context.Context, m position.Movement, token string) (ids.EntryID, error) {
	return b.post(ctx, "what a contract holds", &billingv1.PostRequest{Fact: &billingv1.PostRequest_CustodyMoved{
		CustodyMoved: &billingv1.CustodyMoved{
			Transfer:   &billingv1.TransferPlace{ChainId: m.Chain.String(), TransactionHash: m.Tx.String(), Place: m.Place},
			ProviderId: m.Provider.String(), Token: token, Units: max(m.Units, -m.Units), Out: m.Units < 0,
		}}})
}

func partOf(p slash.Part) *billingv1.CollateralPart {
	return &billingv1.CollateralPart{Id: p.Penalty.String(), ProviderId: p.Provider.String(), AmountNanoUsd: int64(p.Card)}
}

// CollateralSlashed implements slash.Ledger.
func (b CollateralBooks) CollateralSlashed(ctx context.Context, p slash.Part) (ids.EntryID, error) {
	return b.post(ctx, "a slash", &billingv1.PostRequest{
		Fact: &billingv1.PostRequest_CollateralSlashed{CollateralSlashed: partOf(p)}})
}

// SlashForfeited implements slash.Ledger. Nobody is compensated, because a penalty names no consumers.
func (b CollateralBooks) SlashForfeited(ctx context.Context, p slash.Part) (ids.EntryID, error) {
	return b.post(ctx, "a forfeited slash", &billingv1.PostRequest{Fact: &billingv1.PostRequest_SlashForfeited{
		SlashForfeited: &billingv1.SlashForfeited{Part: partOf(p)}}})
}

// SlashWon implements slash.Ledger.
func (b CollateralBooks) SlashWon(ctx context.Context, p slash.Part) (ids.EntryID, error) {
	return b.post(ctx, "a slash that was won", &billingv1.PostRequest{
		Fact: &billingv1.PostRequest_SlashWon{SlashWon: partOf(p)}})
}

// ChainSlashed implements slash.Ledger.
func (b CollateralBooks) ChainSlashed(ctx context.Context, p slash.Part, q chain.Quote) (ids.EntryID, error) {
	rules, ok := b.Terms.Of(p.Chain)
	if !ok {
		return ids.EntryID{}, fmt.Errorf("chain %s takes no collateral", p.Chain)
	}
	sum := &billingv1.TokenSum{Token: rules.Asset.Name(), Units: p.Units}
	if q.Rate != 0 {
		sum.Quote = &billingv1.TokenQuote{RateNanoUsd: int64(q.Rate), Source: q.Source, At: timestamppb.New(q.At)}
	}
	depositor := strings.ToLower(p.Depositor.String()) // the books know a fact by one name
	return b.post(ctx, "a slash on a chain", &billingv1.PostRequest{Fact: &billingv1.PostRequest_ChainSlashed{
		ChainSlashed: &billingv1.ChainSlashed{PenaltyId: p.Penalty.String(), Depositor: depositor, Sum: sum}}})
}

func refundPart(p refund.Part) *billingv1.CollateralPart {
	return &billingv1.CollateralPart{Id: p.ID.String(), ProviderId: p.Provider.String(),
		AmountNanoUsd: p.Cents * int64(slash.Cent)}
}

// RefundAsked implements refund.Ledger.
func (b CollateralBooks) RefundAsked(ctx context.Context, p refund.Part) (ids.EntryID, error) {
	return b.post(ctx, "a refund of collateral", &billingv1.PostRequest{
		Fact: &billingv1.PostRequest_CollateralRefundAsked{CollateralRefundAsked: refundPart(p)}})
}

// Refunded implements refund.Ledger.
func (b CollateralBooks) Refunded(ctx context.Context, p refund.Part, fromBank bool) (ids.EntryID, error) {
	return b.post(ctx, "a refund that is paid", &billingv1.PostRequest{Fact: &billingv1.PostRequest_CollateralRefunded{
		CollateralRefunded: &billingv1.CollateralRefunded{Part: refundPart(p), FromBank: fromBank,
			Attempt: int32(p.CardAttempt)}}})
}

// RefundUndone implements refund.Ledger.
func (b CollateralBooks) RefundUndone(ctx context.Context, p refund.Part) (ids.EntryID, error) {
	return b.post(ctx, "a refund that is not paid", &billingv1.PostRequest{
		Fact: &billingv1.PostRequest_CollateralRefundUndone{CollateralRefundUndone: refundPart(p)}})
}

// maxChanges is how many changes the ledger lists at once.
const maxChanges = 1_000

// Changes implements position.Cards.
func (b CollateralBooks) Changes(ctx context.Context, after int64) ([]position.CardChange, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Cards.ListCollateralChanges(ctx, &billingv1.ListCollateralChangesRequest{After: after})
	if err != nil {
		return nil, false, fmt.Errorf("list changes of collateral by card: %w", err)
	}
	list := make([]position.CardChange, 0, len(resp.GetChanges()))
	for _, c := range resp.GetChanges() {
		provider, err := ids.ParseProvider(c.GetProviderId())
		if err != nil {
			return nil, false, fmt.Errorf("change %d of collateral by card: %w", c.GetNumber(), err)
		}
		change := position.CardChange{Number: c.GetNumber(), Provider: provider,
			Reversed: c.GetKind() == billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_REVERSED}
		if c.GetKind() == billingv1.CollateralChangeKind_COLLATERAL_CHANGE_KIND_REFUND_FAILED {
			if change.Failed, err = failureOf(c.GetReference()); err != nil {
				return nil, false, fmt.Errorf("change %d of collateral by card: %w", c.GetNumber(), err)
			}
		}
		list = append(list, change)
	}
	return list, len(list) >= maxChanges, nil
}

// failureOf reads the reference of an attempt: the refund, followed by "/" and the number from the second on.
func failureOf(reference string) (position.CardFailure, error) {
	part, number, numbered := strings.Cut(reference, "/")
	f := position.CardFailure{Part: part, Attempt: 1}
	var id refund.PartID
	err := id.UnmarshalText([]byte(part))
	if err == nil && numbered {
		f.Attempt, err = strconv.Atoi(number)
	}
	if err != nil || id.IsZero() || f.Attempt < 1 || numbered && f.Attempt == 1 {
		return position.CardFailure{}, fmt.Errorf("%.80q names no attempt of a refund", reference)
	}
	return f, nil
}

// Balance implements position.Cards. What counts is at most what is left of payments that count, because the books do
// not tell payments in which no money moved from others.
func (b CollateralBooks) Balance(
	ctx context.Context, provider ids.ProviderID, liveOnly bool,
) (position.CardBalance, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Accruals.GetProviderBalances(ctx, &billingv1.GetProviderBalancesRequest{ProviderId: provider.String()})
	if err != nil {
		return position.CardBalance{}, fmt.Errorf("read the collateral by card of %s: %w", provider, err)
	}
	payments, err := b.payments(ctx, provider)
	if err != nil {
		return position.CardBalance{}, err
	}
	var left money.NanoUSD
	for _, p := range payments {
		if p.GetLivemode() || !liveOnly {
			left += money.NanoUSD(p.GetLeftCents()) * slash.Cent
		}
	}
	return position.CardBalance{Free: min(money.NanoUSD(resp.GetCollateralNanoUsd()), left),
		Owed: money.NanoUSD(resp.GetOwedNanoUsd())}, nil
}

func (b CollateralBooks) payments(ctx context.Context, of ids.ProviderID) ([]*billingv1.CollateralPayment, error) {
	resp, err := b.Cards.ListCollateralPayments(ctx, &billingv1.ListCollateralPaymentsRequest{ProviderId: of.String()})
	if err != nil {
		return nil, fmt.Errorf("list the payments by card of %s: %w", of, err)
	}
	return resp.GetPayments(), nil
}

// Payments implements refund.Cards.
func (b CollateralBooks) Payments(ctx context.Context, provider ids.ProviderID) ([]refund.Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	payments, err := b.payments(ctx, provider)
	if err != nil {
		return nil, err
	}
	var list []refund.Payment
	for _, p := range payments {
		// Where only payments count in which money moved, no other one is given back in their place.
		if p.GetLeftCents() > 0 && (p.GetLivemode() || !b.Terms.Card.LiveOnly) {
			list = append(list, refund.Payment{Checkout: p.GetCheckoutId(), Cents: p.GetLeftCents()})
		}
	}
	return list, nil
}

// PayBack implements refund.Cards.
func (b CollateralBooks) PayBack(ctx context.Context, p refund.Part) (refund.PartState, int, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Cards.RefundCollateral(ctx, &billingv1.RefundCollateralRequest{RefundId: p.ID.String(),
		CheckoutId: p.Checkout, AmountCents: p.Cents})
	if err != nil {
		return "", 0, fmt.Errorf("give a payment by card back: %w", err)
	}
	state, attempt := refund.PartPosted, int(resp.GetAttempt())
	switch resp.GetState() {
	case billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_BY_CARD:
		state = refund.PartByCard
	case billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_FROM_BANK:
		state = refund.PartByBank
	case billingv1.CollateralRefundState_COLLATERAL_REFUND_STATE_REVERSED:
		state = refund.PartTakenBack
	default: // the card processor has not said
	}
	return state, attempt, nil
}
