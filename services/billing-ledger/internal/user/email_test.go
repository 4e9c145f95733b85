package user

import (
	"errors"
	"strings"
	"testing"
)

func TestOneAddressIsOneUserHoweverItIsWritten(t *testing.T) {
	for text, want := range map[string]Email{
		"a@b":                                  "a@b",
		" Ada.Lovelace+Models@Example.COM\r\n": "ada.lovelace+models@example.com",
		"o'brien!#$%&*/=?^_`{|}~-@xn--bcher-kva.example": "o'brien!#$%&*/=?^_`{|}~-@xn--bcher-kva.example",
		strings.Repeat("x", 64) + "@" + strings.Repeat(strings.Repeat("d", 62)+".", 3)[:189]: Email(strings.Repeat("x", 64) +
			"@" + strings.Repeat(strings.Repeat("d", 62)+".", 3)[:188] + "d"),
	} {
		if len(text) == 254 && strings.HasSuffix(text, ".") {
			text = text[:253] + "d"
		}
		if got, err := ParseEmail(text); err != nil {
			t.Errorf("%q: got the error %v, want none", text, err)
		} else if got != want {
			t.Errorf("%q: ParseEmail(text): got %q, want %q", text, got, want)
		}
	}
}

func TestWhatIsNoAddressIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "@", "a", "a@", "@b", "a@b@c", "a b@c", "a@b c", "a\x00@b", "a@b\n.c", "a\u0430@b", "a@b\u00fccher", "\xff@b",
		".a@b", "a.@b", "a..b@c", `"a b"@c`, "a(x)@b", "a,b@c", "a@-b", "a@b-", "a@b..c", "a@.b", "a@b.", "a@[127.0.0.1]",
		"a@b_c",
		strings.Repeat("x", 65) + "@b", "a@" + strings.Repeat("d", 64), "a@" + strings.Repeat("d.", 126) + "d",
		strings.Repeat(" ", 1<<20) + "a@b",
	} {
		if got, err := ParseEmail(text); !errors.Is(err, errEmail) {
			t.Errorf("%.40q is %q: got the error %v, want %v", text, got, err, errEmail)
		}
	}
}

func FuzzAnAddressIsKeptInOneForm(f *testing.F) {
	for _, seed := range []string{"a@b", " Ada@Example.com", "a@b@c", "\u212a@b", "a@xn--bcher-kva.example",
		strings.Repeat("x", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseEmail(text)
		if err != nil {
			return
		}
		again, err := ParseEmail(string(e))
		switch {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case again != e:
			t.Errorf("again: got %q, want %q, with %q", again, e, text)
		case len(e) > maxEmail:
			t.Errorf("len(e): got %d, want at most %d, with %q", len(e), maxEmail, text)
		case strings.Count(string(e), "@") != 1:
			t.Errorf(`strings.Count(string(e), "@"): got %d, want 1, with %q`, strings.Count(string(e), "@"), text)
		case strings.ToUpper(string(e)) == string(e) && strings.ToLower(string(e)) != string(e):
			t.Errorf("strings.ToLower(string(e)): got %q, want %q, where strings.ToUpper(string(e)) == string(e), with %q",
				strings.ToLower(string(e)), string(e), text)
		}
		for _, b := range []byte(e) {
			if b <= ' ' || b > '~' {
				t.Errorf("%q: b: got %q, want more than ' ' and at most '~'", e, b)
			} else if 'A' <= b && b <= 'Z' {
				t.Errorf("%q: b: got %q, want more than 'Z', where 'A' <= b", e, b)
			}
		}
	})
}
