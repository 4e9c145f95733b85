// Package merkle commits a batch to one hash: the root of a Merkle tree over its shares, in
// the form that OpenZeppelin's MerkleProof verifies in a contract.
//
// A leaf is keccak256(keccak256(abi.encode(index, beneficiary, amount))), as the decisions
// say; it is hashed twice, so that no inner node is the leaf of anything. A node is the
// keccak256 of its two children, the smaller one first, so that a proof needs no sides. The
// tree is complete, in an array with the root first and the leaves last, in reversed order:
// the form of OpenZeppelin's JavaScript library, which computes the same root by
//
//	StandardMerkleTree.of(shares, ["uint256", "address", "uint256"], {sortLeaves: false})
package merkle

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"golang.org/x/crypto/sha3"

	"svc.internal/pkg/money"
)

// Hash is a keccak256.
type Hash [32]byte

// String returns 0x and 64 digits in lower case.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// Address is an account of a chain; zero where a provider has none yet.
type Address [20]byte

// Leaf is one share of a batch.
type Leaf struct {
	// Index counts from 0 in the order of the batch.
	Index       uint64
	Beneficiary Address
	// Amount is not negative.
	Amount money.NanoUSD
}

// word is the size of a value in abi.encode.
const word = 32

// Hash returns the leaf's hash.
func (l Leaf) Hash() Hash {
	var encoded [3 * word]byte
	binary.BigEndian.PutUint64(encoded[word-8:], l.Index)
	copy(encoded[2*word-len(l.Beneficiary):], l.Beneficiary[:])
	binary.BigEndian.PutUint64(encoded[3*word-8:], uint64(l.Amount))
	k := sha3.NewLegacyKeccak256()
	first := sum(k, encoded[:])
	return sum(k, first[:])
}

// Tree is the tree over a batch's shares. The zero value is the tree of a batch without any.
type Tree struct {
	// nodes has the root first: the children of node i are the nodes 2i+1 and 2i+2.
	nodes  []Hash
	leaves int
}

// New returns the tree over leaves, in the order of their indices.
func New(leaves []Leaf) Tree {
	hashes := make([]Hash, len(leaves))
	for i, l := range leaves {
		hashes[i] = l.Hash()
	}
	return over(hashes)
}

func over(hashes []Hash) Tree {
	if len(hashes) == 0 {
		return Tree{}
	}
	t := Tree{nodes: make([]Hash, 2*len(hashes)-1), leaves: len(hashes)}
	for i, h := range hashes {
		t.nodes[t.place(i)] = h
	}
	k := sha3.NewLegacyKeccak256()
	for i := len(hashes) - 2; i >= 0; i-- {
		t.nodes[i] = pair(k, t.nodes[2*i+1], t.nodes[2*i+2])
	}
	return t
}

// place returns where a leaf stands.
func (t Tree) place(leaf int) int { return len(t.nodes) - 1 - leaf }

// Root returns the root; zero for a batch without shares.
func (t Tree) Root() Hash {
	if t.leaves == 0 {
		return Hash{}
	}
	return t.nodes[0]
}

// Proof returns the siblings on the way from a leaf to the root, by the leaf's index, which
// must be below the number of leaves.
func (t Tree) Proof(leaf int) []Hash {
	var proof []Hash
	for at := t.place(leaf); at > 0; at = (at - 1) / 2 {
		sibling := at + 1
		if at%2 == 0 {
			sibling = at - 1
		}
		proof = append(proof, t.nodes[sibling])
	}
	return proof
}

// Verify reports whether a share is in the batch of a root.
func Verify(root Hash, leaf Leaf, proof []Hash) bool {
	k := sha3.NewLegacyKeccak256()
	at := leaf.Hash()
	for _, sibling := range proof {
		at = pair(k, at, sibling)
	}
	return at == root
}

// pair returns the hash of a node with two children.
func pair(k hash.Hash, a, b Hash) Hash {
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	return sum(k, a[:], b[:])
}

func sum(k hash.Hash, parts ...[]byte) (h Hash) {
	k.Reset()
	for _, p := range parts {
		_, _ = k.Write(p) // a hash never fails
	}
	k.Sum(h[:0])
	return h
}
