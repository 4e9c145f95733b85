package apikey

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAKeyHasThePublishedForm(t *testing.T) {
	for _, prefix := range []Prefix{Consumer, Provider} {
		key, err := Generate(prefix, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(key, string(prefix)) {
			t.Errorf("key of length %d in the form of %s: key: got %q, want the prefix %q", len(key), prefix, key,
				string(prefix))
		} else if len(key) != len(prefix)+40 {
			t.Errorf("key of length %d in the form of %s: len(key): got %d, want %d", len(key), prefix, len(key), len(prefix)+40)
		}
		if got, ok := Parse(key); !ok {
			t.Error("ok of Parse(key): got false, want true")
		} else if got != prefix {
			t.Errorf("Parse of a fresh key: got %q, want %q", got, prefix)
		}
		if Shown(key) != key[:12] {
			t.Errorf("shown part: got %q, want %q", Shown(key), key[:12])
		}
	}
}

func TestEveryMistypedCharacterIsNoticed(t *testing.T) {
	key, err := Generate(Consumer, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(Consumer); i < len(key); i++ {
		for _, c := range []byte{'0', 'z', '-', 0} {
			if key[i] == c {
				continue
			}
			if _, ok := Parse(key[:i] + string(c) + key[i+1:]); ok {
				t.Fatalf("a change at %d went unnoticed", i)
			}
		}
	}
	for _, bad := range []string{"", "sk-svc-", "sk-prov-x", key + "a", key[:len(key)-1], "sk-" + key} {
		if _, ok := Parse(bad); ok {
			t.Errorf("Parse(%q) passed", bad)
		}
	}
}

func TestTheHashDependsOnThePepper(t *testing.T) {
	a, b := Pepper{1}, Pepper{2}
	d := Sum("sk-svc-x")
	if a.Hash(d) == b.Hash(d) {
		t.Error("two peppers give one hash")
	}
	if again := (Pepper{1}); again.Hash(d) != a.Hash(d) {
		t.Error("the hash is not stable")
	}
}

func TestAPepperIsNeverPrinted(t *testing.T) {
	p := Pepper{0xAB, 0xCD}
	for _, s := range []string{fmt.Sprint(p), fmt.Sprintf("%v %+v %#v %s", p, p, p, p)} {
		if strings.Contains(s, "171") {
			t.Errorf(`printed: s: got %q, want it without "171"`, s)
		} else if strings.Contains(strings.ToLower(s), "abcd") {
			t.Errorf(`printed: strings.ToLower(s): got %q, want it without "abcd"`, strings.ToLower(s))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("sk-svc-0000000000000000000000000000000000000000")
	f.Add("sk-prov-")
	f.Fuzz(func(t *testing.T, s string) {
		if p, ok := Parse(s); ok && !strings.HasPrefix(s, string(p)) {
			t.Errorf("%q parsed as %q", s, p)
		}
	})
}

func TestAPepperIsReadFromHexadecimalOrAFileAndNeverShown(t *testing.T) {
	text := strings.Repeat("a1", 32)
	path := filepath.Join(t.TempDir(), "pepper")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, given := range []string{text, "file:" + path} {
		var p Pepper
		switch err := p.UnmarshalText([]byte(given)); {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case p[0] != 0xa1:
			t.Errorf("p[0]: got %#x, want 0xa1", p[0])
		case p[31] != 0xa1:
			t.Errorf("p[31]: got %#x, want 0xa1", p[31])
		}
	}
	for _, given := range []string{"", text[2:], text + "00", strings.Repeat("zz", 32), "file:" + path + "x"} {
		var p Pepper
		if err := p.UnmarshalText([]byte(given)); err == nil {
			t.Errorf("%.10s: got no error, want one", given)
		} else if strings.Contains(err.Error(), "zzzz") {
			t.Errorf(`%.10s: got the error %q, want it without "zzzz"`, given, err)
		}
	}
}
