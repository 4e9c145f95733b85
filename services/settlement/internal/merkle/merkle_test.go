package merkle

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/crypto/sha3"

	"svc.internal/pkg/money"
)

// The example in the README of OpenZeppelin's library: leaves of an address and an amount,
// sorted by their hashes.
func TestATreeIsThatOfOpenZeppelin(t *testing.T) {
	leaf := func(digit byte, units uint64) Hash {
		var encoded [2 * word]byte
		for i := word - 20; i < word; i++ {
			encoded[i] = digit
		}
		// Units of 10^18 have more than 64 bits.
		hi, lo := bits.Mul64(units, 1_000_000_000_000_000_000/2)
		binary.BigEndian.PutUint64(encoded[2*word-16:], hi)
		binary.BigEndian.PutUint64(encoded[2*word-8:], lo)
		k := sha3.NewLegacyKeccak256()
		first := sum(k, encoded[:])
		return sum(k, first[:])
	}
	hashes := []Hash{leaf(0x11, 10), leaf(0x22, 5)} // 5 and 2.5 tokens
	slices.SortFunc(hashes, func(a, b Hash) int { return slices.Compare(a[:], b[:]) })
	const want = "0xd4dee0beab2d53f2cc83e567171bd2820e49898130a22622b10ead383e90bd77"
	if got := over(hashes).Root().String(); got != want {
		t.Errorf("root: got %s, want %s", got, want)
	}
}

func leaves(n int, seed uint64) []Leaf {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	all := make([]Leaf, n)
	for i := range all {
		all[i] = Leaf{Index: uint64(i), Amount: money.NanoUSD(r.Int64N(1 << 60))}
		for j := range all[i].Beneficiary {
			all[i].Beneficiary[j] = byte(r.Uint32())
		}
	}
	return all
}

func TestEveryShareIsProvenInBatchesOfAnySize(t *testing.T) {
	for n := range 40 {
		all := leaves(n, 1)
		tree := New(all)
		for i, l := range all {
			if !Verify(tree.Root(), l, tree.Proof(i)) {
				t.Errorf("share %d of %d is not proven", i, n)
			}
		}
	}
}

func TestNoOtherShareIsProven(t *testing.T) {
	all := leaves(13, 2)
	tree := New(all)
	for i, l := range all {
		proof := tree.Proof(i)
		for name, spoil := range map[string]func(*Leaf){
			"index":       func(l *Leaf) { l.Index++ },
			"amount":      func(l *Leaf) { l.Amount++ },
			"beneficiary": func(l *Leaf) { l.Beneficiary[3] ^= 1 },
		} {
			other := l
			spoil(&other)
			if Verify(tree.Root(), other, proof) {
				t.Errorf("share %d with another %s is proven", i, name)
			}
		}
		if Verify(tree.Root(), l, proof[:len(proof)-1]) {
			t.Errorf("share %d is proven by a shorter proof", i)
		}
		if Verify(tree.Root(), l, append(slices.Clone(proof), Hash{})) {
			t.Errorf("share %d is proven by a longer proof", i)
		}
	}
}

func TestABatchWithoutSharesHasTheRootZero(t *testing.T) {
	if got := New(nil).Root(); got != (Hash{}) {
		t.Errorf("root: got %s, want zero", got)
	}
}

func TestABatchOfOneHasItsLeafAsRootAndAnEmptyProof(t *testing.T) {
	one := leaves(1, 3)
	tree := New(one)
	if got, want := tree.Root(), one[0].Hash(); got != want {
		t.Errorf("root: got %s, want %s", got, want)
	}
	if got := tree.Proof(0); len(got) != 0 {
		t.Errorf("proof: got %v, want none", got)
	}
}

func BenchmarkATreeOfAMillionShares(b *testing.B) {
	all := leaves(1_000_000, 4)
	b.ResetTimer()
	for b.Loop() {
		New(all)
	}
}
