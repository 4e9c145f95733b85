package rewrite

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"
)

func TestAChatBecomesATextCompletionOfTheSameBytes(t *testing.T) {
	const nulls = `"finish_reason":null,"logprobs":null`
	for in, want := range map[string]string{
		`{"id":"chatcmpl-7","object":"chat.completion","created":1e0,"model":"m","choices":[{"index":0,` +
			`"message":{"role":"assistant","content":"h\u0069","refusal":null},"logprobs":null,"finish_reason":"stop"}],` +
			`"x":1.50}`: `{"id":"cmpl-7","object":"text_completion","created":1e0,"model":"m","choices":[{"index":0,` +
			`"text":"h\u0069","logprobs":null,"finish_reason":"stop"}],"x":1.50}`,
		`{"id":"7","choices":[]}`:      `{"object":"text_completion","id":"cmpl-7","choices":[]}`,
		`{"id":"cmpl-7","object":"x"}`: `{"id":"cmpl-7","object":"text_completion"}`,
		`{}`:                           `{"object":"text_completion","id":"cmpl-own"}`,
		`{"id":"7","object":"o","choices":[{}]}`: `{"id":"cmpl-7","object":"text_completion","choices":[{"text":"",` + nulls +
			`}]}`,
		`{"id":"7","object":"o","choices":[5]}`: `{"id":"cmpl-7","object":"text_completion","choices":[5]}`,
		`{"id":"7","object":"o","choices":[{"delta":{}}]}`: `{"id":"cmpl-7","object":"text_completion","choices":[{` +
			nulls + `,"text":""}]}`,
		`{"id":"7","object":"o","choices":[{"delta":{"role":"assistant","content":"a","re\u0061soning":[1.0]},` +
			`"logprobs":{"content":[]},"finish_reason":null}],"usage":null}`: `{"id":"cmpl-7","object":"text_completion",` +
			`"choices":[{"text":"a","re\u0061soning":[1.0],"logprobs":null,"finish_reason":null}],"usage":null}`,
		`{"id":"7","object":"o","choices":[{"index":0,"message":{"index":5,"text":"x","content":["y"]}}]}`: `{` +
			`"id":"cmpl-7","object":"text_completion","choices":[{` + nulls + `,"index":0,"text":"","content":["y"]}]}`,
		`{"id":"7","choices":[{}`: `{"id":"7","choices":[{}`,
		`[]`:                      `[]`, ``: ``,
	} {
		if got := string(legacy([]byte(in), "own", nil)); got != want {
			t.Errorf("%s\n  became %s\n  want   %s", in, got, want)
		}
	}
	usage := Usage{Prompt: 2, Completion: 3}
	const shown = `"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}`
	for in, want := range map[string]string{
		`{"id":"7","object":"o"}`:                       `{` + shown + `,"id":"cmpl-7","object":"text_completion"}`,
		`{"id":"7","object":"o","usage":{"a":1}}`:       `{"id":"cmpl-7","object":"text_completion",` + shown + `}`,
		`{"id":"7","object":"o",` + shown + `,"y":1.0}`: `{"id":"cmpl-7","object":"text_completion",` + shown + `,"y":1.0}`,
	} {
		if got := string(legacy([]byte(in), "own", &usage)); got != want {
			t.Errorf("%s\n  became %s\n  want   %s", in, got, want)
		}
	}
}

