package corpus

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

var (
	nouns = []string{"user", "account", "request", "provider", "token", "stream", "invoice", "session", "order", "window",
		"balance", "model", "weather", "location", "calendar", "customer"}
	verbs = []string{"get", "list", "create", "update", "delete", "find", "merge", "parse", "send", "validate", "compute"}
	kinds = []string{"string", "int", "bool", "error", "float64", "[]byte", "map[string]any", "time.Duration"}
)

// name is an identifier as programmers write it.
func name(r *rand.Rand) string {
	words := []string{pick(r, verbs), pick(r, nouns), pick(r, nouns)}[:1+r.IntN(3)]
	switch r.IntN(3) {
	case 0:
		return strings.Join(words, "_")
	case 1:
		for i, w := range words {
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
		return strings.Join(words, "")
	default:
		return strings.ToUpper(strings.Join(words, "_"))
	}
}

// code is lines of Go, Python, C, SQL, shell and HTML.
func code(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		x, y, z := name(r), name(r), name(r)
		indent := strings.Repeat(pick(r, []string{"\t", "    ", "  "}), r.IntN(4))
		b.WriteString(indent)
		switch r.IntN(10) {
		case 0:
			fmt.Fprintf(&b, "func (s *%s) %s(%s %s) (%s, error) {\n", x, y, z, pick(r, kinds), pick(r, kinds))
		case 1:
			fmt.Fprintf(&b, "if err := %s(ctx, %s[%d:]); err != nil {\n%s\treturn fmt.Errorf(\"%s: %%w\", err)\n%s}\n", x, y,
				r.IntN(9), indent, z, indent)
		case 2:
			fmt.Fprintf(&b, "def %s(self, %s=None, *args, **kwargs) -> %s:\n", x, y, z)
		case 3:
			fmt.Fprintf(&b, "for (size_t i = 0; i < %s->%s; ++i) { %s[i] ^= 0x%08x; }\n", x, y, z, r.Uint32())
		case 4:
			fmt.Fprintf(&b, "SELECT %s, count(*) FROM %s WHERE %s >= $%d GROUP BY 1;\n", x, y, z, r.IntN(9))
		case 5:
			fmt.Fprintf(&b, "<div class=\"%s %s\"><a href=\"https://%s.example/%s?id=%d\">%s</a></div>\n", x, y,
				z, x, r.IntN(1000), y)
		case 6:
			fmt.Fprintf(&b, "// %s %s the %s of a %s.\n", x, pick(r, verbs), pick(r, nouns), pick(r, nouns))
		case 7:
			fmt.Fprintf(&b, "$ curl -sS -X POST localhost:%d/%s -d @%s.json | jq '.%s[]'\n", 1024+r.IntN(60000), x, y, z)
		case 8:
			fmt.Fprintf(&b, "const %s = (%s) => ({ ...%s, [`%s-${i}`]: %s?.%s ?? null });\n", x, y, y, z, x, y)
		default:
			b.WriteString("}\n\n")
		}
	}
	return b.String()
}

func value(r *rand.Rand, depth int) any {
	switch r.IntN(8) {
	case 0:
		return r.IntN(1 << 20)
	case 1:
		return r.Float64()
	case 2:
		return pick(r, []any{true, false, nil})
	case 3, 4:
		if depth > 0 {
			m := map[string]any{}
			for range 1 + r.IntN(5) {
				m[name(r)] = value(r, depth-1)
			}
			return m
		}
		return name(r)
	case 5:
		if depth > 0 {
			var list []any
			for range r.IntN(6) {
				list = append(list, value(r, depth-1))
			}
			return list
		}
		return ""
	default:
		return pick(r, pick(r, languages).sentences)
	}
}

func jsonText(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		v := value(r, 3)
		text, err := json.Marshal(v)
		if r.IntN(2) == 0 {
			text, err = json.MarshalIndent(v, "", "  ")
		}
		if err != nil {
			panic(err) // made of strings, numbers, lists and maps
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

func markdown(r *rand.Rand, n int) string {
	var b strings.Builder
	for b.Len() < n {
		switch r.IntN(5) {
		case 0:
			fmt.Fprintf(&b, "## %s\n\n", pick(r, languages[0].sentences))
		case 1:
			fmt.Fprintf(&b, "| %s | %s |\n|---|---|\n| `%s` | **%d** |\n", name(r), name(r), name(r), r.IntN(1000))
		case 2:
			fmt.Fprintf(&b, "- [%s](https://example.com/%s#%d): %s\n", name(r), name(r), r.IntN(99),
				pick(r, languages[0].sentences))
		case 3:
			fmt.Fprintf(&b, "```go\n%s```\n", code(r, 60))
		default:
			fmt.Fprintf(&b, "%s $x_{%d}^2 + \\frac{a}{b}$\n", pick(r, languages[0].sentences), r.IntN(9))
		}
	}
	return b.String()
}

// toolSchemas is an array of up to 64 tools.
func toolSchemas(r *rand.Rand) string {
	var tools []any
	for range 1 + r.IntN(64) {
		properties := map[string]any{}
		for range r.IntN(8) {
			properties[name(r)] = map[string]any{
				"type":        pick(r, []string{"string", "number", "boolean", "array"}),
				"description": pick(r, pick(r, languages).sentences),
				"enum":        []string{name(r), name(r)},
			}
		}
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
			"name": name(r), "description": pick(r, languages[0].sentences), "strict": true,
			"parameters": map[string]any{"type": "object", "properties": properties, "required": []string{name(r)},
				"additionalProperties": false},
		}})
	}
	text, err := json.Marshal(tools)
	if err != nil {
		panic(err) // made of strings, lists and maps
	}
	return string(text)
}
