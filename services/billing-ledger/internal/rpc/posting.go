package rpc

import (
	"context"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// Posting answers settlement.
type Posting struct {
	billingv1.UnimplementedPostingServiceServer
	Poster *posting.Poster
	Months *posting.Months
}

// Post posts a fact.
func (s *Posting) Post(ctx context.Context, req *billingv1.PostRequest) (*billingv1.PostResponse, error) {
	var r factReader
	fact := r.fact(req)
	if r.err != nil {
		return nil, r.err
	}
	id, err := s.Poster.Post(ctx, fact)
	if err != nil {
		return nil, err
	}
	return &billingv1.PostResponse{EntryId: id.String()}, nil
}

// factReader reads a fact. Its error is that of the first field that it cannot read.
type factReader struct{ err error }

func (r *factReader) fact(req *billingv1.PostRequest) posting.Fact {
	switch f := req.GetFact().(type) {
	case *billingv1.PostRequest_EarningsBatch:
		return posting.EarningsBatch{
			Day: r.day(f.EarningsBatch.GetDay()), Provider: r.provider(f.EarningsBatch.GetProviderId()),
			Chain: ledger.Chain(f.EarningsBatch.GetChainId()), Amount: money.NanoUSD(f.EarningsBatch.GetAmountNanoUsd()),
		}
	case *billingv1.PostRequest_PayoutRequested:
		return posting.PayoutRequested{Payout: r.payout(f.PayoutRequested)}
	case *billingv1.PostRequest_PayoutFailed:
		return posting.PayoutFailed{Payout: r.payout(f.PayoutFailed)}
	case *billingv1.PostRequest_PayoutConfirmed:
		return posting.PayoutConfirmed{
			Payout: r.payout(f.PayoutConfirmed.GetPayout()), Fee: money.NanoUSD(f.PayoutConfirmed.GetFeeNanoUsd()),
			Sum: r.sum(f.PayoutConfirmed.GetSum()),
		}
	case *billingv1.PostRequest_GasSpent:
		return posting.GasSpent{
			Transaction: transaction(f.GasSpent.GetChainId(), f.GasSpent.GetTransactionHash()),
			Sum:         r.sum(f.GasSpent.GetSum()),
		}
	case *billingv1.PostRequest_EarningsConverted:
		return posting.EarningsConverted{
			Conversion: f.EarningsConverted.GetConversionId(), Provider: r.provider(f.EarningsConverted.GetProviderId()),
			Account: r.account(f.EarningsConverted.GetAccountId()),
			Amount:  money.NanoUSD(f.EarningsConverted.GetAmountNanoUsd()),
		}
	case *billingv1.PostRequest_PlanSold:
		return posting.PlanSold{Invoice: f.PlanSold.GetInvoiceId(), Month: ledger.Month(f.PlanSold.GetMonth()),
			Price: money.NanoUSD(f.PlanSold.GetPriceNanoUsd())}
	case *billingv1.PostRequest_PlanEarnedLate:
		return posting.PlanEarnedLate{
			Month: ledger.Month(f.PlanEarnedLate.GetMonth()), Day: r.day(f.PlanEarnedLate.GetDay()),
			Provider: r.provider(f.PlanEarnedLate.GetProviderId()),
			Amount:   money.NanoUSD(f.PlanEarnedLate.GetAmountNanoUsd()),
		}
	}
	if fact := r.collateral(req); fact != nil {
		return fact
	}
	return r.tokens(req)
}

// collateral reads the facts of collateral, and returns nil for others.
func (r *factReader) collateral(req *billingv1.PostRequest) posting.Fact {
	switch f := req.GetFact().(type) {
	case *billingv1.PostRequest_CollateralSlashed:
		return posting.CollateralSlashed{Part: r.part(f.CollateralSlashed)}
	case *billingv1.PostRequest_SlashWon:
		return posting.SlashWon{Part: r.part(f.SlashWon)}
	case *billingv1.PostRequest_SlashForfeited:
		return posting.SlashForfeited{Part: r.part(f.SlashForfeited.GetPart()),
			Affected: r.compensations(f.SlashForfeited.GetAffected())}
	case *billingv1.PostRequest_ChainSlashed:
		return posting.ChainSlashed{Penalty: f.ChainSlashed.GetPenaltyId(), Depositor: f.ChainSlashed.GetDepositor(),
			Sum: r.sum(f.ChainSlashed.GetSum()), Affected: r.compensations(f.ChainSlashed.GetAffected())}
	case *billingv1.PostRequest_CollateralRefundAsked:
		return posting.CollateralRefundAsked{Part: r.part(f.CollateralRefundAsked)}
	case *billingv1.PostRequest_CollateralRefunded:
		from := ledger.CardClearing
		if f.CollateralRefunded.GetFromBank() {
			from = ledger.Bank
		}
		return posting.CollateralRefunded{Part: r.part(f.CollateralRefunded.GetPart()), From: from,
			Attempt: r.attempt(f.CollateralRefunded.GetAttempt())}
	case *billingv1.PostRequest_CollateralRefundUndone:
		return posting.CollateralRefundUndone{Part: r.part(f.CollateralRefundUndone)}
	case *billingv1.PostRequest_CustodyMoved:
		return posting.CustodyMoved{
			Transfer: transfer(f.CustodyMoved.GetTransfer()), Provider: r.provider(f.CustodyMoved.GetProviderId()),
			Way: ledger.Way(!f.CustodyMoved.GetOut()), Token: ledger.Token(f.CustodyMoved.GetToken()),
			Units: ledger.Units(f.CustodyMoved.GetUnits()),
		}
	default:
		return nil
	}
}

// tokens reads the facts of tokens. What is no fact at all is malformed.
func (r *factReader) tokens(req *billingv1.PostRequest) posting.Fact {
	switch f := req.GetFact().(type) {
	case *billingv1.PostRequest_Deposited:
		return posting.Deposited{Transfer: transfer(f.Deposited.GetTransfer()),
			Account: r.account(f.Deposited.GetAccountId()), Sum: r.sum(f.Deposited.GetSum()),
			Source: r.source(f.Deposited.GetSender())}
	case *billingv1.PostRequest_DepositGone:
		return posting.DepositGone{Transfer: transfer(f.DepositGone.GetTransfer()),
			Account: r.account(f.DepositGone.GetAccountId()), Sum: r.sum(f.DepositGone.GetSum())}
	case *billingv1.PostRequest_DepositStray:
		r.nobody(f.DepositStray)
		return posting.DepositStray{Transfer: transfer(f.DepositStray.GetTransfer()), Sum: r.sum(f.DepositStray.GetSum())}
	case *billingv1.PostRequest_DepositReturned:
		r.nobody(f.DepositReturned)
		return posting.DepositReturned{Transfer: transfer(f.DepositReturned.GetTransfer()),
			Sum: r.sum(f.DepositReturned.GetSum())}
	case *billingv1.PostRequest_DepositMatched:
		return posting.DepositMatched{Transfer: transfer(f.DepositMatched.GetTransfer()),
			Account: r.account(f.DepositMatched.GetAccountId()), Amount: money.NanoUSD(f.DepositMatched.GetAmountNanoUsd()),
			Source: r.source(f.DepositMatched.GetSender())}
	case *billingv1.PostRequest_TreasuryMoved:
		return posting.TreasuryMoved{
			Transaction: transaction(f.TreasuryMoved.GetChainId(), f.TreasuryMoved.GetTransactionHash()),
			Way:         ledger.Way(!f.TreasuryMoved.GetOut()), Sum: r.sum(f.TreasuryMoved.GetSum()),
		}
	case *billingv1.PostRequest_Revalued:
		sum := r.sum(f.Revalued.GetSum())
		if sum.Quote == nil {
			r.refuse("sum.quote")
			return nil
		}
		return posting.Revalued{Day: r.day(f.Revalued.GetDay()), Booked: money.NanoUSD(f.Revalued.GetBookedNanoUsd()),
			Units: sum.Units, Quote: *sum.Quote}
	default:
		r.refuse("fact")
		return nil
	}
}

func (r *factReader) refuse(field string) {
	if r.err == nil {
		r.err = malformed(field)
	}
}

func (r *factReader) provider(text string) ids.ProviderID {
	id, err := ids.ParseProvider(text)
	if err != nil {
		r.refuse("provider_id")
	}
	return id
}

func (r *factReader) account(text string) ids.AccountID {
	id, err := ids.ParseAccount(text)
	if err != nil {
		r.refuse("account_id")
	}
	return id
}

// nobody refuses an owner of tokens that belong to nobody.
func (r *factReader) nobody(t *billingv1.TokenTransfer) {
	if t.GetAccountId() != "" {
		r.refuse("account_id")
	}
}

// source reads the address that tokens came from, which may not be known.
func (r *factReader) source(address string) kin.Evidence {
	if address == "" {
		return kin.Evidence{}
	}
	source, err := kin.OfAddress(address)
	if err != nil {
		r.refuse("sender")
	}
	return source
}

func (r *factReader) day(text string) time.Time {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		r.refuse("day")
	}
	return day
}

