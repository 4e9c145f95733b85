package rpc_test

import (
	"testing"

	"svc.internal/pkg/fault"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/deposit"
	"svc.internal/services/settlement/internal/rpc"
)

// PostgreSQL refuses such a text, which would be an internal error.
func TestATextOfAnOperatorThatCannotBeKeptIsInvalid(t *testing.T) {
	t.Parallel()
	const text, id = "a\x00b", "018f3c80-0000-7000-8000-000000000001"
	hash := chain.Hash{1}.String()
	chains := &rpc.ChainAdmin{Chains: chain.Configs{{ID: chain.Base}}, Keeper: &deposit.Keeper{}}
	for name, call := range map[string]func() error{
		"lift a halt of a chain": func() error {
			_, err := chains.LiftHalt(t.Context(), &settlementv1.LiftHaltRequest{ChainId: 8453, BlockHash: hash, Reason: text})
			return err
		},
		"lift a halt of sending": func() error {
			_, err := (&rpc.PayoutAdmin{}).LiftSendingHalt(t.Context(), &settlementv1.LiftSendingHaltRequest{Reason: text})
			return err
		},
		"return a deposit": func() error {
			_, err := chains.ReturnDeposit(t.Context(), &settlementv1.ReturnDepositRequest{ChainId: 8453,
				TransactionHash: hash, ReturnTransactionHash: hash, Reason: text})
			return err
		},
		"confirm a refund from the bank": func() error {
			_, err := (&rpc.CollateralAdmin{}).ConfirmBankRefund(t.Context(), &settlementv1.ConfirmBankRefundRequest{
				RefundId: id, Reference: text})
			return err
		},
		"lift a block": func() error {
			_, err := (&rpc.EarningAdmin{}).UnblockProvider(t.Context(), &settlementv1.UnblockProviderRequest{
				ProviderId: id, Reason: text})
			return err
		},
	} {
		if err := call(); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.InvalidValue)
		}
	}
}
