package openaiapi

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

func completion(members string) string { return `{"model":"m","prompt":"hi",` + members + `}` }
func input(value string) string        { return `{"model":"m","input":` + value + `}` }
func picture(members string) string    { return `{"model":"m","prompt":"a cat",` + members + `}` }

type refusal struct {
	body   string
	reason fault.Reason
	param  string
}

func wantRefusals(t *testing.T, kind Kind, cases []refusal) {
	t.Helper()
	for _, c := range cases {
		_, err := Parse(kind, []byte(c.body))
		f, ok := fault.As(err)
		switch {
		case !ok:
			t.Errorf("%.80s: got the error %v, want a fault", c.body, err)
		case f.Kind != fault.Invalid:
			t.Errorf("%.80s: f.Kind: got %d, want %d", c.body, f.Kind, fault.Invalid)
		case f.Reason != c.reason:
			t.Errorf("%.80s: f.Reason: got %q, want %q", c.body, f.Reason, c.reason)
		case f.Param != c.param:
			t.Errorf("%.80s: f.Param: got %q, want %q", c.body, f.Param, c.param)
		}
	}
}

// Hostile tests 13, 14 and 21: what stands twice, is too deep or too much, or no
// number that counts.
func TestEveryKindRefusesWhatChatRefuses(t *testing.T) {
	bodies := map[Kind]func(string) string{
		Completion: completion, Images: picture,
		Embeddings: func(members string) string { return `{"model":"m","input":"hi",` + members + `}` },
	}
	prompts := map[Kind]string{Completion: "prompt", Images: "prompt", Embeddings: "input"}
	for kind, with := range bodies {
		prompt := prompts[kind]
		wantRefusals(t, kind, []refusal{
			{``, fault.InvalidRequest, ""},
			{`[]`, fault.InvalidRequest, ""},
			{with(`"x":tru`), fault.InvalidRequest, ""},
			{with(`"x":1`) + `x`, fault.InvalidRequest, ""},
			{"\ufeff" + with(`"x":1`), fault.InvalidRequest, ""},
			{with(`"x":` + strings.Repeat("[", 100_000)), fault.InvalidRequest, ""},
			{with(manyMembers(MaxMembers)), fault.InvalidRequest, ""},
			{`{}`, MissingRequiredParameter, "model"},
			{`{"model":"m"}`, MissingRequiredParameter, prompt},
			{`{"model":"m","` + prompt + `":null}`, MissingRequiredParameter, prompt},
			{`{"model":5,"` + prompt + `":"x"}`, fault.InvalidValue, "model"},
			{with(`"model":"x"`), DuplicateField, "model"},
			{with(`"Model":"x"`), DuplicateField, "model"},
			{with(`"mod\u0065l":"x"`), DuplicateField, "model"},
			{with(`"` + prompt + `":"x"`), DuplicateField, prompt},
			{with(`"` + strings.ToUpper(prompt) + `":null`), DuplicateField, prompt},
			{with(`"u\u017fer":"x"`), DuplicateField, "user"},
			{with(`"user":5`), fault.InvalidValue, "user"},
			{with(`"usage":{"include":1}`), fault.InvalidValue, "usage.include"},
		})
	}
}

