package payout

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable reports whether a text has 1 to limit printable characters.
func printable(text string, limit int) bool {
	n := utf8.RuneCountInString(text)
	return n >= 1 && n <= limit && utf8.ValidString(text) &&
		strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// clip returns the printable beginning of a text.
func clip(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 400)], "?"))
}
