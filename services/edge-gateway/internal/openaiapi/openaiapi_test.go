package openaiapi

import (
	"strconv"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

const msgs = `"messages":[{"role":"user","content":"hi"}]`

func with(members string) string { return `{"model":"m",` + msgs + `,` + members + `}` }

func withMessage(message string) string { return `{"model":"m","messages":[` + message + `]}` }

func withPart(part string) string { return withMessage(`{"role":"user","content":[` + part + `]}`) }

func TestRefusalsNameTheFieldAndTheReason(t *testing.T) {
	cases := []struct {
		body   string
		reason fault.Reason
		param  string
	}{
		// Not JSON, or no object.
		{``, fault.InvalidRequest, ""},
		{`null`, fault.InvalidRequest, ""},
		{`[]`, fault.InvalidRequest, ""},
		{`{`, fault.InvalidRequest, ""},
		{"\ufeff{}", fault.InvalidRequest, ""},
		{with(`"x":tru`), fault.InvalidRequest, ""},
		{with(`"x":1`) + `x`, fault.InvalidRequest, ""},
		{with(`"x":` + strings.Repeat("[", 100_000)), fault.InvalidRequest, ""},
		{with(`"x":"` + "\x00" + `"`), fault.InvalidRequest, ""},
		{with(manyMembers(MaxMembers)), fault.InvalidRequest, ""},
		{with(`"stream":tru`), fault.InvalidRequest, ""},
		// Required.
		{`{}`, MissingRequiredParameter, "model"},
		{`{"model":"m"}`, MissingRequiredParameter, "messages"},
		{`{"model":null,` + msgs + `}`, MissingRequiredParameter, "model"},
		{`{"model":"m","messages":null}`, MissingRequiredParameter, "messages"},
		{`{"model":"",` + msgs + `}`, fault.InvalidValue, "model"},
		{`{"model":5,` + msgs + `}`, fault.InvalidValue, "model"},
		{`{"model":"` + strings.Repeat("x", 257) + `",` + msgs + `}`, fault.InvalidValue, "model"},
		{`{"model":"m","messages":[]}`, fault.InvalidValue, "messages"},
		{`{"model":"m","messages":{}}`, fault.InvalidValue, "messages"},
		{`{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"x"},`, MaxMessages) +
			`{"role":"user","content":"x"}]}`, fault.InvalidValue, "messages"},
		// Twice, or nearly (hostile test 13).
		{with(`"model":"x"`), DuplicateField, "model"},
		{with(`"Model":"x"`), DuplicateField, "model"},
		{with(`"mod\u0065l":"x"`), DuplicateField, "model"},
		{with(`"mOdEl":null`), DuplicateField, "model"},
		{with(`"max_tokens":1,"max_tokens":2`), DuplicateField, "max_tokens"},
		{with(`"max_tokens":null,"max_tokens":2`), DuplicateField, "max_tokens"},
		{with(`"max_to` + "\u212a" + `ens":2`), DuplicateField, "max_tokens"},
		{with(`"\u017ftream":true`), DuplicateField, "stream"},
		{with(`"N":2`), DuplicateField, "n"},
		{with(`"stream_options":{"include_usage":false,"include_usage":true}`), DuplicateField,
			"stream_options.include_usage"},
		{with(`"stream_options":{"Include_Usage":false}`), DuplicateField, "stream_options.include_usage"},
		{withMessage(`{"role":"user","content":"a","content":"b"}`), DuplicateField, "messages[0].content"},
		{withMessage(`{"role":"user","content":"a","Content":"b"}`), DuplicateField, "messages[0].content"},
		{withMessage(`{"role":"user","role":"tool","content":"a"}`), DuplicateField, "messages[0].role"},
		{withPart(`{"type":"text","type":"file","text":"a"}`), DuplicateField, "messages[0].content[0].type"},
		{withPart(`{"type":"text","text":"a","text":"b"}`), DuplicateField, "messages[0].content[0].text"},
		{with(`"usage":{"include":true,"include":false}`), DuplicateField, "usage.include"},
		// Messages.
		{withMessage(`5`), fault.InvalidValue, "messages[0]"},
		{withMessage(`{}`), MissingRequiredParameter, "messages[0].role"},
		{withMessage(`{"role":"user","content":"x"},{"role":"wizard","content":"x"}`), fault.InvalidValue,
			"messages[1].role"},
		{withMessage(`{"role":null,"content":"x"}`), fault.InvalidValue, "messages[0].role"},
		{withMessage(`{"role":"user"}`), MissingRequiredParameter, "messages[0].content"},
		{withMessage(`{"role":"user","content":null}`), MissingRequiredParameter, "messages[0].content"},
		{withMessage(`{"role":"user","content":5}`), fault.InvalidValue, "messages[0].content"},
		{withMessage(`{"role":"user","content":[]}`), fault.InvalidValue, "messages[0].content"},
		{withMessage(`{"role":"tool","content":"x"}`), MissingRequiredParameter, "messages[0].tool_call_id"},
		{withPart(`"text"`), fault.InvalidValue, "messages[0].content[0]"},
		{withPart(`{"text":"x"}`), MissingRequiredParameter, "messages[0].content[0].type"},
		{withPart(`{"type":""}`), fault.InvalidValue, "messages[0].content[0].type"},
		{withPart(`{"type":"text"}`), MissingRequiredParameter, "messages[0].content[0].text"},
		{withPart(`{"type":"text","text":5}`), fault.InvalidValue, "messages[0].content[0].text"},
		{withPart(`{"type":"text","image_url":{"url":"https://x.org"}}`), MissingRequiredParameter,
			"messages[0].content[0].text"},
		{withPart(`{"type":"image_url","image_url":{}}`), MissingRequiredParameter, "messages[0].content[0].image_url.url"},
		{withPart(`{"type":"input_audio","input_audio":{"format":"wav"}}`), MissingRequiredParameter,
			"messages[0].content[0].input_audio.data"},
		// Images (hostile test 23).
		{withPart(image("file:///etc/passwd")), fault.InvalidValue, "messages[0].content[0].image_url.url"},
		{withPart(image("gopher://x")), fault.InvalidValue, "messages[0].content[0].image_url.url"},
		{withPart(image("javascript:alert(1)")), fault.InvalidValue, "messages[0].content[0].image_url.url"},
		{withPart(image("data:text/html,x")), fault.InvalidValue, "messages[0].content[0].image_url.url"},
		{withPart(image(`f\u0069le:///x`)), fault.InvalidValue, "messages[0].content[0].image_url.url"},
		{withPart(image("https://x.org/" + strings.Repeat("x", MaxImageURLBytes))), fault.InvalidValue,
			"messages[0].content[0].image_url.url"},
		{withPart(image("data:image/png;base64," + strings.Repeat("A", MaxImageDataBytes))), fault.InvalidValue,
			"messages[0].content[0].image_url.url"},
		// Numbers (hostile test 21).
		{with(`"max_tokens":-1`), fault.InvalidValue, "max_tokens"},
		{with(`"max_tokens":0`), fault.InvalidValue, "max_tokens"},
		{with(`"max_tokens":2147483648`), fault.InvalidValue, "max_tokens"},
		{with(`"max_tokens":9223372036854775808`), fault.InvalidValue, "max_tokens"},
		{with(`"max_tokens":1e30`), fault.InvalidValue, "max_tokens"},
		{with(`"max_tokens":1e999999`), fault.InvalidValue, "max_tokens"},
		{with(`"max_tokens":1.5`), fault.InvalidValue, "max_tokens"},
		{with(`"max_tokens":"5"`), fault.InvalidValue, "max_tokens"},
		{with(`"max_completion_tokens":true`), fault.InvalidValue, "max_completion_tokens"},
		{with(`"n":1000000`), fault.InvalidValue, "n"},
		{with(`"n":0`), fault.InvalidValue, "n"},
		{with(`"best_of":1000000`), fault.InvalidValue, "best_of"},
		{with(`"top_logprobs":1000000`), fault.InvalidValue, "top_logprobs"},
		{with(`"prompt_logprobs":21`), fault.InvalidValue, "prompt_logprobs"},
		{with(`"logprobs":5`), fault.InvalidValue, "logprobs"},
		{with(`"temperature":2.1`), fault.InvalidValue, "temperature"},
		{with(`"temperature":1e999999`), fault.InvalidValue, "temperature"},
		{with(`"temperature":"1"`), fault.InvalidValue, "temperature"},
		{with(`"top_p":-0.1`), fault.InvalidValue, "top_p"},
		{with(`"presence_penalty":3`), fault.InvalidValue, "presence_penalty"},
		{with(`"frequency_penalty":-3`), fault.InvalidValue, "frequency_penalty"},
		{with(`"seed":1.5`), fault.InvalidValue, "seed"},
		{with(`"seed":9223372036854775808`), fault.InvalidValue, "seed"},
		// The rest.
		{with(`"stream":"true"`), fault.InvalidValue, "stream"},
		{with(`"stream_options":[]`), fault.InvalidValue, "stream_options"},
		{with(`"stream_options":{"include_usage":1}`), fault.InvalidValue, "stream_options.include_usage"},
		{with(`"stop":["a","b","c","d","e"]`), fault.InvalidValue, "stop"},
		{with(`"stop":[5]`), fault.InvalidValue, "stop[0]"},
		{with(`"stop":{}`), fault.InvalidValue, "stop"},
		{with(`"stop":5`), fault.InvalidValue, "stop"},
		{with(`"echo":true`), fault.InvalidValue, "echo"},
		{with(`"echo":"true"`), fault.InvalidValue, "echo"},
		{with(`"Echo":true`), DuplicateField, "echo"},
		{with(`"include_reasoning":false`), fault.InvalidValue, "include_reasoning"},
		{with(`"include_reasoning":0`), fault.InvalidValue, "include_reasoning"},
		{with(`"include_Reasoning":false`), DuplicateField, "include_reasoning"},
		{with(`"include_reasoning":fals`), fault.InvalidRequest, ""},
		{with(`"logit_bias":{"1":101}`), fault.InvalidValue, "logit_bias"},
		{with(`"logit_bias":[]`), fault.InvalidValue, "logit_bias"},
		{with(`"response_format":"json"`), fault.InvalidValue, "response_format"},
		{with(`"response_format":{}`), MissingRequiredParameter, "response_format.type"},
		{with(`"response_format":{"type":"xml"}`), fault.InvalidValue, "response_format.type"},
		{with(`"response_format":{"type":"json_schema"}`), MissingRequiredParameter, "response_format.json_schema"},
		{with(`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`), MissingRequiredParameter,
			"response_format.json_schema.name"},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"x"}}`), MissingRequiredParameter,
			"response_format.json_schema.schema"},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":5}}`), fault.InvalidValue,
			"response_format.json_schema.schema"},
		{with(`"tools":{}`), fault.InvalidValue, "tools"},
		{with(`"tools":[{}]`), MissingRequiredParameter, "tools[0].type"},
		{with(`"tools":[{"type":"function"}]`), MissingRequiredParameter, "tools[0].function"},
		{with(`"tools":[{"type":"function","function":{}}]`), MissingRequiredParameter, "tools[0].function.name"},
		{with(`"tools":[{"type":"function","function":{"name":""}}]`), fault.InvalidValue, "tools[0].function.name"},
		{with(`"tools":[{"type":"function","function":{"name":"x","parameters":5}}]`), fault.InvalidValue,
			"tools[0].function.parameters"},
		{with(`"functions":[{}]`), MissingRequiredParameter, "functions[0].name"},
		{with(`"tool_choice":5`), fault.InvalidValue, "tool_choice"},
		{with(`"parallel_tool_calls":1`), fault.InvalidValue, "parallel_tool_calls"},
		{with(`"user":5`), fault.InvalidValue, "user"},
		{with(`"metadata":5`), fault.InvalidValue, "metadata"},
		{with(`"usage":true`), fault.InvalidValue, "usage"},
		{with(`"usage":{"include":1}`), fault.InvalidValue, "usage.include"},
		{with(`"provider":"x"`), fault.InvalidValue, "provider"},
	}
	for _, c := range cases {
		_, err := Parse(Chat, []byte(c.body))
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

func image(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k` + strconv.Itoa(i) + `":1`)
	}
	return b.String()
}

