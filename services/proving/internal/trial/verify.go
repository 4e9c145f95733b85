package trial

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Verifier is the path of billing-ledger's own program. It is built from the tree unless
// a fleet's programs have been.
func Verifier(t testing.TB) string {
	t.Helper()
	if dir := programs.built(); dir != "" {
		return filepath.Join(dir, "billing-ledger")
	}
	path := filepath.Join(t.TempDir(), "billing-ledger")
	const ledger = "svc.internal/services/billing-ledger/cmd/billing-ledger"
	build := exec.CommandContext(t.Context(), //nolint:gosec // a package of this tree
		"go", "build", "-ldflags=-w", "-o", path, ledger)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build billing-ledger: %v\n%s", err, out)
	}
	return path
}

// Balanced fails the test unless billing-ledger verify finds no drift, and settlement has
// lines that equal the ledger's accruals.
func (m *Market) Balanced(t testing.TB) {
	t.Helper()
	verify := exec.CommandContext(t.Context(), Verifier(t), "verify") //nolint:gosec // the program just built
	verify.Env = append(os.Environ(), "DATABASE_URL="+m.Env["SVC_DATABASE_URL"])
	out, err := verify.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("drift: 0")) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	t.Logf("\n%s", out)
	var report map[string]any
	Until(t, "settlement has heard of all that billing-ledger settled", func() bool {
		report = m.Reconciliation(t)
		return report["equal"] == true
	})
	t.Logf("earning lines %v USD, accruals %v USD", report["lines_usd_str"], report["accruals_usd_str"])
	if report["lines_usd_str"] != report["accruals_usd_str"] || report["lines_usd_str"] == "0.00" {
		t.Errorf("reconciliation %v", report)
	}
}

// Reconciliation is settlement's comparison of its lines with the ledger's accruals, at
// the next gateway in turn. It waits while that gateway does not reach settlement: each
// gateway by itself finds settlement again, about a second after settlement was away.
func (m *Market) Reconciliation(t testing.TB) (report map[string]any) {
	t.Helper()
	Until(t, "a gateway reaches settlement", func() bool {
		status, _, body := CallAt(t, m.AdminURL(), http.MethodGet, "/api/v1/admin/reconciliation", m.Env["SVC_ADMIN_TOKEN"],
			"")
		if status == http.StatusServiceUnavailable {
			return false
		}
		if status != http.StatusOK {
			t.Fatalf("reconciliation: got %d %s, want 200", status, body)
		}
		report = Decode(t, body)
		return true
	})
	return report
}
