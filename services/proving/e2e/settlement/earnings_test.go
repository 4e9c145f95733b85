package settlement_test

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// minimum is the collateral that a development chain asks for, in whole tokens.
const minimum = 20

// The story of an owner's money: collateral, earnings, a batch, its statement and CSV.
func TestEarningsAreBatchedAndTheStatementHolds(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newTown(t)
	o := c.newOwner(t, "ann", 0xa1)
	o.serveWithCollateral(t, 8453)
	o.Earn(t, 3)
	day := c.NextDay(t)
	statement := "/api/v1/provider/statements/" + day
	var answer []byte
	trial.Until(t, "the day's statement is signed", func() bool {
		status, _, body := c.Call(t, http.MethodGet, statement, o.Key, "")
		answer = body
		return status == http.StatusOK && trial.At(trial.Decode(t, body), "signature") != ""
	})
	signers := c.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/stats/signers", "", "")
	csv := "/api/v1/provider/earnings.csv?from=" + day + "&to=" + day
	status, _, lines := c.Call(t, http.MethodGet, csv, o.Key, "")
	if status != http.StatusOK {
		t.Fatalf("the CSV: got %d, want 200", status)
	}
	if got := bytes.Count(lines, []byte("\n")); got != 4 {
		t.Fatalf("lines of the CSV: got %d, want a header and 3 requests", got)
	}
	checked := verifyStatement(t, write(t, "statement.json", answer), signer(t, signers), write(t, "earnings.csv", lines))
	if n := strings.Count(checked, "  ok    "); n != 5 {
		t.Errorf("checked: got %d, want 5:\n%s", n, checked)
	}
}

// serveWithCollateral puts collateral behind the provider on a chain, and connects its agent.
func (o *owner) serveWithCollateral(t *testing.T, chain uint64) {
	t.Helper()
	o.Deposit(t, chain, minimum)
	o.Serve(t)
	o.WaitStatus(t, "active")
}

// signer is the address of the key that signs statements.
func signer(t *testing.T, signers map[string]any) string {
	t.Helper()
	list, _ := trial.At(signers, "signers").([]any)
	for _, one := range list {
		if trial.Text(t, one, "name") == "statement" {
			return trial.Text(t, one, "address")
		}
	}
	t.Fatalf("nobody signs statements: %v", signers)
	return ""
}

// verifyStatement runs the program for owners that checks a statement. It shares no code with the service.
func verifyStatement(t *testing.T, args ...string) string {
	t.Helper()
	install := exec.CommandContext(t.Context(), "deploy/dev/tool.sh", "statement")
	install.Dir = repository
	folder, err := install.Output()
	if err != nil {
		t.Fatalf("install what checks a statement: %v", err)
	}
	program := filepath.Join(strings.TrimSpace(string(folder)), "verify.mjs")
	verify := exec.CommandContext(t.Context(), "node", append([]string{program}, args...)...)
	out, err := verify.CombinedOutput()
	if err != nil {
		t.Errorf("check the statement: %v:\n%s", err, out)
	}
	return string(out)
}
