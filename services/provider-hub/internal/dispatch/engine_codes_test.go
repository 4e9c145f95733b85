package dispatch

import (
	"testing"

	"svc.internal/pkg/openai"
)

// Each engine says in its own words that a prompt does not fit its window.
func TestAPromptThatIsTooLongHasOneCode(t *testing.T) {
	const code = "context_length_exceeded"
	for _, c := range []struct{ body, want string }{
		{`{"object":"error","message":"This model's maximum context length is 4096 tokens.","code":400}`, code},
		{`{"error":{"message":"The input (5000 tokens) is longer than the model's context length (4096 tokens)."}}`, code},
		{`{"error":{"message":"the request exceeds the available context size.","type":"exceed_context_size_error"}}`, code},
		{`{"error":{"message":"the input length exceeds the context length"}}`, code},
		{`{"error":{"message":"too many","code":"context_length_exceeded"}}`, code},
		{`{"error":{"message":"no","code":400}}`, ""}, {`{"error":{"message":"no","code":"too_many"}}`, "too_many"},
		{`no`, ""},
	} {
		if got := codeOf(openai.ParseError([]byte(c.body))); got != c.want {
			t.Errorf("%s: got %q, want %q", c.body, got, c.want)
		}
	}
}
