package peers

import (
	"context"
	"fmt"
	"time"

	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/settlement/internal/collateral"
)

// collateralTimeout bounds one call. A hub writes a few rows for it.
const collateralTimeout = 5 * time.Second

// The reasons stand in the provider's history.
const (
	developmentReason = "development: nobody holds any collateral"
	withdrawnReason   = "development collateral was withdrawn"
)

// CollateralHub tells the hub of collateral; it implements collateral.Hub.
type CollateralHub struct {
	client hubv1.ProviderCollateralServiceClient
}

// NewCollateralHub makes a CollateralHub.
func NewCollateralHub(client hubv1.ProviderCollateralServiceClient) *CollateralHub {
	return &CollateralHub{client}
}

// SetCollateral implements collateral.Hub.
func (h *CollateralHub) SetCollateral(ctx context.Context, f collateral.Fact) error {
	ctx, cancel := context.WithTimeout(ctx, collateralTimeout)
	defer cancel()
	if _, err := h.client.SetCollateral(ctx, &hubv1.SetCollateralRequest{
		ProviderId: f.ProviderID.String(), Confirmed: f.Confirmed, Revision: f.Revision, Reason: reason(f),
		Source: sourceToProto(f.Source),
	}); err != nil {
		return fmt.Errorf("tell the hub of the collateral of %s: %w", f.ProviderID, err)
	}
	return nil
}

// meanings stand in the provider's history, and the provider reads them.
var meanings = map[collateral.Cause]string{
	collateral.Refund:       "your collateral is being refunded",
	collateral.CardReversed: "a card payment of your collateral was taken back",
	collateral.Exit:         "a depositor leaves with collateral that you need",
}

// SetSuspension implements collateral.Hub.
func (h *CollateralHub) SetSuspension(ctx context.Context, s collateral.Suspension) error {
	ctx, cancel := context.WithTimeout(ctx, collateralTimeout)
	defer cancel()
	if _, err := h.client.SetSuspension(ctx, &hubv1.SetSuspensionRequest{
		ProviderId: s.ProviderID.String(), Cause: causeToProto(s.Cause), On: s.Holds, Revision: s.Revision,
		Reason: meanings[s.Cause],
	}); err != nil {
		return fmt.Errorf("tell the hub of a suspension of %s: %w", s.ProviderID, err)
	}
	return nil
}

func causeToProto(c collateral.Cause) hubv1.SuspensionCause {
	switch c {
	case collateral.Refund:
		return hubv1.SuspensionCause_SUSPENSION_CAUSE_REFUND
	case collateral.CardReversed:
		return hubv1.SuspensionCause_SUSPENSION_CAUSE_CARD
	case collateral.Exit:
		return hubv1.SuspensionCause_SUSPENSION_CAUSE_EXIT
	default:
		return hubv1.SuspensionCause_SUSPENSION_CAUSE_UNSPECIFIED
	}
}

func reason(f collateral.Fact) string {
	switch {
	case f.Source != collateral.FromDevelopment:
		return ""
	case f.Confirmed:
		return developmentReason
	default:
		return withdrawnReason
	}
}

func sourceToProto(s collateral.Source) hubv1.CollateralSource {
	switch s {
	case collateral.FromDevelopment:
		return hubv1.CollateralSource_COLLATERAL_SOURCE_DEVELOPMENT
	case collateral.FromContract:
		return hubv1.CollateralSource_COLLATERAL_SOURCE_CONTRACT
	case collateral.FromCard:
		return hubv1.CollateralSource_COLLATERAL_SOURCE_CARD
	default:
		return hubv1.CollateralSource_COLLATERAL_SOURCE_UNSPECIFIED
	}
}
