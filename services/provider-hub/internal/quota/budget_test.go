package quota

import (
	"testing"

	"svc.internal/pkg/ids"
)

func TestOneProviderHasAnEighthOfTheBudget(t *testing.T) {
	b := NewBudget(80)
	p, q := ids.ProviderID{1}, ids.ProviderID{2}
	if !b.Take(p, 4) {
		t.Error("the eighth of a provider: b.Take(p, 4): got false, want true")
	} else if !b.Take(p, 6) {
		t.Error("the eighth of a provider: b.Take(p, 6): got false, want true")
	}
	if b.Take(p, 1) {
		t.Error("a provider has more than an eighth")
	}
	if !b.Take(q, 10) {
		t.Error("another has nothing")
	}
	b.Give(p, 10)
	if _, kept := b.held[p]; kept {
		t.Errorf("a provider that holds nothing is kept: %v", b.held)
	}
	if got := b.Left(); got != 70 {
		t.Errorf("got %d bytes left, want 70", got)
	}
	for i := range byte(7) {
		if !b.Take(ids.ProviderID{10 + i}, 10) {
			t.Fatal("others have less")
		}
	}
	if b.Take(p, 1) {
		t.Error("more is taken than there is")
	}
}
