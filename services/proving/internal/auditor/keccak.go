package auditor

import (
	"encoding/binary"
	"math/bits"
)

// hash32 is a keccak256.
type hash32 [32]byte

// keccakRate is how many bytes keccak256 takes in between two permutations.
const keccakRate = 136

// keccakRounds are the constants of the permutation's rounds.
var keccakRounds = [24]uint64{
	0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b, 0x0000000080000001,
	0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
	0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002, 0x8000000000000080,
	0x000000000000800a, 0x800000008000000a, 0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
}

// keccakSteps are, for each step of ρ and π, the lane that is written and how far it is rotated.
var keccakSteps = [24]struct{ lane, by int }{
	{10, 1}, {7, 3}, {11, 6}, {17, 10}, {18, 15}, {3, 21}, {5, 28}, {16, 36}, {8, 45}, {21, 55}, {24, 2}, {4, 14},
	{15, 27}, {23, 41}, {19, 56}, {13, 8}, {12, 25}, {2, 43}, {20, 62}, {14, 18}, {22, 39}, {9, 61}, {6, 20}, {1, 44},
}

// keccak256 is Ethereum's hash of the parts, one behind the other. It is SHA-3 as it was before the standard added its
// own padding.
func keccak256(parts ...[]byte) (sum hash32) {
	var text []byte
	for _, p := range parts {
		text = append(text, p...)
	}
	padded := make([]byte, (len(text)/keccakRate+1)*keccakRate)
	copy(padded, text)
	padded[len(text)] ^= 0x01
	padded[len(padded)-1] ^= 0x80
	var state [25]uint64
	for ; len(padded) > 0; padded = padded[keccakRate:] {
		for i := range keccakRate / 8 {
			state[i] ^= binary.LittleEndian.Uint64(padded[8*i:])
		}
		permute(&state)
	}
	for i := range len(sum) / 8 {
		binary.LittleEndian.PutUint64(sum[8*i:], state[i])
	}
	return sum
}

// permute is the permutation keccak-f[1600].
func permute(s *[25]uint64) {
	for _, constant := range keccakRounds {
		var column [5]uint64
		for x := range column {
			column[x] = s[x] ^ s[x+5] ^ s[x+10] ^ s[x+15] ^ s[x+20]
		}
		for i := range s {
			s[i] ^= column[(i+4)%5] ^ bits.RotateLeft64(column[(i+1)%5], 1)
		}
		carried := s[1]
		for _, step := range keccakSteps {
			carried, s[step.lane] = s[step.lane], bits.RotateLeft64(carried, step.by)
		}
		for y := 0; y < len(s); y += 5 {
			row := [5]uint64(s[y : y+5])
			for x := range row {
				s[y+x] = row[x] ^ ^row[(x+1)%5]&row[(x+2)%5]
			}
		}
		s[0] ^= constant
	}
}
