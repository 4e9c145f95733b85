package openai

import (
	"encoding/binary"
	"math/bits"
)

// longWord is the largest number of letters of a word that Counter.words takes. The least of such a word is one
// token, and a run of such length is never a blob.
const longWord = longToken

// wordTokens and wordCeiling are the cost of a word by its length.
var wordTokens, wordCeiling = func() (tokens, ceiling [longWord + 1]int) {
	for n := range tokens {
		tokens[n], ceiling[n] = cost(classLower, n)
	}
	return tokens, ceiling
}()

// words counts what most text is made of, eight bytes at a time: words in lower case, whose first letter may be a
// capital, each with a space behind it, and perhaps a sign before that space. The run under way must be a single
// space; afterwards it is the last of these spaces. words returns how many bytes it has counted, as add would have.
func (c *Counter) words(text []byte) int {
	i, words, tokens, ceiling := 0, 0, 0, 0
	for i+longWord+len(", ") <= len(text) {
		// A single capital costs as much as a single lower-case letter, and starts the same run.
		letters := lowerCase(binary.LittleEndian.Uint64(text[i:]) | ' ')
		if letters == 8 {
			letters += lowerCase(binary.LittleEndian.Uint64(text[i+8:]))
		}
		end, sign := i+letters, 0
		if classes[text[end]] == classPunct {
			end++
			sign = 1
		}
		if letters == 0 || classes[text[end]] != classSpace {
			break
		}
		i = end + 1
		words++
		tokens += wordTokens[letters] + sign
		ceiling += wordCeiling[letters] + sign*quarters
	}
	if words > 0 {
		c.tokens += tokens
		c.ceiling += ceiling
		c.bounds.least += words * quarters
		c.bounds.word, c.bounds.blob, c.bounds.last = 0, 0, 0
	}
	return i
}

// lowerCase returns how many of the first bytes of x, from the lowest on, are lower-case letters.
func lowerCase(x uint64) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	// Adding to seven bits carries into the eighth, and never into the next byte.
	seven := x &^ high
	atLeastA := seven + (0x80-'a')*low
	aboveZ := seven + (0x80-'z'-1)*low
	return bits.TrailingZeros64((^atLeastA|aboveZ|x)&high) / 8
}
