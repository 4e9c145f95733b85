package openai

// The bound of a text is what its hold must cover, whichever engine serves it. An
// estimate is right for ordinary text and wrong by 1.1 to 3 times for the rest: for
// languages that a vocabulary has seen little of, and for random letters. The bound
// therefore uses the most that characters cost: half a token for an ASCII letter, one for
// a digit or a sign, and for all else what the vocabularies in the corpus made of the
// script. It is never more than a token for each byte of UTF-8, to which tokenizers fall
// back.
//
// Bounds are summed in quarters of a token.
const (
	quarters  = 4
	halfToken = quarters / 2
	// rareLetter is the cost of a rare letter of Latin, IPA or Cyrillic, beside its share
	// of the run.
	rareLetter = 4
	// wideSpace is the cost of a space outside ASCII.
	wideSpace = 8
)

// EstimateAndBound is EstimateTokens with the bound beside it.
func EstimateAndBound(text []byte) (tokens, bound int) {
	var c Counter
	c.Write(text)
	return c.Tokens(), c.Bound()
}

// maxOfWide is the most that one character costs that is counted by itself, in
// quarters of a token.
func maxOfWide(r rune) int {
	switch {
	case r >= 0x3000 && r < 0x3400, r >= 0x4e00 && r < 0xa000, r >= 0xac00 && r < 0xd7b0: // CJK, kana, hangul
		return 8
	case r < 0x0600: // signs of Latin, Armenian, Hebrew: both bytes
		return 8
	case r < 0x0700: // Arabic
		return 6
	case r < 0x0800:
		return 8
	case r < 0x0900:
		return 12
	case r < 0x0980, r >= 0x0e00 && r < 0x0e80: // Devanagari, Thai
		return 6
	case r < 0x0d80: // the other Indic scripts
		return 8
	case r >= 0x1e00 && r < 0x2070: // Vietnamese, old Greek, punctuation
		return 8
	case r < 0x10000:
		return 12
	case r >= 0x1f000 && r < 0x1fb00: // emoji
		return 12
	default:
		return 16
	}
}
