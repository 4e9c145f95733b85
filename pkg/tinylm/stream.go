package tinylm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// stream writes the choices one after the other as server-sent events: the
// role, then a piece (about a word) in each event, then the finish reason.
// After the headers only the connection can fail. In that case the stream ends
// without [DONE].
func (r *run) stream(ctx context.Context, w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	events := &eventWriter{w: w, flush: http.NewResponseController(w).Flush}
	for i := range r.chat.choices {
		if r.streamChoice(ctx, events, i) != nil {
			return
		}
	}
	if r.chat.includeUsage {
		last := r.chunk([]chunkChoice{})
		last.Usage, _ = json.Marshal(usageOf(r.state.Tokens(), r.written)) // integers always marshal
		if events.send(last) != nil {
			return
		}
	}
	_ = events.write([]byte("[DONE]")) // a failure means that the client has hung up
}

func (r *run) streamChoice(ctx context.Context, events *eventWriter, index int) error {
	empty := ""
	first := chunkChoice{Index: index, Delta: delta{Role: RoleAssistant, Content: &empty}}
	if err := events.send(r.chunk([]chunkChoice{first})); err != nil {
		return err
	}
	finish, err := r.pieces(ctx, index, func(p piece) error {
		next := chunkChoice{Index: index, Delta: delta{Content: &p.text}, Logprobs: logprobsOf(p.tokens, r.chat.logprobs)}
		return events.send(r.chunk([]chunkChoice{next}))
	})
	if err != nil {
		return err
	}
	return events.send(r.chunk([]chunkChoice{{Index: index, FinishReason: &finish}}))
}

// chunk wraps choices. If the client asked for usage, every chunk has the member,
// and it is null in all but the last.
func (r *run) chunk(choices []chunkChoice) chunk {
	c := chunk{
		ID: r.id, Object: "chat.completion.chunk", Created: r.created, Model: r.model,
		Fingerprint: r.fingerprint, Choices: choices,
	}
	if r.chat.includeUsage {
		c.Usage = json.RawMessage("null")
	}
	return c
}

// eventWriter writes events and flushes each at once.
type eventWriter struct {
	w     http.ResponseWriter
	flush func() error
}

func (e *eventWriter) send(c chunk) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode chunk: %w", err)
	}
	return e.write(data)
}

func (e *eventWriter) write(data []byte) error {
	if _, err := fmt.Fprintf(e.w, "data: %s\n\n", data); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	// A writer that cannot flush still delivers, only later.
	if err := e.flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("flush event: %w", err)
	}
	return nil
}
