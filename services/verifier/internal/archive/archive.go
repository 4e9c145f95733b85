// Package archive seals the evidence of verdicts: nobody reads it without the key, and
// nobody changes, adds or takes away a piece without being found out.
//
// A piece of evidence is the plain bytes of one observation or verdict. Seal compresses
// and encrypts it with AES-256-GCM under a key of its own, which HKDF (RFC 5869) derives
// from the archive's key and the piece's id. Its leaf is the leaf hash of RFC 6962 over a
// version, the id and the SHA-256 of the plain bytes: whoever is given the plain bytes can
// recompute it without any key. The leaf stays when the encrypted bytes are deleted after
// their time.
//
// Two structures are made of the leaves. A Link ties each leaf to all before it at once,
// so that an alteration within the present day shows. The Root of a day is the Merkle tree
// hash of RFC 6962 over the day's leaves in order. It is published, and a proof of 32
// bytes for each doubling of the day shows anybody that a piece was there, without showing
// another piece.
package archive

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// MaxPlain bounds the plain bytes of a piece: an answer of 12 MiB with its scores.
const MaxPlain = 32 << 20

// version is the first byte of a sealed piece and of what a leaf is made of.
const version = 1

// Errors of this package.
var (
	// ErrTooLarge is the error for a piece of more than MaxPlain bytes.
	ErrTooLarge = errors.New("the evidence is too large")
	// ErrAltered is the error for bytes that are not what was sealed.
	ErrAltered = errors.New("the evidence is altered")
	// ErrNotThere is the error for a proof that does not lead to the root.
	ErrNotThere = errors.New("the evidence is not in the root")
)

// Key is the key of an archive.
type Key [32]byte

// ID names a piece.
type ID [16]byte

// Leaf identifies the plain bytes of a piece.
type Leaf [sha256.Size]byte

// Link ties a leaf to all leaves before it. The zero Link is before the first.
type Link [sha256.Size]byte

// Root is the Merkle tree hash of the leaves of a day.
type Root [sha256.Size]byte

// LeafOf returns the leaf of a piece.
func LeafOf(id ID, plain []byte) Leaf {
	digest := sha256.Sum256(plain)
	data := append([]byte{version}, id[:]...)
	return Leaf(rfc6962.DefaultHasher.HashLeaf(append(data, digest[:]...)))
}

// Seal encrypts a piece. random is read for 12 bytes. Sealing twice gives two texts with
// the same leaf. It returns ErrTooLarge for more than MaxPlain bytes.
func Seal(key Key, id ID, plain []byte, random io.Reader) ([]byte, Leaf, error) {
	if len(plain) > MaxPlain {
		return nil, Leaf{}, ErrTooLarge
	}
	gcm, err := cipherOf(key, id)
	if err != nil {
		return nil, Leaf{}, err
	}
	sealed := make([]byte, 1+gcm.NonceSize(), 1+gcm.NonceSize()+len(plain)/2+gcm.Overhead())
	sealed[0] = version
	if _, err := io.ReadFull(random, sealed[1:]); err != nil {
		return nil, Leaf{}, fmt.Errorf("read randomness for evidence: %w", err)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.DefaultCompression)
	if err != nil {
		return nil, Leaf{}, fmt.Errorf("compress evidence: %w", err)
	}
	if _, err := w.Write(plain); err != nil {
		return nil, Leaf{}, fmt.Errorf("compress evidence: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, Leaf{}, fmt.Errorf("compress evidence: %w", err)
	}
	text := gcm.Seal(sealed, sealed[1:], packed.Bytes(), id[:]) //nolint:gosec // the nonce was read from random
	return text, LeafOf(id, plain), nil
}

// Open decrypts a piece and checks it against its leaf. It returns ErrAltered when one bit
// of key, id, text or leaf is another.
func Open(key Key, id ID, sealed []byte, leaf Leaf) ([]byte, error) {
	gcm, err := cipherOf(key, id)
	if err != nil {
		return nil, err
	}
	if len(sealed) < 1+gcm.NonceSize() || sealed[0] != version {
		return nil, ErrAltered
	}
	nonce, text := sealed[1:1+gcm.NonceSize()], sealed[1+gcm.NonceSize():]
	packed, err := gcm.Open(nil, nonce, text, id[:])
	if err != nil {
		return nil, ErrAltered
	}
	// Only Seal makes such a text, so the bound guards against a wrong program alone.
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), MaxPlain+1))
	if err != nil || len(plain) > MaxPlain || LeafOf(id, plain) != leaf {
		return nil, ErrAltered
	}
	return plain, nil
}

func cipherOf(key Key, id ID) (cipher.AEAD, error) {
	own, err := hkdf.Key(sha256.New, key[:], nil, "svc evidence v1 "+string(id[:]), len(key))
	if err != nil {
		return nil, fmt.Errorf("derive the key of evidence: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of evidence: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of evidence: %w", err)
	}
	return gcm, nil
}

// Next returns the link of a leaf that follows another link.
func Next(previous Link, leaf Leaf) Link {
	return sha256.Sum256(append(append([]byte("svc evidence link v1 "), previous[:]...), leaf[:]...))
}

// RootOf returns the root of the leaves of a day. Of none it is the SHA-256 of nothing,
// as RFC 6962 has it.
func RootOf(leaves []Leaf) (Root, error) {
	if len(leaves) == 0 {
		return Root(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	tree := factory.NewEmptyRange(0)
	for _, leaf := range leaves {
		if err := tree.Append(leaf[:], nil); err != nil {
			return Root{}, fmt.Errorf("append to the Merkle tree: %w", err)
		}
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		return Root{}, fmt.Errorf("compute the Merkle root: %w", err)
	}
	return Root(root), nil
}

var factory = &compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// ProofOf returns the inclusion proof of RFC 6962 of the leaf at an index, which must be
// one of the leaves.
func ProofOf(leaves []Leaf, index int) ([][]byte, error) {
	if index < 0 || index >= len(leaves) {
		return nil, fmt.Errorf("there is no leaf %d of %d", index, len(leaves))
	}
	nodes := map[compact.NodeID][]byte{}
	tree := factory.NewEmptyRange(0)
	for _, leaf := range leaves {
		if err := tree.Append(leaf[:], func(id compact.NodeID, hash []byte) { nodes[id] = hash }); err != nil {
			return nil, fmt.Errorf("append to the Merkle tree: %w", err)
		}
	}
	for i, leaf := range leaves {
		nodes[compact.NewNodeID(0, uint64(i))] = bytes.Clone(leaf[:])
	}
	wanted, err := proof.Inclusion(uint64(index), uint64(len(leaves)))
	if err != nil {
		return nil, fmt.Errorf("find the Merkle path: %w", err)
	}
	hashes := make([][]byte, 0, len(wanted.IDs))
	for _, id := range wanted.IDs {
		hashes = append(hashes, nodes[id])
	}
	path, err := wanted.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return nil, fmt.Errorf("compute the Merkle path: %w", err)
	}
	return path, nil
}

// Includes returns nil when the proof leads from the leaf at an index of size leaves to
// the root, and ErrNotThere otherwise.
func Includes(root Root, leaf Leaf, index, size int, path [][]byte) error {
	if index < 0 || index >= size {
		return ErrNotThere
	}
	err := proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), uint64(size), leaf[:], path, root[:])
	if err != nil {
		return ErrNotThere
	}
	return nil
}
