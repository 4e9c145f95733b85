package httpapi

import "testing"

// Hostile test 18: what a provider calls itself cannot break a header.
func TestHeaderTextIsPrintableAndBounded(t *testing.T) {
	for in, want := range map[string]string{
		"Acme GPU":                "Acme GPU",
		"a\r\nSet-Cookie: x":      "a__Set-Cookie: x",
		"caf\u00e9 \u6f22":        "caf_ _",
		"\x00\x7f":                "__",
		" padded ":                "padded",
		string(make([]byte, 500)): "",
	} {
		got := headerText(in)
		if len(in) == 500 {
			if len(got) != maxHeaderText {
				t.Errorf("bytes: got %d, want %d", len(got), maxHeaderText)
			}
			continue
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
