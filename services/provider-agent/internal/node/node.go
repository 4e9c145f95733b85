// Package node keeps the identity of this machine: a random name of 130 bits that is made
// once and kept in a file of the state folder.
//
// The name is no secret, because the hub trusts the provider key. The name only has to
// stay the same over restarts and to differ on every machine, because two machines with
// one name cut each other off.
package node

import (
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	fileName = "node-id"
	prefix   = "node-"
	// maxFile is more than the longest name, in bytes.
	maxFile = 256
)

// New makes a name without keeping it.
func New(random io.Reader) (string, error) {
	raw := make([]byte, 17)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("make a node id: %w", err)
	}
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw)
	return prefix + strings.ToLower(text[:26]), nil
}

// Load reads the name of this machine from dir, and makes one where there is none. A file
// that holds something else is an error and is not replaced, because that would hide that
// the folder belongs to another program.
func Load(dir string, random io.Reader) (string, error) {
	path := filepath.Join(dir, fileName)
	id, err := read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if id, err = New(random); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the state folder: %w", err)
	}
	if err := create(dir, path, id); err != nil {
		return "", fmt.Errorf("keep the node id: %w", err)
	}
	// Of two agents that start at once the first has won.
	return read(path)
}

// In is the node id in dir; empty where there is none. It makes none.
func In(dir string) string {
	id, err := read(filepath.Join(dir, fileName))
	if err != nil {
		return ""
	}
	return id
}

func read(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the node id: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return "", fmt.Errorf("read the node id: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if !Valid(id) {
		return "", fmt.Errorf("%s does not hold a node id; remove it to get a new one", path)
	}
	return id, nil
}

// create writes the whole file or none of it, and leaves an existing file.
func create(dir, path, id string) error {
	temp, err := os.CreateTemp(dir, fileName+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // a file that stays behind does no harm
	_, err = temp.WriteString(id + "\n")
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Valid reports whether a hub takes the name: 8 to 64 characters of
// [A-Za-z0-9._-].
func Valid(id string) bool {
	if len(id) < 8 || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !isAlphanumeric(c) && strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
