package relay

import (
	"encoding/json"
	"reflect"
	"testing"

	"svc.internal/pkg/openai"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestStrictAnswersHaveTheirNulls(t *testing.T) {
	usage := usageOf{finished: &hubv1.DispatchFinished{BillablePromptTokens: 2, BillableCompletionTokens: 3}}
	const u = `"usage":{"prompt_tokens":2}`
	cases := []struct{ in, out string }{
		{`{` + u + `}`, `{` + u + `}`},
		{`{}`, `{"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}`},
		{`{"id":"x","usage": null }`, `{"id":"x","usage": {"prompt_tokens":2,"completion_tokens":3,"total_tokens":5} }`},
		{`{"usage":5}`, `{"usage":5}`},
		{`{` + u + `,"choices":[]}`, `{` + u + `,"choices":[]}`},
		{`{` + u + `,"choices":[{},5]}`, `{` + u + `,"choices":[{"logprobs":null},5]}`},
		{`{` + u + `,"choices":[{"message":{}}]}`, `{` + u + `,"choices":[{"logprobs":null,"message":{"refusal":null,"content":null}}]}`},
		{`{` + u + `,"choices":[{"logprobs":{},"message":{"refusal":"x","content":"y","reasoning":1.0}}], "k":1e400}`,
			`{` + u + `,"choices":[{"logprobs":{},"message":{"refusal":"x","content":"y","reasoning":1.0}}], "k":1e400}`},
		{`{` + u + `,"choices":[{"message":null}]}`, `{` + u + `,"choices":[{"logprobs":null,"message":null}]}`},
		{`[]`, `[]`},
		{`{"choices":[{}`, `{"choices":[{}`},
		{``, ``},
	}
	for _, c := range cases {
		if got := string(strict([]byte(c.in), usage)); got != c.out {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, got, c.out)
		}
	}
	if got := string(strict([]byte(`{"usage":{}}`), usageOf{cost: "0.01"})); got != `{"usage":{"cost":0.01}}` {
		t.Errorf("got %s", got)
	}
}

// FuzzStrictKeepsWhatIsThere: an answer stays JSON, and loses and changes
// nothing.
func FuzzStrictKeepsWhatIsThere(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"message":{"role":"assistant"}}]}`, `{"usage":{"a":1},"choices":[{"logprobs":1}]}`, `{"usage":null}`, `{"choices":{}}`,
	} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, withCost bool) {
		usage := usageOf{finished: &hubv1.DispatchFinished{}}
		if withCost {
			usage.cost = "0.000001"
		}
		var before, after map[string]any
		if json.Unmarshal(body, &before) != nil {
			return
		}
		out := strict(body, usage)
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s became %s: %v", body, out, err)
		}
		if before == nil || hasTwice(body) {
			return
		}
		if !within(before, after) {
			t.Fatalf("%s lost something: %s", body, out)
		}
	})
}

// hasTwice tells whether a document changes when it is read and written, as
// one with a name that stands twice does.
func hasTwice(body []byte) bool {
	names := 0
	var v any
	if json.Unmarshal(body, &v) != nil {
		return true
	}
	var count func(any)
	count = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			names += len(v)
			for _, inner := range v {
				count(inner)
			}
		case []any:
			for _, inner := range v {
				count(inner)
			}
		}
	}
	count(v)
	colons := 0
	inString, escaped := false, false
	for _, b := range body {
		switch {
		case escaped:
			escaped = false
		case inString && b == '\\':
			escaped = true
		case b == '"':
			inString = !inString
		case b == ':' && !inString:
			colons++
		}
	}
	return colons != names
}

// within tells whether all of a is in b; a null may have been filled.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range a {
			if there, ok := other[name]; !ok || value != nil && !within(value, there) {
				return false
			}
		}
		return true
	case []any:
		other, ok := b.([]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for i := range a {
			if !within(a[i], other[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

func TestTheCostGoesIntoUsageThatIsAnObject(t *testing.T) {
	for in, want := range map[string]string{
		`{"usage":{"a":1}}`: `{"usage":{"cost":0.5,"a":1}}`,
		`{"usage":{ }}`:     `{"usage":{"cost":0.5 }}`,
		`{"usage":null}`:    `{"usage":null}`,
		`{"usage":5}`:       `{"usage":5}`,
		`{}`:                `{}`,
	} {
		chunk, err := openai.ScanChunk([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(addCost(nil, []byte(in), chunk.UsageSpan, "0.5")); got != want {
			t.Errorf("%s became %s", in, got)
		}
	}
}

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
				t.Errorf("%d bytes", len(got))
			}
			continue
		}
		if got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
