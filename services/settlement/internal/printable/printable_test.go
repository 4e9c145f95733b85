package printable_test

import (
	"strings"
	"testing"

	"svc.internal/services/settlement/internal/printable"
)

func TestATextIsWithinItsBoundWhenAllOfItCanBeRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"asked by mail": true, "ä€😀": true, strings.Repeat("é", 20): true, strings.Repeat("é", 21): false, "": false,
		"a\x00b": false, "a\nb": false, "a\tb": false, "\xff": false, "a\u202eb": false, "a\u2028b": false,
	} {
		if got := printable.Within(text, 20); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
