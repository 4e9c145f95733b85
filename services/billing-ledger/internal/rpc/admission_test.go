package rpc

import (
	"testing"

	"svc.internal/services/billing-ledger/internal/hold"
)

func TestOnlyAReplicaThatAdmitsFromMemoryIsTheDecider(t *testing.T) {
	s := &Admission{Address: "10.0.0.1:9000"}
	if got := s.decider(&hold.Pin{}); got != s.Address {
		t.Errorf("of a request from memory: got %q, want %q", got, s.Address)
	}
	if got := s.decider(nil); got != "" {
		t.Errorf("of a request that any replica decides: got %q, want none", got)
	}
}
