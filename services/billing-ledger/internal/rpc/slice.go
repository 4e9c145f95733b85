package rpc

import (
	"bytes"
	"context"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/hold"
)

// Recaller gives slices back.
type Recaller interface {
	// Recall writes all holds of an account and closes its slice, if this replica has one, or returns once
	// the slice counts as dead.
	Recall(ctx context.Context, account ids.AccountID) error
}

// Slices answers other replicas of the ledger.
type Slices struct {
	billingv1.UnimplementedSliceServiceServer
	Admission *Admission
	// Own is the id of this replica as an owner.
	Own      [16]byte
	Recaller Recaller
}

// AdmitHere decides one request here.
func (s *Slices) AdmitHere(
	ctx context.Context, req *billingv1.AdmitHereRequest,
) (*billingv1.AdmitHereResponse, error) {
	request, err := requestFromProto(req.GetRequest())
	if err != nil {
		return nil, err
	}
	resp, err := s.Admission.decide(ctx, request, req.GetRequest().GetCarriesTicket())
	if _, ok := hold.AsSliceOpen(err); ok {
		return &billingv1.AdmitHereResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	return &billingv1.AdmitHereResponse{Response: resp}, nil
}

// Recall gives the slice of an account back.
func (s *Slices) Recall(ctx context.Context, req *billingv1.RecallRequest) (*billingv1.RecallResponse, error) {
	account, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, malformed("account_id")
	}
	if !bytes.Equal(req.GetOwner(), s.Own[:]) {
		return &billingv1.RecallResponse{OtherProcess: true}, nil
	}
	if err := s.Recaller.Recall(ctx, account); err != nil {
		return nil, err
	}
	return &billingv1.RecallResponse{}, nil
}
