package rpc

import (
	"context"

	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
)

// maxActive bounds the providers of an answer.
const maxActive = 5_000

// ActiveStore reads what anybody may see of providers.
type ActiveStore interface {
	// Active returns at most limit active providers that are neither references nor vendors,
	// those that have been active for longest first, and how many there are.
	Active(ctx context.Context, limit int) ([]provider.Shown, int, error)
}

// Public answers hub.v1.PublicProviderService.
type Public struct {
	hubv1.UnimplementedPublicProviderServiceServer
	Store ActiveStore
}

// ListActiveProviders names who serves and earns.
func (p *Public) ListActiveProviders(
	ctx context.Context, _ *hubv1.ListActiveProvidersRequest,
) (*hubv1.ListActiveProvidersResponse, error) {
	list, total, err := p.Store.Active(ctx, maxActive)
	if err != nil {
		return nil, err
	}
	m := &hubv1.ListActiveProvidersResponse{Total: int32(total)}
	for _, a := range list {
		m.Providers = append(m.Providers, &hubv1.ActiveProvider{
			ProviderId: a.ID.String(), Name: a.Name, Region: a.Region, Uptime_30D: a.Uptime30d,
		})
	}
	return m, nil
}
