package store_test

import (
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
	"svc.internal/services/settlement/internal/store"
)

// A later call may have ended while the transaction of an earlier call was lost. Its block is no bound for the earlier.
func TestTheBlockOfANonceIsLookedForBehindEndsOfLowerNoncesAlone(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	first, second := s.must(t, "a"), s.must(t, "b")
	tx := s.sign(t, second, 0, false)
	e := sending.End{Outcome: sending.Succeeded, Transaction: tx.Hash, Block: 9}
	if err := s.store.AddEnd(t.Context(), second.Place(), e); err != nil {
		t.Fatal(err)
	}
	next := second.Place()
	next.Nonce++
	for _, tc := range []struct {
		of   sending.Place
		want uint64
	}{{first.Place(), 0}, {second.Place(), 0}, {next, 9}} {
		got, err := store.Adoptions(s.store).EndBefore(t.Context(), tc.of)
		if err != nil {
			t.Fatal(err)
		}
		if got != tc.want {
			t.Errorf("the last end before nonce %d: got block %d, want %d", tc.of.Nonce, got, tc.want)
		}
	}
}

// A plan that was read while the pipeline went on takes a new nonce of the pipeline for lost.
func TestAnAdoptionLeavesANonceThatHasACallByNow(t *testing.T) {
	t.Parallel()
	s := newSent(t)
	call := s.must(t, "a")
	p := adopt.Plan{Chain: chain.Base, Calls: []adopt.CallLine{{Nonce: adopt.Nonce{Place: call.Place(), Key: call.Key},
		What: adopt.Unknown, Action: adopt.SignCancel, Payout: -1}}}
	err := store.Adoptions(s.store).Adopt(t.Context(), p, adopt.By{Actor: "operator:ann", Reason: "lost"})
	if !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("adopting a nonce that has a call: got the error %v, want %s", err, fault.ServiceUnavailable)
	}
	var halts int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM sending_halt`).Scan(&halts); err != nil {
		t.Fatal(err)
	}
	if halts != 0 {
		t.Errorf("halts of the chain: got %d, want none", halts)
	}
}
