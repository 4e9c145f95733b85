// Package fingerprint says how the files of a model are fingerprinted: what a challenge
// may ask for, which bytes are digested, and how. The agents of providers and of
// references answer by it, so that the answers of two machines with the same files are
// equal.
//
// A challenge names ranges of files and, besides, a chain of blocks. The nonce of 32 bytes
// is the key of every digest, so that no answer can be made in advance. HMAC is
// HMAC-SHA256 with that key. Numbers are big-endian and unsigned, u16 of two bytes, u32 of
// four and u64 of eight; a name is its length as u16 and then its bytes, as the challenge
// has it. Each text begins with a line that no other text begins with.
//
// The digest of a range:
//
//	HMAC("svc fingerprint range v1\n" ‖ name ‖ offset u64 ‖ length u32 ‖ bytes)
//
// The chain reads blocks of its files. A file of size s has ⌈s/4096⌉ blocks: block b
// begins at 4096·b and has 4,096 bytes, or the rest of the file. So no
// block crosses from one file into the next, a file smaller than a block is one short
// block, and an empty file has none. The blocks of all files are numbered from 0 to N−1,
// file after file in the order of the challenge. The chain begins with
//
//	d0 = HMAC("svc fingerprint chain v1\n" ‖ blocks u32 ‖ files u32 ‖ for each file: name ‖ size u64)
//
// and step i, from 1 to the number of blocks, reads the block whose number is the first 16
// bytes of d(i−1), as a number of 128 bits, modulo N. A number is thereby preferred by
// less than N/2^128, which is below 2^-88.
//
//	di = HMAC("svc fingerprint block v1\n" ‖ d(i−1) ‖ name ‖ offset u64 ‖ length u32 ‖ bytes)
//
// The digest of the chain is the last one. It depends on all blocks, and no block is known
// before the one before it was read, so that a machine which has its files elsewhere waits
// once for each. A block may come twice.
//
// A file that the chain reads must have the size that the challenge states. What cannot be
// read has no digest, and the answer says why. The reason names files as the challenge
// does, and holds no path of the machine.
//
// Whoever makes challenges can find out the content of any file that can be named, by
// ranges of one byte. Dir therefore names nothing outside its folder, and the folder should
// hold nothing but the model.
//
// Bounds: 16 ranges of 1 byte to 1 MiB, 64 files, 256 blocks, names of 255 bytes, files of
// 16 TiB. An answer reads at most 17 MiB, in pieces of 64 KiB, and has at most 80 files
// open.
package fingerprint

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a challenge and of its answer. Sizes are in bytes.
const (
	NonceSize  = 32
	DigestSize = 32
	BlockSize  = 4096
	MaxRanges  = 16
	MaxLength  = 1 << 20
	MaxFiles   = 64
	MaxBlocks  = 256
	MaxName    = 255
	MaxSize    = 1 << 44
	MaxID      = 64
	MaxError   = 1024
)

// ErrInvalid is the error for a challenge or an answer that breaks a bound.
var ErrInvalid = errors.New("the fingerprint is not valid")

// Challenge asks for the digests of files of one model.
type Challenge struct {
	// ID is 1 to 64 characters of [A-Za-z0-9._-]. No digest depends on it.
	ID string
	// Nonce has 32 bytes.
	Nonce []byte
	// Ranges are 1 to 16.
	Ranges []Range
	// Files are at most 64, each once, whatever the case of its name: some file systems
	// take names that differ in case only for one. No files ask for no chain.
	Files []File
	// Blocks is how many blocks the chain has, at most 256; 0 without files, and only then.
	Blocks int
}

// Range is a piece of a file.
type Range struct {
	// File is the file's path in the repository of the model, with slashes.
	File   string
	Offset int64
	Length int
}

// File is a file that the chain may read.
type File struct {
	Name string
	// Size is the file's size in bytes; an empty file has no block.
	Size int64
}

// Result answers a challenge.
type Result struct {
	// Digests has one digest for each range in order, empty for a range that could not be
	// read. Where the challenge is not valid, there are none.
	Digests [][]byte
	// Chain is empty when the chain could not be read, or was not asked for.
	Chain []byte
	// Error says why something could not be read: the first reason, at most 1 KiB.
	Error string
}

