// Package ethereum has what a wallet of an Ethereum-like chain is known by: its
// address, and the digest of a text that it signs. Callers sign and recover for
// themselves, because each of them makes other checks first.
package ethereum

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/sha3"
)

// Address is an account of an Ethereum-like chain.
type Address [20]byte

// AddressOf returns the address of a public key, which is uncompressed: 65 bytes,
// of which the first names the form.
func AddressOf(key []byte) Address {
	sum := Keccak256(key[1:])
	return Address(sum[12:])
}

// String returns the address with the capital letters of EIP-55.
func (a Address) String() string {
	text := hex.AppendEncode([]byte("0x"), a[:])
	digits := text[2:]
	sum := Keccak256(digits)
	for i, c := range digits {
		nibble := sum[i/2] >> 4
		if i%2 == 1 {
			nibble = sum[i/2] & 0xf
		}
		if c >= 'a' && nibble >= 8 {
			digits[i] = c - 'a' + 'A'
		}
	}
	return string(text)
}

// ParseAddress reads an address as 0x and 40 hexadecimal digits. Digits in both cases must be the capitals of EIP-55,
// which tell a mistyped address.
func ParseAddress(text string) (Address, error) {
	var a Address
	digits, ok := strings.CutPrefix(text, "0x")
	if n, err := hex.Decode(a[:], []byte(digits[:min(len(digits), 2*len(a))])); !ok || err != nil || n != len(a) ||
		len(digits) != 2*len(a) {
		return Address{}, fmt.Errorf("an address is 0x and %d hexadecimal digits", 2*len(a))
	}
	mixed := digits != strings.ToLower(digits) && digits != strings.ToUpper(digits)
	if mixed && text != a.String() {
		return Address{}, fmt.Errorf("the capitals of the address are not those of its checksum: is a digit wrong?")
	}
	return a, nil
}

// IsZero reports whether the address is that of nobody.
func (a Address) IsZero() bool { return a == Address{} }

// PersonalDigest returns what personal_sign signs of a text (EIP-191).
func PersonalDigest(text string) [32]byte {
	return Keccak256([]byte("\x19Ethereum Signed Message:\n"), []byte(strconv.Itoa(len(text))), []byte(text))
}

// Keccak256 is the hash of Ethereum, which is not that of SHA-3.
func Keccak256(parts ...[]byte) [32]byte {
	h := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		h.Write(p) // never fails
	}
	return [32]byte(h.Sum(nil))
}
