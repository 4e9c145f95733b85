package openai

import (
	"encoding/binary"
	"math/bits"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// EstimateTokens estimates how many tokens a model's tokenizer makes of text,
// in one pass and without a vocabulary; see Counter. It is never zero for a
// text that is not empty.
func EstimateTokens(text []byte) int {
	var c Counter
	c.Write(text)
	return c.Tokens()
}

// Counter estimates tokens over a text that comes in fragments, without
// counting a word twice that two fragments share: the result does not depend
// on where the text is cut. The zero value is ready for use.
//
// Letters cost a token for the first six of a word and one for every four
// more, digits one for two, signs one for about three in a run, scripts without
// ASCII letters one for a character and rare ones up to three; a single space,
// and a single sign before a word, cost nothing.
//
// Measured against the cl100k and o200k vocabularies, the estimate is this many
// times the count:
//
//	English prose and Markdown  1.11–1.18   1.11–1.17
//	Go code, JSON               1.05–1.22   1.06–1.22
//	German, French              0.88–0.94   1.10–1.17
//	Russian, Greek              0.95, 0.70  1.64, 1.75
//	Chinese, Japanese, Korean   0.92–1.10   1.58–1.75
//	Arabic, Hindi, Thai         0.77–1.22   2.5–3.6
//	hexadecimal, base64         1.10, 0.79  1.10, 0.82
//	random lower-case letters   0.43        0.45
//
// A caller corrects it per model by the ratio learnt from engines' usage.
//
// Text may be plain UTF-8 or the inside of a JSON string: a backslash and what
// it escapes count as the character they stand for.
//
// Beside the estimate it keeps what vocabularies make of the same text at least and
// plausibly (Least, Plausible), and at the most (Bound).
type Counter struct {
	tokens  int
	ceiling int // of Bound, in quarters of a token
	class   class
	run     int // letters, digits, … in the current run, weighted
	any     bool
	pending [12]byte // an escape or UTF-8 sequence that the fragment cut
	held    int
	bounds  bounds
}

// class is what a run is made of.
type class uint8

const (
	classNone class = iota
	classSpace
	classNewline
	classUpper
	classLower
	classDigit
	classPunct
	classWide // counted rune by rune
	classEscape
	classEnd   // one line end behind punctuation, which costs nothing
	classMulti // first byte of a UTF-8 sequence of several bytes
)

var classes = func() (t [256]class) {
	for i := range t {
		switch b := byte(i); {
		case b >= utf8.RuneSelf:
			t[i] = classMulti
		case b == '\\':
			t[i] = classEscape
		case b >= 'a' && b <= 'z':
			t[i] = classLower
		case b >= 'A' && b <= 'Z':
			t[i] = classUpper
		case b >= '0' && b <= '9':
			t[i] = classDigit
		case b == ' ' || b == '\t':
			t[i] = classSpace
		case b == '\n' || b == '\r':
			t[i] = classNewline
		default:
			t[i] = classPunct
		}
	}
	return t
}()

// Write counts the next fragment.
func (c *Counter) Write(text []byte) {
	if len(text) == 0 {
		return
	}
	c.any = true
	for c.held > 0 && len(text) > 0 {
		text = c.resume(text)
	}
	for i := 0; i < len(text); {
		k := classes[text[i]]
		if k == classEscape || k == classMulti {
			r, size, whole := nextRune(text[i:])
			if !whole {
				c.held = copy(c.pending[:], text[i:])
				return
			}
			c.addRune(r)
			i += size
			continue
		}
		start := i
		for i++; i < len(text) && classes[text[i]] == k; i++ {
		}
		c.add(k, i-start)
		if c.class == classSpace && c.run == 1 {
			i += c.words(text[i:])
		}
	}
}

// Tokens returns the estimate so far, at least one when anything was written. It never
// falls. A sequence that the last fragment cut counts once it is whole.
func (c *Counter) Tokens() int {
	tokens, _ := cost(c.class, c.run)
	n := c.tokens + tokens
	if n == 0 && c.any {
		return 1
	}
	return n
}

// Bound returns the number of tokens that hardly any tokenizer exceeds: what a hold must
// cover. Like Tokens it never falls. See bound.go.
func (c *Counter) Bound() int {
	_, ceiling := cost(c.class, c.run)
	return max((c.ceiling+ceiling+quarters-1)/quarters, c.Tokens())
}

// resume completes a held sequence with the first byte of text.
func (c *Counter) resume(text []byte) []byte {
	c.pending[c.held] = text[0]
	c.held++
	r, size, whole := nextRune(c.pending[:c.held])
	if !whole && c.held < len(c.pending) {
		return text[1:]
	}
	rest := c.held - size
	again := c.pending
	c.held = 0
	c.addRune(r)
	if rest > 0 {
		// The sequence ended before its last byte, which begins another.
		var tail [12]byte
		n := copy(tail[:], again[size:size+rest])
		c.Write(tail[:n])
	}
	return text[1:]
}

// nextRune decodes the escape or UTF-8 sequence at the start of b; whole is false when b
// ends within it. A malformed sequence decodes to U+FFFD.
func nextRune(b []byte) (r rune, size int, whole bool) {
	if b[0] != '\\' {
		if len(b) < utf8.UTFMax && !utf8.FullRune(b) {
			return 0, 0, false
		}
		r, size = utf8.DecodeRune(b)
		return r, size, true
	}
	if len(b) < 2 {
		return 0, 0, false
	}
	switch b[1] {
	case 'n', 'r':
		return '\n', 2, true
	case 't', 'b', 'f':
		return '\t', 2, true
	case 'u':
	default:
		if b[1] >= utf8.RuneSelf {
			return '\\', 1, true
		}
		return rune(b[1]), 2, true
	}
	r, size, whole = hexEscape(b)
	if !whole || size < 6 || !utf16.IsSurrogate(r) || r >= 0xDC00 {
		return r, size, whole
	}
	// The first half of a surrogate pair: the other half must follow.
	if len(b) == 6 || b[6] == '\\' && len(b) == 7 {
		return 0, 0, false
	}
	if b[6] != '\\' || b[7] != 'u' {
		return utf8.RuneError, 6, true
	}
	low, lowSize, whole := hexEscape(b[6:])
	if !whole {
		return 0, 0, false
	}
	if pair := utf16.DecodeRune(r, low); lowSize == 6 && pair != utf8.RuneError {
		return pair, 12, true
	}
	return utf8.RuneError, 6, true
}

// hexEscape decodes \uXXXX at the start of b. Without four hexadecimal digits
// it is a backslash and a letter.
func hexEscape(b []byte) (r rune, size int, whole bool) {
	for k := 2; k < 6; k++ {
		if k >= len(b) {
			return 0, 0, false
		}
		d := b[k]
		switch {
		case d >= '0' && d <= '9':
			r = r<<4 | rune(d-'0')
		case d|0x20 >= 'a' && d|0x20 <= 'f':
			r = r<<4 | rune(d|0x20-'a'+10)
		default:
			return '\\', 1, true
		}
	}
	return r, 6, true
}

// addRune counts one character that was escaped or is not ASCII.
func (c *Counter) addRune(r rune) {
	switch {
	case r < utf8.RuneSelf && r != '\\':
		c.add(classes[r], 1)
	case r == '\\':
		c.add(classPunct, 1)
	case r < 0x0250: // Latin with diacritics
		if unicode.IsLetter(r) {
			c.letter(2)
			return
		}
		c.wide(1, r)
	case r >= 0x0370 && r < 0x0400: // Greek
		c.letter(3)
	case r < 0x0530: // IPA, Cyrillic
		c.letter(2)
		if r < 0x0400 || r >= 0x0460 {
			c.ceiling += rareLetter
		}
	case r >= 0x2000 && r < 0x2070:
		if unicode.IsSpace(r) {
			c.add(classSpace, 1)
			c.ceiling += wideSpace
			return
		}
		c.wide(1, r)
	case r < 0x2E80 && r >= 0x2000: // symbols, arrows, box drawing
		c.wide(2, r)
	case r >= 0x3000 && r < 0xA000, r >= 0xAC00 && r < 0xD7B0, r >= 0xFF00 && r < 0xFFF0:
		c.wide(1, r) // CJK, kana, hangul, full-width forms
	case r < 0x2000:
		c.wide(1, r) // Semitic, Indic, South-East Asian scripts
	case r >= 0x10000:
		c.wide(3, r) // emoji, rare ideographs, historic scripts
	default:
		c.wide(2, r)
	}
}

// letter counts a letter that is not ASCII and continues its word.
func (c *Counter) letter(weight int) {
	k := classLower
	if c.class == classUpper {
		k = classUpper
	}
	c.add(k, weight)
	c.bounds.foreign = true
}

func (c *Counter) wide(tokens int, r rune) {
	if c.class != classWide {
		c.ceiling += quarters // the space before it is a token of its own
	}
	c.add(classWide, 0)
	c.tokens += tokens
	c.ceiling += maxOfWide(r)
	c.bounds.wide(r, tokens)
}

// add continues the current run, or ends it and begins another.
func (c *Counter) add(k class, n int) {
	switch {
	case k == c.class:
		c.run += n
		return
	case k == classNewline && c.class == classEnd:
		c.class = classNewline
		c.run += n
		return
	case k == classLower && c.class == classUpper && c.run == 1:
		c.class = classLower // a capitalised word is one run
		c.run += n
		return
	}
	switch {
	case c.class == classPunct && c.run == 1 && (k == classLower || k == classUpper):
		// One sign belongs to the word after it: .name, (x, /path.
		c.ceiling += halfToken
		c.bounds.word = 0
	case c.class == classPunct && k == classNewline && n == 1:
		// A line end belongs to the sign before it: {⏎, ;⏎.
		c.end()
		c.class, c.run = classEnd, 1
		return
	default:
		c.end()
	}
	c.class, c.run = k, n
}

// end adds the cost of the run that ends here.
func (c *Counter) end() {
	tokens, ceiling := cost(c.class, c.run)
	c.tokens += tokens
	c.ceiling += ceiling
	c.bounds.run(c.class, c.run, tokens)
}

// cost returns the estimate for one run, and its bound in quarters of a token.
func cost(k class, n int) (tokens, ceiling int) {
	if n == 0 {
		return 0, 0
	}
	switch k {
	case classSpace:
		if n == 1 {
			return 0, 0 // a space belongs to the word after it
		}
		return 1 + n/16, quarters + n
	case classNewline:
		return 1 + n/8, quarters + n
	case classLower:
		if n <= 6 {
			return 1, 2*n + halfToken + n/6
		}
		return 1 + (n-6+3)/4, 2*n + halfToken + n/6
	case classUpper:
		return (n + 2) / 3, 3*n + 1
	case classDigit:
		return (n + 1) / 2, quarters * n
	case classPunct:
		if n == 1 {
			return 1, quarters
		}
		return 1 + (n+1)/3, quarters * n
	default:
		return 0, 0
	}
}

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
