package provider

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/wallet"
)

// Purpose is what a wallet's signature is good for.
type Purpose string

// The purposes. All but Connect are acts on a provider's money.
const (
	Connect      Purpose = "connect"
	PayOut       Purpose = "payout"
	CancelPayout Purpose = "payout_cancel"
	Convert      Purpose = "convert"
	Collateral   Purpose = "collateral"
)

// connectText is the sentence of a challenge to connect.
const connectText = "Connect a provider agent to this service. It costs nothing and moves nothing."

// actTexts begin the sentences of acts. The provider's id follows.
var actTexts = map[Purpose]string{
	PayOut:       "Pay out earnings of provider ",
	CancelPayout: "Cancel a payout of provider ",
	Convert:      "Convert earnings to credit, of provider ",
	Collateral:   "Deposit, move or take back collateral of provider ",
}

// maxAmount bounds the text of an amount in characters.
const maxAmount = 32

var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// RequestDigest is the SHA-256 digest of a request.
type RequestDigest [32]byte

// Act is what a wallet's signature allows. The zero act is to connect. An act on money is
// one request about one provider: its amount, for people to read, and its digest are in the
// text that is signed, so that a signature for one act is good for no other.
type Act struct {
	Purpose  Purpose
	Provider ids.ProviderID
	// Amount is a decimal number of dollars; empty where the request names none.
	Amount  string
	Request RequestDigest
}

// OnMoney reports whether the act is one on a provider's money.
func (a Act) OnMoney() bool { return actTexts[a.Purpose] != "" }

// text is the sentence that the wallet shows.
func (a Act) text() string {
	begins, ok := actTexts[a.Purpose]
	if !ok {
		return connectText
	}
	amount := ""
	if a.Amount != "" {
		amount = ": " + a.Amount + " USD"
	}
	return begins + a.Provider.String() + amount + ". For one request alone, SHA-256 " +
		hex.EncodeToString(a.Request[:]) + "."
}

// checkAct refuses what is no act, with invalid_value.
func checkAct(a Act) error {
	switch {
	case a == Act{} || a == Act{Purpose: Connect}:
		return nil
	case !a.OnMoney():
		return fault.New(fault.Invalid, fault.InvalidValue, "there is no such purpose, or it takes no act").On("purpose")
	case a.Request == RequestDigest{}:
		return fault.New(fault.Invalid, fault.InvalidValue, "request_sha256 is missing").On("request_sha256")
	case a.Amount != "" && (len(a.Amount) > maxAmount || !amountForm.MatchString(a.Amount)):
		return fault.New(fault.Invalid, fault.InvalidValue, "amount_usd must be a decimal number of at most %d characters",
			maxAmount).On("amount_usd")
	}
	return nil
}

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
) (Account, wallet.Address, error) {
	fail := func(err error) (Account, wallet.Address, error) { return Account{}, wallet.Address{}, err }
	if err := checkAct(act); err != nil {
		return fail(err)
	}
	if !act.OnMoney() {
		return fail(fault.New(fault.Invalid, fault.InvalidValue, "purpose must be an act on money").On("purpose"))
	}
	address, err := wallet.ParseAddress(owner)
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
