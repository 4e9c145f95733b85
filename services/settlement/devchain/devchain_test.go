package devchain_test

import (
	"context"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"svc.internal/pkg/ethereum"
	settlement "svc.internal/services/settlement"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/devchain"
)

var roles = devchain.Roles{Operator: ethereum.Address{1}, Slasher: ethereum.Address{2}, Arbiter: ethereum.Address{3}}

func start(t *testing.T, id uint64, dir string) *devchain.Chain {
	t.Helper()
	path, err := anvil.Install(t.Context(), "../../..")
	if errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := devchain.Start(context.WithoutCancel(t.Context()),
		devchain.Config{Binary: path, ID: id, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if _, err := c.Deploy(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	return c
}

func ask[T any](t *testing.T, c *devchain.Chain, method string, params ...any) T {
	t.Helper()
	var out T
	if err := devchain.Ask(t.Context(), c.URL, &out, method, params...); err != nil {
		t.Fatal(err)
	}
	return out
}

// call asks a contract for a word.
func call(t *testing.T, c *devchain.Chain, to, data string) *big.Int {
	t.Helper()
	n, ok := new(big.Int).SetString(ask[string](t, c, "eth_call", map[string]string{"to": to, "data": data}, "latest"), 0)
	if !ok {
		t.Fatal("a contract answered no number")
	}
	return n
}

func TestCollateralIsInTheDollarOrInTheCoin(t *testing.T) {
	t.Parallel()
	for id, want := range map[uint64]string{8453: devchain.USD, 254: "0x0000000000000000000000000000000000000000"} {
		token := call(t, start(t, id, ""), devchain.Collateral, "0xfc0c546a") // token()
		if got := ethereum.Address(token.FillBytes(make([]byte, 20))); got.String() != want {
			t.Errorf("chain %d: got %s, want %s", id, got, want)
		}
	}
}

func TestDollarsCoinsAndTimeAreMade(t *testing.T) {
	t.Parallel()
	c := start(t, 8453, "")
	somebody := ethereum.Address{4}
	if err := errors.Join(c.Mint(t.Context(), somebody, 7_000_000), c.Fund(t.Context(), somebody, big.NewInt(9)),
		c.Ahead(t.Context(), 48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	balanceOf := "0x70a08231" + "000000000000000000000000" + somebody.String()[2:]
	if got := call(t, c, devchain.USD, balanceOf).Int64(); got != 7_000_000 {
		t.Errorf("dollars: got %d, want 7000000", got)
	}
	if got := ask[string](t, c, "eth_getBalance", somebody.String(), "latest"); got != "0x9" {
		t.Errorf("coins: got %s, want 0x9", got)
	}
	final := ask[struct{ Timestamp string }](t, c, "eth_getBlockByNumber", "finalized", false)
	at, _ := new(big.Int).SetString(final.Timestamp, 0)
	if ahead := time.Until(time.Unix(at.Int64(), 0)); ahead < 47*time.Hour {
		t.Errorf("a final block: got one that is ahead by %v, want 48h", ahead)
	}
}

func TestAChainWithAFolderIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "chain")
	c := start(t, 8453, dir)
	if err := errors.Join(c.Mint(t.Context(), roles.Operator, 5), c.Ahead(t.Context(), time.Hour)); err != nil {
		t.Fatal(err)
	}
	block := ask[struct{ Hash string }](t, c, "eth_getBlockByNumber", "0x2", false)
	c.Stop()
	c = start(t, 8453, dir)
	if got := ask[struct{ Hash string }](t, c, "eth_getBlockByNumber", "0x2", false); got != block {
		t.Errorf("block 2: got %s, want %s as before", got.Hash, block.Hash)
	}
	balanceOf := "0x70a08231" + "000000000000000000000000" + roles.Operator.String()[2:]
	if got := call(t, c, devchain.USD, balanceOf).Int64(); got != 5 {
		t.Errorf("dollars: got %d, want 5", got)
	}
	if err := c.Mint(t.Context(), roles.Operator, 1); err != nil {
		t.Errorf("a transaction of a chain that was ahead: got the error %v, want none", err)
	}
}

// A killed process saves nothing at its end.
func TestWhatIsFinalIsNotForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, 8453, dir)
	if err := c.Send(t.Context(), devchain.Transaction{From: devchain.Treasury, To: devchain.USD,
		Data: append([]byte{0x09, 0x5e, 0xa7, 0xb3}, make([]byte, 64)...),
	}); err != nil && !errors.Is(err, devchain.ErrReverted) {
		t.Fatal(err)
	}
	used := ask[string](t, c, "eth_blockNumber")
	want, _ := new(big.Int).SetString(used, 0)
	for {
		final := ask[struct{ Number string }](t, c, "eth_getBlockByNumber", "finalized", false)
		if n, _ := new(big.Int).SetString(final.Number, 0); n.Cmp(want) >= 0 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the block is not final")
		}
	}
	block := ask[struct{ Hash string }](t, c, "eth_getBlockByNumber", used, false)
	state, err := os.ReadFile(filepath.Join(dir, "8453.state"))
	if err != nil {
		t.Fatal(err)
	}
	again := t.TempDir()
	if err := os.WriteFile(filepath.Join(again, "8453.state"), state, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask[struct{ Hash string }](t, start(t, 8453, again), "eth_getBlockByNumber", used, false); got != block {
		t.Errorf("a final block: got %q after a kill, want %q", got.Hash, block.Hash)
	}
}

func TestSettlementTakesTheSettings(t *testing.T) {
	t.Parallel()
	text, err := devchain.Settings(start(t, 8453, ""), start(t, 254, ""))
	if err != nil {
		t.Fatal(err)
	}
	cfg := settlement.DefaultConfig()
	cfg.Development = true
	if err := cfg.Chains.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Errorf("got the error %v, want none", err)
	}
}
