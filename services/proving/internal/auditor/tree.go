package auditor

import (
	"bytes"
	"encoding/binary"
)

// leaf is a share of a batch as its root commits to it: keccak256(keccak256(abi.encode(index, beneficiary, nano-USD))).
func leaf(index int64, beneficiary [20]byte, amount int64) hash32 {
	var encoded [96]byte
	binary.BigEndian.PutUint64(encoded[24:], uint64(index))
	copy(encoded[44:], beneficiary[:])
	binary.BigEndian.PutUint64(encoded[88:], uint64(amount))
	once := keccak256(encoded[:])
	return keccak256(once[:])
}

// root is the root of OpenZeppelin's Merkle tree over leaves: complete, with the leaves last and in reversed order,
// each pair hashed with the smaller one first. It is zero without leaves.
func root(leaves []hash32) hash32 {
	if len(leaves) == 0 {
		return hash32{}
	}
	nodes := make([]hash32, 2*len(leaves)-1)
	for i, l := range leaves {
		nodes[len(nodes)-1-i] = l
	}
	for i := len(leaves) - 2; i >= 0; i-- {
		nodes[i] = pair(nodes[2*i+1], nodes[2*i+2])
	}
	return nodes[0]
}

// proven reports whether a proof leads from a leaf to a root.
func proven(at hash32, proof []hash32, want hash32) bool {
	for _, sibling := range proof {
		at = pair(at, sibling)
	}
	return at == want
}

func pair(a, b hash32) hash32 {
	if bytes.Compare(a[:], b[:]) > 0 {
		a, b = b, a
	}
	return keccak256(a[:], b[:])
}
