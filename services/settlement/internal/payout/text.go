package payout

import (
	"strings"
	"unicode"
)

// clip returns the printable beginning of a text.
func clip(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 400)], "?"))
}
