package peers

import (
	"context"
	"fmt"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/router/internal/directory"
)

// AskHub asks a hub whether a provider exists.
func AskHub(providers hubv1.ProviderDirectoryServiceClient) directory.Ask {
	return func(ctx context.Context, provider string) (bool, error) {
		_, err := providers.GetProvider(ctx, &hubv1.GetProviderRequest{ProviderId: provider})
		// A client without our interceptors gives the bare status.
		err = fault.FromError(err)
		switch {
		case err == nil:
			return true, nil
		case fault.Is(err, fault.ProviderNotFound):
			return false, nil
		default:
			return false, fmt.Errorf("ask for a provider: %w", err)
		}
	}
}