func TestALegacyCompletionThatChatCannotExpressIsRefused(t *testing.T) {
	cases := []refusal{
		{`{"model":"m","prompt":[]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":["x",1]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":["x",["y"]]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":["x",null]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":["x"` + strings.Repeat(`,"x"`, MaxPrompts) + `]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":[1,2]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":[[1,2]]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":[null]}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":5}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":{}}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":[tru`, fault.InvalidRequest, ""},
		{`{"model":"m","prompt":["x"`, fault.InvalidRequest, ""},
		{completion(`"echo":true`), fault.InvalidValue, "echo"},
		{completion(`"echo":"no"`), fault.InvalidValue, "echo"},
		{completion(`"include_reasoning":false`), fault.InvalidValue, "include_reasoning"},
		{completion(`"suffix":"x"`), fault.InvalidValue, "suffix"},
		{completion(`"suffix":["x"]`), fault.InvalidValue, "suffix"},
		{completion(`"best_of":2`), fault.InvalidValue, "best_of"},
		{completion(`"n":2,"best_of":3`), fault.InvalidValue, "best_of"},
		{completion(`"best_of":1000000`), fault.InvalidValue, "best_of"},
		{completion(`"logprobs":1`), fault.InvalidValue, "logprobs"},
		{completion(`"logprobs":0`), fault.InvalidValue, "logprobs"},
		{completion(`"logprobs":true`), fault.InvalidValue, "logprobs"},
		{completion(`"top_logprobs":2`), fault.InvalidValue, "top_logprobs"},
		{completion(`"messages":[]`), fault.InvalidValue, "messages"},
		{completion(`"Messages":null`), DuplicateField, "messages"},
		{completion(`"tools":[]`), fault.InvalidValue, "tools"},
		{completion(`"tool_choice":"auto"`), fault.InvalidValue, "tool_choice"},
		{completion(`"functions":[]`), fault.InvalidValue, "functions"},
		{completion(`"n":1000000`), fault.InvalidValue, "n"},
		{completion(`"stream_options":{"include_usage":1}`), fault.InvalidValue, "stream_options.include_usage"},
	}
	for _, n := range []string{"-1", "0", "2147483648", "9223372036854775808", "1e30", `"5"`} {
		cases = append(cases, refusal{completion(`"max_tokens":` + n), fault.InvalidValue, "max_tokens"})
	}
	wantRefusals(t, Completion, cases)
}

func TestEmbeddingsAreRefusedByTheInputThatIsWrong(t *testing.T) {
	wantRefusals(t, Embeddings, []refusal{
		{input(`""`), fault.InvalidValue, "input"},
		{input(`[]`), fault.InvalidValue, "input"},
		{input(`[ ]`), fault.InvalidValue, "input"},
		{input(`5`), fault.InvalidValue, "input"},
		{input(`{}`), fault.InvalidValue, "input"},
		{input(`[null]`), fault.InvalidValue, "input"},
		{input(`[{}]`), fault.InvalidValue, "input"},
		{input(`[tru`), fault.InvalidRequest, ""},
		{input(`["a",""]`), fault.InvalidValue, "input[1]"},
		{input(`["a",5]`), fault.InvalidValue, "input[1]"},
		{input(`["a",[1]]`), fault.InvalidValue, "input[1]"},
		{input(`[1,"a"]`), fault.InvalidValue, "input[1]"},
		{input(`[1.5]`), fault.InvalidValue, "input[0]"},
		{input(`[-1]`), fault.InvalidValue, "input[0]"},
		{input(`[4294967296]`), fault.InvalidValue, "input[0]"},
		{input(`[1e999999]`), fault.InvalidValue, "input[0]"},
		{input(`[[]]`), fault.InvalidValue, "input[0]"},
		{input(`[[1],[]]`), fault.InvalidValue, "input[1]"},
		{input(`[[1],["a"]]`), fault.InvalidValue, "input[1][0]"},
		{input(`[` + strings.Repeat(`"a",`, MaxInputs) + `"a"]`), fault.InvalidValue, "input"},
		{input(`[` + strings.Repeat(`[1],`, MaxInputs) + `[1]]`), fault.InvalidValue, "input"},
		{input(`[` + strings.Repeat(`1,`, MaxInputTokens) + `1]`), fault.InvalidValue, "input"},
		{input(`[[1],[` + strings.Repeat(`1,`, MaxInputTokens-1) + `1]]`), fault.InvalidValue, "input[1]"},
		{input(`"a","encoding_format":"int8"`), fault.InvalidValue, "encoding_format"},
		{input(`"a","encoding_format":5`), fault.InvalidValue, "encoding_format"},
		{input(`"a","dimensions":0`), fault.InvalidValue, "dimensions"},
		{input(`"a","dimensions":65537`), fault.InvalidValue, "dimensions"},
		{input(`"a","dimensions":"5"`), fault.InvalidValue, "dimensions"},
		{input(`"a","Input":"b"`), DuplicateField, "input"},
	})
}

