package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fakeengine"
)

// verifier is billing-ledger's own program, built from the tree.
func verifier(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "billing-ledger")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "svc.internal/services/billing-ledger/cmd/billing-ledger")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build billing-ledger: %v\n%s", err, out)
	}
	return path
}

// balanced fails the test unless the verifier finds no drift and settlement's
// lines equal the ledger's accruals.
func (m *market) balanced(t *testing.T) {
	t.Helper()
	verify := exec.CommandContext(t.Context(), verifier(t), "verify")
	verify.Env = append(os.Environ(), "DATABASE_URL="+m.env["SVC_DATABASE_URL"])
	out, err := verify.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("drift: 0")) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	t.Logf("\n%s", out)
	var report map[string]any
	m.until(t, "settlement has heard of all that billing-ledger settled", func() bool {
		report = m.admin(t, http.MethodGet, "/api/v1/admin/reconciliation", "")
		return report["equal"] == true
	})
	t.Logf("earning lines %v USD, accruals %v USD", report["lines_usd_str"], report["accruals_usd_str"])
	if report["lines_usd_str"] != report["accruals_usd_str"] || report["lines_usd_str"] == "0.00" {
		t.Errorf("reconciliation %v", report)
	}
}

// mixture is what a thousand callers do and meet.
var mixture = []struct {
	model     string
	behaviour fakeengine.Behaviour
}{
	{"mix/good", fakeengine.Behaviour{}},
	{"mix/long", fakeengine.Behaviour{Tokens: fakeengine.Words(300)}},
	{"mix/silent-usage", fakeengine.Behaviour{Usage: []string{}}},
	{"mix/absurd", fakeengine.Behaviour{Usage: []string{fakeengine.UsageHuge}}},
	{"mix/cut", fakeengine.Behaviour{Tokens: fakeengine.Words(40), End: fakeengine.EndReset, EndAfter: 20}},
	{"mix/truncated", fakeengine.Behaviour{Tokens: fakeengine.Words(40), End: fakeengine.EndNoFinish}},
	{"mix/error-inside", fakeengine.Behaviour{Tokens: fakeengine.Words(40), End: fakeengine.EndError, EndAfter: 20}},
	{"mix/overloaded", fakeengine.Behaviour{Status: http.StatusServiceUnavailable}},
	{"mix/refuses", fakeengine.Behaviour{Status: http.StatusBadRequest}},
	{"mix/empty", fakeengine.Behaviour{Tokens: []string{}}},
}

func TestAThousandMixedRequestsLeaveNoDrift(t *testing.T) {
	m := start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	engine := fakeengine.New(t)
	models := make([]string, len(mixture))
	for i, mix := range mixture {
		models[i] = mix.model
		m.putModel(t, mix.model)
		engine.Script(mix.model, mix.behaviour)
	}
	m.join(t, "first", engine, models...)
	m.join(t, "second", engine, models...)
	accounts, keys := make([]string, 3), make([]string, 3)
	for i, credit := range []string{"50", "50", "0.02"} {
		accounts[i], keys[i] = m.consumer(t, credit)
		m.admin(t, http.MethodPut, "/api/v1/admin/accounts/"+accounts[i]+"/limits", `{"requests_per_minute":-1,"concurrent_requests":-1}`)
	}
	const requests, callers = 1000, 16
	work := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range callers {
		wg.Go(func() {
			for i := range work {
				outcome := m.mixedRequest(t, i, keys[i%len(keys)])
				mu.Lock()
				seen[outcome]++
				mu.Unlock()
			}
		})
	}
	for i := range requests {
		work <- i
	}
	close(work)
	wg.Wait()
	t.Logf("outcomes: %v", seen)
	if seen["hung up"] < 50 || seen["200 whole"] < 50 || seen["200 stream"] < 50 || seen["502"] < 5 || seen["400"] < 20 || seen["402"] < 20 {
		t.Errorf("the mixture is not mixed: %v", seen)
	}
	for outcome := range seen {
		if strings.HasPrefix(outcome, "500") {
			t.Errorf("%d answers were %s", seen[outcome], outcome)
		}
	}
	for _, account := range accounts {
		m.until(t, "nothing is held any more", func() bool { _, held := m.balance(t, account); return held == "0.00" })
	}
	m.balanced(t)
}

// mixedRequest makes the i-th request: whole or streamed, read to its end or
// left half-way.
func (m *market) mixedRequest(t *testing.T, i int, key string) string {
	random := rand.New(rand.NewPCG(uint64(i), 7))
	stream, leaves := random.IntN(2) == 0, random.IntN(5) == 0
	extra := `,"max_tokens":400`
	if stream {
		extra += `,"stream":true`
	}
	ctx, hangUp := context.WithTimeout(t.Context(), patience)
	defer hangUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.base()+"/v1/chat/completions",
		strings.NewReader(chat(mixture[random.IntN(len(mixture))].model, extra)))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if leaves && !stream {
		go hangUp()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if leaves {
			return "hung up"
		}
		return "no answer: " + err.Error()
	}
	defer resp.Body.Close()
	if leaves && stream && resp.StatusCode == http.StatusOK {
		if _, err := io.ReadFull(resp.Body, make([]byte, 32)); err == nil {
			return "hung up"
		}
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil && !leaves {
		return "broken answer: " + err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprint(resp.StatusCode)
	}
	if stream {
		return "200 stream"
	}
	return "200 whole"
}
