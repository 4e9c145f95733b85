package policy_test

import (
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
	"svc.internal/services/settlement/internal/refund"
	"svc.internal/services/settlement/internal/slash"
	"svc.internal/services/settlement/signer/internal/policy"
)

func TestSettlementSendsTheContractWhatItsKeysMaySend(t *testing.T) {
	t.Parallel()
	provider := ids.ProviderID{1: 1}
	part := slash.Part{ID: contract.Word{1: 1}, Provider: provider, Depositor: payee, Amount: chain.NewAmount(7)}
	for _, a := range []slash.Action{slash.Propose, slash.Appeal, slash.Execute, slash.Uphold, slash.Reverse,
		slash.LapseNow} {
		tx := of(policy.Key(a.Key()), collateral, 0, part.Calldata(a))
		if _, err := checker().Check(tx); err != nil {
			t.Errorf("a penalty's %s by %s: got the error %v, want none", a, a.Key(), err)
		}
	}
	back := refund.Part{Provider: provider, Depositor: payee}
	for _, a := range []refund.Action{refund.Request, refund.Cancel, refund.Execute} {
		tx := of(policy.Key(a.Key()), collateral, 0, back.Calldata(a))
		if _, err := checker().Check(tx); err != nil {
			t.Errorf("a refund's %s by %s: got the error %v, want none", a, a.Key(), err)
		}
	}
}
