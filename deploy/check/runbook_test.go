package check

import (
	"os/exec"
	"regexp"
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
	const in, with = "exec pod/market-svc-x-0 -c ", " -config /etc/svc/config/config.yaml"
	for call, want := range map[string]string{
		"run billing-ledger verify":     in + "billing-ledger -- /bin/billing-ledger verify",
		"run provider-hub peppers":      in + "provider-hub -- /bin/provider-hub peppers",
		"run settlement verify":         in + "settlement -- /bin/settlement verify",
		"run settlement verify --chain": in + "settlement -- /bin/settlement verify" + with + " --chain",
		"run chain-signer -print":       in + "chain-signer -- /bin/chain-signer -print" + with,
		"run verifier replay VERDICT":   in + "verifier -- /bin/verifier replay" + with + " VERDICT",
		`run billing-ledger alarms -close REASON -object OBJECT -by "Your Name"`: in +
			"billing-ledger -- /bin/billing-ledger alarms -close REASON -object OBJECT -by Your Name",
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
