package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"svc.internal/services/provider-agent/internal/endpoint"
)

const (
	// measureTimeout bounds one measurement, because a model may have to be loaded first.
	measureTimeout = 5 * time.Minute
	// maxLine bounds a line of a stream, and maxMeasured the whole stream, in bytes.
	maxLine     = 1 << 20
	maxMeasured = 16 << 20
)

// Speed is how fast an engine answers.
type Speed struct {
	// FirstToken is the time until the first content, and PerSecond the tokens a second after
	// it.
	FirstToken time.Duration
	PerSecond  float64
	Tokens     int
}

// Measure asks the engine of a model for a streamed answer of at most so many tokens. It asks
// for a short answer before, so that the engine has loaded the model.
func (p *Pool) Measure(ctx context.Context, modelID string, tokens int, now func() time.Time) (Speed, error) {
	target, ok := p.targets[modelID]
	if !ok {
		return Speed{}, errNoModel
	}
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	if _, err := p.timed(ctx, target, 1, now); err != nil && !errors.Is(err, errNoContent) {
		return Speed{}, err
	}
	return p.timed(ctx, target, tokens, now)
}

var errNoContent = errors.New("the engine's answer has no content")

// timed asks once and measures the answer.
func (p *Pool) timed(ctx context.Context, target Target, tokens int, now func() time.Time) (Speed, error) {
	body, err := json.Marshal(map[string]any{
		"model": target.LocalModel, "stream": true, "max_tokens": tokens, "temperature": 0,
		"stream_options": map[string]any{"include_usage": true},
		"messages":       []map[string]string{{"role": "user", "content": "Count from 1 to 1000 in words."}},
	})
	if err != nil {
		return Speed{}, fmt.Errorf("make the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL+endpoint.Chat.Path(), bytes.NewReader(body))
	if err != nil {
		return Speed{}, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", jsonType)
	authorize(req, target.APIKey)
	began := now()
	resp, err := p.client.Do(req)
	if err != nil {
		return Speed{}, fmt.Errorf("the engine does not answer: %w", cause(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Speed{}, fmt.Errorf("the engine answers %d", resp.StatusCode)
	}
	return readSpeed(resp.Body, began, now)
}

// piece is the part of a chunk of a stream that is read.
type piece struct {
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
}

// readSpeed reads a stream to its end. Where the engine counts no tokens, each chunk with
// content counts as one.
func readSpeed(body io.Reader, began time.Time, now func() time.Time) (Speed, error) {
	lines := bufio.NewScanner(io.LimitReader(body, maxMeasured))
	lines.Buffer(nil, maxLine)
	var first, last time.Time
	chunks, counted := 0, 0
	for lines.Scan() {
		data, is := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !is || bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
			continue
		}
		var p piece
		if json.Unmarshal(data, &p) != nil {
			return Speed{}, errors.New("the engine's answer is not a stream of a chat")
		}
		if p.Usage != nil {
			counted = p.Usage.Completion
		}
		if len(p.Choices) > 0 && p.Choices[0].Delta.Content+p.Choices[0].Delta.Reasoning != "" {
			last = now()
			if chunks++; chunks == 1 {
				first = last
			}
		}
	}
	if err := lines.Err(); err != nil {
		return Speed{}, fmt.Errorf("the engine's answer was cut off: %w", err)
	}
	if chunks == 0 {
		return Speed{}, errNoContent
	}
	s := Speed{FirstToken: first.Sub(began), Tokens: max(counted, chunks)}
	if took := last.Sub(first); took > 0 {
		s.PerSecond = float64(s.Tokens-1) / took.Seconds()
	}
	return s, nil
}
