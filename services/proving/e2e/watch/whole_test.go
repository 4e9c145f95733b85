//go:build watch

package watch

import (
	"context"
	"flag"
	"sync"
	"testing"
)

// neverShown are panels of which a query has data in no test of this package, with the reason.
var neverShown = map[string]string{
	"billing-ledger.json: Earnings held":              "an owner asks its own provider",
	"billing-ledger.json: Events of accounts dropped": "an endpoint is away for long",
	"provider-hub.json: Providers that time moved":    "a probation ends",
	"provider-hub.json: Answers that were too long":   "an engine answers more than it was asked for",
	"provider-hub.json: Warm-ups":                     "a model is cold",
	"edge-gateway.json: Connections refused":          "there are too many connections",
}

// seen are the queries of panels that have had data before some Prometheus of this package.
var seen struct {
	sync.Mutex
	queries map[expression]bool
}

// remember notes which queries of panels have had data since the Prometheus started.
func (s *server) remember(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // a test that cleans up has ended its context
	seen.Lock()
	defer seen.Unlock()
	if seen.queries == nil {
		seen.queries = map[expression]bool{}
	}
	for _, e := range panels(t) {
		if !seen.queries[e] && len(s.queryIn(ctx, t, "count_over_time(("+e.text+")[20m:5s])")) > 0 {
			seen.queries[e] = true
		}
	}
}

// TestEachPanelShowsDataInSomeTest runs after all other tests, because its file is the last one.
func TestEachPanelShowsDataInSomeTest(t *testing.T) {
	if chosen := flag.Lookup("test.run").Value.String(); chosen != "" {
		t.Skipf("only tests of %s were run", chosen)
	}
	empty := map[string]string{}
	for _, e := range panels(t) {
		if seen.queries[e] {
			continue
		}
		empty[e.where] = e.text
		if _, known := neverShown[e.where]; !known {
			t.Errorf("%s: got no data for %s in any test, want some in one", e.where, e.text)
		}
	}
	for where := range neverShown {
		if empty[where] == "" {
			t.Errorf("%s: got data for each of its queries, or no such panel: want it out of neverShown", where)
		}
	}
}
