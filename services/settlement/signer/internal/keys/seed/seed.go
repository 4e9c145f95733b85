// Package seed has the seed that development keys are made of. It is apart from package keys, so that a program which
// asks for a development key's address alone links no library of chains.
//
// Nothing prints a seed, and errors name files alone.
package seed

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/settlement/internal/chain"
)

// Seed is what development keys are made of. They are for chains on which money is worth
// nothing.
type Seed [32]byte

// String hides the seed.
func (Seed) String() string { return "a seed" }

// GoString hides the seed.
func (Seed) GoString() string { return "a seed" }

var (
	errFile   = errors.New("the file of the development seed has 64 hexadecimal digits")
	errScalar = errors.New("the seed makes no key of that name")
)

// Open returns the seed in a file. It makes the file first if there is none.
func Open(path string) (Seed, error) {
	if err := create(path); err != nil {
		return Seed{}, fmt.Errorf("make the development seed: %w", err)
	}
	text, err := read(path)
	if err != nil {
		return Seed{}, fmt.Errorf("read the development seed: %w", err)
	}
	var seed Seed
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || copy(seed[:], raw) != len(seed) || len(raw) != len(seed) {
		return Seed{}, fmt.Errorf("%s: %w", path, errFile)
	}
	return seed, nil
}

// create writes a new seed, unless there is a file. The file appears whole, and of two
// processes that make it at once one wins.
func create(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	var seed Seed
	if _, err := rand.Read(seed[:]); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "seed-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(hex.EncodeToString(seed[:]) + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		if err = os.Link(file.Name(), path); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	return errors.Join(err, os.Remove(file.Name()))
}

// maxFile bounds the file of a seed.
const maxFile = 64 << 10

func read(path string) ([]byte, error) {
	file, err := os.Open(path) // the operator's file
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	return text, nil
}

// Private returns the private key of a name, 32 bytes. It is no number of the curve once in
// 2^128 times.
func (s Seed) Private(name string) []byte { return s.derive("key " + name)[:32] }

// Deposit returns the seed of the deposit addresses, 64 bytes.
func (s Seed) Deposit() []byte { return s.derive("deposit") }

// Address returns the address of the key of a name.
func (s Seed) Address(name string) (chain.Address, error) {
	var scalar secp256k1.ModNScalar
	if overflow := scalar.SetByteSlice(s.Private(name)); overflow || scalar.IsZero() {
		return chain.Address{}, fmt.Errorf("derive the development key %s: %w", name, errScalar)
	}
	public := secp256k1.NewPrivateKey(&scalar).PubKey().SerializeUncompressed()
	return chain.Address(ethereum.AddressOf(public)), nil
}

// derive returns 64 bytes for a purpose.
func (s Seed) derive(purpose string) []byte {
	inner := sha256.Sum256(s[:])
	h := hmac.New(sha512.New, inner[:])
	_, _ = h.Write([]byte("svc chain-signer development " + purpose)) // a hash never fails
	return h.Sum(nil)
}
