package trial

import (
	"testing"

	"svc.internal/services/proving/internal/paychain"
)

// Chains starts both chains for a fleet in dir, until the test ends. Where their program cannot be installed, the test
// is skipped, but not in CI.
func Chains(t *testing.T, dir string) *paychain.Chains {
	t.Helper()
	chains, err := paychain.Start(t.Context(), paychain.Seed(dir), paychain.Dollars, paychain.Coins)
	if paychain.MayBeMissing(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chains.Stop)
	if err := chains.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return chains
}
