//go:build watch

package watch

import (
	"context"
	"flag"
	"sync"
	"testing"
)

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
	for _, e := range panels(t) {
		if !seen.queries[e] {
			t.Errorf("%s: got no data for %s in any test, want some in one", e.where, e.text)
		}
	}
}
