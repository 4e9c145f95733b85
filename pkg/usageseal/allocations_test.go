//go:build !race

package usageseal

import "testing"

// The race detector drops what a pool keeps, so these counts hold without it.

func TestASealCostsOneAllocationAndItsCheckNone(t *testing.T) {
	key, payload := newKey(t), event(t)
	sealed := key.Seal(payload)
	if got := testing.AllocsPerRun(1000, func() { key.Seal(payload) }); got >= 2 {
		t.Errorf("Seal: got %.1f allocations, want the event alone", got)
	}
	if got := testing.AllocsPerRun(1000, func() { key.Opens(sealed) }); got >= 1 {
		t.Errorf("Opens: got %.1f allocations, want none", got)
	}
}
