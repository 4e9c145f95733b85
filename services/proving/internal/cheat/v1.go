package cheat

import (
	"bytes"
	"net/http"
	"net/http/httptest"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/openai"
)

// maxEvent bounds an event of an engine's stream.
const maxEvent = 1 << 20

// V1 has an agent of dialect v1, whose LocalModel is Model, answer by an engine.
func V1(engine http.Handler) func(*fakeagent.V1Request) {
	return func(r *fakeagent.V1Request) {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", //nolint:noctx // answered at once
			bytes.NewReader(r.Body)))
		switch {
		case w.Code != http.StatusOK:
			_ = r.Fail(w.Code, w.Body.String()) // the hub may be gone, here and below
		case !r.Stream:
			_ = r.Whole(w.Body.String())
		default:
			stream(r, w.Body.Bytes())
		}
	}
}

// stream passes the events of a stream on.
func stream(r *fakeagent.V1Request, events []byte) {
	reader := openai.SSEReader{MaxEvent: maxEvent}
	reader.Feed(events)
	for {
		e, ok := reader.Next()
		if !ok {
			break
		}
		if e.Done {
			_ = r.Done()
			continue
		}
		if r.Chunk(string(e.Data)) != nil {
			return
		}
	}
	_ = r.End()
}
