package check

import (
	"fmt"
	"strings"
	"testing"
)

// TestWhatIsWatchedIsFoundByTheNamesInTheAlerts renders the set of values with monitoring. Alerts know a service by its
// job, and lead to runbooks at the deployment's own address.
func TestWhatIsWatchedIsFoundByTheNamesInTheAlerts(t *testing.T) {
	monitors, alerts := 0, 0
	for _, o := range render(t, chart+"/ci/platform-values.yaml") {
		switch kind(o) {
		case "ServiceMonitor":
			monitors++
			expect(t, "jobLabel", under(o, "spec")["jobLabel"], "app.kubernetes.io/component")
		case "PrometheusRule":
			for _, group := range list(under(o, "spec")["groups"]) {
				for _, rule := range list(mapping(group)["rules"]) {
					if mapping(rule)["alert"] == nil {
						continue
					}
					alerts++
					runbook := fmt.Sprint(under(mapping(rule), "annotations")["runbook_url"])
					if !strings.HasPrefix(runbook, "https://git.example.com/market/deploy/runbooks/") {
						t.Errorf("%v: got the runbook %q, want one below the address of the values", mapping(rule)["alert"], runbook)
					}
				}
			}
		}
	}
	expect(t, "monitors", monitors, 1)
	expect(t, "there are alerts", alerts > 50, true)
}
