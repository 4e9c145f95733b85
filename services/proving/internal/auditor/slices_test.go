package auditor

import (
	"slices"
	"testing"
)

// openSlice is a slice of the payer whose owner counts as alive until a second.
func openSlice(epoch, amount int, until float64) row {
	return row{"account_id": accountID(payer), "epoch": epoch, "amount": amount, "alive_until": at(until), "state": "open",
		"reclaim_at": nil}
}

// strandedSlice is a slice of the payer that gives back what it has at a second.
func strandedSlice(epoch, amount int, over float64) row {
	s := openSlice(epoch, amount, 0)
	s["state"], s["reclaim_at"] = "stranded", at(over)
	return s
}

func inSlices() []corruption {
	return []corruption{
		{"a slice has what its wallet does not hold", func(f *fixture) {
			f.add("slice", openSlice(7, 1, 3600))
		}, Overdrawn, onAccount(payer), "0 are held, and its open holds and slices are 1"},
		{"a slice of a dead owner is open", func(f *fixture) { f.add("slice", openSlice(7, 0, 0)) },
			Drift, onAccount(payer), "its slice 7 of 0 is open, and its owner was last alive"},
		{"a stranded slice is kept beyond its time", func(f *fixture) { f.add("slice", strandedSlice(7, 0, 0)) },
			Drift, onAccount(payer), "its slice 7 of 0 is stranded, and was over"},
	}
}

func TestAWalletMayHoldCreditForItsSlices(t *testing.T) {
	f := newFixture()
	f.add("slice", openSlice(8, 2, 3600))
	f.add("slice", strandedSlice(7, 5, 3600))
	bump(f.wallet(payer), "held", 7)
	r := mustAudit(t, f, Options{})
	wantClean(t, r)
	want := Count{"slices of credit that wait for what their dead owners admitted", 1}
	if !slices.Contains(r.Notes, want) {
		t.Errorf("notes: got %v, want %v", r.Notes, want)
	}
}

func TestUsageOfARequestThatNobodyKnowsLosesNothingInQuarantine(t *testing.T) {
	f := newFixture()
	f.tables["quarantine"][0]["request_id"] = requestID(9999)
	r := mustAudit(t, f, Options{})
	wantClean(t, r)
	want := Count{"requests that somebody made up, whose usage is in quarantine", 1}
	if !slices.Contains(r.Notes, want) {
		t.Errorf("notes: got %v, want %v", r.Notes, want)
	}
	f.clients, f.engines = nil, nil
	if r := mustAudit(t, f, Options{}); r.Decided() {
		t.Error("without the records of clients and engines: got everything decided, want a doubt")
	}
}
