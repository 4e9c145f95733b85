package provider

import (
	"encoding/hex"
	"regexp"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
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
