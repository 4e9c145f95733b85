package statistic

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Engines decode a token by itself. One that holds a part of a character then has U+FFFD in
// its text where the part is (vLLM), so that its text alone does not say which bytes of the
// answer it stands for. A way through the answer is found from all tokens together: spots
// are the bytes at which a token may begin, given the tokens on one side of it.

// maxSpots bounds the spots of one token. An answer of 160 tokens, all of them parts of
// characters, has fewer.
const maxSpots = 1_024

const replacement = string(utf8.RuneError)

// ahead returns where in the text a token may end that begins at one of the spots.
func ahead(text, token string, spots []int) []int {
	for i, literal := range strings.Split(token, replacement) {
		if i > 0 {
			spots = overPart(text, spots, 1)
		}
		kept := make([]int, 0, len(spots))
		for _, at := range spots {
			if strings.HasPrefix(text[at:], literal) {
				kept = append(kept, at+len(literal))
			}
		}
		spots = kept
	}
	return spots
}

// behind returns where in the text a token may begin that ends at one of the spots.
func behind(text, token string, spots []int) []int {
	literals := strings.Split(token, replacement)
	for i := len(literals) - 1; i >= 0; i-- {
		if i < len(literals)-1 {
			spots = overPart(text, spots, -1)
		}
		kept := make([]int, 0, len(spots))
		for _, at := range spots {
			if strings.HasSuffix(text[:at], literals[i]) {
				kept = append(kept, at-len(literals[i]))
			}
		}
		spots = kept
	}
	return spots
}

// overPart returns the spots on the other side of one U+FFFD of a token, in the direction 1
// or −1. It returns none where there would be more than maxSpots.
func overPart(text string, spots []int, direction int) []int {
	var over []int
	for _, at := range spots {
		for n := 1; n < utf8.UTFMax; n++ {
			from, to := at, at+n
			if direction < 0 {
				from, to = at-n, at
			}
			if from >= 0 && to <= len(text) && isPart(text[from:to]) {
				over = append(over, at+n*direction)
			}
		}
	}
	slices.Sort(over)
	if over = slices.Compact(over); len(over) > maxSpots {
		return nil
	}
	return over
}

// isPart reports whether a decoder writes one U+FFFD for the bytes: the first bytes of a
// character, one of its later bytes, or U+FFFD itself.
func isPart(bytes string) bool {
	switch {
	case bytes == replacement:
		return true
	case len(bytes) == 1:
		return bytes[0] >= utf8.RuneSelf
	}
	return utf8.RuneStart(bytes[0]) && !utf8.FullRuneInString(bytes)
}