func (r *factReader) payout(p *billingv1.Payout) posting.Payout {
	return posting.Payout{ID: p.GetPayoutId(), Provider: r.provider(p.GetProviderId()),
		Amount: money.NanoUSD(p.GetAmountNanoUsd())}
}

func (r *factReader) part(p *billingv1.CollateralPart) posting.Part {
	return posting.Part{ID: p.GetId(), Provider: r.provider(p.GetProviderId()),
		Amount: money.NanoUSD(p.GetAmountNanoUsd())}
}

func (r *factReader) compensations(list []*billingv1.Compensation) []ledger.Compensation {
	all := make([]ledger.Compensation, len(list))
	for i, c := range list {
		all[i] = ledger.Compensation{Account: r.account(c.GetAccountId()), Amount: money.NanoUSD(c.GetAmountNanoUsd())}
	}
	return all
}

// sum reads a sum. What its token, units and quote may be is for package ledger.
func (r *factReader) sum(m *billingv1.TokenSum) ledger.Sum {
	s := ledger.Sum{Token: ledger.Token(m.GetToken()), Units: ledger.Units(m.GetUnits())}
	if q := m.GetQuote(); q != nil {
		if !q.GetAt().IsValid() {
			r.refuse("quote.at")
		}
		s.Quote = &ledger.Quote{Token: s.Token, Rate: money.NanoUSD(q.GetRateNanoUsd()), Source: q.GetSource(),
			At: q.GetAt().AsTime().Truncate(time.Microsecond)}
	}
	return s
}

func transaction(chain, hash string) posting.Transaction {
	return posting.Transaction{Chain: ledger.Chain(chain), Hash: hash}
}

func transfer(m *billingv1.TransferPlace) posting.Transfer {
	return posting.Transfer{Transaction: transaction(m.GetChainId(), m.GetTransactionHash()), Place: m.GetPlace()}
}

// attempt reads the number of an attempt to refund, of which there is one more than the card is
// asked. 0 is the first.
func (r *factReader) attempt(n int32) int {
	if n < 0 || n > card.MaxAttempts+1 {
		r.refuse("attempt")
	}
	return max(1, int(n))
}
