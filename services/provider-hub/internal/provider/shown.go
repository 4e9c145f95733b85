package provider

import "svc.internal/pkg/ids"

// Shown is what anybody may see of an account.
type Shown struct {
	ID     ids.ProviderID
	Name   string
	Region string
	// Uptime30d is a part of the time, 0 to 1; nil where nothing is known yet.
	Uptime30d *float64
}
