package evm_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/evm/evmtest"
)

var token, alice = evmtest.Address("token", 1), evmtest.Address("alice", 1)

// dial makes a chain of RPCs.
func dial(t testing.TB, id chain.ID, urls ...string) *evm.Chain {
	t.Helper()
	cfg := chain.Config{ID: id, Name: "test", BlockTime: time.Second, MaxGasPrice: chain.NewAmount(100_000_000_000)}
	for _, url := range urls {
		cfg.RPCs = append(cfg.RPCs, config.NewSecret(url))
	}
	c, err := evm.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// script is a scripted chain with two RPCs.
func script(t testing.TB) (*evmtest.Chain, [2]*evmtest.RPC, *evm.Chain) {
	t.Helper()
	s := evmtest.New(chain.Base, 2)
	rpcs := [2]*evmtest.RPC{evmtest.NewRPC(t, s), evmtest.NewRPC(t, s)}
	return s, rpcs, dial(t, chain.Base, rpcs[0].URL, rpcs[1].URL)
}

func TestTheFinalBlockIsTheLowestOfAllRPCs(t *testing.T) {
	t.Parallel()
	s, rpcs, c := script(t)
	s.MineEmpty(10)
	rpcs[1].Behind(3)
	got, err := c.Final(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := uint64(5); got.Number != want {
		t.Errorf("got block %d, want %d: the last two of the one that is 3 behind are not final", got.Number, want)
	}
	if want := s.HashOf(5); got.Hash != want {
		t.Errorf("got the hash %s, want %s", got.Hash, want)
	}
}

func TestNothingIsKnownWhileRPCsDisagree(t *testing.T) {
	t.Parallel()
	s, rpcs, c := script(t)
	s.Mine(evmtest.Transfer(1, token, alice, chain.NewAmount(7)))
	s.MineEmpty(5)
	tx := evmtest.Tx{Salt: 1}.Hash()
	final, err := c.Final(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := map[string]func() error{
		"eth_getBlockByNumber": func() error { _, err := c.BlockAt(t.Context(), 1); return err },
		"eth_getLogs": func() error {
			_, err := c.Logs(t.Context(), 0, 3, []chain.Address{token}, [][]chain.Hash{{evmtest.TransferTopic}})
			return err
		},
		"eth_getTransactionReceipt": func() error { _, err := c.FinalReceipts(t.Context(), []chain.Hash{tx}); return err },
		"eth_call":                  func() error { _, err := c.TokenBalance(t.Context(), token, alice, final); return err },
		"eth_getBalance":            func() error { _, err := c.Balance(t.Context(), alice, final); return err },
		"eth_getCode":               func() error { _, err := c.Code(t.Context(), token); return err },
	}
	lies := map[string]any{
		"eth_getLogs": []any{}, "eth_call": "0x" + strings.Repeat("11", 32), "eth_getBalance": "0x9", "eth_getCode": "0x11",
	}
	for method, read := range ask {
		if err := read(); err != nil {
			t.Errorf("%s, honest: got the error %v, want none", method, err)
		}
		rpcs[1].Lie(func(asked string, result any) any {
			if asked != method {
				return result
			}
			if lie, ok := lies[method]; ok {
				return lie
			}
			changed := map[string]any{}
			for k, v := range result.(map[string]any) {
				changed[k] = v
			}
			changed["gasUsed"], changed["hash"] = "0x1", evmtest.Word(alice).String()
			return changed
		})
		if err := read(); !errors.Is(err, chain.ErrDisagree) {
			t.Errorf("%s, one lies: got the error %v, want %v", method, err, chain.ErrDisagree)
		}
		rpcs[1].Lie(nil)
	}
}

func TestASilentRPCStopsTheReadingAndNoErrorShowsAnAddress(t *testing.T) {
	t.Parallel()
	s := evmtest.New(chain.Base, 2)
	good := evmtest.NewRPC(t, s)
	down := evmtest.NewRPC(t, s)
	down.Down(true)
	for name, url := range map[string]string{
		"refuses":    strings.Replace(down.URL, "http://", "http://key:secret@", 1) + "/secret?k=secret",
		"not there":  "http://key:secret@127.0.0.1:1/secret",
		"other host": "http://secret.invalid/secret",
	} {
		c := dial(t, chain.Base, good.URL, url)
		_, err := c.Final(t.Context())
		if !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("%s: got the error %v, want %v", name, err, chain.ErrUnavailable)
		}
		_, sent := c.Broadcast(t.Context(), []byte{1})
		if shown := err.Error() + sent.Error(); strings.Contains(shown, "secret") {
			t.Errorf("%s: the errors show the credentials: %s", name, shown)
		} else if strings.Contains(shown, "127.0.0.1") {
			t.Errorf("%s: the errors show the address: %s", name, shown)
		}
	}
	other := dial(t, chain.Ethereum, good.URL)
	if _, err := other.Final(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("an RPC of another chain: got the error %v, want %v", err, chain.ErrUnavailable)
	}
}

func TestLogsAreReadInWindowsThatTheRPCTakes(t *testing.T) {
	t.Parallel()
	s, rpcs, c := script(t)
	for n := uint64(1); n <= 40; n++ {
		s.Mine(evmtest.Transfer(n, token, alice, chain.NewAmount(n)))
	}
	rpcs[0].MaxRange(3)
	logs, err := c.Logs(t.Context(), 0, 40, []chain.Address{token}, [][]chain.Hash{{evmtest.TransferTopic}, nil,
		{evmtest.Word(alice)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(logs) != 40 {
		t.Errorf("got %d logs, want 40", len(logs))
	} else if logs[0].Block != 1 {
		t.Errorf("got the first log in block %d, want 1", logs[0].Block)
	} else if logs[39].Block != 40 {
		t.Errorf("got the last log in block %d, want 40", logs[39].Block)
	}
	rpcs[1].Down(true)
	before := rpcs[0].Calls("eth_getLogs")
	if _, err := c.Logs(t.Context(), 0, 2, []chain.Address{token}, nil); err == nil {
		t.Error("one RPC is silent: got logs, want an error")
	}
	if got := rpcs[0].Calls("eth_getLogs") - before; got != 1 {
		t.Errorf("one RPC is silent: got %d questions, want 1, because a smaller window would not help", got)
	}
	if _, err := c.Logs(t.Context(), 0, evm.MaxWindow, []chain.Address{token}, nil); err == nil {
		t.Error("a window that is too large: got no error, want one")
	}
}

func TestAReceiptIsNotThereUntilAllRPCsHaveIt(t *testing.T) {
	t.Parallel()
	s, rpcs, c := script(t)
	n := s.Mine(evmtest.Transfer(1, token, alice, chain.NewAmount(7)))
	tx := evmtest.Tx{Salt: 1}.Hash()
	rpcs[1].Behind(1)
	if _, found, err := c.Receipt(t.Context(), tx); found {
		t.Errorf("one is behind: got %t, want false", found)
	} else if err != nil {
		t.Errorf("one is behind: got the error %v, want none", err)
	}
	rpcs[1].Behind(0)
	for _, want := range []bool{false, true} {
		r, found, err := c.Receipt(t.Context(), tx)
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if !found {
			t.Fatal("got no receipt, want it")
		}
		if r.Final != want {
			t.Errorf("got final %t, want %t", r.Final, want)
		} else if r.Block != n {
			t.Errorf("got a receipt of block %d, want %d", r.Block, n)
		} else if !r.Succeeded {
			t.Errorf("got %+v, want success", r)
		}
		if cost, ok := r.Cost(); !ok {
			t.Error("got no cost, want gas times price")
		} else if cost != chain.NewAmount(21_000*9) {
			t.Errorf("got the cost %s, want gas times price", cost)
		}
		s.MineEmpty(2)
	}
	if _, found, err := c.Receipt(t.Context(), chain.Hash{1}); found {
		t.Errorf("no such transaction: got %t, want false", found)
	} else if err != nil {
		t.Errorf("no such transaction: got the error %v, want none", err)
	}
}

// A transaction that a final block has is not gone because one RPC does not find it: what follows from that halts the
// chain.
func TestAReceiptOfAFinalBlockIsNotGoneWhileOneRPCHasIt(t *testing.T) {
	t.Parallel()
	s, rpcs, c := script(t)
	s.Mine(evmtest.Transfer(1, token, alice, chain.NewAmount(7)))
	s.MineEmpty(2)
	for i := range rpcs {
		rpcs[i].Lie(func(method string, result any) any {
			if method == "eth_getTransactionReceipt" {
				return nil
			}
			return result
		})
		if _, _, err := c.Receipt(t.Context(), evmtest.Tx{Salt: 1}.Hash()); !errors.Is(err, chain.ErrDisagree) {
			t.Errorf("rpc %d does not find it: got the error %v, want %v", i+1, err, chain.ErrDisagree)
		}
		rpcs[i].Lie(nil)
	}
}

// What follows from a revert stays: a payout fails, and a penalty misses its part.
func TestACallRevertsByTheWordOfAllRPCs(t *testing.T) {
	t.Parallel()
	_, rpcs, c := script(t)
	says := func(e evmtest.Error) func(string, any) any {
		return func(method string, result any) any {
			if method == "eth_estimateGas" {
				return &e
			}
			return result
		}
	}
	refused := evmtest.Error{Code: 3, Message: "execution reverted", Data: "0x"}
	var revert *chain.Revert
	rpcs[1].Lie(says(refused))
	_, err := c.EstimateGas(t.Context(), chain.Call{To: token})
	if errors.As(err, &revert) {
		t.Errorf("one says so: got the error %v, want no revert", err)
	}
	if !errors.Is(err, chain.ErrDisagree) {
		t.Errorf("one says so: got the error %v, want %v", err, chain.ErrDisagree)
	}
	rpcs[0].Lie(says(refused))
	if _, err = c.EstimateGas(t.Context(), chain.Call{To: token}); !errors.As(err, &revert) {
		t.Errorf("both say so: got the error %v, want a revert", err)
	}
	for i := range rpcs {
		rpcs[i].Lie(says(evmtest.Error{Code: -32000, Message: "gas required exceeds allowance (30000000)"}))
	}
	if _, err = c.EstimateGas(t.Context(), chain.Call{To: token}); !errors.As(err, &revert) {
		t.Errorf("no gas is enough: got the error %v, want a revert", err)
	}
	for i := range rpcs {
		rpcs[i].Lie(says(evmtest.Error{Code: -32005, Message: "rate limit", Data: "see the documentation"}))
	}
	_, err = c.EstimateGas(t.Context(), chain.Call{To: token})
	if errors.As(err, &revert) {
		t.Errorf("both refuse the question: got the error %v, want no revert", err)
	}
	if !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("both refuse the question: got the error %v, want %v", err, chain.ErrUnavailable)
	}
}

func TestBlocksThatDoNotFollowEachOtherAreNotBelieved(t *testing.T) {
	t.Parallel()
	s, rpcs, c := script(t)
	s.MineEmpty(5)
	for _, r := range rpcs {
		r.Lie(func(method string, result any) any {
			if b, ok := result.(map[string]any); ok && b["number"] == "0x3" {
				b["parentHash"] = evmtest.Word(alice).String()
			}
			return result
		})
	}
	if _, err := c.Blocks(t.Context(), 1, 5, false); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("got the error %v, want %v", err, chain.ErrUnavailable)
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	_, rpcs, c := script(t)
	rpcs[0].Lie(func(method string, result any) any {
		if method == "eth_blockNumber" {
			return strings.Repeat("0", 33<<20)
		}
		return result
	})
	if _, err := c.Head(t.Context()); !errors.Is(err, chain.ErrUnavailable) {
		t.Errorf("got the error %v, want %v", err, chain.ErrUnavailable)
	}
}
