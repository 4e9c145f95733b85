package anvil_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"svc.internal/services/settlement/anvil"
	"svc.internal/services/settlement/anvil/anviltest"
)

// ask returns the result of a method of a chain's JSON-RPC. Each parameter is JSON.
func ask(t *testing.T, url, method string, params ...string) (string, error) {
	t.Helper()
	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":[` +
		strings.Join(params, ",") + `]}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Result string }
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Result, nil
}

func TestChainsHaveTheirNumbersBesideEachOther(t *testing.T) {
	t.Parallel()
	for number, want := range map[uint64]string{1: "0x1", 8453: "0x2105", 254: "0xfe"} {
		got, err := ask(t, anviltest.Start(t, number).URL, "eth_chainId")
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("chain id: got %s, want %s", got, want)
		}
	}
}

func TestAStoppedChainAnswersNoMore(t *testing.T) {
	t.Parallel()
	chain := anviltest.Start(t, 254)
	chain.Stop()
	if _, err := ask(t, chain.URL, "eth_chainId"); err == nil {
		t.Error("a call of a stopped chain: got no error, want one")
	}
}

func TestAChainWritesNothingToTheHome(t *testing.T) {
	path, err := anvil.Install(t.Context(), "../../..")
	if errors.Is(err, anvil.ErrMissing) {
		t.Skip(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	chain, err := anvil.Start(t.Context(), anvil.Config{Binary: path, ChainID: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	for range 3 {
		if _, err := ask(t, chain.URL, "anvil_mine", `"0x200"`); err != nil {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 0 {
		t.Errorf("the home after 1,536 blocks: got %v, want no file", files)
	}
}

func TestAChainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path, err := anvil.Install(t.Context(), "../../..")
	if errors.Is(err, anvil.ErrMissing) {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	chain, err := anvil.Start(ctx, anvil.Config{Binary: path, ChainID: 1})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-chain.Ended()
	if _, err := ask(t, chain.URL, "eth_chainId"); err == nil {
		t.Error("a call of a chain that has ended: got no error, want one")
	}
}

func TestAProgramThatEndsIsNoChain(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/bin/false": "ended before it answered", "/nowhere/anvil": "no such file",
	} {
		_, err := anvil.Start(t.Context(), anvil.Config{Binary: path, ChainID: 1})
		if err == nil {
			t.Fatalf("%s: got no error, want one", path)
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want %q in it", path, err, want)
		}
	}
}

func TestAnArgumentThatAnvilRefusesIsSaid(t *testing.T) {
	t.Parallel()
	path, err := anvil.Install(t.Context(), "../../..")
	if errors.Is(err, anvil.ErrMissing) {
		t.Skip(err)
	}
	_, err = anvil.Start(t.Context(), anvil.Config{Binary: path, ChainID: 1, Arguments: []string{"--no-such-thing"}})
	if err == nil {
		t.Fatal("an unknown argument: got no error, want one")
	}
	if !strings.Contains(err.Error(), "--no-such-thing") {
		t.Errorf("an unknown argument: got the error %v, want its name in it", err)
	}
}

func TestWhereNothingCanBeInstalledTheErrorSaysSo(t *testing.T) {
	t.Parallel()
	if _, err := anvil.Install(t.Context(), t.TempDir()); !errors.Is(err, anvil.ErrMissing) {
		t.Errorf("install from a folder without the script: got the error %v, want %v", err, anvil.ErrMissing)
	}
}
