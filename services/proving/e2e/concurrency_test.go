package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// A limit of n requests at a time stops a client that has more open, and not n workers
// that send one request after the other without any pause.
func TestWhoNeverHasMoreOpenThanTheLimitIsNeverRefused(t *testing.T) {
	trial.Each(t, whoNeverHasMoreOpenThanTheLimitIsNeverRefused, "SVC_DEMO_AGENT=off")
}

func whoNeverHasMoreOpenThanTheLimitIsNeverRefused(t *testing.T, m *trial.Market) {
	const model = "test/places"
	m.PutModel(t, model)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{Tokens: fakeengine.Words(5)})
	for n, hub := range m.WSURLs() {
		m.JoinAt(t, hub, fmt.Sprintf("placed-%d", n+1), engine.URL, model)
	}
	for _, limit := range []int{1, 8} {
		account, key := m.Consumer(t, "10")
		m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits",
			fmt.Sprintf(`{"requests_per_minute":-1,"concurrent_requests":%d}`, limit))
		const each = 12
		var workers sync.WaitGroup
		for worker := range limit {
			workers.Go(func() {
				for n := range each {
					// From one gateway to the other and back.
					through := m.Through(m.Bases()[(worker+n)%len(m.Bases())])
					stream := ""
					if n%3 == 0 {
						stream = `,"stream":true`
					}
					if status, _, body := through.Call(t, http.MethodPost, trial.ChatPath, key,
						trial.Chat(model, stream)); status != http.StatusOK {
						t.Errorf("limit %d, request %d of a worker: got %d %s, want 200", limit, n, status, body)
						return
					}
				}
			})
		}
		workers.Wait()
	}
	// The official client, which never retries here.
	account, key := m.Consumer(t, "10")
	m.Admin(t, http.MethodPut, "/api/v1/admin/accounts/"+account+"/limits",
		`{"requests_per_minute":-1,"concurrent_requests":1}`)
	client := openai.NewClient(option.WithBaseURL(m.Bases()[0]+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	for n := range 12 {
		_, err := client.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
			Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
		})
		if err != nil {
			t.Fatalf("request %d of the official client: got %v, want an answer", n, err)
		}
	}
}
