package rpc

import (
	"testing"

	"svc.internal/services/billing-ledger/internal/hold"
)

func TestOnlyAReplicaThatAdmitsFromMemoryIsTheOwner(t *testing.T) {
	s := &Admission{Address: "10.0.0.1:9000"}
	if got := s.owner(&hold.Pin{}); got != s.Address {
		t.Errorf("of a request from memory: got %q, want %q", got, s.Address)
	}
	if got := s.owner(nil); got != "" {
		t.Errorf("of a request that any replica decides: got %q, want none", got)
	}
}
