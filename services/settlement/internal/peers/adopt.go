package peers

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

var (
	_ adopt.Signer = ChainSigner{}
	_ adopt.Signer = NoSigner{}
	_ adopt.Books  = PayoutBooks{}
	_ adopt.Payees = Payees{}
)

// Senders implements adopt.Signer.
func (s ChainSigner) Senders(ctx context.Context, id chain.ID) (list []adopt.Sender, err error) {
	req := &signerv1.ListSendersRequest{ChainId: int64(id)}
	for {
		page, err := s.senders(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, one := range page.GetSenders() {
			address, err := addressOf(one.GetAddress())
			if err != nil {
				return nil, err
			}
			list = append(list, adopt.Sender{Key: sending.Key(one.GetKey()), Address: address,
				Next: uint64(max(one.GetNext(), 0))})
		}
		if !page.GetMore() || len(page.GetSenders()) == 0 {
			return list, nil
		}
		req.After = page.GetSenders()[len(page.GetSenders())-1].GetAddress()
	}
}

func (s ChainSigner) senders(
	ctx context.Context, req *signerv1.ListSendersRequest,
) (*signerv1.ListSendersResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	return s.Client.ListSenders(ctx, req)
}

// Signed implements adopt.Signer.
func (s ChainSigner) Signed(
	ctx context.Context, id chain.ID, sender chain.Address, from uint64,
) (map[uint64]adopt.Promised, error) {
	ctx, cancel := context.WithTimeout(ctx, signTimeout)
	defer cancel()
	resp, err := s.Client.ListSigned(ctx, &signerv1.ListSignedRequest{ChainId: int64(id), Sender: sender[:],
		From: int64(from)})
	if err != nil {
		return nil, err
	}
	records := map[uint64]adopt.Promised{}
	for _, n := range resp.GetNonces() {
		p := adopt.Promised{Cancelled: n.GetCancelled()}
		if len(n.GetCallHash()) > 0 {
			if len(n.GetCallHash()) != len(p.Content) {
				return nil, fmt.Errorf("the signer has a content of %d bytes", len(n.GetCallHash()))
			}
			copy(p.Content[:], n.GetCallHash())
			if p.Asset, err = addressOf(n.GetAsset()); err != nil {
				return nil, err
			}
			if p.Amount, err = chain.ParseAmount(n.GetAmount()); err != nil {
				return nil, fmt.Errorf("the amount of a signed nonce: %w", err)
			}
		}
		records[uint64(max(n.GetNonce(), 0))] = p
	}
	return records, nil
}

// Senders fails.
func (NoSigner) Senders(context.Context, chain.ID) ([]adopt.Sender, error) { return nil, errNoSigner }

// Signed fails.
func (NoSigner) Signed(context.Context, chain.ID, chain.Address, uint64) (map[uint64]adopt.Promised, error) {
	return nil, errNoSigner
}

// Payouts implements adopt.Books.
func (b PayoutBooks) Payouts(ctx context.Context, since time.Time, limit int) (list []adopt.Booked, err error) {
	req := &billingv1.ListPayoutsRequest{Since: timestamppb.New(since)}
	for {
		page, err := b.payouts(ctx, req)
		if err != nil {
			return nil, fmt.Errorf("list the payouts of the books: %w", err)
		}
		for _, p := range page.GetPayouts() {
			one, err := bookedFromProto(p)
			if err != nil {
				return nil, fmt.Errorf("a payout of the books: %w", err)
			}
			list = append(list, one)
		}
		if len(list) > limit {
			return nil, fault.New(fault.Invalid, fault.InvalidValue,
				"the books have more than %d payouts since %s: adopt from a later time on, at which nothing was lost yet", limit,
				since.UTC().Format(time.RFC3339)).On("since")
		}
		if page.GetNextPageToken() == "" {
			return list, nil
		}
		req.PageToken = page.GetNextPageToken()
	}
}

func (b PayoutBooks) payouts(
	ctx context.Context, req *billingv1.ListPayoutsRequest,
) (*billingv1.ListPayoutsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	return b.Accruals.ListPayouts(ctx, req)
}

func bookedFromProto(p *billingv1.BookedPayout) (one adopt.Booked, err error) {
	one = adopt.Booked{Gross: money.NanoUSD(p.GetAmountNanoUsd()), At: p.GetAt().AsTime(),
		Token: p.GetToken(), Units: p.GetUnits()}
	switch p.GetEnd() {
	case billingv1.BookedPayout_END_CONFIRMED:
		one.End = adopt.Confirmed
	case billingv1.BookedPayout_END_FAILED:
		one.End = adopt.Failed
	default:
		one.End = adopt.InFlight
	}
	if p.GetRateNanoUsd() != 0 {
		one.Quote = chain.Quote{Rate: money.NanoUSD(p.GetRateNanoUsd()), Source: p.GetRateSource(),
			At: p.GetRateAt().AsTime()}
	}
	if one.ID, err = payout.ParseID(p.GetPayoutId()); err != nil {
		return one, err
	}
	if one.Entry, err = entryOf(p.GetEntryId()); err != nil {
		return one, err
	}
	one.Provider, err = ids.ParseProvider(p.GetProviderId())
	return one, err
}
