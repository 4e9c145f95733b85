package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"svc.internal/services/provider-agent/internal/endpoint"
)

const (
	// chatTimeout bounds a chat of one token, because a model may have to be loaded first.
	chatTimeout = 2 * time.Minute
	// maxWords bounds how much of an engine's error is repeated, in characters.
	maxWords = 200
)

// Chat asks the engine of a model for a chat of one token, because an engine may list a model that it
// cannot load. The error may repeat the engine's message, because the prompt is the agent's own and no
// consumer's.
func (p *Pool) Chat(ctx context.Context, modelID string) error {
	target, ok := p.target(modelID)
	if !ok {
		return errNoModel
	}
	ctx, cancel := context.WithTimeout(ctx, chatTimeout)
	defer cancel()
	status, answer, err := p.ask(ctx, target, target.URL+endpoint.Chat.Path(), oneTokenOf(target.LocalModel))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the engine gives no answer to a chat within %v", chatTimeout)
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("the engine answers %d to a chat: %s", status, wordsOf(answer))
	}
	var told struct {
		Choices []json.RawMessage `json:"choices"`
	}
	if json.Unmarshal(answer, &told) != nil || len(told.Choices) == 0 {
		return errors.New("the engine's answer to a chat is not of OpenAI's form")
	}
	return nil
}

// wordsOf returns the message of an engine's error, in one printable line.
func wordsOf(answer []byte) string {
	var nested struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	text := string(answer)
	if json.Unmarshal(answer, &nested) == nil && nested.Error.Message != "" {
		text = nested.Error.Message
	}
	var out []rune
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar && len(out) < maxWords {
			out = append(out, r)
		}
	}
	return string(out)
}
