// Package label checks the short texts that operators give to things: names,
// memos, idempotency keys.
package label

import (
	"unicode"
	"unicode/utf8"
)

// Valid reports whether s has between least and most characters, all of them
// visible or plain spaces.
func Valid(s string, least, most int) bool {
	if n := utf8.RuneCountInString(s); !utf8.ValidString(s) || n < least || n > most {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
