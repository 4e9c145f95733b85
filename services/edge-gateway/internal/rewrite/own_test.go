package rewrite

import (
	"strings"
	"testing"
	"time"
)

// noon is when answers are made here.
func noon() time.Time { return time.Unix(17, 0) }

func specOf(legacy, stream bool) *Spec {
	s := &Spec{RequestID: "r-1", Model: `acme/"m"`, Stream: stream}
	if legacy {
		s.Kind = Completion
	}
	return s
}

// What an engine says of itself stays; what it does not say is said for it.
func TestAWholeCompletionSaysWhatItIs(t *testing.T) {
	const u = `"usage":{"prompt_tokens":2,"completion_tokens":3,"total_tokens":5}`
	for _, c := range []struct {
		legacy  bool
		in, out string
	}{
		{in: `{` + u + `}`, out: `{"id":"chatcmpl-r-1","object":"chat.completion","created":17,"model":"acme/\"m\"",` + u +
			`}`},
		{in: `{}`, out: `{` + u + `,"id":"chatcmpl-r-1","object":"chat.completion","created":17,"model":"acme/\"m\""}`},
		{in: `{"created":5,"object":"o",` + u + `}`,
			out: `{"id":"chatcmpl-r-1","model":"acme/\"m\"","created":5,"object":"o",` + u + `}`},
		{in: `{"id":null,"created" : null,"object":"","model":"x",` + u + `}`,
			out: `{"id":"chatcmpl-r-1","created" : 17,"object":"","model":"x",` + u + `}`},
		{in: `{"id":"","object":"chat.completion","created":0,"model":"x",` + u + `,"v":1.0}`,
			out: `{"id":"","object":"chat.completion","created":0,"model":"x",` + u + `,"v":1.0}`},
		{legacy: true, in: `{` + u + `}`,
			out: `{"created":17,"model":"acme/\"m\"","object":"text_completion","id":"cmpl-r-1",` + u + `}`},
		{legacy: true,
			in: `{"id":null,"object":null,"created":null,"model":"x","choices":[{"message":{"content":"a"},` +
				`"finish_reason":"stop"},{"index":5}],` + u + `}`,
			out: `{"id":"cmpl-r-1","object":"text_completion","created":17,"model":"x","choices":[{"index":0,"logprobs":null,` +
				`"text":"a","finish_reason":"stop"},` +
				`{"text":"","finish_reason":null,"logprobs":null,"index":5}],` + u + `}`},
	} {
		form := newChat(specOf(c.legacy, false), noon())
		if _, got := form.Whole([]byte(c.in), Usage{Prompt: 2, Completion: 3}); string(got) != c.out {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, got, c.out)
		}
	}
}

// All events of a stream say the same of it, in whichever of them the engine
// begins to.
func TestEveryEventOfAStreamSaysWhatItIs(t *testing.T) {
	const own = `"created":17,"model":"acme/\"m\""`
	for _, c := range []struct {
		legacy   bool
		in, want []string
	}{
		{in: []string{`{"choices":[1.0]}`, `{"id":"late","created":5,"choices":[]}`,
			`{"id":null,"created":null,"model":"x","object":null}`, `{}`},
			want: []string{
				`{"id":"chatcmpl-r-1","object":"chat.completion.chunk",` + own + `,"choices":[1.0]}`,
				`{"object":"chat.completion.chunk","model":"acme/\"m\"","id":"chatcmpl-r-1","created":17,"choices":[]}`,
				`{"id":"chatcmpl-r-1","created":17,"model":"x","object":"chat.completion.chunk"}`,
				`{"id":"chatcmpl-r-1","object":"chat.completion.chunk",` + own + `}`,
			}},
		{in: []string{`{"id":"a","object":"o","created":5,"model":"x","choices":[]}`, `{"choices":[]}`, `[]`, `{"choices":[`},
			want: []string{
				`{"id":"a","object":"o","created":5,"model":"x","choices":[]}`,
				`{"id":"a","object":"chat.completion.chunk","created":5,"model":"acme/\"m\"","choices":[]}`, `[]`, `{"choices":[`,
			}},
		{legacy: true, in: []string{`{"choices":[{"delta":{"content":"a"}}]}`},
			want: []string{`{"id":"cmpl-r-1","object":"text_completion",` + own +
				`,"choices":[{"finish_reason":null,"logprobs":null,"index":0,"text":"a"}]}`}},
	} {
		var events []Event
		for _, in := range c.in {
			events = append(events, event("", in))
		}
		got := streamed(newChat(specOf(c.legacy, true), noon()), true, events...)
		if want := "data: " + strings.Join(append(c.want, "[DONE]"), "\n\ndata: ") + "\n\n"; got != want {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, got, want)
		}
	}
}

// The duration is what was measured; what language it is only the engine knows.
func TestAVerboseTranscriptionTellsItsDuration(t *testing.T) {
	const usage = `"usage":{"type":"duration","seconds":2}`
	for _, c := range []struct {
		verbose bool
		in, out string
	}{
		{in: `{"text":"a"}`, out: `{` + usage + `,"text":"a"}`},
		{verbose: true, in: `{"text":"a"}`, out: `{` + usage + `,"task":"transcribe","duration":1.5,"text":"a"}`},
		{verbose: true, in: `{"duration":null,"text":"a",` + usage + `}`,
			out: `{"task":"transcribe","duration":1.5,"text":"a",` + usage + `}`},
		{verbose: true, in: `{"duration":3600.50,"task":"translate","language":"x",` + usage + `}`,
			out: `{"duration":3600.50,"task":"translate","language":"x",` + usage + `}`},
	} {
		form := &transcript{verbose: c.verbose}
		if _, got := form.Whole([]byte(c.in), Usage{Prompt: 1500}); string(got) != c.out {
			t.Errorf("%s\n  became %s\n  want   %s", c.in, got, c.out)
		}
	}
}

func TestWhatIsNullInVectorsAndImagesIsSaid(t *testing.T) {
	form := &embeddings{model: "m"}
	const in, want = `{"object":null,"model":null,"data":[{"object":null,"index":null,"embedding":[1.0]}]}`,
		`{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[1.0]}]}`
	if got, ok := form.Accept([]byte(in)); !ok {
		t.Error("ok of form.Accept([]byte(in)): got false, want true")
	} else if string(got) != want {
		t.Errorf("vectors: got %q, want %q", string(got), want)
	}
	if _, got := (&images{now: noon}).Whole([]byte(`{"created":null,"data":[]}`),
		Usage{}); string(got) != `{"created":17,"data":[]}` {
		t.Errorf("images: got %q, want %q", string(got), `{"created":17,"data":[]}`)
	}
}
