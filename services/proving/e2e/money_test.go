package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

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

func TestMixedRequestsLeaveNoDrift(t *testing.T) {
	inProcess := func(t *testing.T) {
		mixedRequestsLeaveNoDrift(t, trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error"), 1000)
	}
	trial.EachForm(t, inProcess, func(t *testing.T, m *trial.Market) {
		requests := 10_000
		if testing.Short() {
			requests = 1000
		}
		mixedRequestsLeaveNoDrift(t, m, requests)
	})
}

func mixedRequestsLeaveNoDrift(t *testing.T, m *trial.Market, requests int) {
	engine := fakeengine.New(t)
	models := make([]string, len(mixture))
	for i, mix := range mixture {
		models[i] = mix.model
		m.PutModel(t, mix.model)
		engine.Script(mix.model, mix.behaviour)
	}
	m.Join(t, "first", engine.URL, models...)
	m.Join(t, "second", engine.URL, models...)
	accounts, keys := make([]string, 3), make([]string, 3)
	for i, credit := range []string{"50", "50", "0.02"} {
		accounts[i], keys[i] = m.Consumer(t, credit)
		m.Unlimit(t, accounts[i])
	}
	const callers = 16
	work := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range callers {
		wg.Go(func() {
			for i := range work {
				outcome := mixedRequest(t, m, i, keys[i%len(keys)])
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
	for outcome, least := range map[string]int{"hung up": 50, "200 whole": 50, "200 stream": 50, "502": 5, "400": 20,
		"402": 20} {
		if n := number(seen, outcome); n < least {
			t.Errorf("the mixture: of %s: got %d, want at least %d, with %s", outcome, n, least, outcome)
		}
	}
	if n := number(seen, "500") + number(seen, "no answer") + number(seen, "broken"); n > 0 {
		t.Errorf("requests without a true answer, of %v: got %d, want 0", seen, n)
	}
	for _, account := range accounts {
		m.NothingHeld(t, account)
	}
	m.Balanced(t)
}

// number is how many outcomes begin with a word.
func number(seen map[string]int, word string) int {
	n := 0
	for outcome, times := range seen {
		if strings.HasPrefix(outcome, word) {
			n += times
		}
	}
	return n
}

// mixedRequest makes the i-th request: whole or streamed, read to its end or
// left half-way.
func mixedRequest(t *testing.T, m *trial.Market, i int, key string) string {
	random := rand.New(rand.NewPCG(uint64(i), 7))
	stream, leaves := random.IntN(2) == 0, random.IntN(5) == 0
	extra := `,"max_tokens":400`
	if stream {
		extra += `,"stream":true`
	}
	ctx, hangUp := context.WithTimeout(t.Context(), trial.Patience)
	defer hangUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Base()+trial.ChatPath,
		strings.NewReader(trial.Chat(mixture[random.IntN(len(mixture))].model, extra)))
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
	answer, err := io.ReadAll(resp.Body)
	if err != nil && !leaves {
		return "broken answer: " + err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Sprintf("%d %s", resp.StatusCode, trial.ErrorCode(answer))
	}
	if stream {
		return "200 stream"
	}
	return "200 whole"
}
