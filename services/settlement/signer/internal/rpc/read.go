package rpc

import (
	"math"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/evm"
	"svc.internal/services/settlement/signer/internal/keys"
	"svc.internal/services/settlement/signer/internal/policy"
	"svc.internal/services/settlement/signer/internal/signing"
)

// maxData bounds the data of a call.
const maxData = 4096

func invalid(param, format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, format, args...).On(param)
}

func chainID(id int64) (chain.ID, error) {
	if id <= 0 {
		return 0, invalid("chain_id", "chain_id must be above zero")
	}
	return chain.ID(id), nil
}

func depositIndex(key string, index int64) (uint32, error) {
	if index < 0 || index > keys.MaxDepositIndex || index != 0 && key != string(policy.Deposit) {
		return 0, invalid("deposit_index", "deposit_index must be 0 to %d, and 0 with another key than %s",
			keys.MaxDepositIndex, policy.Deposit)
	}
	return uint32(index), nil
}

func address(param string, raw []byte) (chain.Address, error) {
	if len(raw) != len(chain.Address{}) {
		return chain.Address{}, invalid(param, "%s must have %d bytes", param, len(chain.Address{}))
	}
	return chain.Address(raw), nil
}

func hash(param string, raw []byte) (chain.Hash, error) {
	if len(raw) != len(chain.Hash{}) {
		return chain.Hash{}, invalid(param, "%s must have %d bytes", param, len(chain.Hash{}))
	}
	return chain.Hash(raw), nil
}

// amount reads an amount in its one form, without leading zeros.
func amount(param, text string) (chain.Amount, error) {
	a, err := chain.ParseAmount(text)
	if err != nil || a.String() != text {
		return chain.Amount{}, invalid(param, "%s must be an amount in decimal digits below 2^256", param)
	}
	return a, nil
}

func transaction(req *signerv1.SignTransactionRequest) (policy.Transaction, uint32, error) {
	t := policy.Transaction{Key: policy.Key(req.GetKey()), Nonce: uint64(req.GetNonce()), Gas: uint64(req.GetGasLimit())}
	var err error
	if t.Chain, err = chainID(req.GetChainId()); err != nil {
		return t, 0, err
	}
	index, err := depositIndex(req.GetKey(), req.GetDepositIndex())
	if err != nil {
		return t, 0, err
	}
	// The next nonce must be a number, too.
	if req.GetNonce() < 0 || req.GetNonce() == math.MaxInt64 {
		return t, 0, invalid("nonce", "nonce must be at least 0 and below 2^63 - 1")
	}
	if req.GetGasLimit() < 0 {
		return t, 0, invalid("gas_limit", "gas_limit must not be negative")
	}
	if t.MaxFee, err = amount("max_fee_per_gas_wei", req.GetMaxFeePerGasWei()); err != nil {
		return t, 0, err
	}
	if t.MaxPriorityFee, err = amount("max_priority_fee_per_gas_wei", req.GetMaxPriorityFeePerGasWei()); err != nil {
		return t, 0, err
	}
	switch content := req.GetContent().(type) {
	case *signerv1.SignTransactionRequest_Cancel:
		t.Cancel = true
	case *signerv1.SignTransactionRequest_Call:
		err = readCall(&t, content.Call)
	default:
		err = invalid("content", "there must be a call or a cancel")
	}
	return t, index, err
}

func readCall(t *policy.Transaction, call *signerv1.Call) (err error) {
	if t.To, err = address("to", call.GetTo()); err != nil {
		return err
	}
	if t.Value, err = amount("value_wei", call.GetValueWei()); err != nil {
		return err
	}
	if len(call.GetData()) > maxData {
		return invalid("data", "data must have at most %d bytes", maxData)
	}
	t.Data = call.GetData()
	return nil
}

func statement(req *signerv1.SignStatementRequest) (evm.Statement, error) {
	s := evm.Statement{Day: req.GetDay(), Index: uint64(req.GetIndex()), Amount: uint64(req.GetAmountNanoUsd())}
	provider, err := ids.ParseProvider(req.GetProviderId())
	if err != nil {
		return s, invalid("provider_id", "provider_id must be a provider's id")
	}
	s.Provider = provider
	if day, err := time.Parse(time.DateOnly, s.Day); err != nil || day.Format(time.DateOnly) != s.Day {
		return s, invalid("day", "day must be YYYY-MM-DD")
	}
	if s.Chain, err = chainID(req.GetChainId()); err != nil {
		return s, err
	}
	if req.GetIndex() < 0 || req.GetAmountNanoUsd() < 0 {
		return s, invalid("index", "index and amount_nano_usd must not be negative")
	}
	if len(req.GetBeneficiary()) > 0 {
		if s.Beneficiary, err = address("beneficiary", req.GetBeneficiary()); err != nil {
			return s, err
		}
	}
	for _, field := range []struct {
		param string
		raw   []byte
		into  *chain.Hash
	}{
		{"root", req.GetRoot(), &s.Root}, {"csv", req.GetCsv(), &s.CSV}, {"seal", req.GetSeal(), &s.Seal},
		{"summary", req.GetSummary(), &s.Summary},
	} {
		if *field.into, err = hash(field.param, field.raw); err != nil {
			return s, err
		}
	}
	return s, nil
}

func sweep(req *signerv1.SignSweepRequest) (signing.Sweep, error) {
	w := signing.Sweep{ValidAfter: uint64(req.GetValidAfter()), ValidBefore: uint64(req.GetValidBefore())}
	var err error
	if w.Chain, err = chainID(req.GetChainId()); err != nil {
		return w, err
	}
	if w.Token, err = address("token", req.GetToken()); err != nil {
		return w, err
	}
	if w.Index, err = depositIndex(string(policy.Deposit), req.GetDepositIndex()); err != nil {
		return w, err
	}
	if w.Value, err = amount("value", req.GetValue()); err != nil {
		return w, err
	}
	if w.Value.IsZero() {
		return w, invalid("value", "value must be above zero")
	}
	if req.GetValidAfter() < 0 || req.GetValidBefore() <= req.GetValidAfter() {
		return w, invalid("valid_before", "valid_after must not be negative, and valid_before must be later")
	}
	nonce, err := hash("nonce", req.GetNonce())
	w.Nonce = nonce
	return w, err
}
