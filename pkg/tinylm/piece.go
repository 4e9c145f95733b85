package tinylm

import "unicode/utf8"

// piece is a part of an answer that is sent at once.
type piece struct {
	text   string
	tokens []Token
}

// maxPieceBytes is the length in bytes from which on a piece ends before the next
// character, even inside a word.
const maxPieceBytes = 16

// grouper joins tokens into pieces, because one event for each byte would cost
// more than the byte. A piece is a word with the space before it. Pieces end only
// between characters.
type grouper struct {
	text   []byte
	tokens []Token
}

// add takes in a token. If the token ends a piece, add returns that piece; the
// token itself belongs to the next piece.
func (g *grouper) add(token Token) (done piece, ok bool) {
	if g.endsBefore(token.Byte) {
		done, ok = piece{string(g.text), g.tokens}, true
		g.text, g.tokens = g.text[:0], nil // done keeps the old tokens
	}
	g.text = append(g.text, token.Byte)
	g.tokens = append(g.tokens, token)
	return done, ok
}

func (g *grouper) endsBefore(next byte) bool {
	switch {
	case len(g.text) == 0 || !utf8.RuneStart(next):
		return false
	case len(g.text) >= maxPieceBytes:
		return true
	default:
		return isSpace(next) && !isSpace(g.text[len(g.text)-1])
	}
}

// rest returns the remaining tokens as the last piece, and false if there are none. The
// text of the piece omits a character that the token limit cut short; its tokens stay.
func (g *grouper) rest() (last piece, ok bool) {
	text := g.text
	for n := 1; n <= min(len(text), utf8.UTFMax); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				text = text[:len(text)-n]
			}
			break
		}
	}
	return piece{string(text), g.tokens}, len(g.tokens) > 0
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' }
