package chaos

import (
	"bytes"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/proving/internal/paychain"
	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/anvil/anviltest"
	"svc.internal/services/settlement/devchain"
)

// hasty is a chain that has blocks come between a look at it and what is done then.
func hasty(t *testing.T, chain *anvil.Chain, blocks int) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		question, err := io.ReadAll(req.Body)
		if err == nil && blocks > 0 && bytes.Contains(question, []byte("anvil_reorg")) {
			err = devchain.Ask(req.Context(), chain.URL, nil, "anvil_mine", blocks)
			blocks = 0
		}
		if err != nil {
			t.Error(err)
			return
		}
		answer, err := http.Post(chain.URL, "application/json", bytes.NewReader(question)) //nolint:noctx // a test's chain
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		if _, err := io.Copy(w, answer.Body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestABlockThatComesMeanwhileDoesNotKeepAPayoutOnItsChain(t *testing.T) {
	t.Parallel()
	const account = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266" // of the first key of a development chain
	wallet, err := ethereum.ParseAddress(account)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ blocks, removed int }{
		"no block":                     {0, 1},
		"one block":                    {1, 1},
		"blocks that make it final":    {unfinalBlocks, 0},
		"more blocks than are removed": {unfinalBlocks + 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chain := anviltest.Start(t, payingChain)
			p := &paying{
				Chains: &paychain.Chains{Keys: map[string]ethereum.Address{"payout": wallet}},
				chain:  &devchain.Chain{Chain: &anvil.Chain{URL: hasty(t, chain, c.blocks)}},
			}
			if err := devchain.Send(t.Context(), chain.URL, devchain.Transaction{From: account, To: devchain.Treasury,
				Value: big.NewInt(1)}); err != nil {
				t.Fatal(err)
			}
			removed, err := p.removePayouts(t.Context(), window{highest: unfinalBlocks - 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(removed) != c.removed {
				t.Errorf("payouts that are gone: got %d, want %d", len(removed), c.removed)
			}
			var sent string
			if err := p.ask(t.Context(), &sent, "eth_getTransactionCount", account, "latest"); err != nil {
				t.Fatal(err)
			}
			if got, want := number(sent), int64(1-c.removed); got != want {
				t.Errorf("payouts that the chain has: got %d, want %d", got, want)
			}
		})
	}
}
