package replay

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"svc.internal/services/verifier/internal/archive"
)

// Hash is a leaf or a link of the archive; its text is hexadecimal.
type Hash [32]byte

// MarshalText returns 64 hexadecimal digits. The error is always nil.
func (h Hash) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h[:])), nil }

// UnmarshalText reads 64 hexadecimal digits.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("%w: a hash of %d digits", ErrPiece, len(text))
	}
	if _, err := hex.Decode(h[:], text); err != nil {
		return fmt.Errorf("%w: %w", ErrPiece, err)
	}
	return nil
}

// Sealed is a piece with what ties it to all others. A stream of their JSON objects is what
// operators export.
type Sealed struct {
	ID ID `json:"id"`
	// Plain is the piece's JSON, as it was sealed.
	Plain []byte `json:"plain"`
	Leaf  Hash   `json:"leaf"`
	// Previous is the link of the offer's piece before this one, zero before the first, and
	// Link the one behind it.
	Previous Hash `json:"previous"`
	Link     Hash `json:"link"`
}

// Seal returns a piece's bytes with leaf and link.
func Seal(id ID, plain []byte, previous Hash) Sealed {
	s := Sealed{ID: id, Plain: plain, Previous: previous, Leaf: Hash(archive.LeafOf(archive.ID(id), plain))}
	s.Link = Hash(archive.Next(archive.Link(s.Previous), archive.Leaf(s.Leaf)))
	return s
}

// open returns the piece, if leaf and link are those of its bytes.
func (s Sealed) open() (Piece, error) {
	if want := Seal(s.ID, s.Plain, s.Previous); s.Leaf != want.Leaf || s.Link != want.Link {
		return Piece{}, archive.ErrAltered
	}
	p, err := Decode(s.Plain)
	if err != nil {
		return Piece{}, err
	}
	if p.ID != s.ID {
		return Piece{}, fmt.Errorf("%w: it names another piece", ErrPiece)
	}
	return p, nil
}

// The bounds of an export.
const (
	// MaxPieces bounds the pieces of an export: those of a whole year.
	MaxPieces = 65_536
	// maxSealed bounds the JSON of one Sealed, which holds its plain bytes in base64.
	maxSealed = 2 * archive.MaxPlain
)

// Each reads a stream of Sealed and calls take for each in order. It keeps one at a time in
// memory. It stops at the first error of take and returns it.
func Each(from io.Reader, take func(Sealed) error) error {
	bounded := &bound{from: from, left: maxSealed}
	d := json.NewDecoder(bounded)
	d.DisallowUnknownFields()
	for n := 0; ; n++ {
		bounded.left = maxSealed
		var s Sealed
		switch err := d.Decode(&s); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read exported piece %d: %w", n, err)
		case n == MaxPieces:
			return fmt.Errorf("%w: more than %d of them", ErrPiece, MaxPieces)
		}
		if err := take(s); err != nil {
			return err
		}
	}
}

// bound fails behind so many bytes.
type bound struct {
	from io.Reader
	left int64
}

func (b *bound) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, archive.ErrTooLarge
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err //nolint:wrapcheck // a reader passes on what its source says, io.EOF above all
}
