package account

import (
	"strings"
	"testing"
)

func TestLabelsAreShortAndPrintable(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "Ünïcode name": true, strings.Repeat("é", 20): true,
		"": false, strings.Repeat("é", 21): false, "a\nb": false, "a\x00": false, "\xff": false, "a\u200bb": false,
	} {
		if got := ValidLabel(s, 1, 20); got != want {
			t.Errorf("ValidLabel(%q): got %v, want %v", s, got, want)
		}
	}
}
