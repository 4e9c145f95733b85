package events

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestOperatorsAreToldOfHeldEarningsByIdsAlone(t *testing.T) {
	var text bytes.Buffer
	var rules []usage.Rule
	c := &Consumer{Log: slog.New(slog.NewTextHandler(&text, nil)),
		ObserveHeld: func(r usage.Rule) { rules = append(rules, r) }}
	line := usage.Line{Event: usage.Event{Request: ids.RequestID{1}, Provider: ids.ProviderID{2}, Model: "acme/large"},
		Account: ids.AccountID{3}, Payout: 5}
	kept := line
	kept.Held = usage.SameUser
	c.tellHeld(t.Context(), []usage.Line{line, kept, line})
	if !slices.Equal(rules, []usage.Rule{usage.SameUser}) {
		t.Errorf("counted: got %q, want %q, with %s", rules, []usage.Rule{usage.SameUser}, text.String())
	} else if strings.Count(text.String(), "\n") != 1 {
		t.Errorf("strings.Count(…): got %d, want 1", strings.Count(text.String(), "\n"))
	}
	for _, want := range []string{kept.Event.Request.String(), kept.Account.String(), kept.Event.Provider.String(),
		"rule=same_user"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("telling %q: got %q, want %q in it", want, text.String(), want)
		}
	}
}
