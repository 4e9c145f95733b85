package user

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Bounds of a password in characters. It is taken as it comes, byte by byte.
const (
	minPassword = 8
	maxPassword = 256
)

// The cost of a new hash: 19 MiB, two passes, one lane, some 25 ms. It is the second of
// the equivalent minimum settings in OWASP's Password Storage Cheat Sheet. The first,
// with 46 MiB and one pass, takes as much time and more memory, and two hashes at a time
// must fit beside everything else.
const (
	memoryKiB = 19 * 1024
	passes    = 2
	lanes     = 1
	saltBytes = 16
	hashBytes = 32
)

// The most that a stored hash may ask for, so that no row takes the memory of the whole
// process.
const (
	maxMemoryKiB = 256 * 1024
	maxPasses    = 16
	maxLanes     = 8
	maxSaltBytes = 64
)

// fits reports whether text can be a password.
func fits(text string) bool {
	n := utf8.RuneCountInString(text)
	return utf8.ValidString(text) && n >= minPassword && n <= maxPassword
}

// Hash is a stored password: argon2id of version 19 with its cost, its salt and the hash,
// as text in the PHC form. The cost stands with each hash, so the cost of new hashes can
// be raised while old ones stay valid.
type Hash struct {
	memoryKiB, passes uint32
	lanes             uint8
	salt, sum         []byte
}

// IsZero reports whether there is no password.
func (h Hash) IsZero() bool { return len(h.sum) == 0 }

// hash makes a new hash of a password.
func hash(password string, random io.Reader) (Hash, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(random, salt); err != nil {
		return Hash{}, fmt.Errorf("read randomness for a salt: %w", err)
	}
	h := Hash{memoryKiB: memoryKiB, passes: passes, lanes: lanes, salt: salt, sum: make([]byte, hashBytes)}
	h.sum = h.of(password)
	return h, nil
}

// nobody returns a hash that costs as much as any other and that no known password
// matches.
func nobody() Hash {
	return Hash{memoryKiB: memoryKiB, passes: passes, lanes: lanes, salt: make([]byte, saltBytes),
		sum: make([]byte, hashBytes)}
}

// of hashes a password at the same cost and with the same salt.
func (h Hash) of(password string) []byte {
	return argon2.IDKey([]byte(password), h.salt, h.passes, h.memoryKiB, h.lanes, uint32(len(h.sum)))
}

var errNoHash = errors.New("the stored text is no hash")

func (h Hash) matches(password string) (bool, error) {
	if len(h.sum) == 0 {
		return false, errNoHash
	}
	return subtle.ConstantTimeCompare(h.of(password), h.sum) == 1, nil
}

const phc = "$argon2id$v=19$m=%d,t=%d,p=%d$"

// Text returns the stored form.
func (h Hash) Text() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf(phc, h.memoryKiB, h.passes, h.lanes) + b64.EncodeToString(h.salt) + "$" + b64.EncodeToString(h.sum)
}

// String keeps the hash out of logs and errors.
func (Hash) String() string { return "[redacted]" }

// GoString keeps it out of %#v too.
func (Hash) GoString() string { return "[redacted]" }

// ParseHash reads the stored form.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if _, err := fmt.Sscanf(text, phc, &h.memoryKiB, &h.passes, &h.lanes); err != nil {
		return Hash{}, errNoHash
	}
	parts := strings.Split(text, "$")
	const fields = 6 // the first is empty
	if len(parts) != fields {
		return Hash{}, errNoHash
	}
	var errSalt, errSum error
	b64 := base64.RawStdEncoding.Strict()
	h.salt, errSalt = b64.DecodeString(parts[4])
	h.sum, errSum = b64.DecodeString(parts[5])
	switch {
	case errSalt != nil || errSum != nil || h.Text() != text,
		h.lanes < 1 || h.lanes > maxLanes || h.passes < 1 || h.passes > maxPasses,
		h.memoryKiB < 8*uint32(h.lanes) || h.memoryKiB > maxMemoryKiB,
		len(h.salt) < saltBytes/2 || len(h.salt) > maxSaltBytes || len(h.sum) < hashBytes/2 || len(h.sum) > maxSaltBytes:
		return Hash{}, errNoHash
	}
	return h, nil
}
