package provider

import (
	"context"
	"fmt"

	"svc.internal/pkg/ids"
)

// AdmitExternal returns the provider of an external endpoint, with a fresh epoch: no agent
// shows a key, because the hub itself makes the session. It fails with provider_not_found
// or, for a provider that may not connect, with account_frozen.
func (d *Directory) AdmitExternal(ctx context.Context, id ids.ProviderID) (Credential, error) {
	c, err := d.store.Entrant(ctx, id)
	if err != nil {
		return Credential{}, fmt.Errorf("admit an external endpoint: %w", err)
	}
	return c, c.admissible()
}