// Hostile test 25: no number of images multiplies past its bound.
func TestImagesAreRefusedByTheMemberThatIsWrong(t *testing.T) {
	cases := []refusal{
		{`{"model":"m","prompt":""}`, fault.InvalidValue, "prompt"},
		{`{"model":"m","prompt":["x"]}`, fault.InvalidValue, "prompt"},
		{picture(`"response_format":"png"`), fault.InvalidValue, "response_format"},
		{picture(`"response_format":{"type":"url"}`), fault.InvalidValue, "response_format"},
		{picture(`"partial_images":4`), fault.InvalidValue, "partial_images"},
		{picture(`"partial_images":-1`), fault.InvalidValue, "partial_images"},
		{picture(`"output_compression":101`), fault.InvalidValue, "output_compression"},
		{picture(`"size":5`), fault.InvalidValue, "size"},
		{picture(`"size":"` + strings.Repeat("9", MaxNameBytes+1) + `"`), fault.InvalidValue, "size"},
		{picture(`"quality":null,"Quality":"hd"`), DuplicateField, "quality"},
		{picture(`"background":{}`), fault.InvalidValue, "background"},
		{picture(`"stream":"yes"`), fault.InvalidValue, "stream"},
	}
	for _, n := range []string{"-1", "0", "11", "2147483648", "9223372036854775808", "1e30", `"5"`, "1.5"} {
		cases = append(cases, refusal{picture(`"n":` + n), fault.InvalidValue, "n"})
	}
	wantRefusals(t, Images, cases)
}

