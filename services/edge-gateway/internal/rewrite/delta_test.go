package rewrite

import (
	"encoding/json"
	"reflect"
	"testing"
)

// Clients put a stream together by roles and indices. Engines that leave them out
// are helped, and events that have them are not touched.
func TestAStreamHasWhatClientsPutItTogetherBy(t *testing.T) {
	for name, c := range map[string]struct {
		choices  int
		in, want []string
	}{
		"nothing is missing": {in: []string{
			`{"choices": [ {"delta" : {"role":"assistant"},"index": 0} ] }`,
			`{"choices": [ {"index": 0,"delta" : {"content":"a"}} ] }`,
			`{"choices":[],"usage":{}}`, `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x"}]}}]}`,
		}},
		"no role": {
			in: []string{`{"choices":[]}`, `{"choices":[{"index":0,"delta":{"content":"a"}}]}`,
				`{"choices":[{"index":0,"delta":{"content":"b"}}]}`},
			want: []string{`{"choices":[]}`, `{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`,
				`{"choices":[{"index":0,"delta":{"content":"b"}}]}`},
		},
		"a null role, a null index": {
			in:   []string{`{"choices":[{"index":null,"delta":{"role":null,"content":"a"}}]}`},
			want: []string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`},
		},
		"no index, and no delta in the end": {
			in: []string{`{"choices":[{"delta":{"role":"assistant"}}]}`, `{"choices":[{"delta":{"content":"\"index\""}}]}`,
				`{"choices":[{"finish_reason":"stop","delta":null}]}`, `{"choices":[{"finish_reason":"stop"}]}`},
			want: []string{`{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`,
				`{"choices":[{"index":0,"delta":{"content":"\"index\""}}]}`,
				`{"choices":[{"index":0,"finish_reason":"stop","delta":{}}]}`,
				`{"choices":[{"delta":{},"index":0,"finish_reason":"stop"}]}`},
		},
		"two choices, each with its own first delta": {choices: 2,
			in: []string{`{"choices":[{"delta":{"content":"a"},"index":1}]}`, `{"choices":[{"index":1,"delta":{}}]}`,
				`{"choices":[{"index":0,"delta":{}}]}`},
			want: []string{`{"choices":[{"delta":{"role":"assistant","content":"a"},"index":1}]}`,
				`{"choices":[{"index":1,"delta":{}}]}`, `{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`},
		},
		"tool calls without an index": {
			in: []string{
				`{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f",` +
					`"arguments":""}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{}"}},` +
					`{"function":{"name":"g"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":null,"id":"a","function":{"arguments":"}"}}]}}]}`,
			},
			want: []string{
				`{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","function":{"name":"f",` +
					`"arguments":""}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}},` +
					`{"index":2,"function":{"name":"g"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}}]}}]}`,
			},
		},
		"what is no chat": {
			in: []string{`[]`, `5`, `{"choices":[5,null]}`, `{"choices":[{"delta":{"tool_calls":[null,5]}}]}`,
				`{"choices":[{`},
			want: []string{`[]`, `5`, `{"choices":[5,null]}`,
				`{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[null,5]}}]}`, `{"choices":[{`},
		},
	} {
		if c.want == nil {
			c.want = c.in
		}
		d := deltas{choices: max(c.choices, 1)}
		for i, in := range c.in {
			if got := string(d.of([]byte(in))); got != c.want[i] {
				t.Errorf("%s: event %d\n  is     %s\n  became %s\n  want   %s", name, i, in, got, c.want[i])
			}
		}
	}
}

func TestAnEventThatHasAllCostsNothing(t *testing.T) {
	d := deltas{choices: 1}
	d.of([]byte(`{"choices":[{"index":0,"delta":{"role":"assistant"}}]}`))
	event := []byte(`{"id":"x","choices":[{"index":0,"delta":{"content":"hello"},"logprobs":null,"finish_reason":null}]}`)
	if n := testing.AllocsPerRun(100, func() { d.of(event) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// FuzzAWholeEventKeepsWhatIsThere: whatever an engine sends, the result is JSON and
// nothing of it is lost.
func FuzzAWholeEventKeepsWhatIsThere(f *testing.F) {
	for _, s := range []string{
		`{"choices":[{"delta":{"content":"a"}}]}`,
		`{"choices":[{"index":7,"delta":{"tool_calls":[{"id":"a"},{"function":{"name":"f"}}]}}]}`,
		`{"choices":[{"index":-1,"delta":{"role":null,"tool_calls":[{"index":99999999999999999999}]}},{"index":1.5}]}`,
		`{"choices":[{"delta":[]}]}`,
	} {
		f.Add([]byte(s), uint8(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, choices uint8) {
		var before any
		if json.Unmarshal(body, &before) != nil || hasTwice(body) {
			return
		}
		d := deltas{choices: int(choices)}
		for range 2 {
			out := d.of(body)
			var after any
			if err := json.Unmarshal(out, &after); err != nil {
				t.Fatalf("%s became %s", body, out)
			}
			if !holds(before, after) {
				t.Fatalf("%s lost something: %s", body, out)
			}
		}
	})
}

// holds reports whether all of before is in after, nulls apart.
func holds(before, after any) bool {
	switch before := before.(type) {
	case nil:
		return true
	case map[string]any:
		after, ok := after.(map[string]any)
		for name, value := range before {
			if !ok || !holds(value, after[name]) {
				return false
			}
		}
		return ok
	case []any:
		after, ok := after.([]any)
		if !ok || len(before) != len(after) {
			return false
		}
		for i := range before {
			if !holds(before[i], after[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(before, after)
}

func TestNoImageLeadsIntoAProvidersNetwork(t *testing.T) {
	for body, want := range map[string]bool{
		`{"created":1,"data":[{"b64_json":"AAAA"}]}`:                                true,
		`{"data":[{"url":"https://images.org/a.png"}]}`:                             true,
		`{"data":[{"url":"https://images.org:9000/a.png","revised_prompt":""}]}`:    true,
		`{"data":[{"url":"data:image/png;base64,AAAA"},{"url":""},{"url":null}]}`:   true,
		`{"data":[{"b64_json":"AAAA"},{"url":"http://127.0.0.1:8188/view?a.png"}]}`: false,
		`{"data":[{"url":"http://comfyui:8188/a.png"}]}`:                            false,
		`{"data":[{"u\u0072l":"http:\/\/10.0.0.7\/a.png"}]}`:                        false,
		`{"url":"http://localhost/a.png"}`:                                          false,
		`{"data":[{"URL":"file:///tmp/a.png"}]}`:                                    false,
		`{"data":[{"url":["http://192.168.1.5/a.png"]}]}`:                           false,
		`{"data":[{"url":"/outputs/a.png"}]}`:                                       false,
	} {
		if got := (&images{}).Fits([]byte(body)); got != want {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
	}
}
