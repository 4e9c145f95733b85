package external

import (
	"context"

	"svc.internal/pkg/ids"
)

// DraftOfVendor checks a vendor's draft and returns its endpoint, without storing it. It fails with
// service_unavailable until the hub has heard the catalog, because only the catalog says which models
// a vendor may serve.
func (d *Directory) DraftOfVendor(vendor ids.ProviderID, draft Draft, idempotencyKey string) (Endpoint, error) {
	e, err := d.drafted(vendor, draft, idempotencyKey)
	if err != nil {
		return Endpoint{}, err
	}
	return e, checkKinds(d.Kinds, true, e.Models)
}

// CheckVendor checks a change of a vendor's endpoint.
func (d *Directory) CheckVendor(c Change, reason string) error {
	if err := checkText("reason", reason, 0, maxReason); err != nil {
		return err
	}
	_, err := d.checked(c, true)
	return err
}

// UpdateVendor changes a vendor's endpoint in an operator's name.
func (d *Directory) UpdateVendor(
	ctx context.Context, operator string, vendor ids.ProviderID, id ID, c Change, reason string,
) (Endpoint, error) {
	apply, err := d.checked(c, true)
	if err != nil {
		return Endpoint{}, err
	}
	by := Author{Operator: operator, What: "endpoint_changed", Reason: reason}
	changed, err := d.Store.ChangeEndpoint(ctx, vendor, id, by, apply)
	if err == nil {
		d.Changed()
	}
	return changed, err
}
