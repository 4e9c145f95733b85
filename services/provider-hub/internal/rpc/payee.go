package rpc

import (
	"context"

	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// Payees answers hub.v1.PayeeService.
type Payees struct {
	hubv1.UnimplementedPayeeServiceServer
	accounts *provider.Directory
}

// NewPayees serves accounts.
func NewPayees(accounts *provider.Directory) *Payees { return &Payees{accounts: accounts} }

// GetPayee reads one payee.
func (p *Payees) GetPayee(ctx context.Context, m *hubv1.GetPayeeRequest) (*hubv1.GetPayeeResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	a, err := p.accounts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.GetPayeeResponse{Payee: payeeToProto(&a)}, nil
}

// ListPayees reads many payees. A malformed id names no provider.
func (p *Payees) ListPayees(ctx context.Context, m *hubv1.ListPayeesRequest) (*hubv1.ListPayeesResponse, error) {
	texts := m.GetProviderIds()
	asked := make([]ids.ProviderID, 0, min(len(texts), provider.MaxPayees+1))
	for _, text := range texts[:min(len(texts), provider.MaxPayees+1)] {
		id, err := ids.ParseProvider(text)
		if err != nil && len(texts) <= provider.MaxPayees {
			continue
		}
		asked = append(asked, id)
	}
	found, err := p.accounts.Payees(ctx, asked)
	if err != nil {
		return nil, err
	}
	list := make([]*hubv1.Payee, 0, len(found))
	for i := range found {
		list = append(list, payeeToProto(&found[i]))
	}
	return &hubv1.ListPayeesResponse{Payees: list}, nil
}
