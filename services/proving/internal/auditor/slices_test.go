package auditor

import "testing"

func TestAWalletMayHoldCreditForItsSlices(t *testing.T) {
	f := newFixture()
	f.add("slice", row{"account_id": accountID(payer), "epoch": 7, "amount": 5})
	f.add("slice", row{"account_id": accountID(payer), "epoch": 8, "amount": 2})
	bump(f.wallet(payer), "held", 7)
	wantClean(t, mustAudit(t, f, Options{}))
}
