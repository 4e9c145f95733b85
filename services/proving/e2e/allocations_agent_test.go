package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"svc.internal/pkg/fakeagent"
)

// allocationsModel is what the agent of this test serves.
const allocationsModel = "test/allocations"

// The variables by which this test starts itself as an agent: the hub's address, and a key.
const agentVariable, agentKeyVariable = "SVC_TEST_AGENT_URL", "SVC_TEST_AGENT_KEY"

// playAgent serves allocationsModel until the input is closed. It answers as many pieces as the
// request has tokens.
func playAgent(url string) int {
	agent, err := fakeagent.Dial(context.Background(), url, fakeagent.Options{
		Key: os.Getenv(agentKeyVariable), Models: []string{allocationsModel}, Capacity: 64,
		Handler: func(r *fakeagent.Request) {
			var asked struct {
				MaxTokens int `json:"max_tokens"`
			}
			if err := json.Unmarshal(r.Body, &asked); err != nil {
				return // and the request fails
			}
			fakeagent.Answer(slices.Repeat([]string{" word"}, asked.MaxTokens)...)(r)
		},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	defer agent.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
