package peers

import (
	"testing"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
)

// The ledger recognises owners by what their deposits came from.
func TestAPostedDepositSaysWhereItCameFrom(t *testing.T) {
	t.Parallel()
	const address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	sender, err := chain.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		fact deposit.Fact
		from chain.Address
		want string
	}{
		{deposit.FactDeposited, sender, address},
		{deposit.FactDeposited, chain.Address{}, ""},
		{deposit.FactMatched, sender, address},
		{deposit.FactMatched, chain.Address{}, ""},
		{deposit.FactStray, sender, ""}, // nobody's yet
		{deposit.FactReturned, sender, ""},
		{deposit.FactGone, sender, ""},
	} {
		var one deposit.Transfer
		one.Chain, one.Token, one.Units, one.Sender = 8453, "8453:usdc", 5, tc.from
		req, err := depositFact(tc.fact, one)
		if err != nil {
			t.Fatal(err)
		}
		got := req.GetDeposited().GetSender() + req.GetDepositMatched().GetSender() + req.GetDepositStray().GetSender() +
			req.GetDepositReturned().GetSender() + req.GetDepositGone().GetSender()
		if got != tc.want {
			t.Errorf("%s from %s: sender: got %q, want %q", tc.fact, tc.from, got, tc.want)
		}
	}
}
