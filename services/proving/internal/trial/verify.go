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
		status, _, body := CallAt(t, m.AdminURL(), http.MethodGet, "/api/v1/admin/reconciliation", m.Env["SVC_ADMIN_TOKEN"],
			"")
		if status == http.StatusServiceUnavailable {
			return false // gateways find settlement again about a second after it was away
		}
		if status != http.StatusOK {
			t.Fatalf("reconciliation: %d %s", status, body)
		}
		report = Decode(t, body)
		return report["equal"] == true
	})
	t.Logf("earning lines %v USD, accruals %v USD", report["lines_usd_str"], report["accruals_usd_str"])
	if report["lines_usd_str"] != report["accruals_usd_str"] || report["lines_usd_str"] == "0.00" {
		t.Errorf("reconciliation %v", report)
	}
}
