// Package chain has the words of the chains that settlement works with: which chains there are, what is counted on
// them and in what units, and how an operator configures them. It reads no chain and sends nothing.
package chain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"svc.internal/pkg/ethereum"
)

// ID is the number of a chain (EIP-155).
type ID uint64

// The chains of the specification.
const (
	Ethereum ID = 1
	SVC      ID = 254
	Base     ID = 8453
)

// Default is the settlement chain of a provider that never had collateral, and of one whose collateral is by card
// alone.
const Default = Base

// String returns the number in decimal.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 10) }

// Real reports whether the chain is one on which dollars move.
func (id ID) Real() bool { return id == Ethereum || id == Base }

// Address is an account of a chain.
type Address = ethereum.Address

// ParseAddress reads an address of a chain, which is not zero.
func ParseAddress(text string) (Address, error) {
	a, err := ethereum.ParseAddress(text)
	if err == nil && a.IsZero() {
		err = errors.New("the zero address is nobody's")
	}
	return a, err
}

// Hash names a block or a transaction.
type Hash [32]byte

// String returns 0x and 64 digits in lower case.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// IsZero reports whether the hash is that of nothing.
func (h Hash) IsZero() bool { return h == Hash{} }

// ParseHash reads 0x and 64 hexadecimal digits.
func ParseHash(text string) (Hash, error) {
	var h Hash
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || len(digits) != 2*len(h) {
		return Hash{}, fmt.Errorf("a hash is 0x and %d hexadecimal digits", 2*len(h))
	}
	if _, err := hex.Decode(h[:], []byte(digits)); err != nil {
		return Hash{}, fmt.Errorf("a hash is 0x and %d hexadecimal digits", 2*len(h))
	}
	return h, nil
}

// Kind says what an asset of a chain is.
type Kind string

// The kinds.
const (
	// USDC is the dollar of a chain, a contract.
	USDC Kind = "usdc"
	// Coin is the chain's own token, which has no contract and pays for gas.
	Coin Kind = "coin"
)

// CoinDecimals are those of the coin of every Ethereum-like chain.
const CoinDecimals = 18

// ledgerDecimals is the most decimals that the books keep.
const ledgerDecimals = 9

// Token returns the name that the ledger's books have for an asset of a chain: "8453:usdc", "254:native", "1:eth".
func (id ID) Token(kind Kind) string {
	switch {
	case kind == USDC:
		return id.String() + ":usdc"
	case id == SVC:
		return id.String() + ":native"
	default:
		return id.String() + ":eth"
	}
}

// PaysOut returns the kind of asset in which a chain's payouts are made.
func (id ID) PaysOut() Kind {
	if id == SVC {
		return Coin
	}
	return USDC
}
