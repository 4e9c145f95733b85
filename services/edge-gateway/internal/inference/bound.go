package inference

import (
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// sentTo is the body for a candidate and the bound of one choice, in tokens. A
// client that named no bound gets what the candidate's own window leaves beside
// the prompt: engines refuse a bound that does not fit their window.
func (c *Call) sentTo(candidate *routerv1.Candidate) (openaiapi.Sent, int64) {
	bound := c.Order.Bounds.MaxOutputTokens
	window := candidate.GetContextLength()
	if c.Order.ExplicitMaxTokens > 0 || window <= 0 || !c.Sent.Bounds[0].Found() {
		return c.Sent, bound
	}
	left := max(1, window-c.Order.Bounds.PromptRoom)
	if left >= bound {
		return c.Sent, bound
	}
	return c.Sent.For(c.Sent.Name(), left), left
}
