package account

import (
	"unicode"
	"unicode/utf8"
)

// ValidLabel reports whether a short text has between shortest and longest characters,
// all of them visible or plain spaces.
func ValidLabel(s string, shortest, longest int) bool {
	if n := utf8.RuneCountInString(s); !utf8.ValidString(s) || n < shortest || n > longest {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
