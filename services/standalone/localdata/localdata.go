// Package localdata is the directory in which a single-process deployment keeps
// everything between starts: database, streams, journal, secrets.
//
// One process at a time may use a directory, which a lock ensures. Secrets are made once,
// as files that only the owner can read.
package localdata

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/pg/pgserver"
)

// Dir is a data directory in use by this process.
type Dir struct {
	path string
	lock *os.File
}

// ErrInUse is returned by Open when another process has the directory.
var ErrInUse = errors.New("is in use by another process; stop it, or set SVC_DATA_DIR to another directory")

// Open makes the directory if need be and takes it for this process.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	// Others may pass through, because the database server may run as another user. Its
	// own directory inside is closed to everybody else.
	if err := pgserver.MakeReachable(abs); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	file := filepath.Join(abs, "lock")
	lock, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s %w", abs, ErrInUse), lock.Close())
	}
	return &Dir{abs, lock}, nil
}

// Close releases the directory itself, because a child process that is just starting has
// a copy of the file and would keep the lock a little longer.
func (d *Dir) Close() error {
	if err := errors.Join(syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN), d.lock.Close()); err != nil {
		return fmt.Errorf("give data directory back: %w", err)
	}
	return nil
}

// Path joins elements to the directory.
func (d *Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// Pepper is the secret that keys are hashed with, made at first use.
func (d *Dir) Pepper() (apikey.Pepper, error) {
	text, err := d.secret("pepper")
	if err != nil {
		return apikey.Pepper{}, err
	}
	return ParsePepper(text)
}

// ParsePepper reads a pepper from 64 hexadecimal digits.
func ParsePepper(text string) (apikey.Pepper, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(apikey.Pepper{}) {
		return apikey.Pepper{}, errors.New("a pepper is 64 hexadecimal digits")
	}
	return apikey.Pepper(raw), nil
}

// AdminToken is a token for operators' calls with the role of an admin, made at first use.
func (d *Dir) AdminToken() (string, error) { return d.secret("admin-token") }

// BootstrapToken is a token that makes the first operator, made at first use.
func (d *Dir) BootstrapToken() (string, error) { return d.secret("bootstrap-token") }

// machineName is the name of the directory's tokens.
const machineName = "local"

// ConsumerPassword is the password of the user who has the demo's account, made at first use.
func (d *Dir) ConsumerPassword() (string, error) { return d.secret("consumer-password") }

// OwnerPassword is the password of the user who owns the demo's provider, made at first use.
func (d *Dir) OwnerPassword() (string, error) { return d.secret("owner-password") }

// OperatorPassword is the password of the demo's operator, made at first use.
func (d *Dir) OperatorPassword() (string, error) { return d.secret("operator-password") }

// MachineTokens is a list of machines' tokens with AdminToken alone, as an admin's, in the
// form of the gateway's setting. Its file is written anew each time.
func (d *Dir) MachineTokens() (string, error) {
	token, err := d.AdminToken()
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256([]byte(token))
	list := machineName + ":admin:" + hex.EncodeToString(digest[:])
	return list, d.Write([]byte(list+"\n"), "secrets", "machine-tokens")
}

// BootstrapTokens is a list of bootstrap tokens with BootstrapToken alone, in the form of the
// gateway's setting. Its file is written anew each time.
func (d *Dir) BootstrapTokens() (string, error) {
	token, err := d.BootstrapToken()
	if err != nil {
		return "", err
	}
	list := machineName + ":" + token
	return list, d.Write([]byte(list+"\n"), "secrets", "bootstrap-tokens")
}

// DatabasePassword is the password of a login in the database, made at first use.
func (d *Dir) DatabasePassword(login string) (string, error) {
	return d.secret("database-password-" + login)
}

// DatabaseSuffix distinguishes the logins of this directory from those of other
// directories on the same server. It is made at first use.
func (d *Dir) DatabaseSuffix() (string, error) {
	const letters = 12
	text, err := d.secret("database-suffix")
	if err != nil {
		return "", err
	}
	if len(text) < letters {
		return "", fmt.Errorf("%s is shorter than %d letters", d.Path("secrets", "database-suffix"), letters)
	}
	return "_" + text[:letters], nil
}

// secret reads the secret of that name. It makes the secret first if there is none.
func (d *Dir) secret(name string) (string, error) {
	path := d.Path("secrets", name)
	content, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(content)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read secret: %w", err)
	}
	var raw [32]byte
	if _, err := io.ReadFull(rand.Reader, raw[:]); err != nil {
		return "", fmt.Errorf("make secret: %w", err)
	}
	text := hex.EncodeToString(raw[:])
	return text, d.Write([]byte(text+"\n"), "secrets", name)
}

// Remove removes a file, if it exists.
func (d *Dir) Remove(elements ...string) error {
	if err := os.Remove(d.Path(elements...)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

// Write replaces a file that only the owner can read, all or nothing.
func (d *Dir) Write(content []byte, elements ...string) error {
	path := d.Path(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}