// FuzzATextCompletionIsAlwaysJSON: whatever an engine says, the translation is
// JSON, and its choices have what strict clients require.
func FuzzATextCompletionIsAlwaysJSON(f *testing.F) {
	for _, s := range []string{
		`{"id":"chatcmpl-1","choices":[{"index":0,"message":{"content":"a"}}],"usage":{}}`,
		`{"choices":[{"delta":{"content":null}},{}]}`,
		`{"choices":[{"text":"x","delta":{"content":"a"}}]}`, `{"object":5,"id":null,"choices":[{"logprobs":{"a":[]}}]}`,
		`{"choices":[{"message":{"a":1}, "message" : {}}]}`,
	} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, whole bool) {
		if !json.Valid(body) || len(body) == 0 {
			return
		}
		var usage *Usage
		if whole {
			usage = &Usage{Prompt: 2, Completion: 3, Cost: "0.5"}
		}
		out := legacy(body, "own", usage)
		if !json.Valid(out) {
			t.Fatalf("%s became %s", body, out)
		}
		if hasTwice(body) {
			return
		}
		var text map[string]json.RawMessage
		var choices []map[string]json.RawMessage
		if json.Unmarshal(out, &text) != nil || text["choices"] == nil || json.Unmarshal(text["choices"], &choices) != nil {
			return // no chat at all
		}
		if string(text["object"]) != `"text_completion"` {
			t.Fatalf(`text["object"]: got %q, want %q, with %s`, string(text["object"]), `"text_completion"`, body)
		}
		for _, c := range choices {
			if c == nil {
				continue
			}
			for _, name := range []string{"text", "logprobs", "finish_reason"} {
				if _, ok := c[name]; !ok {
					t.Fatalf("%s lacks %s: %s", body, name, out)
				}
			}
		}
	})
}

