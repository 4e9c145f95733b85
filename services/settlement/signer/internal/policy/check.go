package policy

import (
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/calldata"
)

// target is the kind of destination that a call goes to.
type target int

const (
	toToken target = iota
	toCollateral
	toTreasury
	// toAnyone is a payout in coins.
	toAnyone
)

// rule allows a key a function at a target. The empty function is a plain transfer of coins.
type rule struct {
	key      Key
	target   target
	function calldata.Function
}

// rules are all that is allowed, beside the cancel of a nonce.
var rules = []rule{
	{Payout, toToken, calldata.Transfer},
	{Payout, toAnyone, ""},
	{Operator, toCollateral, calldata.RequestRefund},
	{Operator, toCollateral, calldata.CancelRefund},
	{Operator, toCollateral, calldata.Appeal},
	{Slasher, toCollateral, calldata.ProposeSlash},
	{Slasher, toCollateral, calldata.ExecuteSlash},
	{Arbiter, toCollateral, calldata.Resolve},
	{Gas, toToken, calldata.TransferWithAuthorization},
	{Gas, toCollateral, calldata.ExecuteRefund},
	{Gas, toCollateral, calldata.Lapse},
	{Gas, toTreasury, ""},
	{Deposit, toTreasury, ""},
}

// Chain returns the settings of a chain. Its error is chain_not_allowed.
func (p *Policy) Chain(id chain.ID) (Chain, error) {
	c, ok := p.chains[id]
	if !ok {
		return Chain{}, fault.New(fault.Denied, fault.ChainNotAllowed, "chain %s is not listed", id).On("chain_id")
	}
	return c, nil
}

// Check returns what a transaction uses, or a fault that says why it is not signed:
// chain_not_allowed, destination_not_allowed, cap_exceeded or invalid_value.
func (p *Policy) Check(t Transaction) (Use, error) {
	c, err := p.Chain(t.Chain)
	if err != nil {
		return Use{}, err
	}
	fee, err := fee(c, t)
	if err != nil {
		return Use{}, err
	}
	use := Use{}
	switch {
	case !signsTransactions(t.Key):
		return Use{}, denied("the key %s signs no transactions", t.Key).On("key")
	case t.Cancel:
		err = isCancel(t)
	case len(t.Data) == 0:
		use, err = p.plain(c, t)
	default:
		use, err = p.call(c, t)
	}
	if err != nil {
		return Use{}, err
	}
	use.Fee, use.FeesCap, use.First = fee, c.Fees, c.First[t.Key]
	return use, within(use)
}

// signsTransactions reports whether the key signs transactions.
func signsTransactions(k Key) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.key == k })
}

func denied(format string, args ...any) *fault.Fault {
	return fault.New(fault.Denied, fault.DestinationNotAllowed, format, args...).On("call")
}

// isCancel holds a cancel to its form.
func isCancel(t Transaction) error {
	if t.To != t.Sender || !t.Value.IsZero() || len(t.Data) != 0 {
		return denied("a cancel goes to its sender, with no value and no data")
	}
	return nil
}

// fee returns the most that a transaction can cost.
func fee(c Chain, t Transaction) (chain.Amount, error) {
	invalid := func(param, format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidValue, format, args...).On(param)
	}
	switch {
	case t.Gas < MinGas || t.Gas > MaxGas:
		return chain.Amount{}, invalid("gas_limit", "gas_limit must be %d to %d", MinGas, MaxGas)
	case t.MaxFee.IsZero() || t.MaxFee.Cmp(t.MaxPriorityFee) < 0:
		return chain.Amount{}, invalid("max_fee_per_gas_wei", "the fee is at least 1 and the priority fee")
	}
	ceiling, ok := t.MaxFee.MulDiv(t.Gas, 1)
	if !ok || ceiling.Cmp(c.Fees.Transaction) > 0 {
		return chain.Amount{}, exceeded("the fees of a transaction are at most %s wei", c.Fees.Transaction)
	}
	return ceiling, nil
}

