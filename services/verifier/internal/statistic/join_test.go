package statistic

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// decoders write the text of a token alone, as engines do.
var decoders = map[string]func(token, rest string) string{
	// One U+FFFD for each part of a character (HF tokenizers, vLLM).
	"parts": func(token, _ string) string {
		var b strings.Builder
		for len(token) > 0 {
			r, n := utf8.DecodeRuneInString(token)
			if r == utf8.RuneError {
				for n = 1; n < len(token) && !utf8.RuneStart(token[n]) && utf8.RuneStart(token[0]); n++ {
				}
			}
			b.WriteRune(r)
			token = token[n:]
		}
		return b.String()
	},
	// One U+FFFD for each byte.
	"bytes": func(token, _ string) string { return string([]rune(token)) },
	// Nothing before the last byte of a character, and then the character.
	"whole": func(token, before string) string {
		done := func(s string) string {
			for n := 1; n <= min(len(s), utf8.UTFMax); n++ {
				if end := s[len(s)-n:]; utf8.RuneStart(end[0]) {
					if !utf8.FullRuneInString(end) {
						return s[:len(s)-n]
					}
					break
				}
			}
			return s
		}
		return strings.TrimPrefix(done(before+token), done(before))
	},
}

// cut cuts a text into tokens of one to five bytes.
func cut(r *rand.Rand, text string) []string {
	var all []string
	for len(text) > 0 {
		n := min(1+r.IntN(5), len(text))
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

const letters = "ab c\n.éü—你好漢字🙂👩‍👩‍👧🏳️‍🌈e\u0301\ufffd"

func TestTokensThatArePartsOfCharactersJoin(t *testing.T) {
	t.Parallel()
	for name, decode := range decoders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(41, 1))
			known, all := 0, 0
			for range 2_000 {
				runes := []rune(letters)
				var b strings.Builder
				for range 1 + r.IntN(30) {
					b.WriteRune(runes[r.IntN(len(runes))])
				}
				text := b.String()
				tokens := cut(r, text)
				list, before := []Position{{Own: Entry{Token: "user"}, Top: []Entry{{}}}}, ""
				var begins []int
				for _, token := range tokens {
					p := Position{Own: Entry{Token: decode(token, before)}, Top: []Entry{{}}}
					list, begins = append(list, p), append(begins, len(before))
					before += token
				}
				got, at := joinEnd(list, len(list), text, partsBefore(text))
				if len(got) != len(tokens) {
					t.Fatalf("%q in %q: got %d tokens, want %d", text, tokens, len(got), len(tokens))
				}
				front, ok := joinFront(list[len(list)-len(got):], text)
				if !ok {
					t.Fatalf("%q in %q: got no way from the front, want one", text, tokens)
				}
				begins = begins[len(begins)-len(got):]
				for i := range got {
					all++
					if at[i] >= 0 {
						known++
					}
					if name == "whole" {
						continue // bytes of a character are told with its last token
					}
					if at[i] >= 0 && at[i] != begins[i] {
						t.Fatalf("token %d of %q: got the byte %d, want %d", i, tokens, at[i], begins[i])
					}
					if front[i] >= 0 && front[i] != begins[i] {
						t.Fatalf("from the front, token %d of %q: got the byte %d, want %d", i, tokens, front[i], begins[i])
					}
				}
			}
			t.Logf("%.3f of the tokens are known", float64(known)/float64(all))
		})
	}
}

func TestWithoutPartsOfCharactersTheJoinIsExact(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(42, 1))
	for range 2_000 {
		text := ""
		for range 1 + r.IntN(20) {
			text += string("ab c"[r.IntN(4)])
		}
		list := []Position{{Own: Entry{Token: "?"}, Top: []Entry{{}}}}
		for _, token := range cut(r, text) {
			list = append(list, Position{Own: Entry{Token: token}, Top: []Entry{{}}})
		}
		wrong := ""
		if r.IntN(2) == 0 {
			wrong = "c"
		}
		want, v := tail(list, len(list), wrong+text)
		got, _ := joinEnd(list, len(list), wrong+text, 0)
		if found := got != nil; found != (v == None) {
			t.Fatalf("%q: got a join %t, want the exact one's %q", wrong+text, found, v)
		}
		if !slices.EqualFunc(got, want, func(a, b Position) bool { return a.Own == b.Own }) {
			t.Fatalf("%q: got %v, want %v", wrong+text, got, want)
		}
	}
}

