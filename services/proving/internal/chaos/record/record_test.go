package record

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestEveryLineOfManyWritersIsKeptWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), ClientsFile)
	f, err := Create[Client](path)
	if err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 500
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				f.Add(Client{Nonce: fmt.Sprint(w, "-", i), SentAt: time.Unix(1, 0).UTC(), Usage: &Usage{7, int64(i)}})
			}
		})
	}
	wg.Wait()
	if f.Lines() != writers*each {
		t.Errorf("lines: got %d, want %d", f.Lines(), writers*each)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	seen := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c Client
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		seen[c.Nonce] = c.Usage != nil
	}
	if len(seen) != writers*each {
		t.Errorf("len(seen): got %d, want %d", len(seen), writers*each)
	}
}

func TestTheFormIsWhatAuditorsRead(t *testing.T) {
	for want, value := range map[string]any{
		`{"nonce":"n","key":"rich","account_id":"a","model":"m","stream":true,"sent_at":"1970-01-01T00:00:01Z",` +
			`"status":200,"request_id":"r","error_code":"","content_tokens":2,"content_bytes":8,"complete":true,` +
			`"error_event":false,"left":false,"usage":{"prompt_tokens":7,"completion_tokens":2},` +
			`"ended_at":"1970-01-01T00:00:02Z"}`: Client{
			Nonce: "n", Key: "rich", AccountID: "a", Model: "m", Stream: true, SentAt: time.Unix(1, 0).UTC(), Status: 200,
			RequestID:     "r",
			ContentTokens: 2, ContentBytes: 8, Complete: true, Usage: &Usage{7, 2}, EndedAt: time.Unix(2, 0).UTC(),
		},
		`{"nonce":"n","request_id":"r","engine":"e","provider_id":"p","model":"m","prompt_tokens":7,"completion_tokens":1,` +
			`"status":200,"complete":false,"cut":true,"no_usage":false,"at":"1970-01-01T00:00:01Z"}`: Engine{
			Nonce: "n", RequestID: "r", Engine: "e", ProviderID: "p", Model: "m", PromptTokens: 7, CompletionTokens: 1,
			Status: 200, Cut: true, At: time.Unix(1, 0).UTC(),
		},
	} {
		if text, err := json.Marshal(value); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if string(text) != want {
			t.Errorf("text: got %q, want %q", string(text), want)
		}
	}
}
