//go:build !race

package proof

import "testing"

// The race detector drops what a pool keeps, so these counts hold without it.

func TestAProofCostsOneAllocation(t *testing.T) {
	if got := testing.AllocsPerRun(1000, func() { secret.Issue(attempt, dispatch) }); got >= 2 {
		t.Errorf("Issue: got %.1f allocations, want the proof alone", got)
	}
}
