// Package providertest brings providers of tests to where they serve, by the words of those
// who say so in the field: an operator on collateral and on the GPU rule, and the verifier
// on the benchmark.
package providertest

import (
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

// Activate has everything confirmed that activation needs, with a benchmark that was passed
// at now.
func Activate(t testing.TB, d *provider.Directory, id ids.ProviderID, now time.Time) provider.Account {
	t.Helper()
	yes := true
	a, err := d.Confirm(t.Context(), id, provider.Confirmation{Collateral: &yes, GPUWaived: &yes}, "")
	if err != nil {
		t.Fatal(err)
	}
	report := provider.BenchmarkReport{Passed: true, PassedAt: now, Revision: a.Facts.BenchmarkRevision + 1}
	if a, err = d.ReportBenchmark(t.Context(), id, report, ""); err != nil {
		t.Fatal(err)
	}
	if a.Status != provider.Active {
		t.Fatalf("with every fact: status: got %q, want %q", a.Status, provider.Active)
	}
	return a
}
