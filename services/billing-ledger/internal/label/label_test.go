package label

import (
	"strings"
	"testing"
)

func TestLabelsAreShortAndPrintable(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "Ünïcode name": true, strings.Repeat("é", 20): true,
		"": false, strings.Repeat("é", 21): false, "a\nb": false, "a\x00": false, "\xff": false, "a\u200bb": false,
	} {
		if Valid(s, 1, 20) != want {
			t.Errorf("%q is valid: %v", s, !want)
		}
	}
}