func TestWhatIsFineIsUnderstood(t *testing.T) {
	body := `{"model":"m\u0065","stream":true,"stream_options":{"include_usage":true},"n":3,"best_of":2,"max_tokens":10,` +
		`"max_completion_tokens":2e1,"top_logprobs":5,"temperature":0.5,"seed":-5,"stop":["a"],"logit_bias":{"5":-100},` +
		`"usage":{"include":true},` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}},"tools":[{"type":"custom",` +
		`"custom":{}}],"tool_choice":"auto",` +
		`"messages":[{"role":"developer","content":"a"},{"role":"user","content":[{"text":"b","type":"text"},` +
		image("HTTPS://x.org/y") + `,` +
		image(`data:image\/png;base64,AA`) + `]},{"role":"assistant","content":null,"tool_calls":[]},{"role":"assistant"},` +
		`{"role":"tool","tool_call_id":"1","content":"x"},{"role":"function","name":"f","content":null}]}`
	r, err := Parse(Chat, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case r.Model != "me":
		t.Errorf(`r.Model: got %q, want "me"`, r.Model)
	case !r.Stream:
		t.Error("r.Stream: got false, want true")
	case !r.IncludeUsage:
		t.Error("r.IncludeUsage: got false, want true")
	case !r.IncludeCost:
		t.Error("r.IncludeCost: got false, want true")
	case r.Choices != 3:
		t.Errorf("r.Choices: got %d, want 3", r.Choices)
	case r.MaxTokens != 20:
		t.Errorf("r.MaxTokens: got %d, want 20", r.MaxTokens)
	case r.MaxTokensParam != "max_completion_tokens":
		t.Errorf(`r.MaxTokensParam: got %q, want "max_completion_tokens"`, r.MaxTokensParam)
	case !r.Logprobs:
		t.Error("r.Logprobs: got false, want true")
	case r.Messages != 6:
		t.Errorf("r.Messages: got %d, want 6", r.Messages)
	case r.PromptTokens < 2*pictureTokens:
		t.Errorf("r.PromptTokens: got %d, want at least %d", r.PromptTokens, 2*pictureTokens)
	}
}

func TestNullCountsAsAbsent(t *testing.T) {
	for _, f := range chatFields {
		if f == fieldModel || f == fieldMessages {
			continue
		}
		name := fieldNames[f]
		r, err := Parse(Chat, []byte(with(`"`+name+`":null`)))
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case r.MaxTokens != 0:
			t.Errorf("%s: r.MaxTokens: got %d, want 0", name, r.MaxTokens)
		case r.Choices != 1:
			t.Errorf("%s: r.Choices: got %d, want 1", name, r.Choices)
		case r.Stream:
			t.Errorf("%s: r.Stream: got true, want false", name)
		}
	}
}

func TestBytesThatAreNotUTF8AreRefusedAndOddTextIsPreserved(t *testing.T) {
	of := func(text string) []byte {
		return []byte(`{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`)
	}
	for _, text := range []string{"\xff", "a\xfe", "\xed\xa0\x80", "\xc0\xaf", "\xe2\x82"} {
		if _, err := Parse(Chat, of(text)); !fault.Is(err, fault.InvalidRequest) {
			t.Errorf("%q: got the error %v, want the reason %v", text, err, fault.InvalidRequest)
		}
	}
	for _, body := range []string{`{"` + "\xff" + `":1,"model":"m",` + msgs + `}`, `["` + "\xff" + `"]`} {
		if _, err := Parse(Chat, []byte(body)); err == nil {
			t.Errorf("%q is taken", body)
		}
	}
	for _, text := range []string{`\ud800`, `\u0000`, "\ufeff", "\u2028", "\U0010ffff"} {
		r, err := Parse(Chat, of(text))
		if err != nil {
			t.Fatal(err)
		}
		if out := r.Body("m", 7).Body; string(out) != `{"max_tokens":7,`+string(of(text))[1:] {
			t.Errorf("got %q", out)
		}
	}
}

func TestThePatchTouchesOnlyWhatItMust(t *testing.T) {
	const opts = `"stream_options":{"include_usage":true}`
	cases := []struct{ in, out string }{
		{`{"model":"m",` + msgs + `}`, `{"model":"big/model",` + msgs + `}`},
		{`{"usage":{},"model":"m",` + msgs + `}`, `{"model":"big/model",` + msgs + `}`},
		{`{ "usage" : {} , "provider":{},"models":[], "model":"m",` + msgs + `}`, `{ "model":"big/model",` + msgs + `}`},
		{`{"model":"m","usage":{},` + msgs + `}`, `{"model":"big/model",` + msgs + `}`},
		{`{"model":"m",` + msgs + `, "provider":null , "models":[ ] }`, `{"model":"big/model",` + msgs + ` }`},
		{`{"usage":{},"model":"m","models":null,` + msgs + `,"provider":{}}`, `{"model":"big/model",` + msgs + `}`},
		{`{"usage":{},"stream":true,"model":"m",` + msgs + `}`, `{` + opts + `,"stream":true,"model":"big/model",` + msgs +
			`}`},
		{`{"stream":true,"stream_options": null ,"model":"m",` + msgs + `}`,
			`{"stream":true,"stream_options": {"include_usage":true} ,"model":"big/model",` + msgs + `}`},
		{`{"stream":true,"stream_options":{ "a":1 },"model":"m",` + msgs + `}`,
			`{"stream":true,"stream_options":{"include_usage":true, "a":1 },"model":"big/model",` + msgs + `}`},
		{`{"stream":true,"stream_options":{ },"model":"m",` + msgs + `}`,
			`{"stream":true,"stream_options":{"include_usage":true },"model":"big/model",` + msgs + `}`},
		{`{"stream":true,"stream_options":{"include_usage": false},"model":"m",` + msgs + `}`,
			`{"stream":true,"stream_options":{"include_usage": true},"model":"big/model",` + msgs + `}`},
		{`{"stream":true,"stream_options":{"include_usage":null},"model":"m",` + msgs + `}`, `{"stream":true,` + opts +
			`,"model":"big/model",` + msgs + `}`},
		{`{"stream":false,"stream_options":{"include_usage":false},"model":"m",` + msgs + `}`,
			`{"stream":false,"stream_options":{"include_usage":false},"model":"big/model",` + msgs + `}`},
		{`{"echo":false,"model":"m","include_reasoning": true,` + msgs + `}`,
			`{"echo":false,"model":"big/model","include_reasoning": true,` + msgs + `}`},
		{`{` + msgs + `,"seed":1.0,"x":1e400,"model" : "m" }`, `{` + msgs + `,"seed":1.0,"x":1e400,"model" : "big/model" }`},
	}
	for _, c := range cases {
		r, err := Parse(Chat, []byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		sent := r.Body("big/model", 7)
		out, span := sent.Body, sent.Model
		if got := strings.Replace(string(out), `"max_tokens":7,`, "", 1); got != c.out {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, out, c.out)
		}
		if got := string(out[span.Start:span.End]); got != `"big/model"` {
			t.Errorf("%s: the model's span: got %q, want %q", c.in, got, `"big/model"`)
		}
		// The model's own id stays as it was written, and its span is known.
		sent = r.Body("m", 7)
		same, span := sent.Body, sent.Model
		if got := string(same[span.Start:span.End]); got != `"m"` {
			t.Errorf("%s: the model's span: got %q, want %q, with %s", c.in, got, `"m"`, same)
		}
	}
}

func TestTheBoundOfTheAnswerIsAlwaysWritten(t *testing.T) {
	cases := []struct{ in, out string }{
		{`{"model":"m",` + msgs + `}`, `{"max_tokens":7,"model":"m",` + msgs + `}`},
		{`{"max_tokens":null,"model":"m",` + msgs + `}`, `{"max_tokens":7,"model":"m",` + msgs + `}`},
		{`{"max_tokens": 1e2 ,"model":"m",` + msgs + `}`, `{"max_tokens": 7 ,"model":"m",` + msgs + `}`},
		{`{"model":"m","max_completion_tokens":1,` + msgs + `}`, `{"max_tokens":7,"model":"m","max_completion_tokens":7,` +
			msgs + `}`},
		{`{"max_completion_tokens":null,"model":"m",` + msgs + `}`,
			`{"max_tokens":7,"max_completion_tokens":null,"model":"m",` + msgs + `}`},
		{`{"max_completion_tokens":9,"max_tokens":1,` + msgs + `,"model":"m"}`, `{"max_completion_tokens":7,"max_tokens":7,` +
			msgs + `,"model":"m"}`},
		{`{"usage":{},"n_predict":9999,"model":"m",` + msgs + `}`, `{"max_tokens":7,"n_predict":9999,"model":"m",` + msgs +
			`}`},
	}
	for _, c := range cases {
		r, err := Parse(Chat, []byte(c.in))
		if err != nil {
			t.Fatal(err)
		}
		sent := r.Body("m", 7)
		if string(sent.Body) != c.out {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, sent.Body, c.out)
		}
		again := sent.For([]byte(`"another/model"`), 12345)
		want := strings.NewReplacer(`"model":"m"`, `"model":"another/model"`, ":7", ":12345", ": 7 ",
			": 12345 ").Replace(c.out)
		if string(again.Body) != want {
			t.Errorf("%s\n  for another model: again.Body: got %q, want %q", c.in, string(again.Body), want)
		} else if string(again.Name()) != `"another/model"` {
			t.Errorf("%s\n  for another model: again.Name(): got %q, want %q", c.in, string(again.Name()), `"another/model"`)
		}
		if back := again.For([]byte(`"m"`), 7); string(back.Body) != c.out {
			t.Errorf("%s\n  did not come back from %s", c.out, again.Body)
		}
	}
}

// Hostile test 26: whatever stands in a message or beside it in the prompt
// counts.
func TestNothingInThePromptIsFree(t *testing.T) {
	long := strings.Repeat("word ", 500)
	base, err := Parse(Chat, []byte(with(`"x":1`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		withMessage(`{"role":"user","content":"` + long + `"}`),
		withMessage(`{"role":"user","content":[{"type":"text","text":"` + long + `"}]}`),
		withMessage(`{"role":"user","content":[{"type":"text","text":"x","hidden":"` + long + `"}]}`),
		withMessage(`{"role":"user","content":"x","name":"` + long + `"}`),
		withMessage(`{"role":"assistant","reasoning_content":"` + long + `"}`),
		withMessage(`{"role":"assistant","tool_calls":[{"function":{"arguments":"` + long + `"}}]}`),
		withPart(`{"type":"file","file":{"file_data":"` + strings.Repeat("QUJD", 1000) + `"}}`),
		withPart(image("https://x.org")),
		with(`"tools":[{"type":"function","function":{"name":"f","description":"` + long + `"}}]`),
		with(`"functions":[{"name":"f","description":"` + long + `"}]`),
		with(`"documents":[{"text":"` + long + `"}]`),
		with(`"chat_template_kwargs":{"a":{"b":["` + long + `"]}}`),
		with(`"metadata":{"a":"` + long + `"}`),
		with(`"metadata":{"` + long + `":"a"}`),
		with(`"prediction":{"type":"content","content":"` + long + `"}`),
		with(`"guided_grammar":"` + long + `"`),
		with(`"nobody_knows":[[{"it":"` + long + `"}]]`),
		with(`"tool_choice":{"type":"function","function":{"name":"f","` + long + `":1}}`),
		with(`"function_call":{"name":"` + long + `"}`),
		with(`"stream_options":{"include_usage":true,"x":"` + long + `"}`),
		withPart(`{"type":"video_url","video_url":{"url":"https://x.org","text":["` + long + `"]}}`),
		withPart(`{"type":"nobody_knows","a":{"` + long + `":1}}`),
		withPart(`{"type":"input_audio","input_audio":{"data":"` + strings.Repeat("QUJD", 1<<17) + `","format":"wav"}}`),
		`{"model":"m","messages":[{"role":"user","content":"x"}],"` + "\\u0070rediction" + `":"` + long + `"}`,
		with(`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"description":"` + long + `"}}}`),
	} {
		r, err := Parse(Chat, []byte(body))
		if err != nil {
			t.Errorf("%.80s: %v", body, err)
			continue
		}
		if want := base.PromptTokens + 400; r.PromptTokens < want || r.PromptBound < r.PromptTokens {
			t.Errorf("%.80s: got %d tokens, bound %d; want at least %d", body, r.PromptTokens, r.PromptBound, want)
		}
	}
}
