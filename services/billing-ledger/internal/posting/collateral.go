package posting

import (
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// Part is an amount of a provider's card collateral by the id of what it is about: a penalty
// or a refund. What was paid by card and what went back is posted by store.Cards.
type Part struct {
	ID       string
	Provider ids.ProviderID
	Amount   money.NanoUSD
}

func (p Part) businessID() string { return p.ID }

// CollateralSlashed begins line 24.
type CollateralSlashed struct {
	none
	Part
}

// SlashWon ends line 24 for the provider.
type SlashWon struct{ Part }

func (f CollateralSlashed) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.Slash(fact, f.Provider, f.Amount)
}

func (f SlashWon) needs() Needs { return Needs{Provider: f.Provider, Cards: true} }

func (f SlashWon) entry(fact ledger.Fact, has Has) (ledger.Entry, error) {
	return ledger.SlashAppealWon(fact, f.Provider, f.Amount, has.Backing())
}

// SlashForfeited ends line 24 for the platform and the consumers that it compensates.
type SlashForfeited struct {
	none
	Part
	Affected []ledger.Compensation
}

func (f SlashForfeited) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.SlashForfeit(fact, f.Provider, f.Amount, f.Affected)
}

// ChainSlashed is line 24 on a chain: what a penalty took of a depositor's position came to
// the treasury.
type ChainSlashed struct {
	none
	Penalty, Depositor string
	Sum                ledger.Sum
	Affected           []ledger.Compensation
}

func (f ChainSlashed) businessID() string {
	return fmt.Sprintf("%s/%s/%s", f.Penalty, f.Sum.Token.Chain(), f.Depositor)
}

func (f ChainSlashed) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if f.Penalty == "" || !isHex(f.Depositor, addressDigits) {
		return ledger.Entry{}, fmt.Errorf("%.60q of %.60q is no slash", f.Depositor, f.Penalty)
	}
	return ledger.ChainSlash(fact, f.Sum, f.Affected)
}

// CollateralRefundAsked begins line 26.
type CollateralRefundAsked struct {
	none
	Part
}

// CollateralRefunded ends line 26, from CardClearing or Bank, with an attempt of the refund.
type CollateralRefunded struct {
	none
	Part
	From    ledger.AccountKind
	Attempt int
}

func (f CollateralRefunded) businessID() string { return ledger.RefundKey(f.ID, f.Attempt) }

// CollateralRefundUndone ends line 26 without a refund: the card's owner has the money back.
type CollateralRefundUndone struct{ Part }

func (f CollateralRefundUndone) needs() Needs { return Needs{Provider: f.Provider, Cards: true} }

func (f CollateralRefundUndone) entry(fact ledger.Fact, has Has) (ledger.Entry, error) {
	return ledger.CollateralRefundUndo(fact, f.Provider, f.Amount, has.Backing())
}

func (f CollateralRefundAsked) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.CollateralRefund(fact, f.Provider, f.Amount)
}

func (f CollateralRefunded) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	return ledger.CollateralRefunded(fact, f.Provider, f.From, f.Amount)
}

// CustodyMoved counts tokens that came into a collateral contract, or left it.
type CustodyMoved struct {
	none
	Transfer
	Provider ids.ProviderID
	Way      ledger.Way
	Token    ledger.Token
	Units    ledger.Units
}

func (f CustodyMoved) entry(fact ledger.Fact, _ Has) (ledger.Entry, error) {
	if err := f.check(f.Token); err != nil {
		return ledger.Entry{}, err
	}
	if f.Way == ledger.In {
		return ledger.CustodyIn(fact, f.Provider, f.Token, f.Units)
	}
	return ledger.CustodyOut(fact, f.Provider, f.Token, f.Units)
}
