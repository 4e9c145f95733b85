// Package siwe is "Sign-In with Ethereum": the addresses of wallets (EIP-55), the text that
// a wallet signs (EIP-4361), and the address that signed a text (EIP-191, personal_sign, on
// secp256k1). provider-hub has providers sign in by it, and billing-ledger has users.
//
// The issuer of a challenge makes its message again, or reads the message that it is shown
// by Parse, which accepts its own form alone. It recognizes its nonce (Sealer), lets it count
// once before it expires, and compares the address that Recover returns with the challenge's.
// A signature of any other text, be it another domain, chain, purpose, nonce or time, recovers
// another address.
//
// A signature has one accepted form: s is in the lower half of the curve's order, r and s
// are in range, and the length is 65 bytes. Its last byte may be written in two ways (0
// or 27, 1 or 28), and a key may sign a text more than once. So the challenge counts
// once, by its nonce, and not the signature. Signatures of contract wallets (EIP-1271,
// EIP-6492) are refused, because only a chain can say, at some block, whether one is
// valid, and this package asks no chain.
package siwe

import (
	"encoding/hex"
	"errors"
	"strings"

	"svc.internal/pkg/ethereum"
)

// Address is an account of an Ethereum-like chain.
type Address = ethereum.Address

// Faults of an address.
var (
	ErrAddress  = errors.New("an address is 0x and 40 hexadecimal digits")
	ErrChecksum = errors.New("the address is mistyped: its capital letters do not match (EIP-55)")
)

// ParseAddress reads 0x and 40 hexadecimal digits. Letters in both cases must have the
// case that EIP-55 gives them. All lower and all upper case are accepted.
func ParseAddress(text string) (Address, error) {
	var a Address
	digits, ok := strings.CutPrefix(text, "0x")
	if !ok || len(digits) != 2*len(a) {
		return Address{}, ErrAddress
	}
	if _, err := hex.Decode(a[:], []byte(digits)); err != nil {
		return Address{}, ErrAddress
	}
	mixed := strings.ToLower(digits) != digits && strings.ToUpper(digits) != digits
	if mixed && a.String() != text {
		return Address{}, ErrChecksum
	}
	return a, nil
}
