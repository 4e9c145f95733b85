package evm_test

import (
	"crypto/ecdsa"
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"svc.internal/services/settlement/anvil/anviltest"
	"svc.internal/services/settlement/contracts"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
)

// everybody is the key of anvil's first account, which everybody knows.
const everybody = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := crypto.HexToECDSA(everybody)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sign signs a transaction of anvil's first account.
func sign(t *testing.T, id chain.ID, nonce uint64, to *common.Address, value, fee int64, data []byte) []byte {
	t.Helper()
	n := new(big.Int).SetUint64(uint64(id))
	tx, err := types.SignNewTx(key(t), types.LatestSignerForChainID(n), &types.DynamicFeeTx{
		ChainID: n, Nonce: nonce, GasTipCap: big.NewInt(1), GasFeeCap: big.NewInt(fee), Gas: 6_000_000, To: to,
		Value: big.NewInt(value), Data: data})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := tx.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestARealChainIsReadAndSentTo(t *testing.T) {
	t.Parallel()
	url := anviltest.Start(t, uint64(chain.SVC), "--no-mining").URL
	c := dial(t, chain.SVC, url, url)
	control, err := rpc.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	mine := func(blocks int) {
		t.Helper()
		if err := control.CallContext(t.Context(), nil, "anvil_mine", blocks); err != nil {
			t.Fatal(err)
		}
	}
	usd, err := contracts.TestUSD()
	if err != nil {
		t.Fatal(err)
	}
	me := chain.Address(crypto.PubkeyToAddress(key(t).PublicKey))
	to := common.Address(alice)
	creation := append([]byte(usd.Creation), common.LeftPadBytes(me[:], 32)...)
	pay, create := sign(t, chain.SVC, 0, &to, 5, 1e10, nil), sign(t, chain.SVC, 1, nil, 0, 1e10, creation)
	broadcast := func(raw []byte, want chain.Outcome) {
		t.Helper()
		if got, err := c.Broadcast(t.Context(), raw); err != nil {
			t.Errorf("broadcast: got the error %v, want none", err)
		} else if got != want {
			t.Errorf("broadcast: got %q, want %q", got, want)
		}
	}
	broadcast(pay, chain.Accepted)
	broadcast(pay, chain.Accepted)
	broadcast(create, chain.Accepted)
	mine(1)
	broadcast(pay, chain.Accepted)
	broadcast(sign(t, chain.SVC, 0, &to, 6, 1e10, nil), chain.NonceUsed)
	paid := chain.Hash(crypto.Keccak256Hash(pay))
	r, found, err := c.Receipt(t.Context(), paid)
	if err != nil {
		t.Fatalf("mined: got the error %v, want none", err)
	}
	if !found {
		t.Fatal("mined: got no receipt, want one")
	}
	if r.Final {
		t.Fatalf("mined: got %+v, want a receipt that is not final", r)
	}
	if !r.Succeeded {
		t.Fatalf("mined: got %+v, want success", r)
	}
	mine(3)
	if r, found, err = c.Receipt(t.Context(), paid); err != nil {
		t.Errorf("later: got the error %v, want none", err)
	} else if !found {
		t.Error("later: got no receipt, want one")
	} else if !r.Final {
		t.Errorf("later: got %+v, want a final receipt", r)
	}
	if final, latest, err := c.Nonce(t.Context(), me); err != nil {
		t.Errorf("nonce: got the error %v, want none", err)
	} else if final != 2 {
		t.Errorf("final nonce: got %d, want 2", final)
	} else if latest != 2 {
		t.Errorf("latest nonce: got %d, want 2", latest)
	}
	contract := chain.Address(crypto.CreateAddress(common.Address(me), 1))
	readsState(t, c, usd, contract)
	estimates(t, c, me, contract)
}

// readsState checks what is read of the state: balances, code and the token.
func readsState(t *testing.T, c *evm.Chain, usd contracts.Artifact, contract chain.Address) {
	t.Helper()
	final, err := c.Final(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Balance(t.Context(), alice, final); err != nil {
		t.Errorf("balance: got the error %v, want none", err)
	} else if got != chain.NewAmount(5) {
		t.Errorf("balance: got %s, want 5", got)
	}
	if code, err := c.Code(t.Context(), contract); err != nil {
		t.Errorf("code: got the error %v, want none", err)
	} else if !usd.Matches(code) {
		t.Errorf("code: got %d bytes, want those of TestUSD", len(code))
	}
	if got, err := c.TokenBalance(t.Context(), contract, alice, final); err != nil {
		t.Errorf("token: got the error %v, want none", err)
	} else if !got.IsZero() {
		t.Errorf("token: got %s, want 0", got)
	}
}

// estimates checks calls, estimates of gas, and fees.
func estimates(t *testing.T, c *evm.Chain, me, contract chain.Address) {
	t.Helper()
	// transfer(alice, 1) of an account that has nothing.
	data := append(append([]byte{0xa9, 0x05, 0x9c, 0xbb}, make([]byte, 12)...), alice[:]...)
	call := chain.Call{From: alice, To: contract, Data: append(data, common.LeftPadBytes([]byte{1}, 32)...)}
	var revert *chain.Revert
	if _, err := c.Call(t.Context(), call); !errors.As(err, &revert) {
		t.Errorf("a call that fails: got the error %v, want a revert", err)
	} else if len(revert.Data) < 4 {
		t.Errorf("a call that fails: got the data %x, want those of a revert", revert.Data)
	}
	if _, err := c.EstimateGas(t.Context(), call); !errors.As(err, &revert) {
		t.Errorf("the gas of a call that fails: got the error %v, want a revert", err)
	}
	if gas, err := c.EstimateGas(t.Context(), chain.Call{From: me, To: alice}); err != nil {
		t.Errorf("gas: got the error %v, want none", err)
	} else if gas < 21_000 {
		t.Errorf("gas: got %d, want at least 21,000", gas)
	}
	if fees, err := c.SuggestFees(t.Context()); err != nil {
		t.Errorf("fees: got the error %v, want none", err)
	} else if fees.Max.Cmp(fees.Tip) < 0 {
		t.Errorf("fees: got %+v, want a maximum that is at least the tip", fees)
	}
}
