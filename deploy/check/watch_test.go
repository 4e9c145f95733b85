package check

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	alertName   = regexp.MustCompile(`(?m)^\s+- alert: (\w+)$`)
	runbookURL  = regexp.MustCompile(`(?m)^\s+runbook_url: "([^"]*)"$`)
	runbookHead = regexp.MustCompile(`(?m)^## (\w+)$`)
	// testedAlert is a sample that a unit test of rules expects, quietAlert a question that
	// is to have no answer.
	testedAlert = regexp.MustCompile(`labels: 'ALERTS\{alertname="(\w+)"`)
	quietAlert  = regexp.MustCompile(
		`- expr: ALERTS\{alertname="(\w+)", alertstate="firing"\}\n\s+eval_time: \w+\n(\s+exp_samples)?`)
	adminCall   = regexp.MustCompile(`(?m)^\s*admin (GET|POST|PUT|DELETE) "?([\w/-]+)`)
	programCall = regexp.MustCompile(`(?m)^\s*run ([\w-]+) (-?-?\w+)`)
)

// alertsOf returns the alerts of each file of rules, by the file's name without its end.
func alertsOf(t *testing.T) map[string][]string {
	t.Helper()
	alerts := map[string][]string{}
	for _, file := range files(t, ".yaml") {
		if path.Dir(file) != "deploy/alerts" {
			continue
		}
		name := strings.TrimSuffix(path.Base(file), ".yaml")
		for _, found := range alertName.FindAllStringSubmatch(string(read(t, file)), -1) {
			alerts[name] = append(alerts[name], found[1])
		}
	}
	if len(alerts) < 8 {
		t.Fatalf("files of rules that the search finds: got %d, want at least 8", len(alerts))
	}
	return alerts
}

func TestEachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	for name, alerts := range alertsOf(t) {
		rules, book := string(read(t, "deploy/alerts/"+name+".yaml")), "deploy/runbooks/"+name+".md"
		links := map[string]bool{}
		for _, found := range runbookURL.FindAllStringSubmatch(rules, -1) {
			links[found[1]] = true
		}
		headings := map[string]bool{}
		for _, found := range runbookHead.FindAllStringSubmatch(string(read(t, book)), -1) {
			headings[found[1]] = true
		}
		for _, alert := range alerts {
			if link := book + "#" + strings.ToLower(alert); !links[link] {
				t.Errorf("%s: got no annotation runbook_url %q, want one", alert, link)
			}
			if !headings[alert] {
				t.Errorf("%s: got no heading %s, want one", book, alert)
			}
			delete(headings, alert)
		}
		if len(links) != len(alerts) {
			t.Errorf("%s: got %d runbook_urls, want %d", name, len(links), len(alerts))
		}
		for heading := range headings {
			t.Errorf("%s: got the heading %s, want an alert of that name", book, heading)
		}
	}
}

func TestEachAlertIsTestedFiringAndNotFiring(t *testing.T) {
	for name, alerts := range alertsOf(t) {
		tests := string(read(t, "deploy/alerts/tests/"+name+".yaml"))
		fires, quiet := map[string]bool{}, map[string]bool{}
		for _, found := range testedAlert.FindAllStringSubmatch(tests, -1) {
			fires[found[1]] = true
		}
		for _, found := range quietAlert.FindAllStringSubmatch(tests, -1) {
			if found[2] == "" {
				quiet[found[1]] = true
			}
		}
		for _, alert := range alerts {
			if !fires[alert] {
				t.Errorf("%s: got no unit test in which it fires, want one", alert)
			}
			if !quiet[alert] {
				t.Errorf("%s: got no unit test in which it does not fire, want one", alert)
			}
		}
	}
}

// subcommands are what programs understand beside their settings, and where that stands.
var subcommands = map[string]string{
	"services/billing-ledger/cmd/billing-ledger/main.go": "billing-ledger verify seal export alarms peppers",
	"services/provider-hub/cmd/provider-hub/main.go":     "provider-hub peppers",
	"services/settlement/cmd/settlement/verify.go":       "settlement verify",
	"services/verifier/cmd/verifier/main.go":             "verifier replay",
}

func TestRunbooksNameCallsAndCommandsThatExist(t *testing.T) {
	known := map[string]bool{}
	for file, line := range subcommands {
		words := strings.Fields(line)
		text := string(read(t, file))
		for _, word := range words[1:] {
			if !strings.Contains(text, `"`+word+`"`) {
				t.Errorf("%s: got no subcommand %s, want one", file, word)
			}
			known[words[0]+" "+word] = true
		}
	}
	routes := adminRoutes(t)
	calls, runs := 0, 0
	for _, file := range files(t, ".md") {
		if path.Dir(file) != "deploy/runbooks" {
			continue
		}
		text := string(read(t, file))
		for _, found := range adminCall.FindAllStringSubmatch(text, -1) {
			calls++
			if !routes.has(found[1], found[2]) {
				t.Errorf("%s: got the call %s %s, want one of the operators' API", file, found[1], found[2])
			}
		}
		for _, found := range programCall.FindAllStringSubmatch(text, -1) {
			runs++
			if !known[found[1]+" "+found[2]] && found[2] != "-print" && found[2] != "-check" {
				t.Errorf("%s: got the command %s %s, want one that exists", file, found[1], found[2])
			}
		}
	}
	if calls < 20 {
		t.Errorf("calls that the search finds: got %d, want at least 20", calls)
	}
	if runs < 15 {
		t.Errorf("commands that the search finds: got %d, want at least 15", runs)
	}
}

// operatorRoutes are the methods of each route below /api/v1/admin/.
type operatorRoutes map[string]map[string]json.RawMessage

func adminRoutes(t *testing.T) operatorRoutes {
	t.Helper()
	var api struct{ Paths operatorRoutes }
	if err := json.Unmarshal(read(t, "services/edge-gateway/internal/openapi/openapi.json"), &api); err != nil {
		t.Fatal(err)
	}
	return api.Paths
}

// has reports whether a call is a method of a route. Words in capitals stand for parameters.
func (r operatorRoutes) has(method, call string) bool {
	given := strings.Split("/api/v1/admin/"+call, "/")
	for route, methods := range r {
		words := strings.Split(route, "/")
		if len(words) != len(given) || methods[strings.ToLower(method)] == nil {
			continue
		}
		same := true
		for i, word := range words {
			same = same && (word == given[i] || strings.HasPrefix(word, "{"))
		}
		if same {
			return true
		}
	}
	return false
}