// base64Of is a vector as the SDKs read it.
func base64Of(vector ...float32) string {
	var raw []byte
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestVectorsComeInTheFormThatWasAskedFor(t *testing.T) {
	v := base64Of(0.1, -2, 1e-20)
	const entry = `{"object":"embedding","index":0,"embedding":`
	cases := []struct {
		in, want string
		base64   bool
	}{
		{`[0.10, -2 , 1e-20]`, `[0.10, -2 , 1e-20]`, false},
		{`[0.10, -2 , 1e-20]`, `"` + v + `"`, true},
		{`"` + v + `"`, `"` + v + `"`, true},
		{`"` + v + `"`, `[0.1,-2,1e-20]`, false},
		{`"` + strings.ReplaceAll(v, "A", `\u0041`) + `"`, `[0.1,-2,1e-20]`, false},
		{`[]`, `""`, true},
		{`""`, `[]`, false},
	}
	for _, c := range cases {
		form := embeddings{base64: c.base64, model: "m"}
		got, ok := form.Accept([]byte(`{"object":"list","model":"m","data":[` + entry + c.in + `,"x":1.0}]}`))
		if want := `{"object":"list","model":"m","data":[` + entry + c.want + `,"x":1.0}]}`; !ok {
			t.Errorf("%s, base64 %v: ok of form.Accept(…): got false, want true", c.in, c.base64)
		} else if string(got) != want {
			t.Errorf("%s, base64 %v: got %q, want %q", c.in, c.base64, string(got), want)
		}
	}
	got, ok := (&embeddings{model: "m"}).Accept([]byte(`{"data":[{"embedding":[1]},{"embedding":[2]}]}`))
	if !ok || string(
		got) != `{"model":"m","object":"list","data":[{"index":0,"object":"embedding","embedding":[1]},{"index":1,`+
		`"object":"embedding","embedding":[2]}]}` {
		t.Errorf("%v, %s", ok, got)
	}
}

func TestWhatIsNoVectorIsNoAnswer(t *testing.T) {
	for in, want64 := range map[string]bool{
		`[1,"2"]`: true, `[1e39]`: true, `[null]`: true, `null`: true, `5`: false, `{}`: false, `"AAA="`: false, `"A"`: false,
		`"*"`: false,
		`"` + base64Of(float32(math.NaN())) + `"`: false, `"` + base64Of(float32(math.Inf(1))) + `"`: false,
	} {
		body := `{"data":[{"embedding":[1]},{"embedding":` + in + `}]}`
		if got, ok := (&embeddings{base64: want64}).Accept([]byte(body)); ok {
			t.Errorf("%s was taken for a vector: %s", in, got)
		}
	}
	for _, body := range []string{`{"data":[{}]}`, `{"data":[5]}`} {
		if _, ok := (&embeddings{}).Accept([]byte(body)); ok {
			t.Errorf("%s was taken for an answer", body)
		}
	}
}

// FuzzVectorsSurviveBothForms: a vector turned into base64 and back is the same
// vector.
func FuzzVectorsSurviveBothForms(f *testing.F) {
	f.Add([]byte(`[0.1,-2,1e-20,3.4028234e38,0,-0.0]`))
	f.Add([]byte(`[]`))
	f.Add([]byte(`[1e39]`))
	f.Fuzz(func(t *testing.T, vector []byte) {
		var want []float32
		body := []byte(`{"data":[{"embedding":` + string(vector) + `}]}`)
		if !json.Valid(vector) || json.Unmarshal(vector, &want) != nil || want == nil ||
			strings.Contains(string(vector), "null") {
			return
		}
		packed, ok := (&embeddings{base64: true}).Accept(body)
		if !ok {
			t.Fatalf("%s is a vector", vector)
		}
		plain, ok := (&embeddings{}).Accept(packed)
		if !ok {
			t.Fatalf("%s is a vector", packed)
		}
		var got struct {
			Data []struct{ Embedding []float32 }
		}
		if err := json.Unmarshal(plain, &got); err != nil {
			t.Fatalf("got the error %v, want none", err)
		} else if len(got.Data[0].Embedding) != len(want) {
			t.Fatalf("len(got.Data[0].Embedding): got %d, want %d, with %s", len(got.Data[0].Embedding), len(want), vector)
		}
		for i, x := range got.Data[0].Embedding {
			if math.Float32bits(x) != math.Float32bits(want[i]) {
				t.Fatalf("%v: math.Float32bits(x): got %d, want %d", want[i], math.Float32bits(x), math.Float32bits(want[i]))
			}
		}
	})
}

func TestEmbeddingsTellTheirPromptAlone(t *testing.T) {
	const shown = `"usage":{"prompt_tokens":2,"total_tokens":2}`
	for in, want := range map[string]string{
		`{"data":[]}`: `{` + shown + `,"data":[]}`,
		`{"data":[],"usage":{"prompt_tokens":2,"total_tokens":2,"x":1.0}}`: `{"data":[],` +
			`"usage":{"prompt_tokens":2,"total_tokens":2,"x":1.0}}`,
		`{"usage":{"prompt_tokens":2,"total_tokens":2,"completion_tokens":0},"data":[]}`: `{"usage":{"prompt_tokens":2,` +
			`"total_tokens":2,"completion_tokens":0},"data":[]}`,
		`{"usage":{"prompt_tokens":2,"total_tokens":2,"completion_tokens":50},"data":[]}`: `{` + shown + `,"data":[]}`,
		`{"usage":{"prompt_tokens":99,"total_tokens":99},"data":[]}`:                      `{` + shown + `,"data":[]}`,
		`{"usage":null}`: `{` + shown + `}`,
	} {
		if _, got := (&embeddings{}).Whole([]byte(in), Usage{Prompt: 2}); string(got) != want {
			t.Errorf("%s\n  became %s\n  want   %s", in, got, want)
		}
	}
	_, got := (&embeddings{}).Whole([]byte(`{}`), Usage{Prompt: 2, Cost: "0.5"})
	if string(got) != `{"usage":{"prompt_tokens":2,"total_tokens":2,"cost":0.5}}` {
		t.Errorf("with the cost: got %q, want %q", string(got), `{"usage":{"prompt_tokens":2,"total_tokens":2,"cost":0.5}}`)
	}
}

func TestImagesAreDatedAndOtherwiseTheEnginesOwn(t *testing.T) {
	form := images{now: func() time.Time { return time.Unix(17, 0) }}
	for in, want := range map[string]string{
		`{"data":[{"url":"x"}],"usage":{"total_tokens":5}}`: `{"created":17,"data":[{"url":"x"}],"usage":{"total_tokens":5}}`,
		`{"created":5,"data":[]}`:                           `{"created":5,"data":[]}`,
	} {
		if _, got := form.Whole([]byte(in), Usage{Completion: 1}); string(got) != want {
			t.Errorf("%s: got %q, want %q", in, string(got), want)
		}
	}
}

func TestEventsOfImagesAreDatedAndSayWhatTheyAre(t *testing.T) {
	form := &images{now: func() time.Time { return time.Unix(17, 0) }}
	got := streamed(form, true, event("image_generation.completed", `{"b64_json":"AA","x":1.0}`),
		event("image_generation.completed", `{"type":"image_generation.completed","created_at":5}`), event("", `{"y":1}`))
	if want := "event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"created_at\":17," +
		"\"b64_json\":\"AA\",\"x\":1.0}\n\n" +
		"event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"created_at\":5}\n\n" +
		"data: {\"y\":1}\n\n"; got != want {
		t.Errorf("streamed(…): got %q, want %q", got, want)
	}
}

// audible is 1.001 seconds.
var audible = Usage{Prompt: 1001}

func TestATranscriptTellsItsDuration(t *testing.T) {
	const shown = `"usage":{"type":"duration","seconds":2}`
	form := transcript{}
	for in, want := range map[string]string{
		`{"text":"a"}`: `{` + shown + `,"text":"a"}`,
		`{"text":"a","usage":{"seconds": 2,"type":"duration","x":1}}`: `{"text":"a","usage":{"seconds": 2,` +
			`"type":"duration","x":1}}`,
		`{"text":"a","usage":{"type":"duration","seconds":900}}`:           `{"text":"a",` + shown + `}`,
		`{"text":"a","usage":{"type":"tokens","total_tokens":5}}`:          `{"text":"a",` + shown + `}`,
		`{"text":"a","usage":{"seconds":2,"seconds":2,"type":"duration"}}`: `{"text":"a",` + shown + `}`,
		`{"text":"a","usage":null,"segments":[{"start":0.0}],"duration":1.10}`: `{"text":"a",` + shown +
			`,"segments":[{"start":0.0}],"duration":1.10}`,
	} {
		if kind, got := form.Whole([]byte(in), audible); string(got) != want {
			t.Errorf("%s: got %q, want %q", in, string(got), want)
		} else if kind != TypeJSON {
			t.Errorf("%s: kind: got %q, want %q", in, kind, TypeJSON)
		}
	}
	text := transcript{text: true, contentType: "text/plain; charset=utf-8"}
	if kind, got := text.Whole([]byte("1\n00:00 --> {"), audible); kind != "text/plain; charset=utf-8" {
		t.Errorf(`kind: got %q, want "text/plain; charset=utf-8"`, kind)
	} else if string(got) != "1\n00:00 --> {" {
		t.Errorf("got %q, want %q", string(got), "1\n00:00 --> {")
	}
}

// streamed gives what the client reads of events in a form.
func streamed(form Form, end bool, events ...Event) string {
	var out []Event
	for _, e := range events {
		out = form.Event(out, e)
	}
	if end {
		out = form.End(out, audible)
	} else {
		out = form.Cut(out)
	}
	text := ""
	for _, e := range out {
		if IsEventName(e.Name) {
			text += "event: " + e.Name + "\n"
		}
		text += "data: " + string(e.JSON) + "\n\n"
	}
	if _, ok := form.(*chat); ok && end {
		text += "data: [DONE]\n\n"
	}
	return text
}

func event(name, json string) Event { return Event{Name: name, JSON: []byte(json)} }

func TestATranscriptsLastEventWaitsUntilItIsBilled(t *testing.T) {
	const delta, done = `{"type":"transcript.text.delta","delta":"transcript.text.done"}`,
		`{"type":"transcript.text.done","text":"a"}`
	const billed = `data: {"usage":{"type":"duration","seconds":2},"type":"transcript.text.done","text":"a"}` + "\n\n"
	if got := streamed(&transcript{}, true, event("", delta), event("", done)); got != "data: "+delta+"\n\n"+billed {
		t.Errorf("served: got %q, want %q", got, "data: "+delta+"\n\n"+billed)
	}
	if got := streamed(&transcript{}, false, event("", delta), event("", done)); got != "data: "+delta+"\n\n" {
		t.Errorf("failed: got %q, want %q", got, "data: "+delta+"\n\n")
	}
	if got := streamed(&transcript{}, true, event("", done), event("", delta), event("", done)); got != "data: "+done+
		"\n\ndata: "+delta+"\n\n"+billed {
		t.Errorf("not the last: got %q, want %q", got, "data: "+done+"\n\ndata: "+delta+"\n\n"+billed)
	}
}

func TestAStreamHasOneIDAndOneDate(t *testing.T) {
	form := &chat{}
	got := streamed(form, true,
		event("", `{"id":"","object":"o","created":0,"choices":[]}`),
		event("", `{"id":"a","created":5,"choices":[1.0]}`),
		event("", `{"created" : 6 ,"id": "b","choices":[{"id":"c","created":7}]}`),
		event("", `{"id":"","object":"o","created":5}`),
		event("", `{"choices":[]}`))
	want := `{"id":"","object":"o","created":0,"choices":[]}|{"id":"a","created":5,"choices":[1.0]}|` +
		`{"created" : 5 ,"id": "a","choices":[{"delta":{"role":"assistant"},"index":0,"id":"c","created":7}]}|{"id":"a",` +
		`"object":"o","created":5}|{"choices":[]}|[DONE]|`
	if got != "data: "+strings.TrimSuffix(strings.ReplaceAll(want, "|", "\n\ndata: "), "data: ") {
		t.Errorf("got\n%s", got)
	}
}

// FuzzAChunkKeepsWhatIsThere: a chunk of a stream stays JSON and loses nothing.
func FuzzAChunkKeepsWhatIsThere(f *testing.F) {
	for _, s := range []string{
		`{"id":"b","created":7,"choices":[{"logprobs":{"content":[{"token":"a"}]}}]}`,
		`{"choices":[{"logprobs" : {"refusal":[{"top_logprobs":[{}]}]}}]}`,
		`{"created":1e5,"x":{"id":5}}`, `{}`, ` { } `, `{"usage":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var before map[string]any
		if json.Unmarshal(body, &before) != nil || before == nil || hasTwice(body) {
			return
		}
		known := identity{id: []byte(`"a"`), created: []byte("5")}
		full := newChat(&Spec{RequestID: "r", Stream: true}, time.Unix(17, 0)).identity
		for name, out := range map[string][]byte{
			"logprobs": withLogprobs(body), "identity": known.of(body), "usage": withNullUsage(body), "completed": full.of(body),
		} {
			var after map[string]any
			if err := json.Unmarshal(out, &after); err != nil {
				t.Fatalf("%s: %s became %s: %v", name, body, out, err)
			}
			want := maps.Clone(before)
			for _, m := range full.own {
				if name == "completed" && after[m.name] == nil {
					t.Fatalf("%s has no %s: %s", body, m.name, out)
				}
			}
			if name == "identity" {
				for member, value := range map[string]any{"id": "a", "created": 5.0} {
					if _, ok := want[member]; ok {
						want[member] = value
					}
				}
			}
			if !within(want, after) {
				t.Fatalf("%s: lost something of %s: %s", name, body, out)
			}
		}
	})
}

// FuzzEveryFormKeepsWhatIsThere: whatever an engine answers, in each form it
// stays JSON and loses nothing but a usage that is not billed.
func FuzzEveryFormKeepsWhatIsThere(f *testing.F) {
	for _, s := range []string{
		`{"data":[{"embedding":[1.0]},{}],"usage":{"prompt_tokens":2}}`,
		`{"text":"a","usage":{"type":"duration","seconds":2}}`,
		`{"created":null,"data":[{"b64_json":"AA"}]}`, `{"type":"transcript.text.done","usage":[]}`, `{}`,
		`{"usage" : "x" , "a":1e400}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var before map[string]any
		if json.Unmarshal(body, &before) != nil || before == nil {
			return
		}
		delete(before, "usage")
		for _, form := range []Form{
			&embeddings{model: "m"}, &images{now: func() time.Time { return time.Unix(17, 0) }}, &transcript{},
		} {
			accepted, ok := form.Accept(body)
			if !ok {
				continue
			}
			_, out := form.Whole(accepted, audible)
			var after map[string]any
			if err := json.Unmarshal(out, &after); err != nil {
				t.Fatalf("%T made %s of %s: %v", form, out, body, err)
			}
			if !hasTwice(body) && !within(before, after) {
				t.Fatalf("%T lost something of %s: %s", form, body, out)
			}
		}
	})
}
