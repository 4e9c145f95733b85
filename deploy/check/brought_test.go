package check

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// firing are the methods of watch that wait until an alert fires.
var firing = []string{"fires", "lasts"}

// An alert that never fired in a fleet may watch a metric that its fault does not move. make
// watch-check runs these tests.
func TestEachAlertIsBroughtAboutInAFleetByItsFault(t *testing.T) {
	fired := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test || s.dir != "services/proving/e2e/watch" {
			continue
		}
		calls(s.file, func(c *ast.CallExpr) {
			if f, ok := c.Fun.(*ast.SelectorExpr); ok && slices.Contains(firing, f.Sel.Name) && len(c.Args) > 1 {
				if alert := text(c.Args[1]); alert != "" {
					fired[alert] = true
				}
			}
		})
	}
	known := map[string]bool{}
	for file, alerts := range alertsOf(t) {
		for _, alert := range alerts {
			known[alert] = true
			if !fired[alert] {
				t.Errorf("deploy/alerts/%s.yaml: %s: got no test of watch in which it fires, want one", file, alert)
			}
		}
	}
	for _, alert := range slices.Sorted(maps.Keys(fired)) {
		if !known[alert] {
			t.Errorf("watch: got a test in which %s fires, want an alert of that name", alert)
		}
	}
}
