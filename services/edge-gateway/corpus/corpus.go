// Package corpus generates prompts in many scripts and forms, the same for the same
// seed. The tests beside it hold the gateway's hold on a prompt against the tokenizers
// of real engines. It is a module of its own, so that neither the tokenizers nor their
// vocabularies become dependencies of a service.
//
// A prompt is made of real sentences of its language and of words that tokenizers have
// seen less often, in any order. A form that is no language is made of symbols drawn at
// random.
//
// Of 100,018 generated prompts in 43 scripts and forms (make corpus), the hold covered
// the share "held". The estimate and the hold were these multiples of the tokens that
// the tokenizers counted, over all prompts and at the ends:
//
//	vocabulary             cl100k                          o200k
//	held                   100.00 %                        100.00 %
//	estimate / count       0.86                            1.31
//	  lowest, highest      Amharic 0.34, code 1.25         random letters 0.45, Arabic 2.91
//	  English              1.20                            1.22
//	hold / count           1.86                            2.82
//	  highest              English 2.75                    Georgian 7.6
//	  least                Armenian 1.03,                  unusual Unicode 1.13,
//	                       random letters 1.11             random letters 1.15
package corpus

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"
)

// Kind is one script or form of prompts.
type Kind struct {
	Name string
	text func(r *rand.Rand, bytes int) string
	// tools makes the tools of the request; nil for a kind without tools.
	tools func(r *rand.Rand) string
}

// Prompt is one generated chat request.
type Prompt struct {
	// Body is the request. Text is the text of its prompt, before any template.
	Body []byte
	Text string
}

// longest bounds the text of a prompt in bytes; most are far shorter.
const longest = 4096

// Prompt makes the n-th prompt of the kind.
func (k Kind) Prompt(n uint64) Prompt {
	r := rand.New(rand.NewPCG(n, 26)) //nolint:gosec // the same prompts every time
	// The length is from a few words to four kilobytes, each order of magnitude as often
	// as another.
	bytes := 16 << r.IntN(8)
	bytes += r.IntN(bytes)
	text := k.text(r, min(bytes, longest))
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string is always JSON
	}
	members := ""
	if k.tools != nil {
		tools := k.tools(r)
		members, text = `,"tools":`+tools, text+tools
	}
	return Prompt{Body: []byte(`{"model":"m","messages":[{"role":"user","content":` + string(quoted) + `}]` +
		members + `}`), Text: text}
}

// Kinds returns every kind.
func Kinds() []Kind {
	var kinds []Kind
	for _, l := range languages {
		kinds = append(kinds, Kind{Name: l.name, text: l.text})
	}
	return append(kinds,
		Kind{Name: "emoji", text: emojis},
		Kind{Name: "base64",
			text: func(r *rand.Rand, n int) string { return base64.StdEncoding.EncodeToString(noise(r, n*3/4)) }},
		Kind{Name: "hexadecimal", text: func(r *rand.Rand, n int) string { return hex.EncodeToString(noise(r, n/2)) }},
		Kind{Name: "digits", text: digits},
		Kind{Name: "code", text: code},
		Kind{Name: "JSON", text: jsonText},
		Kind{Name: "Markdown", text: markdown},
		Kind{Name: "random letters", text: letters},
		Kind{Name: "signs", text: signs},
		Kind{Name: "unusual Unicode", text: unusual},
		Kind{Name: "one sign repeated", text: repeated},
		Kind{Name: "mixed", text: mixed},
		Kind{Name: "tool schemas", text: languages[0].text, tools: toolSchemas},
	)
}

func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// text is sentences of the language, and words of it in another order.
func (l *language) text(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		switch r.IntN(6) {
		case 0:
			for range 3 + r.IntN(12) {
				b.WriteString(pick(r, l.words()))
				b.WriteString(l.space)
			}
		case 1:
			fmt.Fprintf(&b, "%d. ", r.IntN(2000))
			fallthrough
		default:
			b.WriteString(pick(r, l.sentences))
			b.WriteString(pick(r, []string{" ", " ", "\n", "\n\n"}))
		}
	}
	return b.String()
}

