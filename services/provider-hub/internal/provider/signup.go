package provider

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// Applicant is a provider that signs up. Addresses may be empty. Owner is only a claim
// unless its wallet has signed the challenge of Nonce.
type Applicant struct {
	Name, Region, Owner, Beneficiary string
	Nonce                            string
	Signature                        []byte
	// User is the user whose account it is; empty for none. AccountID is the user's
	// consumer account.
	User, AccountID string
}

// SignUpProof identifies a sign-up, and has its proof of the owner's address, if there is
// one.
type SignUpProof struct {
	User  string
	Proof *Proof
}

// SignUp opens an account in status pending with one key. A user who has an account is
// issued a further key for it, whatever else the sign-up says. A sign-up without a user
// always makes an account of its own, because nobody else may get a key to an account
// that exists. SignUp fails with already_exists, invalid_api_key where the wallet has not
// signed, invalid_value, too_many_keys and account_frozen.
func (d *Directory) SignUp(ctx context.Context, who Applicant) (Account, Key, string, error) {
	fail := func(err error) (Account, Key, string, error) { return Account{}, Key{}, "", err }
	want, err := d.applied(who)
	if err != nil {
		return fail(err)
	}
	k, text, err := d.newKey(want.ID, "first")
	if err != nil {
		return fail(err)
	}
	got, fresh, err := d.open(ctx, &want, k, who)
	if err != nil || fresh {
		return got, k, text, err
	}
	if got, err = d.again(ctx, got, who); err != nil {
		return fail(err)
	}
	k.Provider = got.ID
	if _, err := d.store.AddOwnKey(ctx, k, maxOwnKeys, ids.KeyID{}, time.Time{}); err != nil {
		return fail(err)
	}
	return got, k, text, nil
}

// applied checks an application and makes its account.
func (d *Directory) applied(who Applicant) (want Account, err error) {
	if err := checkIdentity(who.Name, who.Region, ""); err != nil {
		return Account{}, err
	}
	if err := checkText("user_id", who.User, 0, maxUser); err != nil {
		return Account{}, err
	}
	if err := checkText("account_id", who.AccountID, 0, maxUser); err != nil {
		return Account{}, err
	}
	if who.AccountID != "" && who.User == "" {
		return Account{}, fault.New(fault.Invalid, fault.InvalidValue, "account_id must come with its user_id").On(
			"account_id")
	}
	if want, err = d.account(who.Name, who.Region); err != nil {
		return Account{}, err
	}
	want.Payee.AccountID = who.AccountID
	if want.Owner, err = optionalAddress("owner_address", who.Owner); err != nil {
		return Account{}, err
	}
	if want.Beneficiary, err = optionalAddress("beneficiary_address", who.Beneficiary); err != nil {
		return Account{}, err
	}
	if who.signed() && who.Owner == "" {
		return Account{}, fault.New(fault.Invalid, fault.InvalidValue, "owner_address must say whose signature it is").On(
			"owner_address")
	}
	return want, nil
}

func (a *Applicant) signed() bool { return a.Nonce != "" || len(a.Signature) > 0 }

// open adds an account, or finds the existing one. A user's account is looked up first,
// because the challenge that was signed for it is spent by now, or has expired.
func (d *Directory) open(
	ctx context.Context, want *Account, k Key, who Applicant,
) (got Account, fresh bool, err error) {
	by := SignUpProof{User: who.User}
	if by.User != "" {
		got, ok, err := d.store.OfUser(ctx, by.User)
		if ok || err != nil {
			return got, false, err
		}
	}
	if who.signed() {
		proof, err := d.prove(who.Owner, who.Nonce, who.Signature)
		if err != nil {
			return Account{}, false, err
		}
		if err := d.settleOwner(ctx, proof.Address); err != nil {
			return Account{}, false, err
		}
		by.Proof, want.OwnerProvenAt = &proof, want.CreatedAt
	}
	return d.store.SignUp(ctx, *want, k, by)
}

// again handles the sign-up of a user who has an account.
func (d *Directory) again(ctx context.Context, got Account, who Applicant) (Account, error) {
	if err := got.Status.Admits(); err != nil {
		return Account{}, err
	}
	if got.Payee.AccountID == "" && who.AccountID != "" {
		var err error
		if got, err = d.change(ctx, got.ID, ByUser, "", func(c *change) error {
			c.keepAccount(who.AccountID)
			return nil
		}); err != nil {
			return Account{}, err
		}
	}
	if !who.signed() || !got.OwnerProvenAt.IsZero() {
		return got, nil
	}
	proof, err := d.spent(ctx, who.Owner, who.Nonce, who.Signature)
	if err != nil {
		return Account{}, err
	}
	if err := d.settleOwner(ctx, proof.Address); err != nil {
		return Account{}, err
	}
	return d.change(ctx, got.ID, ByProvider, "", func(c *change) error { return c.own(proof.Address) })
}

func optionalAddress(field, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	address, err := parseAddress(field, text)
	if err != nil {
		return "", err
	}
	return address.String(), nil
}
