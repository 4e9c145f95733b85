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
		if !strings.HasPrefix(key, string(prefix)) || len(key) != len(prefix)+40 {
			t.Errorf("key of length %d does not have the form of %s", len(key), prefix)
		}
		if got, ok := Parse(key); !ok || got != prefix {
			t.Errorf("Parse of a fresh key = %q, %v", got, ok)
		}
		if Shown(key) != key[:12] {
			t.Errorf("shown part %q", Shown(key))
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
		if strings.Contains(s, "171") || strings.Contains(strings.ToLower(s), "abcd") {
			t.Errorf("printed: %s", s)
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
		if err := p.UnmarshalText([]byte(given)); err != nil || p[0] != 0xa1 || p[31] != 0xa1 {
			t.Errorf("%v", err)
		}
	}
	for _, given := range []string{"", text[2:], text + "00", strings.Repeat("zz", 32), "file:" + path + "x"} {
		var p Pepper
		if err := p.UnmarshalText([]byte(given)); err == nil || strings.Contains(err.Error(), "zzzz") {
			t.Errorf("%.10s: %v", given, err)
		}
	}
}
