// Package weights has the files that the weights of a model consist of, so that
// whoever serves the model can fetch them and prove later which ones they have.
//
// A Set is one revision of a model's weights. Its composite hash is SHA-256 over
// the lines "filename:hash\n", hashes in lower-case hexadecimal, sorted by the
// bytes of the filename: the same value that a provider's machine writes into
// its own manifest.
//
// Bounds: a set has at most 1,000 files and less than 2^53 bytes in all, so that
// a JSON number holds every size exactly; a filename has at most 255 bytes, an
// address 1,024 and the address that all of them begin with 256. The database
// enforces the same bounds once more, and 100,000 files and 32 MiB of text over
// all models.
package weights

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Bounds of a set; the package comment tells what they are for.
const (
	MaxFiles         = 1000
	MaxFilenameBytes = 255
	MaxURLBytes      = 1024
	MaxSourceBytes   = 256
	// MaxTotalBytes is the largest whole number of which a float64 tells all
	// smaller ones apart.
	MaxTotalBytes = 1<<53 - 1
)

// Algorithm is what files are hashed by.
const Algorithm = "sha256"

// Hash is the SHA-256 of a file or of a set.
type Hash [sha256.Size]byte

// String is the hash in lower-case hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// File is one file of a model's weights.
type File struct {
	// Name is a relative path with slashes.
	Name string
	Hash Hash
	Size int64 // bytes
	URL  string
}

// Set is the files of a model's weights, sorted by name.
type Set struct {
	// SourceURL begins every file's URL; it may be empty.
	SourceURL string
	Files     []File
	// Bytes is the sum of the files' sizes.
	Bytes int64
	// Composite is of all files, and zero without any.
	Composite Hash
}

// NewSet makes a set of files that are known to be sound, such as those in the
// store. It sorts files in place.
func NewSet(sourceURL string, files []File) Set {
	if len(files) == 0 {
		return Set{}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	set := Set{SourceURL: sourceURL, Files: files}
	sum := sha256.New()
	for _, f := range files {
		set.Bytes += f.Size
		fmt.Fprintf(sum, "%s:%s\n", f.Name, f.Hash)
	}
	set.Composite = Hash(sum.Sum(nil))
	return set
}

// Empty reports whether nothing is known of the model's weights.
func (s Set) Empty() bool { return len(s.Files) == 0 }

// Equal reports whether both name the same files at the same places.
func (s Set) Equal(other Set) bool {
	return s.SourceURL == other.SourceURL && slices.Equal(s.Files, other.Files)
}
