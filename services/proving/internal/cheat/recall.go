package cheat

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/fakeengine/needle"
)

// Recalling returns an engine whose model finds needles in its prompt, as models do that
// are larger than the laboratory's. A prompt that asks for none goes to chat. A recall with
// a WindowTokens forgets what is farther from the prompt's end and says nothing of it: a
// window lie. Its tokens are about four bytes each.
func Recalling(t testing.TB, chat http.Handler, recall fakeengine.Recall) http.Handler {
	t.Helper()
	finder := fakeengine.New(t)
	finder.Script(Model, fakeengine.Behaviour{Recall: &recall})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			chat.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if asksForNeedles(body) {
			finder.ServeHTTP(w, r)
			return
		}
		chat.ServeHTTP(w, r)
	})
}

// asksForNeedles reports whether a message of a chat asks for needles.
func asksForNeedles(body []byte) bool {
	var asked struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &asked) != nil {
		return false
	}
	for _, m := range asked.Messages {
		var text string
		if json.Unmarshal(m.Content, &text) == nil && len(needle.Asked(text)) > 0 {
			return true
		}
	}
	return false
}
