package provider

import (
	"context"
	"fmt"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/siwe"
)

// AskAct makes the challenge that a wallet signs for an act on money. Whether the wallet
// owns the provider is found when the signature is shown, because anybody may ask. It fails
// with invalid_value.
func (d *Directory) AskAct(_ context.Context, addressText string, act Act) (Challenge, error) {
	address, err := parseAddress("address", addressText)
	if err != nil {
		return Challenge{}, err
	}
	if err := checkAct(act); err != nil {
		return Challenge{}, err
	}
	if act.OnMoney() && act.Provider.IsZero() {
		return Challenge{}, fault.New(fault.Invalid, fault.InvalidValue, "provider_id is missing").On("provider_id")
	}
	return d.ask(address, act)
}

// ProveOwner returns the account whose owner's wallet signed the challenge of an act on
// money, and spends the challenge. The act may leave out the provider, because a wallet owns
// one at most. A provider that is suspended or rejected has its money too. It fails with
// invalid_value and invalid_signature.
func (d *Directory) ProveOwner(
	ctx context.Context, owner, nonce string, signature []byte, act Act,
) (Account, siwe.Address, error) {
	fail := func(err error) (Account, siwe.Address, error) { return Account{}, siwe.Address{}, err }
	if err := checkAct(act); err != nil {
		return fail(err)
	}
	if !act.OnMoney() {
		return fail(fault.New(fault.Invalid, fault.InvalidValue, "purpose must be an act on money").On("purpose"))
	}
	address, err := siwe.ParseAddress(owner)
	if err != nil {
		return fail(unproven(fmt.Sprintf("the wallet is no address: %s", err)))
	}
	if err := d.settleOwner(ctx, address); err != nil {
		return fail(err)
	}
	a, ok, err := d.store.OfOwner(ctx, address.String())
	switch {
	case err != nil:
		return fail(err)
	case !ok:
		return fail(unproven("the wallet is not proven to own a provider"))
	case !act.Provider.IsZero() && act.Provider != a.ID:
		return fail(unproven("the wallet does not own this provider"))
	}
	act.Provider = a.ID
	proof, err := d.proveAct(owner, nonce, signature, act)
	if err != nil {
		return fail(provenError(err))
	}
	// The account is read again with the spending, because an operator may have unbound the
	// wallet since.
	entered, known, err := d.store.Enter(ctx, proof)
	switch {
	case err != nil:
		return fail(provenError(err))
	case !known || entered.ID != a.ID:
		return fail(unproven("the wallet owns this provider no longer"))
	}
	return entered.Account, address, nil
}

// provenError is the refusal of a signature for an act on money. Other errors stay.
func provenError(err error) error {
	if f, ok := fault.As(err); ok && f.Reason == fault.InvalidAPIKey {
		return unproven(f.Message)
	}
	return err
}

func unproven(why string) error {
	return fault.New(fault.Invalid, fault.InvalidSignature, "%s", strings.TrimSuffix(why, ".")).On("signature")
}
