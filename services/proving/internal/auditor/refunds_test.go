package auditor

import (
	"maps"
	"testing"
)

// overpriced is the price in nano-USD of the token of cutAnswer that did not come.
func overpriced() int64 { return listed(priced, 0, 4) - listed(priced, 0, 3) }

// makeGood settles cutAnswer for the token that did not come, before its gateway reported,
// and gives an amount back.
func makeGood(f *fixture, amount int64) {
	resettle(f, cutAnswer, 0, 4)
	maps.Copy(f.earnings["earning_ruling"][2], f.earning(cutAnswer)) // cutAnswer is ruled
	f.row("request_report", "request_id", requestID(cutAnswer))["recorded_at"] = at(3*cutAnswer + 3)
	f.post(entryID(51), "broken_answer", requestID(cutAnswer), 40, nil, leg("e:goodwill", nil, -amount),
		leg(kindAvailable, accountID(payer), amount))
	bump(f.wallet(payer), "posted", amount)
}

// A hub's count may settle before the gateway reports that less came. Then the ledger gives
// the rest back, to a nano-dollar.
func TestAChargeForWhatDidNotComeIsCleanOnceItIsGivenBack(t *testing.T) {
	for _, rest := range []int64{0, 1} {
		f := newFixture()
		makeGood(f, overpriced()-rest)
		wantClean(t, mustAudit(t, f, Options{}))
	}
}
