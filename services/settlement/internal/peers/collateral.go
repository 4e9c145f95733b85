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

// developmentReason stands in the provider's history.
const developmentReason = "development: nobody holds any collateral"

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
		ProviderId: f.ProviderID.String(), Confirmed: f.Confirmed, Revision: f.Revision, Reason: developmentReason,
	}); err != nil {
		return fmt.Errorf("tell the hub of the collateral of %s: %w", f.ProviderID, err)
	}
	return nil
}
