package rpc

import (
	"context"

	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
)

// Collateral answers hub.v1.ProviderCollateralService.
type Collateral struct {
	hubv1.UnimplementedProviderCollateralServiceServer
	accounts *provider.Directory
	registry *registry.Registry
}

// NewCollateral serves accounts, and applies changes to the sessions of reg.
func NewCollateral(accounts *provider.Directory, reg *registry.Registry) *Collateral {
	return &Collateral{accounts: accounts, registry: reg}
}

// SetCollateral records whether a provider's collateral is confirmed.
func (c *Collateral) SetCollateral(
	ctx context.Context, m *hubv1.SetCollateralRequest,
) (*hubv1.SetCollateralResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	account, err := c.accounts.SetCollateral(ctx, id, m.GetConfirmed(), m.GetRevision(), m.GetReason())
	if err != nil {
		return nil, err
	}
	p, err := felt(ctx, c.accounts, c.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.SetCollateralResponse{Provider: p}, nil
}
