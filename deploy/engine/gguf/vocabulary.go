package gguf

import "fmt"

// The first tokens, by their numbers.
const (
	unknownToken = iota
	beginToken
	endToken
	controlTokens
)

// notText is how many tokens at the front are control tokens or raw bytes.
const notText = controlTokens + 256

// space is how the tokenizer writes a space inside a token.
const space = "\u2581"

// tokenClass is the format's number of what a token is.
type tokenClass int32

const (
	classNormal  tokenClass = 1
	classUnknown tokenClass = 2
	classControl tokenClass = 3
	classByte    tokenClass = 6
)

// vocabulary is that of a SentencePiece tokenizer. Every text has tokens: what
// no piece covers is spelt in bytes. Every JSON text has tokens of one
// character, so that an engine's grammar can always find its way.
type vocabulary struct {
	tokens  []string
	scores  []float32
	classes []tokenClass
}

// newVocabulary has control tokens, bytes, printable ASCII and syllables, which
// make answers look like words.
func newVocabulary() *vocabulary {
	v := &vocabulary{}
	v.add("<unk>", classUnknown)
	v.add("<s>", classControl)
	v.add("</s>", classControl)
	for b := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", b), classByte)
	}
	v.add(space, classNormal)
	for c := '!'; c <= '~'; c++ {
		v.add(string(c), classNormal)
	}
	for _, before := range []string{space, ""} {
		for _, vowel := range "aeiou" {
			for _, consonant := range "bcdfghklmnprstvw" {
				v.add(before+string(consonant)+string(vowel), classNormal)
			}
		}
	}
	return v
}

// add appends a token. The tokenizer joins the pair of pieces whose token has
// the highest score. Here the token that was added first has the highest score.
func (v *vocabulary) add(token string, class tokenClass) {
	score := float32(0)
	if class == classNormal {
		score = -float32(len(v.tokens))
	}
	v.tokens = append(v.tokens, token)
	v.scores = append(v.scores, score)
	v.classes = append(v.classes, class)
}
