package earnings

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"svc.internal/pkg/ethereum"
)

// KeysFile is the file in the state folder with the addresses of the keys by which statements may be
// signed, one a line. The first is the one that the service named when it was first asked; the owner
// may add others.
const KeysFile = "statement-keys"

// The bounds of that file.
const (
	maxKeys     = 16
	maxKeysFile = 4 << 10
)

// Keep returns the keys that are kept in dir. Where none are, it keeps the key that the service names
// now. It adds no other, because whoever can alter statements can also have the service name the key
// that signs them. With an empty dir nothing is kept.
func Keep(dir string, named ethereum.Address) ([]ethereum.Address, error) {
	if dir == "" {
		return []ethereum.Address{named}, nil
	}
	path := filepath.Join(dir, KeysFile)
	kept, err := readKeys(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	if err := createKeys(dir, path, named); err != nil {
		return nil, fmt.Errorf("keep the service's key for statements: %w", err)
	}
	// Of two commands that start at once the first has won.
	return readKeys(path)
}

func readKeys(path string) ([]ethereum.Address, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the service's keys for statements: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeysFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the service's keys for statements: %w", err)
	}
	var kept []ethereum.Address
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		key, err := ethereum.ParseAddress(line)
		if err != nil {
			return nil, fmt.Errorf("%s: a line holds no address of a key: %w", path, err)
		}
		kept = append(kept, key)
	}
	if len(kept) == 0 || len(kept) > maxKeys || len(text) > maxKeysFile {
		return nil, fmt.Errorf("%s must hold 1 to %d addresses of keys, one a line; remove it to keep the service's key anew",
			path, maxKeys)
	}
	return kept, nil
}

// createKeys writes the whole file or none of it, and leaves an existing file. Others may read it,
// because an owner often asks by sudo first, and addresses are public.
func createKeys(dir, path string, key ethereum.Address) error {
	temp, err := os.CreateTemp(dir, KeysFile+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // a file that stays behind does no harm
	_, err = temp.WriteString(key.String() + "\n")
	if err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