func TestDeclaredTokensBehindTheTextAreIgnored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		tokens []string
		want   string
	}{
		{"ab", []string{"a", "b", "<|end|>"}, "[0 1]"},
		{"ab", []string{"a", "b", "\xe2", "\x80"}, "[0 1]"}, // half a character, which the engine left out
		{"ab", []string{"a", "bST", "OP"}, "[0 1]"},
		{"ab", []string{"a"}, "[]"},
		{"ab", []string{"a", "c"}, "[]"},
		{"ab", nil, "[]"},
	} {
		var declared []Position
		for _, token := range c.tokens {
			declared = append(declared, Position{Own: Entry{Token: token}})
		}
		at, _ := joinFront(declared, c.text)
		if got := fmt.Sprint(at); got != c.want {
			t.Errorf("%q in %q: got %s, want %s", c.text, c.tokens, got, c.want)
		}
	}
}

// The tokens of " the end" join to "the end": templates differ in whether the blank stays.
func TestABlankInTheFirstTokenJoins(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[string]bool{
		"[assistant]| the| end": true, "[assistant]|the| end": true, "[assistant]| |the| end": true, "?| x the| end": false,
		"?| he| end": false,
	} {
		var list []Position
		for token := range strings.SplitSeq(tokens, "|") {
			list = append(list, Position{Own: Entry{Token: token}, Top: []Entry{{}}})
		}
		got, _ := joinEnd(list, len(list), "the end", 0)
		if found := got != nil; found != want {
			t.Errorf("%q: got a join %t, want %t", tokens, found, want)
		}
	}
	if got := Scored("  the end \n"); got != "  the end" {
		t.Errorf("what is scored: got %q, want the end cut alone", got)
	}
}

// Engines that write a character with its last token have no text for the tokens before it.
// At the answer's beginning they are its first tokens, as many as the character has bytes for.
func TestAFirstCharacterHasAllItsTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, tokens string
		want         int
	}{
		{"漢 x", "?|||漢| x", 4}, {"漢 x", "?|||||漢| x", 4}, {"漢 x", "?|漢| x", 2}, {"é", "?||||é", 2}, {"🙂!", "?|||||🙂|!", 5},
		{"x", "?|||x", 1}, {"x漢", "?||x|||漢", 4},
	} {
		var list []Position
		for token := range strings.SplitSeq(c.tokens, "|") {
			list = append(list, Position{Own: Entry{Token: token}, Top: []Entry{{}}})
		}
		if got, _ := joinEnd(list, len(list), c.text, partsBefore(c.text)); len(got) != c.want {
			t.Errorf("%q: got %d tokens of the answer, want %d", c.tokens, len(got), c.want)
		}
	}
}

// Whatever is sent, the join ends soon.
func TestEndlessPartsAreBounded(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("漢", MaxAnswerBytes/3)
	var list []Position
	for range MaxAnswerTokens {
		list = append(list, Position{Own: Entry{Token: strings.Repeat(replacement, MaxTokenBytes/3)}, Top: []Entry{{}}})
	}
	if got, _ := joinEnd(list, len(list), text, 0); got != nil {
		t.Errorf("got %d positions, want none", len(got))
	}
	if _, ok := joinFront(list, text); ok {
		t.Error("from the front: got a join, want none")
	}
}

func TestBlanksAreTrimmedFromBothEnds(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"a": "a", " \n a b\t\u200b": "a b", "\ufeffé\ufe0f": "é", "\u200b \x00": "", "": "", "a\x1cb\x1c": "a\x1cb",
		"\u2028x\u3000": "x", "x\U000e0041": "x",
	} {
		if got := Trim(from); got != want {
			t.Errorf("%q: got %q, want %q", from, got, want)
		}
	}
}