var emoji = []string{"😀", "😂", "🤣", "❤️", "👍🏽", "🎉", "🚀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵", "🧑🏿‍💻", "✨", "🔥", "🥺",
	"🫠", "🪿", "☕", "♟️", "🩷"}

func emojis(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(pick(r, emoji))
		if r.IntN(8) == 0 {
			b.WriteString(" ok ")
		}
	}
	return b.String()
}

func digits(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, "%d ", r.IntN(100000))
		case 1:
			fmt.Fprintf(&b, "%.4f, ", r.Float64()*1000)
		case 2:
			fmt.Fprintf(&b, "%d-%02d-%02d %02d:%02d\n", 1990+r.IntN(40), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60))
		default:
			fmt.Fprintf(&b, "%d", r.Uint64())
		}
	}
	return b.String()
}

func letters(r *rand.Rand, n int) string {
	b := make([]byte, 0, n)
	for len(b) < n {
		for range 1 + r.IntN(14) {
			b = append(b, byte('a'+r.IntN(26)))
		}
		b = append(b, ' ')
	}
	return string(b)
}

func signs(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = pick(r, []byte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \n\t"))
	}
	return string(b)
}

// unusual draws from all letters, marks, numbers and symbols of Unicode.
func unusual(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		table := pick(r, unusualTables)
		for range 1 + r.IntN(20) {
			b.WriteRune(runeOf(r, table))
		}
		b.WriteByte(' ')
	}
	return b.String()
}

var unusualTables = []*unicode.RangeTable{
	unicode.Letter, unicode.Mark, unicode.Number, unicode.Symbol, unicode.Punct, unicode.Han, unicode.Yi,
	unicode.Cuneiform,
	unicode.Egyptian_Hieroglyphs, unicode.Tibetan, unicode.Khmer, unicode.Mongolian, unicode.Cherokee,
	unicode.Canadian_Aboriginal,
	unicode.Runic, unicode.Braille, unicode.Gothic, unicode.Coptic, unicode.Sinhala, unicode.Malayalam, unicode.Vai,
	unicode.Nko,
}

// runeOf draws a rune of a table; a larger range is drawn more often.
func runeOf(r *rand.Rand, t *unicode.RangeTable) rune {
	size := 0
	for _, s := range t.R16 {
		size += int((s.Hi-s.Lo)/s.Stride) + 1
	}
	for _, s := range t.R32 {
		size += int((s.Hi-s.Lo)/s.Stride) + 1
	}
	n := r.IntN(size)
	for _, s := range t.R16 {
		if c := int((s.Hi-s.Lo)/s.Stride) + 1; n >= c {
			n -= c
			continue
		}
		return rune(s.Lo) + rune(n)*rune(s.Stride)
	}
	for _, s := range t.R32 {
		if c := int((s.Hi-s.Lo)/s.Stride) + 1; n >= c {
			n -= c
			continue
		}
		return rune(s.Lo) + rune(n)*rune(s.Stride)
	}
	return 'x'
}

// repeated is one character, or a few, over and over.
func repeated(r *rand.Rand, n int) string {
	unit := pick(r, []string{"a", "x", " ", "\n", "\t", "-", "=", "#", "!?", "0", "1", "7", "ü", "ж", "ω", "א", "ب", "あ",
		"語", "가", "ก", "क", "😀", "\u200b", "\u00a0", "\ufeff", "Ａ", "ﷺ", "\u0301", "𓀀", "ab", "aB", "_x", "A"})
	return strings.Repeat(unit, n/len(unit)+1)
}

// mixed changes the kind every few words.
func mixed(r *rand.Rand, n int) string {
	var b strings.Builder
	makers := []func(*rand.Rand, int) string{digits, code, jsonText, markdown, unusual, letters}
	for b.Len() < n {
		if r.IntN(3) == 0 {
			b.WriteString(pick(r, makers)(r, 40))
		} else {
			b.WriteString(pick(r, languages).text(r, 40))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
