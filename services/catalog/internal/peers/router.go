// Package peers asks the service that the catalog depends on: the router for what is
// online.
package peers

import (
	"context"
	"fmt"

	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/catalog/internal/guarantee"
)

// RouterSupply asks the router what is online.
type RouterSupply struct{ Router routerv1.RouterServiceClient }

// Supply is what is online, by model id.
func (r RouterSupply) Supply(ctx context.Context) (map[string]guarantee.Supply, error) {
	resp, err := r.Router.ListSupply(ctx, &routerv1.ListSupplyRequest{})
	if err != nil {
		return nil, fmt.Errorf("list supply: %w", err)
	}
	supply := make(map[string]guarantee.Supply, len(resp.GetModels()))
	for _, m := range resp.GetModels() {
		supply[m.GetModelId()] = guarantee.Supply{
			Online: m.GetOnlineProviders(), Reporting: m.GetReportingProviders(),
			MinReported: m.GetMinReportedContextLength(), MaxReported: m.GetMaxReportedContextLength(),
			Quantizations: m.GetQuantizations(),
		}
	}
	return supply, nil
}
