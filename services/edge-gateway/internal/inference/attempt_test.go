package inference

import (
	"testing"

	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

func TestABoundFitsTheWindowOfItsCandidate(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	for name, c := range map[string]struct {
		window, explicit, want int64
	}{
		"a wide window":                 {window: 8192, want: 1000},
		"a window that nobody reported": {window: 0, want: 1000},
		"a narrow window":               {window: 600, want: 500},
		"a window below the prompt":     {window: 50, want: 1},
		"a bound of the client's":       {window: 600, explicit: 1000, want: 1000},
	} {
		req, err := openaiapi.Parse(openaiapi.Chat, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		m := &modelAttempt{
			sent: req.Body(nil, "m", 1000),
			asks: admission.Request{
				ExplicitMaxTokens: c.explicit,
				Bounds:            admission.Bounds{MaxOutputTokens: 1000, PromptRoom: 100, HoldPromptTokens: 1 << 20},
			},
		}
		sent, bound := m.bodyFor(&routerv1.Candidate{ContextLength: c.window})
		if bound != c.want {
			t.Errorf("%s: got a bound of %d, want %d", name, bound, c.want)
		}
		again, err := openaiapi.Parse(openaiapi.Chat, sent.Body)
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case again.MaxTokens != c.want:
			t.Errorf("%s: the provider reads: got %d, want %d", name, again.MaxTokens, c.want)
		case again.Model != "m":
			t.Errorf(`%s: again.Model: got %q, want "m"`, name, again.Model)
		}
	}
}
