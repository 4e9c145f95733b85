// Package printable bounds the texts that people give, such as reasons and references, before they are kept and shown.
// PostgreSQL takes no text with a zero in it, and a log is forged with ends of lines.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Within reports whether a text has 1 to limit characters, each of them printable.
func Within(text string, limit int) bool {
	n := utf8.RuneCountInString(text)
	return n >= 1 && n <= limit && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