// plain allows a transfer of coins.
func (p *Policy) plain(c Chain, t Transaction) (Use, error) {
	use := Use{Amount: t.Value}
	switch {
	case t.Value.IsZero():
		return Use{}, denied("a transfer of nothing")
	case !c.Treasury.IsZero() && t.To == c.Treasury && allowed(t.Key, toTreasury, ""):
		return use, nil
	case !allowed(t.Key, toAnyone, ""):
		return Use{}, denied("the key %s sends no coins there", t.Key)
	}
	use.Capped, use.Cap = true, c.Coin
	return use, p.payee(c, t.To)
}

// call allows a call of a contract's function.
func (p *Policy) call(c Chain, t Transaction) (Use, error) {
	call, err := calldata.Read(t.Data)
	if err != nil {
		return Use{}, denied("%v", err)
	}
	token, isToken := c.Token(t.To)
	isCollateral := !c.Collateral.IsZero() && t.To == c.Collateral
	switch {
	case !t.Value.IsZero():
		return Use{}, denied("a call takes no coins along")
	case isToken && allowed(t.Key, toToken, call.Function):
		return p.ofToken(c, token, call)
	case isCollateral && allowed(t.Key, toCollateral, call.Function):
		return ofCollateral(c, call), nil
	default:
		return Use{}, denied("the key %s does not call %s there", t.Key, call.Function)
	}
}

// ofToken allows a transfer of a token: a payout to a payee, an authorized one to the
// treasury.
func (p *Policy) ofToken(c Chain, token Token, call calldata.Call) (Use, error) {
	use := Use{Asset: token.Address}
	if call.Function == calldata.TransferWithAuthorization {
		use.Amount = call.Amount(2)
		if c.Treasury.IsZero() || call.Address(1) != c.Treasury {
			return Use{}, denied("an authorized transfer goes to the treasury alone")
		}
		return use, nil
	}
	use.Amount, use.Capped, use.Cap = call.Amount(1), true, token.Payouts
	if use.Amount.IsZero() {
		return Use{}, denied("a transfer of nothing")
	}
	return use, p.payee(c, call.Address(0))
}

// ofCollateral returns what a call of the contract that holds collateral uses.
func ofCollateral(c Chain, call calldata.Call) Use {
	if call.Function == calldata.ProposeSlash {
		return Use{Asset: c.Collateral, Amount: call.Amount(3), Capped: true, Cap: c.Slashes}
	}
	return Use{Asset: c.Collateral}
}

// payee refuses addresses at which a payout would be lost, or would come back.
func (p *Policy) payee(c Chain, to chain.Address) error {
	_, isToken := c.Token(to)
	switch {
	case to.IsZero():
		return denied("nobody is paid at the zero address")
	case isToken || to == c.Collateral:
		return denied("nobody is paid at a listed contract")
	case p.own[to]:
		return denied("nobody is paid at an address of the signer")
	}
	return nil
}

// allowed reports whether a rule has it so.
func allowed(k Key, to target, f calldata.Function) bool {
	return slices.Contains(rules, rule{k, to, f})
}

// within holds an amount against the cap of one transaction.
func within(use Use) error {
	switch {
	case !use.Capped || use.Amount.Cmp(use.Cap.Transaction) <= 0:
		return nil
	case use.Cap.Transaction.IsZero():
		return denied("the settings allow no such transfer")
	}
	return exceeded("the value of a transaction is at most %s", use.Cap.Transaction)
}

func exceeded(format string, args ...any) *fault.Fault {
	return fault.New(fault.Exhausted, fault.CapExceeded, format, args...)
}

// Sweep returns the token and the treasury of a sweep. Its faults are chain_not_allowed and
// destination_not_allowed.
func (p *Policy) Sweep(id chain.ID, token chain.Address) (Token, chain.Address, error) {
	c, err := p.Chain(id)
	if err != nil {
		return Token{}, chain.Address{}, err
	}
	listed, ok := c.Token(token)
	switch {
	case !ok:
		return Token{}, chain.Address{}, denied("the token is not listed").On("token")
	case listed.Name == "":
		return Token{}, chain.Address{}, denied("the token takes no authorizations").On("token")
	case c.Treasury.IsZero():
		return Token{}, chain.Address{}, denied("chain %s has no treasury", id).On("chain_id")
	}
	return listed, c.Treasury, nil
}
