package tinylm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// chatCompletions answers POST /v1/chat/completions.
func (s *server) chatCompletions(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			tooLarge().write(w)
			return
		}
		invalid("", "the body could not be read").write(w)
		return
	}
	c, fault := decodeChat(raw, s.opts.ModelName)
	if fault != nil {
		fault.write(w)
		return
	}
	release, ok := acquire(s.slots)
	if !ok {
		tooBusy(s.opts.MaxConcurrent).write(w)
		return
	}
	defer release()
	if c.scored {
		release, ok := acquire(s.scoring)
		if !ok {
			tooBusy(maxScoring).write(w)
			return
		}
		defer release()
	}
	s.answer(w, r, c)
}

// answer reads the prompt and writes the response.
func (s *server) answer(w http.ResponseWriter, r *http.Request, c *chat) {
	state, scores, err := s.model.readChat(r.Context(), c)
	if tooLong := (*ContextLengthError)(nil); errors.As(err, &tooLong) {
		(&apiError{http.StatusBadRequest, tooLong.Error(), invalidRequest, "messages", "context_length_exceeded"}).write(w)
		return
	}
	if err != nil {
		return // the client hung up
	}
	if !c.seeded {
		c.params.Seed = s.opts.Random()
	}
	run := &run{
		state: state, chat: c, delay: s.opts.TokenDelay, fingerprint: s.model.Fingerprint(),
		model: s.opts.ModelName, scores: scores,
		id: fmt.Sprintf("chatcmpl-%016x", s.opts.Random()), created: s.opts.Clock.Now().Unix(),
	}
	if c.stream {
		run.stream(r.Context(), w)
		return
	}
	run.whole(r.Context(), w)
}

// run is the writing of one response.
type run struct {
	state       *State
	chat        *chat
	delay       time.Duration
	model       string
	scores      []scored // of the prompt's tokens, if they were asked for
	id          string
	created     int64
	fingerprint string
	written     int // tokens, over all choices
}

// pieces generates one choice and hands over its pieces.
func (r *run) pieces(ctx context.Context, index int, emit func(piece) error) (Finish, error) {
	params := r.chat.params
	params.Choice = index
	var group grouper
	finish, err := r.state.Generate(ctx, params, func(token Token) error {
		if err := wait(ctx, r.delay); err != nil {
			return err
		}
		r.written++
		if done, ok := group.add(token); ok {
			return emit(done)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if last, ok := group.rest(); ok {
		err = emit(last)
	}
	return finish, err
}

// whole writes all choices in one JSON object. It writes nothing when the client
// hangs up before all choices are generated.
func (r *run) whole(ctx context.Context, w http.ResponseWriter) {
	out := completion{
		ID: r.id, Object: "chat.completion", Created: r.created, Model: r.model,
		Choices: make([]choice, r.chat.choices), Fingerprint: r.fingerprint,
	}
	for i := range out.Choices {
		var text strings.Builder
		var tokens []Token
		finish, err := r.pieces(ctx, i, func(p piece) error {
			text.WriteString(p.text)
			tokens = append(tokens, p.tokens...)
			return nil
		})
		if err != nil {
			return
		}
		out.Choices[i] = choice{
			Index: i, Message: answer{Role: RoleAssistant, Content: text.String()},
			Logprobs: logprobsOf(tokens, r.chat.logprobs), FinishReason: finish,
		}
	}
	out.Usage = usageOf(r.state.Tokens(), r.written)
	if r.chat.scored {
		writeScored(w, out, r.scores)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// wait waits for d. It returns ctx's error when ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
