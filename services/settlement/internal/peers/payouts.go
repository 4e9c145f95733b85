package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/screen"
	"svc.internal/services/settlement/internal/sending"
)

// PayoutBooks is billing-ledger as payouts and transactions see it; it implements payout.Ledger and sending.Books.
type PayoutBooks struct {
	Posting  billingv1.PostingServiceClient
	Accruals billingv1.AccrualServiceClient
}

var (
	_ payout.Ledger = PayoutBooks{}
	_ sending.Books = PayoutBooks{}
)

// Balances implements payout.Ledger.
func (b PayoutBooks) Balances(
	ctx context.Context, id ids.ProviderID,
) (payable, inFlight money.NanoUSD, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Accruals.GetProviderBalances(ctx, &billingv1.GetProviderBalancesRequest{ProviderId: id.String()})
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the balances of a provider: %w", err)
	}
	return money.NanoUSD(resp.GetPayableNanoUsd()), money.NanoUSD(resp.GetInFlightNanoUsd()), nil
}

func payoutToProto(p payout.Payout) *billingv1.Payout {
	return &billingv1.Payout{PayoutId: p.ID.String(), ProviderId: p.ProviderID.String(), AmountNanoUsd: int64(p.Gross)}
}

// Reserve implements payout.Ledger.
func (b PayoutBooks) Reserve(ctx context.Context, p payout.Payout) (ids.EntryID, error) {
	return b.post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutRequested{
		PayoutRequested: payoutToProto(p)}})
}

// GiveBack implements payout.Ledger.
func (b PayoutBooks) GiveBack(ctx context.Context, p payout.Payout) (ids.EntryID, error) {
	return b.post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutFailed{PayoutFailed: payoutToProto(p)}})
}

// Confirm implements payout.Ledger.
func (b PayoutBooks) Confirm(ctx context.Context, p payout.Payout) (ids.EntryID, error) {
	kind, decimals := chain.USDC, usdcDecimals
	if p.Chain.PaysOut() == chain.Coin {
		kind, decimals = chain.Coin, chain.CoinDecimals
	}
	units, _, ok := p.Amount.Units(decimals)
	if !ok {
		return ids.EntryID{}, fmt.Errorf("an amount of %s is more than the books can count", p.Amount)
	}
	return b.post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_PayoutConfirmed{
		PayoutConfirmed: &billingv1.PayoutConfirmed{Payout: payoutToProto(p), FeeNanoUsd: int64(p.Fee),
			Sum: &billingv1.TokenSum{Token: p.Chain.Token(kind), Units: units, Quote: quoteToProto(p.Quote)}}}})
}

// usdcDecimals are those of USDC on every chain.
const usdcDecimals = 6

// Gas implements sending.Books.
func (b PayoutBooks) Gas(ctx context.Context, s sending.Spent) (ids.EntryID, error) {
	return b.post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_GasSpent{GasSpent: &billingv1.GasSpent{
		ChainId: s.Chain.String(), TransactionHash: s.Transaction.String(),
		Sum: &billingv1.TokenSum{Token: s.Chain.Token(chain.Coin), Units: s.Units, Quote: quoteToProto(s.Quote)}}}})
}

// Convert implements payout.Ledger.
func (b PayoutBooks) Convert(ctx context.Context, c payout.Conversion) (ids.EntryID, error) {
	return b.post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_EarningsConverted{
		EarningsConverted: &billingv1.EarningsConverted{ConversionId: c.ID.String(), ProviderId: c.ProviderID.String(),
			AccountId: c.Account.String(), AmountNanoUsd: int64(c.Amount)}}})
}

// quoteToProto is nil for the quote of a dollar.
func quoteToProto(q chain.Quote) *billingv1.TokenQuote {
	if q.Rate == 0 {
		return nil
	}
	return &billingv1.TokenQuote{RateNanoUsd: int64(q.Rate), Source: q.Source, At: timestamppb.New(q.At)}
}

func (b PayoutBooks) post(ctx context.Context, req *billingv1.PostRequest) (ids.EntryID, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Posting.Post(ctx, req)
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("post to the books: %w", err)
	}
	return entryOf(resp.GetEntryId())
}

// Payee implements payout.Payees.
func (p Payees) Payee(ctx context.Context, id ids.ProviderID) (payout.Payee, error) {
	ctx, cancel := context.WithTimeout(ctx, payeeTimeout)
	defer cancel()
	resp, err := p.Client.GetPayee(ctx, &hubv1.GetPayeeRequest{ProviderId: id.String()})
	if err != nil {
		return payout.Payee{}, fmt.Errorf("ask for a payee: %w", err)
	}
	m := resp.GetPayee()
	out := payout.Payee{}
	if m.GetBeneficiaryAddress() != "" {
		if out.Address, err = chain.ParseAddress(m.GetBeneficiaryAddress()); err != nil {
			return payout.Payee{}, fmt.Errorf("the address of a payee: %w", err)
		}
	}
	if m.GetAccountId() != "" {
		if out.Account, err = ids.ParseAccount(m.GetAccountId()); err != nil {
			return payout.Payee{}, fmt.Errorf("the account of a payee: %w", err)
		}
	}
	if m.GetBeneficiaryCoolingUntil() != nil {
		out.CoolingUntil = m.GetBeneficiaryCoolingUntil().AsTime()
	}
	return out, nil
}

// payeeTimeout bounds the read of one payee.
const payeeTimeout = 5 * time.Second

// Screener screens addresses; it implements payout.Screener.
type Screener struct{ *screen.Screener }

// Screen implements payout.Screener.
func (s Screener) Screen(ctx context.Context, address chain.Address) (denied bool, version string, err error) {
	v, err := s.Check(ctx, address)
	return v.Denied, v.Version, err
}

// refusedContent tells a nonce that has another content, and a call that the signer's settings do not allow, from what
// passes by itself. The cap of a day has an end, and that of a transaction has none.
func refusedContent(err error) error {
	f, ok := fault.As(err)
	switch {
	case !ok:
		return err
	case f.Reason == fault.NonceUsed:
		return errors.Join(sending.ErrContent, err)
	case f.Reason == fault.DestinationNotAllowed, f.Reason == fault.ChainNotAllowed,
		f.Reason == fault.CapExceeded && f.RetryAfter == 0:
		return errors.Join(sending.ErrRefused, err)
	}
	return err
}
