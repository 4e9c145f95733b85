package rpc

import (
	"context"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
)

// Collateral answers hub.v1.ProviderCollateralService.
type Collateral struct {
	hubv1.UnimplementedProviderCollateralServiceServer
	accounts *provider.Directory
	registry *registry.Registry
	// development is the hub's consent to collateral that nobody holds.
	development bool
}

// NewCollateral serves accounts, and applies changes to the sessions of reg. development
// is the hub's consent to collateral that nobody holds.
func NewCollateral(accounts *provider.Directory, reg *registry.Registry, development bool) *Collateral {
	return &Collateral{accounts: accounts, registry: reg, development: development}
}

// SetCollateral records whether a provider's collateral is confirmed.
func (c *Collateral) SetCollateral(
	ctx context.Context, m *hubv1.SetCollateralRequest,
) (*hubv1.SetCollateralResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	if err := c.checkSource(m); err != nil {
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

// SetSuspension begins or ends a cause of a suspension.
func (c *Collateral) SetSuspension(
	ctx context.Context, m *hubv1.SetSuspensionRequest,
) (*hubv1.SetSuspensionResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	said := provider.SuspensionWord{Cause: causeFromProto(m.GetCause()), On: m.GetOn(), Revision: m.GetRevision()}
	account, err := c.accounts.SetSuspension(ctx, id, said, m.GetReason())
	if err != nil {
		return nil, err
	}
	p, err := felt(ctx, c.accounts, c.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.SetSuspensionResponse{Provider: p}, nil
}

// checkSource refuses to confirm collateral without a source, and collateral that nobody
// holds unless this hub consents. A withdrawal needs neither.
func (c *Collateral) checkSource(m *hubv1.SetCollateralRequest) error {
	if !m.GetConfirmed() {
		return nil
	}
	switch m.GetSource() {
	case hubv1.CollateralSource_COLLATERAL_SOURCE_CONTRACT, hubv1.CollateralSource_COLLATERAL_SOURCE_CARD:
		return nil
	case hubv1.CollateralSource_COLLATERAL_SOURCE_DEVELOPMENT:
		if c.development {
			return nil
		}
		return fault.New(fault.Invalid, fault.InvalidValue, "this hub takes no development collateral").On("source")
	default:
		return fault.New(fault.Invalid, fault.InvalidValue, "source is missing or unknown").On("source")
	}
}
