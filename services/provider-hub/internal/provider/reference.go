package provider

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// SetReference makes a provider a reference of the platform, which is never active, or an
// ordinary provider again, whose status then follows from its facts. The same again
// changes nothing. It fails with provider_not_found, and with transition_not_allowed for
// a provider that is not pending or was ever active.
func (d *Directory) SetReference(
	ctx context.Context, id ids.ProviderID, reference bool, reason string,
) (Account, error) {
	return d.change(ctx, id, ByOperator, reason, func(c *change) error {
		a := c.account
		switch {
		case a.Reference == reference:
			return nil
		case !reference:
			a.Reference = false
			c.note(ReferenceCleared)
			return nil
		case a.Status != Pending || a.WasActive:
			return fault.New(fault.Precondition, fault.TransitionNotAllowed,
				"only a provider that is pending and was never active becomes a reference").On("reference")
		}
		a.Reference = true
		c.note(ReferenceSet)
		return nil
	})
}
