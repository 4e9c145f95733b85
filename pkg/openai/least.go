package openai

// bounds are the fewest tokens that vocabularies make of a text, and how many an honest
// one may plausibly make of it. They are in quarters of a token, by the runs that a
// Counter finds.
//
// The least rests on how byte-pair vocabularies cut a text before they merge: no token
// spans two words, or a word and a number. Within a run it assumes the longest tokens
// that vocabularies have. It needs no ratio learnt from engines' claims, so no claim can
// move it.
//
// Plausible is the estimate, raised where the estimate is known to be too low. Measured
// against cl100k, the estimate of base64 and hexadecimal is 0.79 of the count, of random
// lower-case letters 0.43, of Greek 0.70, and of Arabic, Hindi and Thai 0.77.
type bounds struct {
	least, extra int  // quarters of a token
	word         int  // letters of the word that the run before belongs to
	blob         int  // letters and digits without a break
	last         rune // counted by itself before, without a break
	repeated     int  // how often
	foreign      bool
}

const (
	// longToken is the largest number of letters in one token, longSigns of signs,
	// longDigits of digits, and longRow of equal characters of another kind.
	longToken  = 16
	longSigns  = 128
	longDigits = 4
	longRow    = 16
	// blobBytes is the length from which letters and digits without a break are no words:
	// base64, hexadecimal, random text.
	blobBytes = 24
)

// run counts a run of n, of which the estimate makes tokens.
func (b *bounds) run(k class, n, tokens int) {
	if n == 0 {
		return
	}
	foreign := b.foreign
	b.foreign = false
	switch k {
	case classLower, classUpper:
		b.letters(k, n, tokens, foreign)
		return
	case classDigit:
		b.least += quarters * (1 + (n-1)/longDigits)
		b.blob += n
		if b.blob > blobBytes {
			b.extra += 2 * tokens
		}
		b.word = 0
		return
	case classPunct:
		if n > 1 {
			// A single sign may belong to the word after it.
			b.least += quarters * (1 + (n-2)/longSigns)
			b.blob = 0
		}
		// A single sign is part of base64.
	default:
		b.blob = 0
	}
	b.word, b.last = 0, 0
}

// letters counts a run of letters, which may continue a word of the other case.
func (b *bounds) letters(k class, n, tokens int, foreign bool) {
	b.last = 0
	if foreign {
		// Weighted letters of other scripts: the estimate is their measure.
		b.least += tokens
		b.extra += 2 * tokens
		b.word, b.blob = 0, 0
		return
	}
	before := longest(b.word)
	b.word += n
	b.least += quarters * (longest(b.word) - before)
	b.blob += n
	switch {
	case k == classLower && n > blobBytes:
		b.extra += 6 * tokens
	case b.blob > blobBytes:
		b.extra += 2 * tokens
	}
}

// longest returns the fewest tokens that so many letters of one word may be.
func longest(letters int) int { return (letters + longToken - 1) / longToken }

// wide counts one character that the estimate counts by itself. The longest tokens of
// such scripts hold four times what the estimate makes of them; rows of one character are
// longer.
func (b *bounds) wide(r rune, tokens int) {
	switch {
	case r != b.last:
		b.last, b.repeated = r, 0
		b.least += tokens
	case b.repeated%longRow == longRow-1:
		b.least += tokens
	}
	b.repeated++
	b.extra += 2 * tokens
	b.word, b.blob = 0, 0
}

// counts are the three counts of a text, in tokens.
type counts struct{ tokens, least, plausible int }

// counts returns the counts so far. Only least may ever fall, by the run under way.
func (c *Counter) counts() counts {
	n, _ := cost(c.class, c.run)
	end := c.bounds
	end.run(c.class, c.run, n)
	all := counts{tokens: c.Tokens(), least: end.least / quarters}
	all.plausible = c.tokens + n + (end.extra+quarters-1)/quarters
	all.plausible = max(all.plausible, all.tokens)
	all.least = min(all.least, all.tokens)
	return all
}

// Least returns the fewest tokens that any known vocabulary makes of the text so far:
// what is certain to have been delivered. It is never above Tokens.
func (c *Counter) Least() int { return c.counts().least }

// Plausible returns how many tokens an honest vocabulary may make of the text so far, on
// average over texts of its kind. It is never below Tokens. A single text may have more;
// see Bound.
func (c *Counter) Plausible() int { return c.counts().plausible }
