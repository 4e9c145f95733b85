package keys

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"

	"svc.internal/services/settlement/signer/internal/policy"
)

// Seed is what development keys are made of. They are for chains on which money is worth
// nothing.
type Seed [32]byte

// String hides the seed.
func (Seed) String() string { return "a seed" }

// GoString hides the seed.
func (Seed) GoString() string { return "a seed" }

var errSeedFile = errors.New("the file of the development seed has 64 hexadecimal digits")

// OpenSeed returns the seed in a file. It makes the file first if there is none.
func OpenSeed(path string) (Seed, error) {
	if err := makeSeed(path); err != nil {
		return Seed{}, fmt.Errorf("make the development seed: %w", err)
	}
	text, err := readBounded(path)
	if err != nil {
		return Seed{}, fmt.Errorf("read the development seed: %w", err)
	}
	var seed Seed
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || copy(seed[:], raw) != len(seed) || len(raw) != len(seed) {
		return Seed{}, fmt.Errorf("%s: %w", path, errSeedFile)
	}
	return seed, nil
}

// makeSeed writes a new seed, unless there is a file. The file appears whole, and of two
// processes that make it at once one wins.
func makeSeed(path string) error {
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

// Key returns the development key of a name.
func (s Seed) Key(name policy.Key) (Key, error) {
	// A digest is no scalar of the curve once in 2^128 times.
	private, err := crypto.ToECDSA(s.derive("key " + string(name))[:32])
	if err != nil {
		return nil, fmt.Errorf("derive the development key %s: %w", name, err)
	}
	return newLocal(private), nil
}

// Deposit returns the development keys of the deposit addresses.
func (s Seed) Deposit() (*Deposit, error) { return newDeposit(s.derive("deposit")) }

// derive returns 64 bytes for a purpose.
func (s Seed) derive(purpose string) []byte {
	inner := sha256.Sum256(s[:])
	h := hmac.New(sha512.New, inner[:])
	_, _ = h.Write([]byte("svc chain-signer development " + purpose)) // a hash never fails
	return h.Sum(nil)
}
