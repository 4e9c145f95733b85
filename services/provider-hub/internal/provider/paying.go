package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

const (
	// CoolDown is how long nothing is paid out to an address that is new. A thief who had it
	// changed is found out meanwhile.
	CoolDown = 48 * time.Hour
	// MaxPayees bounds how many payees are read at once.
	MaxPayees = 1000
)

// CoolingUntil is until when nothing is paid out, because the beneficiary is new; zero
// without a beneficiary, and for one that was given at sign-up, before there were
// earnings. The wallet that owns the account may have been known for longer than it is the
// beneficiary, and counts from then. Any change begins anew, also one back to an address
// that was the beneficiary before.
func (a *Account) CoolingUntil() time.Time {
	p := a.Payee
	if a.Beneficiary == "" || p.AtSignUp {
		return time.Time{}
	}
	since := p.Since
	if a.Beneficiary == a.Owner && !p.BoundAt.IsZero() && p.BoundAt.Before(since) {
		since = p.BoundAt
	}
	return since.Add(CoolDown)
}

// payTo has earnings go to an address, or nowhere.
func (a *Account) payTo(address string, at time.Time) {
	a.Beneficiary, a.BeneficiaryAt = address, at
	a.Payee.Since, a.Payee.AtSignUp = at, false
	if address == "" {
		a.Payee.Since = time.Time{}
	}
}

// bind has a wallet own the account, or none.
func (a *Account) bind(address string, at time.Time) {
	a.Owner, a.OwnerProvenAt, a.Payee.BoundAt = address, at, at
}

// Payees reads accounts in the order of their ids. An id that nobody has is left out, and
// one that is given twice is answered once. It fails with invalid_value on too many.
func (d *Directory) Payees(ctx context.Context, list []ids.ProviderID) ([]Account, error) {
	if len(list) > MaxPayees {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "at most %d providers are read at once", MaxPayees).On(
			"provider_ids")
	}
	found, err := d.store.Payees(ctx, list)
	if err != nil {
		return nil, err
	}
	byID := make(map[ids.ProviderID]Account, len(found))
	for _, a := range found {
		byID[a.ID] = a
	}
	ordered := make([]Account, 0, len(found))
	for _, id := range list {
		if a, ok := byID[id]; ok {
			ordered = append(ordered, a)
			delete(byID, id)
		}
	}
	return ordered, nil
}

// keepAccount notes the consumer account of the account's user, once.
func (c *change) keepAccount(accountID string) {
	if p := &c.account.Payee; p.AccountID == "" {
		p.AccountID = accountID
	}
}
