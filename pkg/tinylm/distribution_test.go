package tinylm

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"svc.internal/pkg/tinylm/internal/transcript"
)

func TestEveryPrintableCharacterMayBeWritten(t *testing.T) {
	for r := rune(' '); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || r == 0x7f {
			continue
		}
		var f following
		for i, b := range []byte(string(r)) {
			if !f.allowed()(b) {
				t.Fatalf("byte %d of %U is not allowed", i, r)
			}
			f.take(b)
		}
		if f.missing != 0 {
			t.Fatalf("%U after its last byte: got %d, want 0", r, f.missing)
		}
	}
}

// FuzzAllowedBytesAreText builds a text of allowed bytes, which the fuzzer's bytes
// choose. The text must be valid UTF-8.
func FuzzAllowedBytesAreText(f *testing.F) {
	f.Add([]byte("hello \xf0\x9f\x99\x82"))
	f.Add([]byte{0xed, 0xff, 0xf4, 0xff, 0xe0, 0x00})
	f.Fuzz(func(t *testing.T, choices []byte) {
		var state following
		var text []byte
		for i := 0; i < len(choices) || state.missing > 0; i++ {
			b := byte(0x80)
			if i < len(choices) {
				b = choices[i]
			}
			for allowed := state.allowed(); !allowed(b); {
				b++
			}
			if b == transcript.End {
				continue
			}
			state.take(b)
			text = append(text, b)
		}
		if !utf8.Valid(text) {
			t.Errorf("%q is not valid UTF-8", text)
		}
	})
}

// ladder is a distribution in which 'a' has half of the probability, 'b' a
// quarter, 'c' an eighth, and so on.
func ladder() *distribution {
	d := &distribution{}
	for i := range d.logits {
		d.logits[i] = float32(math.Log(0.5) * float64(i-'a'))
	}
	d.normalize(func(b byte) bool { return 'a' <= b && b <= 'z' })
	return d
}

func TestNormalizedProbabilitiesAreExact(t *testing.T) {
	d := ladder()
	for i := range 5 {
		if got, want := math.Exp(d.logprob(byte('a'+i))), math.Pow(0.5, float64(i+1)); math.Abs(got-want) > 1e-6 {
			t.Errorf("p(%c) = %v, want %v", 'a'+i, got, want)
		}
	}
}

func TestTopPKeepsTheFewestLikeliestBytes(t *testing.T) {
	for topP, want := range map[float64]string{0.3: "a", 0.6: "ab", 0.8: "abc", 0.9: "abcd"} {
		seen := map[byte]bool{}
		d := ladder()
		for i := range 1000 {
			seen[d.sample(1, topP, float64(i)/1000)] = true
		}
		var got bytes.Buffer
		for b := byte('a'); b <= 'z'; b++ {
			if seen[b] {
				got.WriteByte(b)
			}
		}
		if got.String() != want {
			t.Errorf("top_p %v sampled: got %q, want %q", topP, got.String(), want)
		}
	}
}

func TestTemperatureSharpensAndFlattens(t *testing.T) {
	share := func(temperature float64) int {
		n, d := 0, ladder()
		for i := range 1000 {
			if d.sample(temperature, 1, float64(i)/1000) == 'a' {
				n++
			}
		}
		return n
	}
	switch cold, warm, hot := share(0.5), share(1), share(2); {
	case cold < 740:
		t.Errorf("'a' was sampled: got %d, want at least 740", cold)
	case warm < 490 || warm > 510:
		t.Errorf("warm: got %d, want 490 to 510", warm)
	case hot > 310:
		t.Errorf("hot: got %d, want at most 310", hot)
	}
	if share(1e-300) != 1000 {
		t.Error("a vanishing temperature does not take the likeliest byte")
	}
}

func FuzzStops(f *testing.F) {
	f.Add("abababac", "abac", "ba")
	f.Add("aaaaaab", "aaab", "b")
	f.Fuzz(func(t *testing.T, text, one, two string) {
		if one == "" || two == "" {
			t.Skip()
		}
		automaton, got := newStops([]string{one, two}), text
		for i := range len(text) {
			if n := automaton.take(text[i]); n > 0 {
				got = text[:i+1-n]
				break
			}
			if tail := text[i+1-automaton.pending() : i+1]; !strings.HasPrefix(one, tail) && !strings.HasPrefix(two, tail) {
				t.Fatalf("holds back %q, which begins neither %q nor %q", tail, one, two)
			}
		}
		if want := cutBefore(text, []string{one, two}); got != want {
			t.Errorf("%q stopped: got %q, want %q", text, got, want)
		}
	})
}
