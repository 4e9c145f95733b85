package user

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
)

func made(t testing.TB, password string) Hash {
	t.Helper()
	h, err := hash(password, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestAHashMatchesItsPasswordAloneAndIsKeptAsText(t *testing.T) {
	const password = "correct horse"
	h := made(t, password)
	if !strings.HasPrefix(h.Text(), "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf(`it is kept: got %q, want the prefix "$argon2id$v=19$m=19456,t=2,p=1$"`, h.Text())
	}
	kept, err := ParseHash(h.Text())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{password: true, "correct horsf": false, "": false, password + "\x00": false} {
		if got, err := kept.matches(text); err != nil {
			t.Errorf("%q matches: got the error %v, want none", text, err)
		} else if got != want {
			t.Errorf("%q matches: kept.matches(text): got %t, want %t", text, got, want)
		}
	}
	if other := made(t, password); other.Text() == h.Text() {
		t.Error("two hashes of a password are alike")
	}
	if ok, err := nobody().matches(password); ok {
		t.Error("the hash of nobody matches: ok: got true, want false")
	} else if err != nil {
		t.Errorf("the hash of nobody matches: got the error %v, want none", err)
	}
	if _, err := (Hash{}).matches(""); err == nil {
		t.Error("no hash matches")
	}
}

// TestAKnownHashIsRecognised compares a password with the hash that the reference
// command makes of it:
// `echo -n password | argon2 somesalt -id -t 2 -m 6 -p 1 -l 24`.
func TestAKnownHashIsRecognised(t *testing.T) {
	h, err := ParseHash("$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQ$Bo1ismRVk2qm6+YAYLCmWHDb+j3fjUH3")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := h.matches("password"); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !ok {
		t.Error("ok: got false, want true")
	}
}

func TestWhatAsksForTooMuchIsNoHash(t *testing.T) {
	good := made(t, "correct horse").Text()
	for _, text := range []string{
		"", "secret", good + "$", good + "=", good[:len(good)-40], strings.Replace(good, "v=19", "v=18", 1),
		strings.Replace(good, "argon2id", "argon2i", 1),
		strings.Replace(good, "m=19456", "m=262145", 1), strings.Replace(good, "m=19456", "m=4294967296", 1),
		strings.Replace(good, "m=19456", "m=7", 1),
		strings.Replace(good, "t=2", "t=0", 1), strings.Replace(good, "t=2", "t=17", 1), strings.Replace(good, "p=1", "p=0",
			1), strings.Replace(good, "p=1", "p=9", 1),
		strings.Replace(good, "m=19456", "m=019456", 1), strings.Replace(good, "m=19456", "m=-1", 1),
		"$argon2id$v=19$m=19456,t=2,p=1$$", "$argon2id$v=19$m=19456,t=2,p=1$" + strings.Repeat("A", 400) + "$" +
			strings.Repeat("A", 43),
	} {
		if _, err := ParseHash(text); err == nil {
			t.Errorf("%.80s is a hash", text)
		}
	}
}

func FuzzAHashIsReadAsItIsKept(f *testing.F) {
	f.Add(nobody().Text())
	f.Add("$argon2id$v=19$m=65536,t=2,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b3dWRWJTmaaJObG")
	f.Add("$argon2id$v=19$m=8,t=1,p=1$$")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHash(text)
		switch {
		case err == nil && h.Text() != text:
			t.Errorf("h.Text(): got %q, want %q", h.Text(), text)
		case err == nil && h.memoryKiB > maxMemoryKiB:
			t.Errorf("h.memoryKiB: got %d, want at most %d", h.memoryKiB, maxMemoryKiB)
		case err == nil && h.passes > maxPasses:
			t.Errorf("h.passes: got %d, want at most %d", h.passes, maxPasses)
		case err == nil && len(h.sum) == 0:
			t.Errorf("len(h.sum): got 0, want at least 1, with %q", text)
		}
	})
}

func TestSecretsDoNotPrint(t *testing.T) {
	token, err := NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h := made(t, "correct horse")
	in, o := SignedIn{Token: token}, Opening{Password: h}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		text := fmt.Sprintf(verb+verb+verb+verb, token, h, in, o)
		if want := token.Reveal(); strings.Contains(text, want) {
			t.Errorf("%s of a secret: text: got %q, want it without %q", verb, text, want)
		} else if want := h.Text(); strings.Contains(text, want) {
			t.Errorf("%s of a secret: text: got %q, want it without %q", verb, text, want)
		} else if want := fmt.Sprintf("%x", token.Reveal()); strings.Contains(text, want) {
			t.Errorf("%s of a secret: text: got %q, want it without %q", verb, text, want)
		}
	}
}

func TestATokenHas256RandomBits(t *testing.T) {
	a, errA := NewToken(rand.Reader)
	b, errB := NewToken(rand.Reader)
	if errA != nil {
		t.Errorf("errA: got the error %v, want none", errA)
	} else if errB != nil {
		t.Errorf("errB: got the error %v, want none", errB)
	} else if a.Reveal() == b.Reveal() {
		t.Errorf("a.Reveal(): got %q, want any but %q", a.Reveal(), b.Reveal())
	} else if got, want := a.Digest(), b.Digest(); got == want {
		t.Errorf("a.Digest(): got %v, want any but %v", got, want)
	} else if len(a.Reveal()) != 43 {
		t.Errorf("len(a.Reveal()): got %d, want 43", len(a.Reveal()))
	}
	if _, err := NewToken(strings.NewReader("short")); err == nil {
		t.Error("a token of less")
	}
}
