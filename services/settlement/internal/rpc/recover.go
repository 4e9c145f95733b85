package rpc

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
	"svc.internal/services/settlement/internal/sending"
)

// Recovery implements RecoveryAdminService.
type Recovery struct {
	settlementv1.UnimplementedRecoveryAdminServiceServer
	Adopter *adopt.Adopter
	Calls   Calls
}

// Calls has calls cancelled: store.Sending.
type Calls interface {
	// Cancel records that an operator wants a call cancelled. It fails with call_not_found and transition_not_allowed.
	Cancel(ctx context.Context, at sending.Place, actor, reason string) (sending.Call, error)
}

// CancelCall has the nonce of a call cancelled.
func (s *Recovery) CancelCall(
	ctx context.Context, req *settlementv1.CancelCallRequest,
) (*settlementv1.CancelCallResponse, error) {
	sender, err := chain.ParseAddress(req.GetSender())
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "sender must be 0x and 40 digits").On("sender")
	}
	if req.GetNonce() < 0 {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "nonce must not be negative").On("nonce")
	}
	if err := adopt.CheckReason(req.GetReason()); err != nil {
		return nil, err
	}
	at := sending.Place{Chain: chain.ID(max(req.GetChainId(), 0)), Sender: sender, Nonce: uint64(req.GetNonce())}
	call, err := s.Calls.Cancel(ctx, at, operator(ctx), req.GetReason())
	if err != nil {
		return nil, err
	}
	return &settlementv1.CancelCallResponse{Purpose: call.Purpose, Ref: call.Ref}, nil
}

// GetAdoption says what the database lost of a chain.
func (s *Recovery) GetAdoption(
	ctx context.Context, req *settlementv1.GetAdoptionRequest,
) (*settlementv1.GetAdoptionResponse, error) {
	from, err := since(req.GetSince())
	if err != nil {
		return nil, err
	}
	p, err := s.Adopter.Plan(ctx, chain.ID(max(req.GetChainId(), 0)), from, adopt.Words{})
	if err != nil {
		return nil, err
	}
	return &settlementv1.GetAdoptionResponse{Adoption: adoptionToProto(p)}, nil
}

// Adopt takes it into the database.
func (s *Recovery) Adopt(
	ctx context.Context, req *settlementv1.AdoptRequest,
) (*settlementv1.AdoptResponse, error) {
	words, err := wordsFromProto(req)
	if err != nil {
		return nil, err
	}
	from, err := since(req.GetSince())
	if err != nil {
		return nil, err
	}
	p, err := s.Adopter.Adopt(ctx, chain.ID(max(req.GetChainId(), 0)), from, words,
		adopt.By{Actor: operator(ctx), Reason: req.GetReason()})
	if err != nil {
		return nil, err
	}
	return &settlementv1.AdoptResponse{Adoption: adoptionToProto(p)}, nil
}

func since(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidValue, "since must be a time of RFC 3339").On("since")
	}
	return at, nil
}

func wordsFromProto(req *settlementv1.AdoptRequest) (w adopt.Words, err error) {
	w = adopt.Words{Accept: map[chain.Hash]bool{}, Match: map[chain.Hash]payout.ID{}, GiveBack: map[payout.ID]bool{}}
	for _, text := range req.GetAcceptUnknown() {
		h, err := hashFromProto("accept_unknown", text)
		if err != nil {
			return w, err
		}
		w.Accept[h] = true
	}
	for _, m := range req.GetMatches() {
		h, err := hashFromProto("transaction_hash", m.GetTransactionHash())
		if err != nil {
			return w, err
		}
		if w.Match[h], err = payout.ParseID(m.GetPayoutId()); err != nil {
			return w, fault.New(fault.Invalid, fault.InvalidValue, "payout_id is not the id of a payout").On("payout_id")
		}
	}
	for _, text := range req.GetGiveBack() {
		id, err := payout.ParseID(text)
		if err != nil {
			return w, fault.New(fault.Invalid, fault.InvalidValue, "give_back is not the id of a payout").On("give_back")
		}
		w.GiveBack[id] = true
	}
	return w, nil
}

func adoptionToProto(p adopt.Plan) *settlementv1.Adoption {
	out := &settlementv1.Adoption{ChainId: int64(p.Chain), More: p.More, Complete: p.Complete()}
	for _, l := range p.Calls {
		one := &settlementv1.AdoptedCall{Key: string(l.Nonce.Key), Sender: l.Nonce.Sender.String(),
			Nonce: int64(l.Nonce.Nonce), What: string(l.What), Detail: l.Detail, Action: string(l.Action)}
		if l.Nonce.Sent != nil {
			one.TransactionHash = l.Nonce.Sent.Hash.String()
		}
		if l.Payout >= 0 {
			one.PayoutId = p.Payouts[l.Payout].Lost.ID.String()
		}
		out.Calls = append(out.Calls, one)
	}
	for _, l := range p.Payouts {
		one := &settlementv1.AdoptedPayout{PayoutId: l.Lost.ID.String(), ProviderId: l.Lost.Provider.String(),
			GrossUsdStr: l.Lost.Gross.String(), Books: string(l.Lost.End), Action: string(l.Action), Detail: l.Detail}
		if l.Lost.Row != nil {
			one.State = string(l.Lost.Row.State)
		}
		out.Payouts = append(out.Payouts, one)
	}
	return out
}
