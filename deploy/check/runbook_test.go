package check

import (
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// definitions are the functions of bash that the runbooks use.
var definitions = regexp.MustCompile("(?s)```sh\n(.*?)\n```")

// TestRunbooksRunProgramsInPodsOfTheirServices checks what run asks of kubectl, above all that each
// program that takes a file of settings gets it.
func TestRunbooksRunProgramsInPodsOfTheirServices(t *testing.T) {
	found := definitions.FindStringSubmatch(string(read(t, "deploy/runbooks/README.md")))
	if found == nil {
		t.Fatal("deploy/runbooks/README.md: got no block of bash, want one")
	}
	const kubectl = `
kubectl() {
  if [ "$1" = get ]; then echo pod/market-svc-x-0; else echo "$@"; fi
}
`
	const in, with = "exec pod/market-svc-x-0 -- /bin/", " -config /etc/svc/config/config.yaml"
	for call, want := range map[string]string{
		"run billing-ledger verify":     in + "billing-ledger verify",
		"run provider-hub peppers":      in + "provider-hub peppers",
		"run settlement verify":         in + "settlement verify",
		"run settlement verify --chain": in + "settlement verify" + with + " --chain",
		"run chain-signer -print":       in + "chain-signer -print" + with,
		"run verifier replay VERDICT":   in + "verifier replay" + with + " VERDICT",
		`run billing-ledger alarms -close REASON -object OBJECT -by "Your Name"`: in +
			"billing-ledger alarms -close REASON -object OBJECT -by Your Name",
	} {
		script := "set -eu\n" + kubectl + found[1] + "\n" + call
		got, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput()
		if err != nil {
			t.Errorf("%s: got the error %v, want none: %s", call, err, got)
		}
		if strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
	script := "kubectl() { :; }\n" + found[1] + "\nrun settlement verify"
	if got, err := exec.CommandContext(t.Context(), "bash", "-c", script).CombinedOutput(); err == nil {
		t.Errorf("without a pod: got no error, want one: %s", got)
	} else if !strings.Contains(string(got), "no pod of settlement runs") {
		t.Errorf("without a pod: got %q, want %q in it", got, "no pod of settlement runs")
	}
}

var (
	// unseen is a metric, or its beginning, that a fleet without chains does not expose, with the reason.
	unseen      = regexp.MustCompile(`(?m)^\t"(svc_\w+)": +"([^"]+)",$`)
	alertRule   = regexp.MustCompile(`(?s)- alert: (\w+)\n\s+expr: (.*?)\n        (?:for|labels):`)
	metric      = regexp.MustCompile(`svc_\w+`)
	chainAlerts = regexp.MustCompile(`where no chain is configured, because nothing that they watch happens ` +
		`there: ([^.]+)\.`)
)

// TestRunbooksNameTheAlertsThatNeedChains holds the list to the rules, and to what a test of the fleet
// knows of metrics.
func TestRunbooksNameTheAlertsThatNeedChains(t *testing.T) {
	reasons := []string{"a chain is configured", "somebody has the slasher's key"}
	var absent []string
	for _, found := range unseen.FindAllStringSubmatch(string(read(t, "services/proving/e2e/watch/watch_test.go")), -1) {
		if slices.Contains(reasons, found[2]) {
			absent = append(absent, found[1])
		}
	}
	if len(absent) < 14 {
		t.Errorf("metrics that need chains: got %d, want at least 14", len(absent))
	}
	needs := func(name string) bool {
		return slices.ContainsFunc(absent, func(start string) bool { return strings.HasPrefix(name, start) })
	}
	var want []string
	for _, file := range files(t, ".yaml") {
		if path.Dir(file) != "deploy/alerts" {
			continue
		}
		for _, rule := range alertRule.FindAllStringSubmatch(string(read(t, file)), -1) {
			of := metric.FindAllString(rule[2], -1)
			if len(of) > 0 && !slices.ContainsFunc(of, func(name string) bool { return !needs(name) }) {
				want = append(want, rule[1])
			}
		}
	}
	found := chainAlerts.FindStringSubmatch(string(read(t, "deploy/runbooks/README.md")))
	if found == nil {
		t.Fatal("deploy/runbooks/README.md: got no list of alerts that need chains, want one")
	}
	got := strings.Split(strings.ReplaceAll(found[1], " and ", ", "), ", ")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("alerts that need chains: got %q, want %q", got, want)
	}
}
