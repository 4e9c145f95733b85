package provider

import (
	"context"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// NewVendor makes the account of a vendor of gateway models, with the entries of its history. A vendor
// is active from the beginning, without collateral, benchmark or probation, because the platform
// registers it.
func (d *Directory) NewVendor(ctx context.Context, name string) (Account, []Entry, error) {
	if err := checkText("name", name, 1, maxName); err != nil {
		return Account{}, nil, err
	}
	a, err := d.account(name, "")
	if err != nil {
		return Account{}, nil, err
	}
	a.Vendor = true
	made := change{by: ByOperator.named(ctx), now: a.CreatedAt}
	entries, err := made.of(&a, func(c *change) error {
		c.note(VendorRegistered)
		return nil
	})
	return a, entries, err
}

// VendorChange is what an operator changes of a vendor's account; nil leaves a part as it is.
type VendorChange struct {
	Name      *string
	Suspended *bool
}

// ChangeVendor changes a vendor's account. A repeat changes nothing. It fails with provider_not_found,
// also for a provider that is no vendor, with already_exists for the name of another vendor, and with
// transition_not_allowed.
func (d *Directory) ChangeVendor(
	ctx context.Context, id ids.ProviderID, given VendorChange, reason string,
) (Account, error) {
	if given.Name != nil {
		if err := checkText("name", *given.Name, 1, maxName); err != nil {
			return Account{}, err
		}
	}
	return d.change(ctx, id, ByOperator, reason, func(c *change) error {
		a := c.account
		if !a.Vendor {
			return fault.New(fault.NotFound, fault.ProviderNotFound, "no such vendor").On("provider_id")
		}
		if given.Name != nil && *given.Name != a.Name {
			a.Name = *given.Name
			c.note(VendorRenamed)
		}
		switch {
		case given.Suspended == nil:
			return nil
		case *given.Suspended:
			return c.suspend(CauseAdmin)
		case a.Status == Suspended:
			return c.liftByOperator() // follow then makes the vendor active at once
		case a.Status != Active:
			_, err := a.Status.After(Qualify)
			return err
		}
		return nil
	})
}

// VendorNameTaken is the error for a name that another vendor has.
func VendorNameTaken() error {
	return fault.New(fault.Conflict, fault.AlreadyExists,
		"another vendor has this name; change that one, or give this one another name").On("name")
}
