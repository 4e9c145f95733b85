package rewrite

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"svc.internal/pkg/openai"
)

func TestStrictAnswersHaveTheirNulls(t *testing.T) {
	usage := Usage{Prompt: 2, Completion: 3}
	const u = `"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}`
	cases := []struct{ in, out string }{
		{`{` + u + `}`, `{` + u + `}`},
		{`{}`, `{"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}`},
		{`{"id":"x","usage": null }`, `{"id":"x","usage": {"prompt_tokens":2,"completion_tokens":3,"total_tokens":5} }`},
		{`{` + u + `,"choices":[]}`, `{` + u + `,"choices":[]}`},
		{`{` + u + `,"choices":[{},5]}`, `{` + u + `,"choices":[{"index":0,"logprobs":null},5]}`},
		{`{` + u + `,"choices":[{"message":{}}]}`,
			`{` + u + `,"choices":[{"index":0,"logprobs":null,"message":{"role":"assistant","content":null,"refusal":null}}]}`},
		{`{` + u + `,"choices":[{"index":7,"message":{"role":null,"refusal":null}},{"index":null}]}`,
			`{` + u + `,"choices":[{"logprobs":null,"index":7,"message":{"content":null,"role":"assistant","refusal":null}},` +
				`{"logprobs":null,"index":1}]}`},
		{`{` + u + `,"choices":[{"logprobs":{},"message":{"refusal":"x","content":"y","reasoning":1.0}}], "k":1e400}`,
			`{` + u + `,"choices":[{"index":0,"logprobs":{"refusal":null,"content":null},"message":{"role":"assistant",` +
				`"refusal":"x","content":"y","reasoning":1.0}}], "k":1e400}`},
		{`{` + u + `,"choices":[{"logprobs":{"content":[{"token":"a","logprob":-0.50},{"bytes":[1],` +
			`"top_logprobs":[{"token":"b"},5]},5]},"message":null}]}`,
			`{` + u + `,"choices":[{"index":0,"logprobs":{"refusal":null,"content":[{"top_logprobs":[],"bytes":null,` +
				`"token":"a","logprob":-0.50},` +
				`{"bytes":[1],"top_logprobs":[{"bytes":null,"token":"b"},5]},5]},"message":null}]}`},
		{`{` + u + `,"choices":[{"message":null}]}`, `{` + u + `,"choices":[{"index":0,"logprobs":null,"message":null}]}`},
		{`[]`, `[]`},
		{`{"choices":[{}`, `{"choices":[{}`},
		{``, ``},
	}
	for _, c := range cases {
		if got := string(strict([]byte(c.in), usage)); got != c.out {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, got, c.out)
		}
	}
}

// FuzzStrictKeepsWhatIsThere: an answer stays JSON, and loses and changes
// nothing but its usage.
func FuzzStrictKeepsWhatIsThere(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"message":{"role":"assistant"}}]}`, `{"usage":{"a":1},"choices":[{"logprobs":1}]}`, `{"usage":null}`,
		`{"choices":{}}`,
	} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, withCost bool) {
		usage := Usage{Prompt: 2, Completion: 3}
		if withCost {
			usage.Cost = "0.000001"
		}
		var before, after map[string]any
		if json.Unmarshal(body, &before) != nil {
			return
		}
		own := ownMembers(&Spec{RequestID: "r"}, time.Unix(17, 0))
		out := strict(body, usage, own...)
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s became %s: %v", body, out, err)
		}
		if before == nil || hasTwice(body) {
			return
		}
		delete(before, "usage")
		if !within(before, after) {
			t.Fatalf("%s lost something: %s", body, out)
		}
		for _, m := range own {
			if after[m.name] == nil {
				t.Fatalf("%s has no %s: %s", body, m.name, out)
			}
		}
	})
}

// hasTwice reports whether a document changes when it is read and written, as
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

// within reports whether all of a is in b; a null may have been filled.
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

// What the engine says of its usage reaches the client only if it is billed.
func TestTheUsageShownIsTheUsageBilled(t *testing.T) {
	const right, shown = `"prompt_tokens":2,"completion_tokens":3,"total_tokens":5`,
		`{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}`
	usage := Usage{Prompt: 2, Completion: 3}
	for in, want := range map[string]string{
		`{` + right + `,"prompt_tokens_details":{"cached_tokens":1}}`: `{` +
			right + `,"prompt_tokens_details":{"cached_tokens":1}}`,
		`{"total_tokens": 5, "prompt_tokens" :2,"completion_tokens":3}`: `{"total_tokens": 5, "prompt_tokens" :2,` +
			`"completion_tokens":3}`,
		`{"prompt_tokens":2,"completion_tokens":900,"total_tokens":902,"prompt_tokens_details":{"cached_tokens":1}}`: shown,
		`{"prompt_tokens":-2,"completion_tokens":3,"total_tokens":1}`:                                                shown,
		`{"prompt_tokens":"2","completion_tokens":"3","total_tokens":"5"}`:                                           shown,
		`{"prompt_tokens":2.0,"completion_tokens":3,"total_tokens":5}`:                                               shown,
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`:                                                 shown,
		`{"prompt_tokens":2,"completion_tokens":3,"total_tokens":1e300}`:                                             shown,
		`{` + right + `,"prompt_tokens":7}`:                                                                          shown,
		`{"prompt_tokens":7,` + right + `}`:                                                                          shown,
		`{` + right + `,"Prompt_Tokens":7}`:                                                                          shown,
		`{"prompt_tokens":2,"completion_tokens":3}`:                                                                  shown,
		`{}`: shown, `null`: shown, `5`: shown, `"many"`: shown, `[2,3]`: shown,
	} {
		got := string(strict([]byte(`{"a":1,"usage":`+in+`,"b":2}`), usage))
		if got != `{"a":1,"usage":`+want+`,"b":2}` {
			t.Errorf("%s: got %q, want %q", in, got, `{"a":1,"usage":`+want+`,"b":2}`)
		}
		if event := string(withBilled([]byte(`{"a":1,"usage":`+in+`,"b":2}`), usage)); event != got {
			t.Errorf("the event with %s: got %q, want %q", in, event, got)
		}
	}
	if got := string(withBilled([]byte(`{"usage":{"x":1},"choices":[{}],"usage":{`+right+`}}`),
		usage)); got != `{"usage":`+shown+`,"choices":[{}],"usage":`+shown+`}` {
		t.Errorf("of two: got %q, want %q", got, `{"usage":`+shown+`,"choices":[{}],"usage":`+shown+`}`)
	}
	usage.Cost = "0.5"
	if got := string(withBilled([]byte(`{"usage":{`+right+`}}`), usage)); got != `{"usage":{"cost":0.5,`+right+`}}` {
		t.Errorf("with the cost: got %q, want %q", got, `{"usage":{"cost":0.5,`+right+`}}`)
	}
	if got := string(withBilled([]byte(`{"usage":7}`), usage)); got != `{"usage":{`+right+`,"cost":0.5}}` {
		t.Errorf("replaced with the cost: got %q, want %q", got, `{"usage":{`+right+`,"cost":0.5}}`)
	}
}

