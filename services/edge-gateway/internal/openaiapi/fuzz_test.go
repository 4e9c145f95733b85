package openaiapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"svc.internal/pkg/jsonscan"
)

var seeds = []string{
	`{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
	`{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
	`{"stream_options":{"include_usage":false,"a":[]},"stream":true,"usage":{"include":true},"model":"m",` +
		`"messages":[{"role":"user","content":"hi"}],"provider":{}}`,
	`{"mod\u0065l":"m","max_tokens":1e2,"n":2.0,"messages":[{"role":"assistant","content":null}]}`,
	`{"models":[],"model":"m","messages":[{"role":"user","content":"` + "\xff" + `\ud800"}],"Model":"x"}`,
	`{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}],` +
		`"stop":["a"],"logit_bias":{"1":1}}`,
}

// view is what encoding/json makes of a body.
type view struct {
	Model     string  `json:"model"`
	Stream    *bool   `json:"stream"`
	MaxTokens float64 `json:"max_tokens"`
	MaxCompl  float64 `json:"max_completion_tokens"`
	N         float64 `json:"n"`
	BestOf    float64 `json:"best_of"`
	Messages  []any   `json:"messages"`
	Options   *struct {
		Usage *bool `json:"include_usage"`
	} `json:"stream_options"`
}

// FuzzParseAgreesWithEncodingJSON holds the scanner to hostile test 13: what it
// accepts, a reference parser understands in the same way, before the patch and
// after it.
func FuzzParseAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Parse(Chat, body)
		if err != nil {
			return
		}
		if r.PromptBound < r.PromptTokens {
			t.Fatalf("got a bound of %d, want at least the estimate of %d", r.PromptBound, r.PromptTokens)
		}
		if !utf8.Valid(body) {
			t.Fatalf("accepted what is no text")
		}
		var want view
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("accepted what encoding/json refuses: %v", err)
		}
		stream := want.Stream != nil && *want.Stream
		switch {
		case r.Model != want.Model:
			t.Fatalf("understood: r.Model: got %q, want %q", r.Model, want.Model)
		case r.Stream != stream:
			t.Fatalf("understood: r.Stream: got %t, want %t", r.Stream, stream)
		case float64(r.MaxTokens) != max(want.MaxTokens, want.MaxCompl):
			t.Fatalf("understood: r.MaxTokens: got %v, want %v", float64(r.MaxTokens), max(want.MaxTokens, want.MaxCompl))
		case float64(r.Choices) != max(1, want.N, want.BestOf):
			t.Fatalf("understood: r.Choices: got %v, want %v", float64(r.Choices), max(1, want.N, want.BestOf))
		case r.Messages != int64(len(want.Messages)):
			t.Fatalf("understood: r.Messages: got %d, want %d", r.Messages, int64(len(want.Messages)))
		}
		sent := r.Body("the/id", 7)
		patched, span := sent.Body, sent.Model
		if got := string(patched[span.Start:span.End]); got != `"the/id"` && r.Model != "the/id" {
			t.Fatalf("the model's span is %q", got)
		}
		checkPatched(t, body, patched, stream)
	})
}

// checkPatched compares all members of a body before and after the patch.
func checkPatched(t *testing.T, body, patched []byte, stream bool) {
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(body, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(patched, &after); err != nil {
		t.Fatalf("the patch broke the body: %v\n%s", err, patched)
	}
	for name, value := range before {
		switch name {
		case "usage", "provider", "models":
			if _, left := after[name]; left {
				t.Fatalf("%s was not stripped", name)
			}
		case "model":
		case "max_tokens", "max_completion_tokens":
			if string(after["max_tokens"]) != "7" {
				t.Fatalf(`%s as the bound: after["max_tokens"]: got %q, want "7", with %s`, name, string(after["max_tokens"]),
					patched)
			}
			if string(value) != "null" && string(after[name]) != "7" {
				t.Fatalf(`%s as the bound: after[name]: got %q, want "7", where string(value) != "null", with %s`, name,
					string(after[name]), patched)
			}
		case "stream_options":
			if !stream && !bytes.Equal(value, after[name]) {
				t.Fatalf("stream_options changed without a stream")
			}
		default:
			if !bytes.Equal(value, after[name]) {
				t.Fatalf("%q changed: got %q, want %q", name, value, after[name])
			}
		}
	}
	if _, chat := before["messages"]; chat && string(after["max_tokens"]) != "7" {
		t.Fatalf("the answer has no bound: %s", patched)
	}
	if stream {
		var options map[string]any
		if err := json.Unmarshal(after["stream_options"], &options); err != nil {
			t.Fatalf("asking for usage: got the error %v, want none", err)
		} else if options["include_usage"] != true {
			t.Fatalf(`asking for usage: options["include_usage"]: got %v, want true, with %s`, options["include_usage"],
				after["stream_options"])
		}
	}
}

// FuzzFoldIsEncodingJSONs compares our case folding with the folding that engines
// written in Go use.
func FuzzFoldIsEncodingJSONs(f *testing.F) {
	for _, s := range []string{"model", "MODEL", "max_to\u212aens", "\u017ftream", "N", "mod\u00e9l", "", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		_, known, exact := grammars[Chat].match([]byte(name))
		want, wantExact := false, false
		for _, f := range chatFields {
			field := fieldNames[f]
			want = want || jsonscan.EqualFold([]byte(name), field)
			wantExact = wantExact || name == field
		}
		if known != want {
			t.Errorf("%q: known: got %t, want %t", name, known, want)
		} else if exact != wantExact {
			t.Errorf("%q: exact: got %t, want %t", name, exact, wantExact)
		}
		if foldsTo([]byte(name), "role") != (name != "role" && strings.EqualFold(name, "role")) {
			t.Errorf("%q folds otherwise", name)
		}
	})
}