// Validate refuses a challenge that no agent answers. The errors are ErrInvalid.
func (c Challenge) Validate() error {
	switch {
	case !validID(c.ID):
		return invalid("the id is not 1 to %d characters of [A-Za-z0-9._-]", MaxID)
	case len(c.Nonce) != NonceSize:
		return invalid("the nonce has %d bytes, not %d", len(c.Nonce), NonceSize)
	case len(c.Ranges) < 1 || len(c.Ranges) > MaxRanges:
		return invalid("there are %d ranges, not 1 to %d", len(c.Ranges), MaxRanges)
	case len(c.Files) > MaxFiles:
		return invalid("there are %d files, more than %d", len(c.Files), MaxFiles)
	case c.Blocks < 0 || c.Blocks > MaxBlocks:
		return invalid("the chain has %d blocks, not 0 to %d", c.Blocks, MaxBlocks)
	case (len(c.Files) == 0) != (c.Blocks == 0):
		return invalid("a chain needs both files and blocks")
	}
	for i, r := range c.Ranges {
		if err := r.validate(); err != nil {
			return invalid("range %d: %v", i, err)
		}
	}
	return c.validateFiles()
}

func (c Challenge) validateFiles() error {
	seen := map[string]bool{}
	for i, f := range c.Files {
		folded := strings.ToLower(strings.ToUpper(f.Name))
		switch err := validateName(f.Name); {
		case err != nil:
			return invalid("file %d: %v", i, err)
		case f.Size < 0 || f.Size > MaxSize:
			return invalid("file %d: the size is not 0 to 2^44", i)
		case seen[folded]:
			return invalid("file %d: its name came before", i)
		}
		seen[folded] = true
	}
	if c.Blocks > 0 && numbering(c.Files) == 0 {
		return invalid("the files of the chain are empty")
	}
	return nil
}

func (r Range) validate() error {
	switch {
	case r.Length < 1 || r.Length > MaxLength:
		return fmt.Errorf("the length is not 1 to %d", MaxLength)
	case r.Offset < 0 || r.Offset > MaxSize-int64(r.Length):
		return errors.New("the range does not lie within 2^44 bytes")
	}
	return validateName(r.File)
}

// Validate refuses an answer that does not fit its challenge. The errors are ErrInvalid.
func (r Result) Validate(c Challenge) error {
	if len(r.Digests) != len(c.Ranges) && (len(r.Digests) != 0 || r.Error == "") {
		return invalid("there are %d digests for %d ranges", len(r.Digests), len(c.Ranges))
	}
	for i, d := range r.Digests {
		if len(d) != 0 && len(d) != DigestSize {
			return invalid("digest %d has %d bytes", i, len(d))
		}
	}
	switch {
	case len(r.Chain) != 0 && (len(r.Chain) != DigestSize || c.Blocks == 0):
		return invalid("the digest of the chain has %d bytes", len(r.Chain))
	case len(r.Error) > MaxError:
		return invalid("the error has %d bytes, more than %d", len(r.Error), MaxError)
	}
	return nil
}

// validateName refuses names that are no path below a folder, on any system. A backslash
// or a colon would mean something else on Windows.
func validateName(name string) error {
	switch {
	case name == "" || len(name) > MaxName:
		return fmt.Errorf("a name has 1 to %d bytes", MaxName)
	case !utf8.ValidString(name):
		return errors.New("a name is not UTF-8")
	case name == "." || !fs.ValidPath(name) || strings.ContainsAny(name, `\:`):
		return errors.New("a name is no path below the folder of the model")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("a name holds control characters")
	}
	return nil
}

func validID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if alphanumeric := '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'; !alphanumeric &&
			strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return id != "" && len(id) <= MaxID
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// blocks is how many blocks a file has.
func (f File) blocks() int64 { return (f.Size + BlockSize - 1) / BlockSize }

// numbering is how many blocks all files have.
func numbering(files []File) int64 {
	n := int64(0)
	for _, f := range files {
		n += f.blocks()
	}
	return n
}
