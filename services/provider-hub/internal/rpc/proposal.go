package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// proposalID reads an id. A malformed id names no proposal.
func proposalID(text string) (ids.ProposalID, error) {
	id, err := ids.ParseProposal(text)
	if err != nil {
		return id, provider.NoProposal()
	}
	return id, nil
}

// ListProposals reads the proposals that wait for a user's decision.
func (s *Self) ListProposals(ctx context.Context, m *hubv1.ListProposalsRequest) (*hubv1.ListProposalsResponse, error) {
	account, err := s.accounts.OfUser(ctx, m.GetUserId())
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.ListProposalsResponse{Provider: p}, nil
}

// ConfirmProposal applies a proposal in its user's name.
func (s *Self) ConfirmProposal(
	ctx context.Context, m *hubv1.ConfirmProposalRequest,
) (*hubv1.ConfirmProposalResponse, error) {
	id, err := proposalID(m.GetProposalId())
	if err != nil {
		return nil, err
	}
	account, err := s.accounts.ConfirmProposal(ctx, m.GetUserId(), id)
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.ConfirmProposalResponse{Provider: p}, nil
}

// RefuseProposal drops a proposal in its user's name.
func (s *Self) RefuseProposal(
	ctx context.Context, m *hubv1.RefuseProposalRequest,
) (*hubv1.RefuseProposalResponse, error) {
	id, err := proposalID(m.GetProposalId())
	if err != nil {
		return nil, err
	}
	account, err := s.accounts.RefuseProposal(ctx, m.GetUserId(), id)
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, s.accounts, s.presence, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.RefuseProposalResponse{Provider: p}, nil
}
