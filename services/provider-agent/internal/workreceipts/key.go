package workreceipts

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const keyFile = "receipt-key"

// loadKey reads the node's key, and makes one where there is none. A file that holds
// something else is an error and is not replaced.
func loadKey(dir string, random io.Reader) (ed25519.PrivateKey, error) {
	if dir == "" {
		return newKey(random)
	}
	path := filepath.Join(dir, keyFile)
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = newKey(random); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	if err := createKey(dir, path, key); err != nil {
		return nil, fmt.Errorf("keep the receipt key: %w", err)
	}
	// Of two agents that start at once the first has won.
	return readKey(path)
}

func newKey(random io.Reader) (ed25519.PrivateKey, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return nil, fmt.Errorf("make a receipt key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func readKey(path string) (ed25519.PrivateKey, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the receipt key: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 256))
	if err != nil {
		return nil, fmt.Errorf("read the receipt key: %w", err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s does not hold a receipt key; remove it to get a new one", path) // never its text
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// createKey writes the whole file or none of it, and leaves an existing file. Only the
// owner can read a temporary file.
func createKey(dir, path string, key ed25519.PrivateKey) error {
	temp, err := os.CreateTemp(dir, keyFile+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // a file that stays behind does no harm
	_, err = temp.WriteString(hex.EncodeToString(key.Seed()) + "\n")
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
