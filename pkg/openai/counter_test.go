package openai

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEstimateIsNeverZeroForText(t *testing.T) {
	for _, text := range []string{" ", "\n", "a", "\\", "\xff", "é", "\xe4", `\u00`, "\u200b"} {
		if n := EstimateTokens([]byte(text)); n < 1 {
			t.Errorf("%q: got %d, want at least 1", text, n)
		}
	}
	if n := EstimateTokens(nil); n != 0 {
		t.Errorf("nothing: got %d, want 0", n)
	}
}

func TestEstimateReadsEscapesAsWhatTheyStandFor(t *testing.T) {
	for _, text := range []string{"two\nlines\twith \"quotes\"", "日本語\u2028x", "emoji 😀 and é", "tab\tand\r\nline"} {
		escaped, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		plain, inner := EstimateTokens([]byte(text)), EstimateTokens(escaped[1:len(escaped)-1])
		if plain != inner {
			t.Errorf("%q: got %d, want %d", text, plain, inner)
		}
	}
	if a, b := EstimateTokens([]byte("😀日")), EstimateTokens([]byte(`\ud83d\ude00\u65E5`)); a != b {
		t.Errorf(`EstimateTokens([]byte("😀日")): got %d, want %d`, a, b)
	}
}

// TestEstimateCannotBeEvadedByUnusualText is hostile test 26: what tokenizers
// split finely must not be taken for few words.
func TestEstimateCannotBeEvadedByUnusualText(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		min  int
	}{
		"emoji":           {strings.Repeat("😀", 100), 200},
		"historic script": {strings.Repeat("\U00012000", 100), 200},
		"punctuation":     {strings.Repeat("!?", 100), 50},
		"spaces":          {strings.Repeat(" ", 1600), 100},
		"one long word":   {strings.Repeat("x", 1000), 250},
		"digits":          {strings.Repeat("7", 300), 100},
		"invalid bytes":   {strings.Repeat("\xff", 100), 100},
		"CJK":             {strings.Repeat("語", 100), 100},
		"Thai":            {strings.Repeat("ไ", 100), 100},
		"zero width":      {strings.Repeat("\u200b", 100), 100},
		"Cyrillic":        {strings.Repeat("привет мир ", 50), 150},
	} {
		if n := EstimateTokens([]byte(tc.text)); n < tc.min {
			t.Errorf("%s: got %d tokens, want at least %d", name, n, tc.min)
		}
	}
}

// TestWordsCountAsTheirLettersDo compares the counts of a text with those of the same text written letter by letter,
// for which Counter.words finds nothing to take.
func TestWordsCountAsTheirLettersDo(t *testing.T) {
	pieces := []string{"a", "I", "the", "fox", "Words", "lazydogs", "sixteen letters", "abcdefghijklmnop",
		"Abcdefghijklmnop", "abcdefghijklmnopq", strings.Repeat("x", 40), "HTTP", "camelCase", "don't", "x1", "42", "é", "日本",
		".", ",", "...", "\n", "\"", "@", "[", "{", "\xff", "\t", "\n"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var text []byte
		for range random.IntN(30) {
			text = append(text, pieces[random.IntN(len(pieces))]...)
			if random.IntN(3) > 0 {
				text = append(text, "   "[:1+random.IntN(12)/11]...)
			}
		}
		var whole, letters Counter
		whole.Write(text)
		for i := range text {
			letters.Write(text[i : i+1])
		}
		if got, want := whole.counts(), letters.counts(); got != want {
			t.Fatalf("%q: got %+v, want %+v", text, got, want)
		}
		if got, want := whole.Bound(), letters.Bound(); got != want {
			t.Fatalf("%q: got the bound %d, want %d", text, got, want)
		}
	}
}

func FuzzCounterIsIndifferentToCuts(f *testing.F) {
	for _, text := range []string{`Hello, \ud83d\ude00 wörld 日本\n`, "\xe4\xb8", `\u12`, `\ud83d\u0041\ud83dx`,
		"camelCase HTTPServer 12345 ----", "\\\xff\\", "All of these, but one. Words and Words: a lot of them "} {
		f.Add([]byte(text), uint16(3), uint16(9))
	}
	f.Fuzz(func(t *testing.T, text []byte, a, b uint16) {
		want := EstimateTokens(text)
		if len(text) > 0 && want < 1 {
			t.Fatalf("want: got %d, want at least 1, where len(text) > 0", want)
		}
		if want > 3*len(text) {
			t.Fatalf("3*len(text): got %d, want at least %d", 3*len(text), want)
		}
		var letters, pieces Counter
		for _, piece := range split(text, 1) {
			before := letters.Tokens()
			letters.Write(piece)
			if letters.Tokens() < before {
				t.Fatalf("letters.Tokens(): got %d, want at least %d, with %q", letters.Tokens(), before, text)
			}
		}
		i, j := int(a)%(len(text)+1), int(b)%(len(text)+1)
		i, j = min(i, j), max(i, j)
		pieces.Write(text[:i])
		pieces.Write(text[i:j])
		pieces.Write(text[j:])
		if letters.Tokens() != want {
			t.Fatalf("%q: %d whole, %d by letter, %d cut at %d and %d: letters.Tokens(): got %d, want %d", text, want,
				letters.Tokens(), pieces.Tokens(), i, j, letters.Tokens(), want)
		}
		if pieces.Tokens() != want {
			t.Fatalf("%q: %d whole, %d by letter, %d cut at %d and %d: pieces.Tokens(): got %d, want %d", text, want,
				letters.Tokens(), pieces.Tokens(), i, j, pieces.Tokens(), want)
		}
		_, bound := EstimateAndBound(text)
		switch {
		case letters.Bound() != bound:
			t.Fatalf("%q: bound of %d whole, %d by letter, %d cut at %d and %d; the estimate is %d: letters.Bound(): got %d, "+
				"want %d", text, bound, letters.Bound(), pieces.Bound(), i, j, want, letters.Bound(), bound)
		case pieces.Bound() != bound:
			t.Fatalf("%q: bound of %d whole, %d by letter, %d cut at %d and %d; the estimate is %d: pieces.Bound(): got %d, "+
				"want %d", text, bound, letters.Bound(), pieces.Bound(), i, j, want, pieces.Bound(), bound)
		case bound < want:
			t.Fatalf("%q: bound of %d whole, %d by letter, %d cut at %d and %d; the estimate is %d: bound: got %d, want at "+
				"least %d", text, bound, letters.Bound(), pieces.Bound(), i, j, want, bound, want)
		}
		if utf8.Valid(text) && bytes.IndexByte(text, '\\') < 0 && want > 3*utf8.RuneCount(text) {
			t.Fatalf("%d tokens for %d runes", want, utf8.RuneCount(text))
		}
	})
}

func BenchmarkEstimateTokens(b *testing.B) {
	for name, text := range map[string]string{
		"English": strings.Repeat("The quick brown fox jumps over the lazy dog, and then it runs home. ", 500),
		"code": strings.Repeat(
			"\tif err := run(ctx, cfg.Args[1:]); err != nil {\n\t\treturn fmt.Errorf(\"run: %w\", err)\n\t}\n", 400),
		"Chinese": strings.Repeat("我们的模型在两个小时内完成了训练。", 600),
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(text)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				EstimateTokens(data)
			}
		})
	}
}
