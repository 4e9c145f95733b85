package provider

import "context"

// UpdateOfUser changes, in the name of the account's user, where earnings go and whose wallet owns the
// account. Both count at once, because the user decides on proposals anyway. In an account that is
// bound to a wallet, the wallet must have signed for earnings to go to another address. A change
// withdraws the proposal that waits in its place. The same call again changes nothing and succeeds.
// UpdateOfUser fails as UpdateOwn, and with provider_not_found for a user without an account.
func (d *Directory) UpdateOfUser(ctx context.Context, user string, said OwnChange) (Account, error) {
	beneficiary, err := said.check()
	if err != nil {
		return Account{}, err
	}
	a, err := d.OfUser(ctx, user)
	if err != nil {
		return Account{}, err
	}
	if err := a.Status.Admits(); err != nil {
		return Account{}, err
	}
	pay := Proposal{Kind: ProposedBeneficiary, Address: beneficiary}
	var proof *Proof
	if said.Owner != "" {
		proof, err = d.spent(ctx, said.Owner, said.Nonce, said.Signature)
		switch {
		case err != nil && proof != nil && a.is(proof.Address.String(), beneficiary):
			return a, nil // the proof was spent by this very call
		case err != nil:
			return Account{}, err
		}
		pay.Signer = proof.Address.String()
		if err := d.settleOwner(ctx, proof.Address); err != nil {
			return Account{}, err
		}
	}
	return d.change(ctx, a.ID, ByUser, "", func(c *change) error {
		if err := c.account.Status.Admits(); err != nil {
			return err
		}
		if proof != nil {
			if err := c.own(proof.Address); err != nil {
				return err
			}
		}
		if beneficiary == "" {
			return nil
		}
		return c.pay(pay)
	})
}

// is reports whether a wallet owns the account, and whether earnings go to a beneficiary, unless that
// is empty.
func (a *Account) is(owner, beneficiary string) bool {
	return !a.OwnerProvenAt.IsZero() && a.Owner == owner && (beneficiary == "" || a.Beneficiary == beneficiary)
}

// RequestReviewOfUser is RequestReview in the name of the account's user, whose account may have no key
// that is good. It fails with transition_not_allowed, invalid_value, and with provider_not_found for a
// user without an account.
func (d *Directory) RequestReviewOfUser(ctx context.Context, user string, said Application) (Account, error) {
	if err := said.check(); err != nil {
		return Account{}, err
	}
	a, err := d.OfUser(ctx, user)
	if err != nil {
		return Account{}, err
	}
	return d.change(ctx, a.ID, ByUser, "", func(c *change) error { return c.apply(said) })
}
