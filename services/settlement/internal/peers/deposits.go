package peers

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/deposit"
)

// DepositBooks posts what becomes of deposits; it implements deposit.Ledger.
type DepositBooks struct {
	Client billingv1.PostingServiceClient
}

// Post implements deposit.Ledger.
func (b DepositBooks) Post(ctx context.Context, fact deposit.Fact, t deposit.Transfer) (string, error) {
	req, err := depositFact(fact, t)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Client.Post(ctx, req)
	if err != nil {
		return "", fmt.Errorf("post a deposit: %w", err)
	}
	return resp.GetEntryId(), nil
}

func depositFact(fact deposit.Fact, t deposit.Transfer) (*billingv1.PostRequest, error) {
	place := &billingv1.TransferPlace{ChainId: t.Chain.String(), TransactionHash: t.Transaction.String(), Place: t.Place}
	moved := &billingv1.TokenTransfer{Transfer: place, Sum: sumOf(t)}
	req := &billingv1.PostRequest{}
	switch fact {
	case deposit.FactDeposited:
		moved.AccountId, moved.Sender = t.Account.String(), senderOf(t)
		req.Fact = &billingv1.PostRequest_Deposited{Deposited: moved}
	case deposit.FactStray:
		req.Fact = &billingv1.PostRequest_DepositStray{DepositStray: moved}
	case deposit.FactReturned:
		req.Fact = &billingv1.PostRequest_DepositReturned{DepositReturned: moved}
	case deposit.FactGone:
		moved.AccountId = t.Account.String()
		req.Fact = &billingv1.PostRequest_DepositGone{DepositGone: moved}
	case deposit.FactMatched:
		_, even, err := deposit.Value(t.Units, t.Quote)
		if err != nil {
			return nil, err
		}
		req.Fact = &billingv1.PostRequest_DepositMatched{DepositMatched: &billingv1.DepositMatched{Transfer: place,
			AccountId: t.Account.String(), AmountNanoUsd: int64(even), Sender: senderOf(t)}}
	default:
		return nil, fmt.Errorf("%q is no fact of a deposit", fact)
	}
	return req, nil
}

// senderOf is the address that a transfer came from; empty for coins that no transaction brought.
func senderOf(t deposit.Transfer) string {
	if t.Sender.IsZero() {
		return ""
	}
	return t.Sender.String()
}

// sumOf is the transfer's sum as the books count it.
func sumOf(t deposit.Transfer) *billingv1.TokenSum {
	sum := &billingv1.TokenSum{Token: t.Token, Units: t.Units}
	if t.Quote != nil {
		sum.Quote = &billingv1.TokenQuote{RateNanoUsd: int64(t.Quote.Rate), Source: t.Quote.Source,
			At: timestamppb.New(t.Quote.At)}
	}
	return sum
}

var _ deposit.Ledger = DepositBooks{}
