// Package wallet knows the wallets that providers sign in with: their addresses
// (EIP-55), the text that one signs (EIP-4361, "Sign-In with Ethereum"), and
// whose signature of a text is (EIP-191, personal_sign, on secp256k1).
//
// Whoever issues a challenge makes its message again, has it count once before it
// expires, and compares the address that Recover returns with the challenge's.
// A signature of any other text, be it another domain, chain, purpose, nonce or
// time, recovers another address, so nothing of what a client claims is parsed.
//
// Of a signature one form is taken: s is in the lower half of the curve's order, r
// and s are in range, and the length is 65 bytes. Its last byte may be written in
// two ways (0 or 27, 1 or 28), and a key may sign a text more than once: so what
// counts once is the challenge, by its nonce, and not the signature. Those of
// contract wallets (EIP-1271, EIP-6492) are refused: whether one holds is for a
// chain to say, at a block of its choosing, and this package asks no chain.
package wallet

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

// ParseAddress reads 0x and 40 hexadecimal digits. Digits in both cases must
// have the case that EIP-55 gives them; all lower and all upper are taken as
// they are.
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