func TestTokenProbabilitiesOfAChunkAreWhole(t *testing.T) {
	for in, want := range map[string]string{
		`{"choices":[{"logprobs" : {"content":[{"token":"a"}]},"delta":{}}]}`: `{"choices":[{"logprobs" : {"refusal":null,` +
			`"content":[{"top_logprobs":[],"bytes":null,"token":"a"}]},"delta":{}}]}`,
		`{"choices":[{"logprobs":null,"delta":{}}]}`:           `{"choices":[{"logprobs":null,"delta":{}}]}`,
		`{"choices":[{"delta":{"content":"\"logprobs\":{"}}]}`: `{"choices":[{"delta":{"content":"\"logprobs\":{"}}]}`,
		`{"x":{"logprobs":{}},"choices":[5]}`:                  `{"x":{"logprobs":{}},"choices":[5]}`,
		`{"choices":[{"logprobs":{`:                            `{"choices":[{"logprobs":{`,
	} {
		if got := string(withLogprobs([]byte(in))); got != want {
			t.Errorf("%s\n  became %s\n  want   %s", in, got, want)
		}
	}
}

func TestAnEventWithoutUsageSaysSo(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`: `{"usage":null,"a":1}`, ` { "a":1}`: ` {"usage":null, "a":1}`, `{}`: `{"usage":null}`,
		`{ }`: `{"usage":null }`, `5`: `5`,
	} {
		if got := string(withNullUsage([]byte(in))); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestAUsageEventNamesItselfAsItsStreamDoes(t *testing.T) {
	usage := Usage{Prompt: 2, Completion: 3}
	const tail = `"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}}`
	for in, want := range map[string]string{
		`{"id":"a\"b","choices":[{"delta":{}}],"object":"o","created":17,"model":"m","x":1}`: `{"id":"a\"b","created":17,` +
			`"model":"m","object":"o",` + tail,
		`{"choices":[]}`: `{"object":"chat.completion.chunk",` + tail,
		``:               `{"object":"chat.completion.chunk",` + tail,
	} {
		if got := string(usageEvent([]byte(in), usage)); got != want {
			t.Errorf("like %s: got %q, want %q", in, got, want)
		}
	}
}

// Whatever letters and escapes spell the name, an event with usage is scanned.
func FuzzAnEventWithUsageIsNeverPassedOver(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[],"usage":{"prompt_tokens":1}}`, `{"usage" : {}}`, `{"USAGE":{}}`, `{"u\u0073age":{}}`, `{"uſage":{}}`,
		`{"usag\u0065":1}`,
		`{"choices":[{"delta":{"content":"garage"}}]}`, `{"usaGE":{},"usage":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, json []byte) {
		chunk, err := openai.ScanChunk(json)
		if err == nil && hasValue(json, chunk.UsageSpan) && !mayTellUsage(json) {
			t.Errorf("%q tells usage", json)
		}
	})
}

func TestAnEventOfPlainTextIsNotScanned(t *testing.T) {
	for _, json := range []string{
		`{"id":"x","choices":[{"index":0,"delta":{"content":"large garbage bags"},"finish_reason":null}]}`,
		`{"choices":[],"object":"chat.completion.chunk"}`, `{}`, `g`, `Ge`, ``,
	} {
		if mayTellUsage([]byte(json)) {
			t.Errorf("%s is scanned", json)
		}
	}
}

func TestTheNamesOfAUsualAnswerAreNotAllocated(t *testing.T) {
	name := []byte("finish_reason")
	if got := testing.AllocsPerRun(100, func() { nameOf(name) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}
