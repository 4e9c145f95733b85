package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/enterprise"
)

// ConsumerTerms answers users about what operators agreed with their accounts.
type ConsumerTerms struct {
	billingv1.UnimplementedConsumerTermsServiceServer
	Agreements *enterprise.Agreements
	Contacts   *enterprise.Contacts
}

// GetConsumerTerms reads the terms of the account, without the operators' note.
func (s *ConsumerTerms) GetConsumerTerms(
	ctx context.Context, _ *billingv1.GetConsumerTermsRequest,
) (*billingv1.GetConsumerTermsResponse, error) {
	id, err := ownAccount(ctx)
	if err != nil {
		return nil, err
	}
	terms, err := s.Agreements.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	m := &billingv1.GetConsumerTermsResponse{}
	if terms.Note != "" {
		m.Terms = termsToProto(terms)
	}
	return m, nil
}

// SendEnterpriseContact asks for terms.
func (s *ConsumerTerms) SendEnterpriseContact(
	ctx context.Context, req *billingv1.SendEnterpriseContactRequest,
) (*billingv1.SendEnterpriseContactResponse, error) {
	id, err := ownAccount(ctx)
	if err != nil {
		return nil, err
	}
	key := idempotencyKey(ctx, req.GetIdempotencyKey())
	if !isIdempotencyKey(key) {
		return nil, malformed("idempotency_key")
	}
	sent, err := s.Contacts.Send(ctx, enterprise.Contact{
		Account: id, Key: key, Company: req.GetCompany(), Message: req.GetMessage(),
	})
	if err != nil {
		return nil, err
	}
	return &billingv1.SendEnterpriseContactResponse{
		ContactId: sent.ID.String(), CreatedAt: timestamppb.New(sent.Created),
	}, nil
}
