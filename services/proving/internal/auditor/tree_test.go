package auditor

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func TestKeccakHashesAsEthereumDoes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
		"abc":                               "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
		"testing":                           "5f16f4c7f149ac4f9510d9cf8cf384038ad348b3bcdc01915f95de12df9d1b02",
		"transfer(address,uint256)":         "a9059cbb2ab09eb219583f4a59a5d0623ade346d962bcd4e46b11da047c9049b",
		"Transfer(address,address,uint256)": "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
	} {
		if got := keccak256([]byte(text)); hex.EncodeToString(got[:]) != want {
			t.Errorf("%q: got %x, want %s", text, got, want)
		}
	}
}

// At the rate's edges the padding takes one byte, and a block of its own.
func TestPartsAreHashedAsOneText(t *testing.T) {
	t.Parallel()
	for _, n := range []int{keccakRate - 1, keccakRate, keccakRate + 1, 3 * keccakRate} {
		text := bytes.Repeat([]byte{7}, n)
		if got, want := keccak256(text[:n/3], text[n/3:]), keccak256(text); got != want {
			t.Errorf("%d bytes in two parts: got %x, want %x", n, got, want)
		}
	}
}

// The vector is of OpenZeppelin's JavaScript library: StandardMerkleTree.of(shares, ["uint256", "address", "uint256"],
// {sortLeaves: false}).
func TestTheTreeIsOpenZeppelins(t *testing.T) {
	t.Parallel()
	for n, want := range vectors {
		var leaves []hash32
		for i := range n {
			leaves = append(leaves, leaf(int64(i), [20]byte{19: byte(i + 1)}, int64(i+1)*1_000_000_007))
		}
		got := root(leaves)
		if text := hex.EncodeToString(got[:]); text != strings.TrimPrefix(want, "0x") {
			t.Errorf("root of %d shares: got %s, want %s", n, text, want)
		}
	}
}

// vectors are roots by the number of shares.
var vectors = map[int]string{
	1:  "0x01c353d78ff0f5197f3661d776e999f225fa1e26c32df9ef352816488c527637",
	2:  "0xe9d8739fd0081a2d2524d244e9df9b104fdc02dac652fc689a4c9936a0a389cf",
	3:  "0xf8a905533b7237958fa142f2355aa98072ad73117081015518725ec835be72fb",
	5:  "0xd159c7f1a83e1545b12bf5227ff01a1318e3172af734873a2be5b9558b31cdc0",
	8:  "0x65918fa0b07562eced5acc096e91e60858ffba04a9073bab33293d645e14155f",
	13: "0x91bf2a732b92f780821fa2e6c6641cabc8d5d4c0f7106d918990c3755c3d039b",
}
