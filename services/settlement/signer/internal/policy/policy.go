// Package policy decides what each key of the chain-signer may sign. It rests on the signer's
// own settings alone. Whatever the caller says is held against them, because settlement is
// the caller that a thief would speak through.
//
// Where a key may send to, and by what function, Rules has as one table. Two keys move
// money to addresses that the settings do not name: payout to providers, and slasher, which
// sets positions aside. What they move is capped for each transaction and each day in UTC.
// All other money goes to the treasury, or back to whoever deposited it. Fees are capped for
// all keys.
package policy

import (
	"slices"

	"svc.internal/services/settlement/internal/chain"
)

// Key is the name of a key.
type Key string

// The keys.
const (
	// Payout pays providers.
	Payout Key = "payout"
	// Operator, Slasher and Arbiter have the roles of the same names in the contract that
	// holds collateral.
	Operator Key = "operator"
	Slasher  Key = "slasher"
	Arbiter  Key = "arbiter"
	// Statement signs daily statements, and no transaction.
	Statement Key = "statement"
	// Gas sends what anybody may send: sweeps that deposit addresses have authorized,
	// refunds that are due, penalties that lapse.
	Gas Key = "gas"
	// Deposit is many keys, one for each deposit address.
	Deposit Key = "deposit"
)

// Keys returns the names of all keys.
func Keys() []Key { return []Key{Payout, Operator, Slasher, Arbiter, Statement, Gas, Deposit} }

// MaxGas bounds the gas of one transaction, and MinGas is the gas of the smallest.
const (
	MaxGas = 10_000_000
	MinGas = 21_000
)

// Cap bounds an amount.
type Cap struct {
	// Transaction bounds one transaction. Zero allows none.
	Transaction chain.Amount `yaml:"transaction" json:"transaction"`
	// Day bounds the sum of a day in UTC.
	Day chain.Amount `yaml:"day" json:"day"`
}

// Token is a token that is listed for a chain.
type Token struct {
	Address chain.Address
	// Name and Version are the token's domain of EIP-712. Without a name it takes no
	// authorizations.
	Name, Version string
	// Payouts caps what the key payout sends.
	Payouts Cap
}

// Chain is what the signer allows on one chain.
type Chain struct {
	ID chain.ID
	// Treasury is where sweeps go. Zero: nothing is swept.
	Treasury chain.Address
	// Collateral is the contract that holds collateral. Zero: there is none.
	Collateral chain.Address
	// Slashes caps what the key slasher proposes, in units of the collateral.
	Slashes Cap
	// Coin caps what the key payout sends of the chain's coin.
	Coin Cap
	// Tokens are the tokens, in any order.
	Tokens []Token
	// Fees caps the fees of each key, in wei.
	Fees Cap
	// First is the first nonce that a key signs here; 0 where there is none.
	First map[Key]uint64
}

// Token returns the listed token of an address.
func (c Chain) Token(address chain.Address) (Token, bool) {
	i := slices.IndexFunc(c.Tokens, func(t Token) bool { return t.Address == address })
	if i < 0 {
		return Token{}, false
	}
	return c.Tokens[i], true
}

// Transaction is what a caller wants signed, once it is read.
type Transaction struct {
	Chain chain.ID
	Key   Key
	// Sender is the key's address.
	Sender chain.Address
	Nonce  uint64
	// Cancel takes the place of another content: To is the sender, Value is zero and there
	// is no data.
	Cancel bool
	To     chain.Address
	Value  chain.Amount
	Data   []byte

	Gas uint64
	// MaxFee and MaxPriorityFee are for one unit of gas, in wei.
	MaxFee, MaxPriorityFee chain.Amount
}

// Use is what a transaction uses of the caps.
type Use struct {
	// Asset is the token that is moved; zero is the coin. For a slash it is the contract
	// that holds collateral.
	Asset  chain.Address
	Amount chain.Amount
	// Capped reports whether Cap bounds the amount. Otherwise it goes to the treasury.
	Capped bool
	Cap    Cap
	// Fee is the most that the transaction can cost, in wei.
	Fee     chain.Amount
	FeesCap Cap
	// First is the first nonce of the key.
	First uint64
}

// Policy is what the settings allow.
type Policy struct {
	chains map[chain.ID]Chain
	own    map[chain.Address]bool
}

// New returns the policy of chains, for a signer whose keys have the addresses own.
func New(chains []Chain, own []chain.Address) *Policy {
	p := &Policy{chains: map[chain.ID]Chain{}, own: map[chain.Address]bool{}}
	for _, c := range chains {
		p.chains[c.ID] = c
	}
	for _, address := range own {
		p.own[address] = true
	}
	return p
}
