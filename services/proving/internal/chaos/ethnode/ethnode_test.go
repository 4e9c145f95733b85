package ethnode

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

const (
	receipt = `{"jsonrpc":"2.0","id":1,"result":{"status":"0x1","blockNumber":"0x2"}}`
	block   = `{"jsonrpc":"2.0","id":2,"result":{"hash":"0xabc","number":"0x2"}}`
)

// start starts a node before one that answers with a text.
func start(t *testing.T, answer string) *Node {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(target.Close)
	n, err := Start(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func ask(t *testing.T, n *Node, question string) (int, string) {
	t.Helper()
	resp, err := http.Post(n.URL, "application/json", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestAnHonestNodePassesAnswersOn(t *testing.T) {
	t.Parallel()
	n := start(t, receipt)
	if _, got := ask(t, n, `{"id":1,"method":"eth_getTransactionReceipt"}`); got != receipt {
		t.Errorf("got %s, want %s", got, receipt)
	}
	if got := n.Asked(); got != 1 {
		t.Errorf("questions: got %d, want 1", got)
	}
}

func TestANodeThatIsAwayRefusesUntilItIsBack(t *testing.T) {
	t.Parallel()
	n := start(t, receipt)
	mend := n.Behave(Away)
	if got, _ := ask(t, n, `{"id":1,"method":"eth_blockNumber"}`); got != http.StatusServiceUnavailable {
		t.Errorf("away: got %d, want %d", got, http.StatusServiceUnavailable)
	}
	mend()
	if got, _ := ask(t, n, `{"id":1,"method":"eth_blockNumber"}`); got != http.StatusOK {
		t.Errorf("back: got %d, want %d", got, http.StatusOK)
	}
}

func TestALiarLiesAboutTransactionsAndBlocksAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ question, answer, want string }{
		{`{"id":1,"method":"eth_getTransactionReceipt"}`, receipt, `"status":"0x0"`},
		{`{"id":1,"method":"eth_getTransactionReceipt"}`, strings.Replace(receipt, "0x1", "0x0", 1), `"status":"0x1"`},
		{`{"id":2,"method":"eth_getBlockByNumber"}`, block, `"hash":"0x1111`},
		{`[{"id":2,"method":"eth_getBlockByNumber"},{"id":1,"method":"eth_getTransactionReceipt"}]`,
			"[" + receipt + "," + block + "]", `"hash":"0x1111`},
		{`{"id":1,"method":"eth_chainId"}`, `{"jsonrpc":"2.0","id":1,"result":"0x1"}`, `"result":"0x1"`},
		{`{"id":1,"method":"eth_getTransactionReceipt"}`, `{"jsonrpc":"2.0","id":1,"result":null}`, `"result":null`},
		{`{"id":1,"method":"eth_chainId"}`, `no JSON`, `no JSON`},
	} {
		n := start(t, c.answer)
		n.Behave(Lying)
		if _, got := ask(t, n, c.question); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s in it", c.question, got, c.want)
		}
	}
}

func TestAForgetfulNodeHasNoLogsAndEverythingElse(t *testing.T) {
	t.Parallel()
	const logs = `{"jsonrpc":"2.0","id":1,"result":[{"logIndex":"0x0"}]}`
	n := start(t, logs)
	n.Behave(Forgetful)
	for method, want := range map[string]string{"eth_getLogs": `"result":[]`, "eth_getBlockReceipts": `"logIndex"`} {
		if _, got := ask(t, n, `{"id":1,"method":"`+method+`"}`); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s in it", method, got, want)
		}
	}
}

func TestAMuteNodeAnswersNothingUntilItIsMended(t *testing.T) {
	t.Parallel()
	n := start(t, receipt)
	mend := n.Behave(Mute)
	heard := make(chan error, 1)
	go func() {
		resp, err := http.Post(n.URL, "application/json", strings.NewReader(`{"id":1,"method":"eth_chainId"}`))
		if err == nil {
			err = resp.Body.Close()
		}
		heard <- err
	}()
	for n.Asked() == 0 {
		if t.Context().Err() != nil {
			t.Fatal("the question did not come")
		}
		runtime.Gosched()
	}
	select {
	case err := <-heard:
		t.Errorf("an answer of a mute node: got one with the error %v, want none", err)
	default:
	}
	mend()
	if err := <-heard; err == nil {
		t.Error("what was asked of a mute node: got an answer, want none")
	}
	if got, _ := ask(t, n, `{"id":1,"method":"eth_blockNumber"}`); got != http.StatusOK {
		t.Errorf("mended: got %d, want %d", got, http.StatusOK)
	}
}
