package siwe

import (
	"bytes"
	"errors"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"svc.internal/pkg/ethereum"
)

// SignatureLength is that of a wallet's signature, in bytes: r, s and v.
const SignatureLength = 65

// maxMessage bounds the text whose signature is checked, in bytes. A challenge is far
// shorter.
const maxMessage = 16 << 10

// Faults of a signature.
var (
	ErrSignatureLength = errors.New("a signature is 65 bytes: r, s and v")
	ErrContractWallet  = errors.New(
		"signatures of contract wallets (EIP-1271, EIP-6492) are not taken; sign with a plain key")
	ErrRecoveryID = errors.New("the last byte of a signature is 0, 1, 27 or 28")
	ErrMalleable  = errors.New(
		"the signature is the second form of another one: its s is above half the curve's order")
	ErrSignature     = errors.New("the signature is none: r or s is out of range or no key has made it")
	ErrMessageLength = errors.New("the message is too long")
)

// Recover returns the address whose key has signed message by EIP-191 (personal_sign): 65
// bytes r, s and v, with v 0, 1, 27 or 28. Nearly every signature has an address, so the
// caller compares the address with the address that must sign.
func Recover(message string, signature []byte) (Address, error) {
	if len(message) > maxMessage {
		return Address{}, ErrMessageLength
	}
	compact, err := compactOf(signature)
	if err != nil {
		return Address{}, err
	}
	digest := ethereum.PersonalDigest(message)
	key, _, err := ecdsa.RecoverCompact(compact, digest[:])
	if err != nil {
		return Address{}, ErrSignature // r is not on the curve, or the point has no key
	}
	return ethereum.AddressOf(key.SerializeUncompressed()), nil
}

// compactOf checks a signature and gives it the library's form: v comes first and counts
// from 27.
func compactOf(signature []byte) ([]byte, error) {
	if isContractWallet(signature) {
		return nil, ErrContractWallet
	}
	if len(signature) != SignatureLength {
		return nil, ErrSignatureLength
	}
	v := signature[SignatureLength-1]
	switch v {
	case 0, 1:
		v += 27
	case 27, 28:
	default:
		return nil, ErrRecoveryID
	}
	var r, s secp256k1.ModNScalar
	if r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:64]) || r.IsZero() || s.IsZero() {
		return nil, ErrSignature
	}
	if s.IsOverHalfOrder() {
		return nil, ErrMalleable
	}
	return append([]byte{v}, signature[:64]...), nil
}

// wrapping ends the signatures of wallets that are not deployed yet (EIP-6492).
const wrapping = "\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92" +
	"\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92\x64\x92"

// isContractWallet reports whether only a contract could check the signature: it is
// wrapped by EIP-6492, or is a list of whole signatures, as EIP-1271 wallets of several
// owners take.
func isContractWallet(signature []byte) bool {
	return bytes.HasSuffix(signature, []byte(wrapping)) || len(signature) > SignatureLength
}
