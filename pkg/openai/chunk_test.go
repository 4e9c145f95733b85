package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/jsonscan"
)

func mustScan(t testing.TB, doc string) Chunk {
	t.Helper()
	c, err := ScanChunk([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return c
}

func TestScanChunkFindsWhatIsDelivered(t *testing.T) {
	for name, tc := range map[string]struct {
		doc     string
		bytes   int64
		content bool
		finish  int
	}{
		"role only": {`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, 0,
			false, 0},
		"content": {`{"choices":[{"index":0,"delta":{"content":"héllo\n"},"finish_reason":null}]}`, 7, true, 0},
		"content null": {`{"choices":[{"delta":{"content":null,"refusal":null,"tool_calls":null,"audio":null}}]}`, 0,
			false, 0},
		"reasoning":       {`{"choices":[{"delta":{"reasoning_content":"hmm"}}]}`, 3, true, 0},
		"reasoning twice": {`{"choices":[{"delta":{"reasoning":"hmm","reasoning_content":"hmm"}}]}`, 3, true, 0},
		"refusal":         {`{"choices":[{"delta":{"refusal":"no"}}]}`, 2, true, 0},
		"parts": {
			`{"choices":[{"delta":{"content":[{"type":"text","text":"ab"},{"type":"text","text":"c"},4]}}]}`, 3, true, 0},
		"tool call": {
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","type":"function",` +
				`"function":{"name":"get","arguments":"{\"a\":1}"}}]}}]}`, 10, true, 0},
		"tool as object": {`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}]}`, 8,
			true, 0},
		"custom tool":   {`{"choices":[{"delta":{"tool_calls":[{"custom":{"name":"f","input":"xyz"}}]}}]}`, 4, true, 0},
		"function call": {`{"choices":[{"delta":{"function_call":{"name":"f","arguments":"{}"}}}]}`, 3, true, 0},
		"audio":         {`{"choices":[{"delta":{"audio":{"id":"a","data":"AAAA","transcript":"hey"}}}]}`, 7, true, 0},
		"thoughts in parts": {
			`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":true},` +
				`{"type":"text","text":"ab"}]}}]}`, 4, true, 0},
		"thoughts":     {`{"choices":[{"delta":{"thinking":"hmm"}}]}`, 3, true, 0},
		"legacy text":  {`{"choices":[{"index":0,"text":"abc","finish_reason":"length"}]}`, 3, true, 1},
		"finish":       {`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, 0, false, 1},
		"blank finish": {`{"choices":[{"index":0,"delta":{},"finish_reason":""}]}`, 0, false, 0},
		"two choices": {
			`{"choices":[{"index":1,"delta":{"content":"a"},"finish_reason":"stop"},` +
				`{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}`, 2, true, 2},
		"a message":    {`{"choices":[{"index":0,"message":{"content":"not a delta"}}]}`, 11, true, 0},
		"escaped keys": {`{"ch\u006fices":[{"d\u0065lta":{"cont\u0065nt":"\ud83d\ude00"}}]}`, 4, true, 0},
		"unknown members": {
			`{"x":{"choices":[{"delta":{"content":"zzz"}}]},"choices":[{"logprobs":{"content":[{"token":"a"}]},` +
				`"delta":{"content":"a","y":["content"]}}],"z":[1]}`, 7, true, 0},
		"shapes of nothing": {`{"choices":[7,null,{"delta":3},{"delta":{"content":5,"tool_calls":{},"function_call":[]}}]}`,
			0, false, 0},
		"index behind": {`{"choices":[{"delta":{"content":"abc"},"index":3,"finish_reason":"stop"}]}`, 3, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustScan(t, tc.doc)
			switch {
			case c.ContentBytes != tc.bytes:
				t.Errorf("bytes: got %d, want %d", c.ContentBytes, tc.bytes)
			case c.HasContent != tc.content:
				t.Errorf("c.HasContent: got %t, want %t", c.HasContent, tc.content)
			case c.FinishCount != tc.finish:
				t.Errorf("c.FinishCount: got %d, want %d", c.FinishCount, tc.finish)
			}
			if (c.Tokens > 0) != (tc.bytes > 0) {
				t.Errorf("tokens for %d bytes: c.Tokens > 0: got %t, want %t", tc.bytes, c.Tokens > 0, tc.bytes > 0)
			}
			wantTally(t, tc.doc, c)
		})
	}
}

// wantTally scans doc with a new tally, which is to find what c holds.
func wantTally(t *testing.T, doc string, c Chunk) {
	t.Helper()
	var tally Tally
	again, err := tally.Scan([]byte(doc))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case again.ContentBytes != c.ContentBytes:
		t.Errorf("a tally sees: again.ContentBytes: got %d, want %d", again.ContentBytes, c.ContentBytes)
	case tally.ContentBytes != c.ContentBytes:
		t.Errorf("tally.ContentBytes: got %d, want %d", tally.ContentBytes, c.ContentBytes)
	case again.Finished != c.Finished:
		t.Errorf("a tally sees: again.Finished: got %d, want %d", again.Finished, c.Finished)
	}
}

func TestScanChunkFindsSpans(t *testing.T) {
	doc := `{"id":"chatcmpl-1","model":"m\"x","choices":[{"index":63,"delta":{},"finish_reason":"tool_calls"}],` +
		`"usage":null,"error":null}`
	c := mustScan(t, doc)
	of := func(s jsonscan.Span) string { return string(s.Of([]byte(doc))) }
	if got := of(c.ID); got != `"chatcmpl-1"` {
		t.Errorf("of(c.ID): got %q, want %q", got, `"chatcmpl-1"`)
	} else if got := of(c.Model); got != `"m\"x"` {
		t.Errorf("of(c.Model): got %q, want %q", got, `"m\"x"`)
	} else if got := of(c.FinishReason); got != `"tool_calls"` {
		t.Errorf("of(c.FinishReason): got %q, want %q", got, `"tool_calls"`)
	} else if got := of(c.UsageSpan); got != "null" {
		t.Errorf(`of(c.UsageSpan): got %q, want "null"`, got)
	}
	if c.Error.Found() {
		t.Error("c.Error.Found(): got true, want false")
	} else if c.Usage.State != UsageAbsent {
		t.Errorf("c.Usage.State: got %v, want %v", c.Usage.State, UsageAbsent)
	} else if !c.HasChoices {
		t.Error("c.HasChoices: got false, want true")
	} else if c.Choices != 1 {
		t.Errorf("c.Choices: got %d, want 1", c.Choices)
	} else if c.Finished != 1<<63 {
		t.Errorf("c.Finished: got %d, want 1<<63", c.Finished)
	} else if got := c.FinishedChoices(); got != 1 {
		t.Errorf("c.FinishedChoices(): got %d, want 1", got)
	}
	failed := `{"error":{"message":"x"},"choices":[]}`
	if c := mustScan(t, failed); string(c.Error.Of([]byte(failed))) != `{"message":"x"}` || c.UsageOnly() {
		t.Errorf("%+v", c)
	}
	switch c := mustScan(t,
		`{"data":[{"url":"a"},{"url":"b"}],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`); {
	case c.DataItems != 2:
		t.Errorf("c.DataItems: got %d, want 2", c.DataItems)
	case c.UsageOnly():
		t.Errorf("c.UsageOnly(): got true, want false, with %+v", c)
	case c.Usage.CompletionTokens != 4:
		t.Errorf("c.Usage.CompletionTokens: got %d, want 4", c.Usage.CompletionTokens)
	}
}

func TestScanChunkRefusesWhatIsNotAnAnswer(t *testing.T) {
	for _, doc := range []string{"", "[]", "null", `"x"`, "[DONE]", `{"choices":[}`, `{"choices":[]} x`, `{"a":1`,
		strings.Repeat(`{"a":`, 200)} {
		if c, err := ScanChunk([]byte(doc)); err == nil {
			t.Errorf("%.20q: %+v", doc, c)
		}
	}
}

// TestScanRefusesTextThatParsersWouldSeeDifferently keeps an engine from being
// paid for text that stands in a member which the client's parser drops.
func TestScanRefusesTextThatParsersWouldSeeDifferently(t *testing.T) {
	for _, doc := range []string{
		`{"choices":[{"delta":{"content":"long"}}],"choices":[]}`,
		`{"choices":[{"delta":{"content":"long"},"delta":{}}]}`,
		`{"choices":[{"delta":{"content":"long","content":"x"}}]}`,
		`{"choices":[{"delta":{"content":"long","cont\u0065nt":"x"}}]}`,
		`{"choices":[{"index":0,"index":1}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"a","arguments":"b"}}]}}]}`,
		`{"error":1,"error":null}`,
	} {
		if _, err := ScanChunk([]byte(doc)); !errors.Is(err, ErrDuplicateKey) {
			t.Errorf("%s: got the error %v, want %v", doc, err, ErrDuplicateKey)
		}
	}
}

func TestScanCompletionReadsWholeAnswers(t *testing.T) {
	doc := `{"id":"x","object":"chat.completion","model":"m","choices":[
		{"index":0,"message":{"role":"assistant","content":"hello","refusal":null},"logprobs":null,"finish_reason":"stop"},
		{"index":1,"message":{"role":"assistant","content":null,
			"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
			"finish_reason":"tool_calls"}],
		"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}`
	c, err := ScanCompletion([]byte(doc))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case c.ContentBytes != 8:
		t.Errorf("c.ContentBytes: got %d, want 8", c.ContentBytes)
	case c.FinishCount != 2:
		t.Errorf("c.FinishCount: got %d, want 2", c.FinishCount)
	case c.Finished != 3:
		t.Errorf("c.Finished: got %d, want 3", c.Finished)
	case c.Usage.State != UsageValid:
		t.Errorf("c.Usage.State: got %v, want %v", c.Usage.State, UsageValid)
	case !c.HasContent:
		t.Error("c.HasContent: got false, want true")
	case c.UsageOnly():
		t.Errorf("c.UsageOnly(): got true, want false, with %+v", c)
	}
	switch c, err := ScanCompletion([]byte(`{"choices":[{"index":0,"message":{"content":""},"finish_reason":""}]}`)); {
	case err != nil:
		t.Errorf("an empty answer: got the error %v, want none", err)
	case c.HasContent:
		t.Error("an empty answer: c.HasContent: got true, want false")
	case c.FinishCount != 0:
		t.Errorf("an empty answer: c.FinishCount: got %d, want 0", c.FinishCount)
	}
}

func TestRewriteReplacesModelAndDropsUsage(t *testing.T) {
	for _, tc := range []struct{ in, dropped, kept string }{
		{`{"model":"e","choices":[]}`, `{"model":"a/b","choices":[]}`, `{"model":"a/b","choices":[]}`},
		{`{"model":"e","usage":null}`, `{"model":"a/b"}`, `{"model":"a/b","usage":null}`},
		{`{"usage":{"x":1},"model":"e"}`, `{"model":"a/b"}`, `{"usage":{"x":1},"model":"a/b"}`},
		{`{ "usage" : 1 , "model" : "e" }`, `{ "model" : "a/b" }`, `{ "usage" : 1 , "model" : "a/b" }`},
		{`{"a":1, "usage":{} , "b":2}`, `{"a":1 , "b":2}`, `{"a":1, "usage":{} , "b":2}`},
		{`{"usage":1}`, `{}`, `{"usage":1}`},
		{`{"usage":1,"usage":2}`, `{}`, `{"usage":1,"usage":2}`},
		{`{"usage":1,"usage":2,"a":3,"usage":4,"Usage":5}`, `{"a":3}`, `{"usage":1,"usage":2,"a":3,"usage":4,"Usage":5}`},
		{`{"model":"e","Model":"f","mod\u0065l":null}`, `{"model":"a/b","Model":"a/b","mod\u0065l":"a/b"}`,
			`{"model":"a/b","Model":"a/b","mod\u0065l":"a/b"}`},
		{`{"choices":[{"model":"in","usage":1}]}`, `{"model":"a/b","choices":[{"model":"in","usage":1}]}`,
			`{"model":"a/b","choices":[{"model":"in","usage":1}]}`},
		{`{"usage":1,"choices":[]}`, `{"model":"a/b","choices":[]}`, `{"model":"a/b","usage":1,"choices":[]}`},
		{`{"error":{}}`, `{"error":{}}`, `{"error":{}}`},
		{`{}`, `{}`, `{}`},
	} {
		c := mustScan(t, tc.in)
		if got := string(NewRewrite("a/b", true).Append(nil, []byte(tc.in), &c)); got != tc.dropped {
			t.Errorf("%s without usage: got %s, want %s", tc.in, got, tc.dropped)
		}
		if got := string(NewRewrite("a/b", false).Append([]byte("data: "), []byte(tc.in), &c)); got != "data: "+tc.kept {
			t.Errorf("%s with usage: got %s, want %s", tc.in, got, tc.kept)
		}
		if got := string(NewRewrite("", false).Append(nil, []byte(tc.in), &c)); got != tc.in {
			t.Errorf("%s untouched: got %q, want %q", tc.in, got, tc.in)
		}
	}
}

func TestUsageOnlyChunksAreTold(t *testing.T) {
	for doc, want := range map[string]bool{
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`: true,
		`{"choices":[],"prompt_filter_results":[]}`:                        true,
		`{"choices":null,"usage":{}}`:                                      true,
		`{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}`:           false,
		`{"error":{"message":"x"},"choices":[]}`:                           false,
		`{"object":"other"}`:                                               false,
	} {
		c := mustScan(t, doc)
		if c.UsageOnly() != want {
			t.Errorf("%s: got %t, want %t", doc, c.UsageOnly(), want)
		}
	}
}

func TestTooManyModelMembersAreRefused(t *testing.T) {
	doc := `{` + strings.Repeat(`"model":"x",`, maxEdits+1) + `"choices":[]}`
	if _, err := ScanChunk([]byte(doc)); !errors.Is(err, ErrDuplicateKey) {
		t.Errorf("got the error %v, want %v", err, ErrDuplicateKey)
	}
}

func TestScanChunkAllocatesNothing(t *testing.T) {
	doc := []byte(
		`{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":" hello world"},"logprobs":null,` +
			`"finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`)
	rewrite := NewRewrite("catalog/model", true)
	out := make([]byte, 0, 1024)
	var tally Tally
	if _, err := tally.Scan(doc); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		c, err := tally.Scan(doc)
		if err != nil {
			t.Fatal(err)
		}
		out = rewrite.Append(out[:0], doc, &c)
	}); n != 0 {
		t.Errorf("allocations per chunk: got %v, want 0", n)
	}
}

// TestTallyIsIndifferentToFragments keeps an engine from gaining by sending
// its answer letter by letter.
func TestTallyIsIndifferentToFragments(t *testing.T) {
	text := "The quick brown fox jumps over the lazy dog; 1234567 times in 日本語 — naïve, isn't it?\n\n\tfunc main() {}"
	for _, size := range []int{1, 2, 5, len(text)} {
		var tally Tally
		runes := []rune(text)
		for at := 0; at < len(runes); at += size {
			piece, _ := json.Marshal(string(runes[at:min(at+size, len(runes))]))
			// Two choices interleave, the second with its index behind.
			doc := fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%s}},{"delta":{"content":%s},"index":1}]}`, piece,
				piece)
			if _, err := tally.Scan([]byte(doc)); err != nil {
				t.Fatal(err)
			}
		}
		if want := 2 * EstimateTokens([]byte(text)); tally.Tokens != want {
			t.Errorf("fragments of %d: tokens: tally.Tokens: got %d, want %d", size, tally.Tokens, want)
		} else if tally.ContentBytes != int64(2*len(text)) {
			t.Errorf("fragments of %d: tokens: tally.ContentBytes: got %d, want %d", size, tally.ContentBytes,
				int64(2*len(text)))
		}
	}
}

func TestTallyBoundsItsCounters(t *testing.T) {
	var tally Tally
	for _, index := range []string{"0", "127", "128", "-1", "99999999999", "1e9"} {
		if _, err := tally.Scan([]byte(`{"choices":[{"index":` + index +
			`,"delta":{"content":"a"},"finish_reason":"stop"}]}`)); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case len(tally.accounts) > maxCounters:
		t.Errorf("%d counters, %d finished, %d distinct: len(tally.accounts): got %d, want at most %d", len(tally.accounts),
			tally.FinishCount, tally.FinishedChoices(), len(tally.accounts), maxCounters)
	case tally.FinishCount != 6:
		t.Errorf("%d counters, %d finished, %d distinct: tally.FinishCount: got %d, want 6", len(tally.accounts),
			tally.FinishCount, tally.FinishedChoices(), tally.FinishCount)
	case tally.FinishedChoices() != 1:
		t.Errorf("%d counters, %d finished, %d distinct: tally.FinishedChoices(): got %d, want 1", len(tally.accounts),
			tally.FinishCount, tally.FinishedChoices(), tally.FinishedChoices())
	}
}

func TestTallyTakesTheLastUsage(t *testing.T) {
	usage := func(choices string, prompt, completion int) string {
		return fmt.Sprintf(`{"choices":[%s],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, choices,
			prompt, completion, prompt+completion)
	}
	for name, tc := range map[string]struct {
		docs  []string
		state UsageState
		out   int64
	}{
		"none": {[]string{`{"choices":[],"usage":null}`}, UsageAbsent, 0},
		"growing": {[]string{usage(`{"delta":{}}`, 5, 1), usage(`{"delta":{}}`, 5, 2), usage("", 5, 3),
			`{"choices":[],"usage":null}`}, UsageValid, 3},
		"the same twice":   {[]string{usage("", 5, 3), usage("", 5, 3)}, UsageValid, 3},
		"twice, different": {[]string{usage("", 5, 3), usage("", 5, 30)}, UsageAbsurd, 30},
		"stays absurd":     {[]string{usage("", 5, 3), usage("", 5, 30), usage("", 5, 3)}, UsageAbsurd, 30},
		"absurd at last":   {[]string{usage(`{"delta":{}}`, 5, 1), usage("", 5, -3)}, UsageAbsurd, 0},
	} {
		var tally Tally
		for _, doc := range tc.docs {
			if _, err := tally.Scan([]byte(doc)); err != nil {
				t.Fatal(err)
			}
		}
		if tally.Usage.State != tc.state {
			t.Errorf("%s: tally.Usage.State: got %v, want %v", name, tally.Usage.State, tc.state)
		} else if tally.Usage.CompletionTokens != tc.out {
			t.Errorf("%s: tally.Usage.CompletionTokens: got %d, want %d", name, tally.Usage.CompletionTokens, tc.out)
		}
	}
}

func FuzzScanChunkAndRewrite(f *testing.F) {
	for _, doc := range []string{
		`{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"hi",` +
			`"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		`{"usage":1,"usage":2,"model":null,"Usage":[],"choices":[]}`,
		`{"choices":[{"message":{"content":[{"text":"a"}]},"text":"b"}],"error":"x"}`,
		` { "usage" : null } `, `{"Model":1,"u\u0073age":2}`, `[]`, `{"choices":[{"delta":{"content":"\ud800"},"index":-1}]}`,
		`{"choices":[{"message":{"x":"`,
		`{"choices":[{"delta":{"audio":{"data":"AAAA"},"content":[{"type":"thinking","thinking":[{"text":"a"}]},7],` +
			`"y":[1,[2]],"b64_json":"`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, scan := range []func([]byte) (Chunk, error){ScanChunk, ScanCompletion} {
			c, err := scan(doc)
			if err != nil {
				if errors.Is(err, ErrDuplicateKey) && !json.Valid(doc) {
					t.Fatal("a duplicate in what is not JSON")
				}
				continue
			}
			if !json.Valid(doc) {
				t.Fatal("accepted what is not JSON")
			}
			switch {
			case c.ContentBytes < 0:
				t.Fatalf("c.ContentBytes: got %d, want at least 0", c.ContentBytes)
			case c.Tokens < 0:
				t.Fatalf("c.Tokens: got %d, want at least 0", c.Tokens)
			case c.ContentBytes > 3*int64(len(doc)):
				t.Fatalf("c.ContentBytes: got %d, want at most %d", c.ContentBytes, 3*int64(len(doc)))
			}
			out := NewRewrite("new/model", true).Append(nil, doc, &c)
			checkRewritten(t, doc, out)
		}
	})
}

// checkRewritten compares member by member what went in and what came out.
func checkRewritten(t *testing.T, in, out []byte) {
	type member struct{ key, value string }
	walk := func(doc []byte) (members []member) {
		for m, err := range jsonscan.New(doc, jsonscan.Options{}).Members() {
			if err != nil {
				t.Fatalf("%q became %q: %v", in, out, err)
			}
			name := m.Key.Name(doc)
			switch {
			case jsonscan.EqualFold(name, "usage"):
				if &doc[0] == &out[0] {
					t.Fatalf("usage is left: got %v, want any but %v, with %q", &doc[0], &out[0], out)
				}
			case jsonscan.EqualFold(name, "model"):
				if &doc[0] == &out[0] && string(m.Value.Of(doc)) != `"new/model"` {
					t.Fatalf("the engine's model is left in %q", out)
				}
			default:
				members = append(members, member{string(name), string(m.Value.Of(doc))})
			}
		}
		return members
	}
	before, after := walk(in), walk(out)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Fatalf("fmt.Sprint(after): got %q, want %q, with %q", fmt.Sprint(after), fmt.Sprint(before), in)
	}
}

func BenchmarkScanChunkAndRewrite(b *testing.B) {
	doc := []byte(
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",` +
			`"choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}],"usage":null}`)
	rewrite := NewRewrite("catalog/model", true)
	var tally Tally
	out := make([]byte, 0, 1024)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		c, err := tally.Scan(doc)
		if err != nil {
			b.Fatal(err)
		}
		out = rewrite.Append(out[:0], doc, &c)
	}
}

func BenchmarkScanChunkEncodingJSON(b *testing.B) {
	doc := []byte(
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",` +
			`"choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}],"usage":null}`)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		var c ChatChunk
		if err := json.Unmarshal(doc, &c); err != nil {
			b.Fatal(err)
		}
	}
}
