package keys

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ethereum/go-ethereum/accounts/keystore"
)

// maxKeyFile bounds a file with a key.
const maxKeyFile = 64 << 10

var errNotAKey = errors.New("the file is no keystore file of version 3, or the passphrase is another")

// OpenFile returns the key of a keystore file (version 3, as geth writes it).
func OpenFile(path, passphrase string) (Key, error) {
	text, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	key, err := keystore.DecryptKey(text, passphrase)
	if err != nil {
		// The library's own words may repeat what is in the file.
		return nil, fmt.Errorf("read the key in %s: %w", path, errNotAKey)
	}
	return newLocal(key.PrivateKey), nil
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, maxKeyFile)
	}
	return text, nil
}
