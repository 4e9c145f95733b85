// Package vendor keeps the vendors of gateway models: companies whose servers hubs call on the
// platform's account. A vendor is a provider that the platform registers (provider/vendor.go) with
// one external endpoint, which has the base URL, the platform's key and the local name of each model.
// Hubs call it as they call any external endpoint. Package kinds decides which models it serves.
//
// The account and the endpoint of a vendor are created in one transaction. A change of both is two
// transactions. Where a call fails between the two, its repeat makes the missing change.
package vendor

import (
	"context"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/provider"
)

// Vendor is a vendor with its server.
type Vendor struct {
	Account  provider.Account
	Endpoint external.Endpoint
}

// Store keeps vendors.
type Store interface {
	// CreateVendor keeps a vendor with the entries of its history. With an idempotency key that
	// was used before it returns the vendor of that key instead. It fails with already_exists,
	// and with idempotency_key_reused where the key was used for a provider that is no vendor.
	CreateVendor(ctx context.Context, v Vendor, entries []provider.Entry, operator, idempotencyKey string) (got Vendor,
		fresh bool, err error)
	// Vendor reads a vendor. It fails with provider_not_found, also for a provider that is no vendor.
	Vendor(ctx context.Context, id ids.ProviderID) (Vendor, error)
	// Vendors returns one page, the oldest vendor first, and the number of all vendors.
	Vendors(ctx context.Context, offset, limit int) ([]Vendor, int, error)
}

// Directory is where operators look after vendors. It is safe for concurrent use.
type Directory struct {
	store     Store
	accounts  *provider.Directory
	endpoints *external.Directory
}

// NewDirectory returns a directory.
func NewDirectory(store Store, accounts *provider.Directory, endpoints *external.Directory) *Directory {
	return &Directory{store: store, accounts: accounts, endpoints: endpoints}
}

// Draft is a vendor as an operator gives it.
type Draft struct {
	Name, BaseURL string
	Key           config.Secret
	Models        []external.Model
}

// Create registers a vendor in an operator's name. With an idempotency key that was used before it
// returns the vendor of that key, and fails with idempotency_key_reused where the draft is of another
// vendor.
func (d *Directory) Create(ctx context.Context, operator string, draft Draft, idempotencyKey string) (Vendor, error) {
	account, entries, err := d.accounts.NewVendor(ctx, draft.Name)
	if err != nil {
		return Vendor{}, err
	}
	endpoint, err := d.endpoints.DraftOfVendor(account.ID, external.Draft{Name: draft.Name, BaseURL: draft.BaseURL,
		Key: draft.Key, Models: draft.Models}, idempotencyKey)
	if err != nil {
		return Vendor{}, err
	}
	got, fresh, err := d.store.CreateVendor(ctx, Vendor{account, endpoint}, entries, operator, idempotencyKey)
	if err != nil {
		return Vendor{}, err
	}
	if !fresh && !d.endpoints.Same(&got.Endpoint, &endpoint, draft.Key) {
		return Vendor{}, Reused()
	}
	d.endpoints.Changed()
	return got, nil
}

// List returns a page of vendors.
func (d *Directory) List(ctx context.Context, offset, limit int) ([]Vendor, int, error) {
	return d.store.Vendors(ctx, offset, limit)
}

// Change is what an operator changes; nil leaves a part as it is.
type Change struct {
	Name, BaseURL *string
	// Key is the new key; an empty key removes the key.
	Key       *config.Secret
	Models    []external.Model
	Suspended *bool
	Reason    string
}

// Update changes a vendor in an operator's name. A repeat changes nothing but the revision of the
// endpoint.
func (d *Directory) Update(ctx context.Context, operator string, id ids.ProviderID, c Change) (Vendor, error) {
	v, err := d.store.Vendor(ctx, id)
	if err != nil {
		return Vendor{}, err
	}
	// A session keeps the name that the provider had when the session began. So a new name changes the
	// endpoint, too, and with that a new session begins.
	given := external.Change{Name: c.Name, BaseURL: c.BaseURL, Key: c.Key, Models: c.Models}
	if err := d.endpoints.CheckVendor(given, c.Reason); err != nil {
		return Vendor{}, err
	}
	account := provider.VendorChange{Name: c.Name, Suspended: c.Suspended}
	if v.Account, err = d.accounts.ChangeVendor(ctx, id, account, c.Reason); err != nil {
		return Vendor{}, err
	}
	if c.Name == nil && c.BaseURL == nil && c.Key == nil && c.Models == nil {
		return v, nil
	}
	v.Endpoint, err = d.endpoints.UpdateVendor(ctx, operator, id, v.Endpoint.ID, given, c.Reason)
	return v, err
}

// Reused is the error of an idempotency key that was used for something else.
func Reused() error {
	return fault.New(fault.Precondition, fault.IdempotencyKeyReused,
		"the idempotency key was used for another provider").On("idempotency_key")
}

// NotFound is the error of a vendor that is not there.
func NotFound() error {
	return fault.New(fault.NotFound, fault.ProviderNotFound, "no such vendor").On("provider_id")
}