func TestALegacyCompletionBecomesAChatOfTheSameBytes(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"h\u0069"}]`
	cases := []struct{ in, out string }{
		{`{"model":"m","prompt":"h\u0069"}`, `{"max_tokens":7,"model":"big/model",` + hi + `}`},
		{`{"model":"m","prompt": ["h\u0069" ] }`,
			`{"max_tokens":7,"model":"big/model","messages": [{"role":"user","content":"h\u0069"}] }`},
		{`{"pr\u006fmpt":"h\u0069","model":"m","max_tokens":1e1}`, `{` + hi + `,"model":"big/model","max_tokens":7}`},
		{`{"model":"m","max_tokens":null,"prompt":"h\u0069"}`, `{"model":"big/model","max_tokens":7,` + hi + `}`},
		{`{"model":"m","max_completion_tokens":5,"prompt":"h\u0069"}`,
			`{"max_tokens":7,"model":"big/model","max_completion_tokens":7,` + hi + `}`},
		{`{"echo":false,"suffix":"","logprobs":null,"best_of":1,"messages":null,"prompt":"h\u0069","model":"m",` +
			`"max_tokens":1}`,
			`{` + hi + `,"model":"big/model","max_tokens":7}`},
		{`{"prompt":"h\u0069","model":"m","n":3,"best_of":3,"max_tokens":1,"x":[1.0,1e400],"usage":{}}`,
			`{` + hi + `,"model":"big/model","n":3,"max_tokens":7,"x":[1.0,1e400]}`},
		{`{"prompt":"h\u0069","model":"m","stream":true}`,
			`{"stream_options":{"include_usage":true},"max_tokens":7,` + hi + `,"model":"big/model","stream":true}`},
	}
	for _, c := range cases {
		r, err := Parse(Completion, []byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		sent := r.Body("big/model", 7)
		out, span := sent.Body, sent.Model
		if string(out) != c.out {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, out, c.out)
		}
		if got := string(out[span.Start:span.End]); got != `"big/model"` {
			t.Errorf("%s: the model's span: got %q, want %q", c.in, got, `"big/model"`)
		}
		if _, err := Parse(Chat, out); err != nil {
			t.Errorf("%s is no chat: %v", out, err)
		}
	}
}

func TestALegacyCompletionIsShortUnlessItSaysOtherwise(t *testing.T) {
	for members, want := range map[string]int64{
		`"x":1`: DefaultCompletionTokens, `"max_tokens":null`: DefaultCompletionTokens, `"max_tokens":7`: 7,
		`"max_completion_tokens":9`: 9,
	} {
		r, err := Parse(Completion, []byte(completion(members)))
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", members, err)
		case r.MaxTokens != want:
			t.Errorf("%s: r.MaxTokens: got %d, want %d", members, r.MaxTokens, want)
		case r.Messages != 1:
			t.Errorf("%s: r.Messages: got %d, want 1", members, r.Messages)
		case r.PromptTokens < 1:
			t.Errorf("%s: r.PromptTokens: got %d, want at least 1", members, r.PromptTokens)
		}
	}
}

func TestInputsAreCountedEachForItself(t *testing.T) {
	for in, want := range map[string]struct{ inputs, tokens, largest int64 }{
		`[1,2,3]`:          {1, 3, 3},
		`[[1],[2,3],[4]]`:  {3, 4, 2},
		`"word"`:           {1, 1, 1},
		`["word","word"]`:  {2, 2, 1},
		`[ [ 1e1 , 2.0 ]]`: {1, 2, 2},
	} {
		r, err := Parse(Embeddings, []byte(input(in)))
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", in, err)
		case r.Inputs != want.inputs:
			t.Errorf("%s: r.Inputs: got %d, want %d", in, r.Inputs, want.inputs)
		case r.PromptTokens != want.tokens:
			t.Errorf("%s: r.PromptTokens: got %d, want %d", in, r.PromptTokens, want.tokens)
		case r.LargestTokens != want.largest:
			t.Errorf("%s: r.LargestTokens: got %d, want %d", in, r.LargestTokens, want.largest)
		case r.Base64:
			t.Errorf("%s: r.Base64: got true, want false", in)
		}
	}
	full := `[` + strings.Repeat(`"a",`, MaxInputs-1) + `"a"]`
	r, err := Parse(Embeddings, []byte(input(full+`,"encoding_format":"base64","dimensions":256`)))
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case r.Inputs != MaxInputs:
		t.Errorf("r.Inputs: got %d, want %d", r.Inputs, MaxInputs)
	case !r.Base64:
		t.Error("r.Base64: got false, want true")
	}
}

// Hostile test 26: what is sent as text is estimated, in whichever form.
func TestNothingInAnInputIsFree(t *testing.T) {
	long := strings.Repeat("word ", 500)
	for kind, bodies := range map[Kind][]string{
		Completion: {`{"model":"m","prompt":"` + long + `"}`, `{"model":"m","prompt":["` + long + `"]}`},
		Embeddings: {input(`"` + long + `"`), input(`["x","` + long + `"]`), input(`[` + strings.Repeat("1,", 499) + `1]`)},
		Images:     {`{"model":"m","prompt":"` + long + `"}`},
	} {
		for _, body := range bodies {
			r, err := Parse(kind, []byte(body))
			switch {
			case err != nil:
				t.Errorf("%.40s: got the error %v, want none", body, err)
			case r.PromptTokens < 400:
				t.Errorf("%.40s: r.PromptTokens: got %d, want at least 400", body, r.PromptTokens)
			case r.LargestTokens < 400:
				t.Errorf("%.40s: r.LargestTokens: got %d, want at least 400", body, r.LargestTokens)
			}
		}
	}
}

func TestNullCountsAsAbsentInEveryKind(t *testing.T) {
	for kind, g := range grammars {
		for name, f := range g.byName {
			body := `{"model":"m","input":"x","prompt":"x","messages":[{"role":"user","content":"x"}],"` + name + `":null}`
			if f == fieldModel || f == fieldInput || f == fieldPrompt || f == fieldMessages {
				continue
			}
			if Kind(kind) == Completion {
				body = completion(`"` + name + `":null`)
			}
			r, err := Parse(Kind(kind), []byte(body))
			switch {
			case err != nil:
				t.Errorf("kind %d, %s: got the error %v, want none", kind, name, err)
			case r.Choices != 1:
				t.Errorf("kind %d, %s: r.Choices: got %d, want 1", kind, name, r.Choices)
			case r.Stream:
				t.Errorf("kind %d, %s: r.Stream: got true, want false", kind, name)
			case r.Base64:
				t.Errorf("kind %d, %s: r.Base64: got true, want false", kind, name)
			}
		}
	}
}

func TestImagesPassThroughWhatIsTheEnginesToKnow(t *testing.T) {
	body := `{"model":"m","prompt":"a cat","n":1e1,"size":"1792x1024","quality":"hd","style":"vivid",` +
		`"background":"transparent","moderation":"low",` +
		`"output_format":"webp","output_compression":50,"response_format":"b64_json","partial_images":3,"stream":true,` +
		`"seed":1.50,"user":"u"}`
	r, err := Parse(Images, []byte(body))
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case r.Choices != 10:
		t.Fatalf("r.Choices: got %d, want 10", r.Choices)
	case !r.Stream:
		t.Fatal("r.Stream: got false, want true")
	case r.PromptTokens < 1:
		t.Fatalf("r.PromptTokens: got %d, want at least 1", r.PromptTokens)
	}
	if out := r.Body("m", 7).Body; string(out) != body {
		t.Errorf("out: got %q, want %q", string(out), body)
	}
}

// Hostile test 15: what is no text is refused, and odd text preserved.
func TestEveryKindPreservesTextAndRefusesOtherBytes(t *testing.T) {
	const odd, none = `"\ud800\u0000"`, `"` + "\xff\xfe" + `"`
	for kind, body := range map[Kind]string{Embeddings: input(none), Images: `{"model":"m","prompt":` + none + `}`,
		Completion: `{"model":"m","prompt":` + none + `}`} {
		if _, err := Parse(kind, []byte(body)); err == nil {
			t.Errorf("%s is taken", body)
		}
	}
	for kind, body := range map[Kind]string{Embeddings: input(odd), Images: `{"model":"m","prompt":` + odd + `}`} {
		r, err := Parse(kind, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.Body("m", 7).Body; string(out) != body {
			t.Errorf("out: got %q, want %q", string(out), body)
		}
	}
	r, err := Parse(Completion, []byte(fmt.Sprintf(`{"model":"m","prompt":%s}`, odd)))
	if err != nil {
		t.Fatal(err)
	}
	if out := r.Body("m", 7).Body; !strings.Contains(string(out), odd) {
		t.Errorf("out: got %q, want %q in it", string(out), odd)
	}
}

// Each of several prompts becomes a chat of its own, which is what it would be if
// it were sent alone, byte for byte and token for token.
func TestEachOfSeveralPromptsIsTheRequestThatItWouldBeAlone(t *testing.T) {
	beside := `"model":"m","n":2,"stream":true,"x":{"y":"` + strings.Repeat("word ", 40) + `"},"max_tokens":3`
	prompts := []string{`"one"`, `"tw\u006f"`, `""`, `"` + strings.Repeat("four ", 100) + `"`}
	whole := parsed(t, `{"prompt":[`+strings.Join(prompts, " , ")+`],`+beside+`}`)
	split, size := whole.Split()
	if len(split) != len(prompts) {
		t.Fatalf("got %d requests, want %d", len(split), len(prompts))
	}
	var sent int64
	for i, raw := range prompts {
		sent += int64(len(`{"prompt":` + raw + `,` + beside + `}`))
		alone := parsed(t, `{"prompt":`+raw+`,`+beside+`}`)
		want := string(alone.Body("big/model", 7).Body)
		if got := string(split[i].Body("big/model", 7).Body); got != want {
			t.Errorf("prompt %d: got %s, want %s", i, got, want)
		}
		if got, want := [...]int64{split[i].PromptTokens, split[i].PromptBound, split[i].LargestTokens, split[i].Messages},
			[...]int64{alone.PromptTokens, alone.PromptBound, alone.LargestTokens, alone.Messages}; got != want {
			t.Errorf("prompt %d: got the counts %v, want %v", i, got, want)
		}
	}
	if size < sent {
		t.Errorf("got a bound of %d bytes, want at least the %d of the prompts alone", size, sent)
	}
	one := parsed(t, `{"prompt":["one"],`+beside+`}`)
	if split, _ := one.Split(); len(split) != 1 || split[0] != one {
		t.Errorf("got %d requests of one prompt, want itself", len(split))
	}
}

func parsed(t *testing.T, completion string) *Request {
	t.Helper()
	r, err := Parse(Completion, []byte(completion))
	if err != nil {
		t.Fatalf("got %v, want a completion: %s", err, completion)
	}
	return r
}
