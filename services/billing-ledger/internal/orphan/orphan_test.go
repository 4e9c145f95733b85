package orphan

import (
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestTheSmallestEvidenceIsBilled(t *testing.T) {
	base := Case{
		Request: ids.RequestID{1}, Model: "m", Price: ids.PriceVersionID{2}, Attempt: 1, Hub: "hub-1",
		Provider: ids.ProviderID{3},
		Bound:    money.Tokens{Prompt: 100, Completion: 50}, RelayedTokens: 40, RelayedBytes: 4000,
	}
	for name, tc := range map[string]struct {
		change func(*Case)
		bill   money.Tokens
		ending string
	}{
		"relayed, and no prompt": {func(*Case) {}, money.Tokens{Completion: 40}, "platform_lost"},
		"no more than the hold": {func(c *Case) { c.RelayedTokens = 60 }, money.Tokens{Completion: 50},
			"platform_lost"},
		"no more than bytes": {func(c *Case) { c.RelayedBytes = 7 }, money.Tokens{Completion: 7}, "platform_lost"},
		"the hub finished": {func(c *Case) { c.Metered = &money.Tokens{Prompt: 90, Completion: 38} },
			money.Tokens{Prompt: 90, Completion: 38}, "completed"},
		"the hub counted more": {func(c *Case) { c.Metered = &money.Tokens{Prompt: 90, Completion: 45} },
			money.Tokens{Prompt: 90, Completion: 40}, "completed"},
		"the hub's prompt is too long": {func(c *Case) { c.Metered = &money.Tokens{Prompt: 101, Completion: 1} },
			money.Tokens{Prompt: 100, Completion: 1}, "completed"},
		"an unnamed hub": {func(c *Case) { c.Hub = "Not A Hub" }, money.Tokens{Completion: 40},
			"platform_lost"},
	} {
		c := base
		tc.change(&c)
		e := c.Event()
		switch {
		case e.Billable != tc.bill:
			t.Errorf("%s: e.Billable: got %+v, want %+v", name, e.Billable, tc.bill)
		case e.Ending != tc.ending:
			t.Errorf("%s: e.Ending: got %q, want %q", name, e.Ending, tc.ending)
		case e.EvidenceSource != usage.Gateway:
			t.Errorf("%s: e.EvidenceSource: got %q, want %q", name, e.EvidenceSource, usage.Gateway)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
