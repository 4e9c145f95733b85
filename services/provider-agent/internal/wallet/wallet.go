// Package wallet is the key of an owner's wallet, with which an agent signs in instead of
// showing a provider key. It reads the key from a file that only its owner can read, and
// signs challenges as personal_sign does (EIP-191 on secp256k1, with RFC 6979's nonces,
// and s in the lower half of the order).
//
// It signs sign-in messages (EIP-4361) only: of the configured domains, for its own
// address, and of one nonce. So a false service can have nothing else signed, and no
// other site's sign-in. The key is shown nowhere.
package wallet

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"svc.internal/pkg/ethereum"
)

const (
	// maxFile is more than the longest key, in bytes.
	maxFile = 256
	// maxMessage bounds what is signed, in bytes.
	maxMessage = 8 << 10
)

// Key is a wallet's private key. It prints as its address.
type Key struct {
	key     *secp256k1.PrivateKey
	address string
}

// Load reads a key: 64 hexadecimal digits, with or without 0x before them. It refuses a
// file that others may read.
func Load(path string) (*Key, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the wallet key: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the wallet key: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("the wallet key %s is not a file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others may read the wallet key %s; chmod 600 it", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read the wallet key: %w", err)
	}
	key, err := parse(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// errKey never quotes the text.
var errKey = errors.New("a wallet key is 64 hexadecimal digits, and neither 0 nor above the curve's order")

func parse(text string) (*Key, error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil || len(raw) != secp256k1.PrivKeyBytesLen {
		return nil, errKey
	}
	var scalar secp256k1.ModNScalar
	if scalar.SetByteSlice(raw) || scalar.IsZero() {
		return nil, errKey
	}
	key := secp256k1.NewPrivateKey(&scalar)
	return &Key{key: key, address: ethereum.AddressOf(key.PubKey().SerializeUncompressed()).String()}, nil
}

// Address is the wallet's address, with the capitals of EIP-55.
func (k *Key) Address() string { return k.address }

// String is the address.
func (k *Key) String() string { return k.address }

// GoString is the address.
func (k *Key) GoString() string { return k.address }

// MarshalText is the address.
func (k *Key) MarshalText() ([]byte, error) { return []byte(k.address), nil }

// LogValue is the address.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.address) }

// SignIn signs a sign-in message: 65 bytes r, s and v, with v 27 or 28. It refuses any
// other text, and a sign-in message for another wallet, domain or nonce.
func (k *Key) SignIn(message string, domains []string, nonce string) ([]byte, error) {
	if err := checkMessage(message, domains, k.address, nonce); err != nil {
		return nil, fmt.Errorf("the service's challenge is not signed: %w", err)
	}
	return k.sign(message), nil
}

// sign signs any text.
func (k *Key) sign(message string) []byte {
	digest := ethereum.PersonalDigest(message)
	compact := ecdsa.SignCompact(k.key, digest[:], false)
	return append(compact[1:], compact[0])
}

// checkMessage checks the lines of EIP-4361 that say who signs in where.
func checkMessage(message string, domains []string, address, nonce string) error {
	lines := strings.Split(message, "\n")
	domain, ok := strings.CutSuffix(lines[0], " wants you to sign in with your Ethereum account:")
	nonces := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "Nonce: ") {
			nonces++
		}
	}
	switch {
	case len(message) > maxMessage:
		return errors.New("it is too long")
	case !ok || domain == "" || !slices.Contains(domains, domain):
		return fmt.Errorf("it is not a sign-in at %s", strings.Join(domains, " or "))
	case len(lines) < 2 || lines[1] != address:
		return errors.New("it is for another wallet")
	case nonce == "" || nonces != 1 || !slices.Contains(lines, "Nonce: "+nonce):
		return errors.New("it is of another nonce")
	}
	return nil
}
