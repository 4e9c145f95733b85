package peers

import (
	"context"
	"fmt"
	"time"

	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/batch"
	"svc.internal/services/settlement/internal/chain"
)

// Payees asks the hub where providers are paid; it implements batch.Payees.
type Payees struct{ Client hubv1.PayeeServiceClient }

var _ batch.Payees = Payees{}

// Payees implements batch.Payees. An address that cannot be read is none: the share stands without it.
func (p Payees) Payees(ctx context.Context, providers []ids.ProviderID) (map[ids.ProviderID]chain.Address, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	req := &hubv1.ListPayeesRequest{ProviderIds: make([]string, len(providers))}
	for i, id := range providers {
		req.ProviderIds[i] = id.String()
	}
	resp, err := p.Client.ListPayees(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("list payees: %w", err)
	}
	found := make(map[ids.ProviderID]chain.Address, len(resp.GetPayees()))
	for _, m := range resp.GetPayees() {
		provider, err := ids.ParseProvider(m.GetProviderId())
		if err != nil {
			return nil, fmt.Errorf("list payees: provider id: %w", err)
		}
		if address, err := chain.ParseAddress(m.GetBeneficiaryAddress()); err == nil {
			found[provider] = address
		}
	}
	return found, nil
}

// StatementSigner asks the chain-signer for signatures of statements; it implements batch.Signer.
type StatementSigner struct{ Client signerv1.SignerServiceClient }

var _ batch.Signer = StatementSigner{}

// SignStatement implements batch.Signer.
func (s StatementSigner) SignStatement(ctx context.Context, st batch.Stated) (signature, signer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := s.Client.SignStatement(ctx, &signerv1.SignStatementRequest{
		ProviderId: st.Provider.String(), Day: st.Day.Format(time.DateOnly), ChainId: int64(st.Chain),
		Index: int64(st.Leaf.Index), Beneficiary: st.Leaf.Beneficiary[:], AmountNanoUsd: int64(st.Leaf.Amount),
		Root: st.Root[:], Csv: st.CSV[:], Seal: st.Seal[:], Summary: st.Summary[:],
	})
	if err != nil {
		return nil, nil, fmt.Errorf("ask for a signature: %w", err)
	}
	return resp.GetSignature(), resp.GetSigner(), nil
}
