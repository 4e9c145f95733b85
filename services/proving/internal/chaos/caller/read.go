package caller

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"svc.internal/services/proving/internal/chaos/engine"
	"svc.internal/services/proving/internal/chaos/record"
)

const (
	chatPath        = "/v1/chat/completions"
	requestIDHeader = "X-Svc-Request-ID"
	maxTokens       = 400
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 4 << 20
)

// body is the request of a wish.
func (s wish) body() (string, error) {
	text, err := json.Marshal(map[string]any{
		"model": s.model, "max_tokens": maxTokens, "stream": s.stream,
		"messages": []any{map[string]string{"role": "user", "content": "Say something."}},
		"metadata": map[string]string{
			engine.MetaNonce: s.nonce, engine.MetaTokens: strconv.Itoa(s.tokens),
			engine.MetaPause: strconv.FormatInt(s.pause.Microseconds(), 10), engine.MetaEnd: s.end,
		},
	})
	return string(text), err
}

// try makes the call at one gateway.
func (l *Load) try(ctx context.Context, s wish, c *Call) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	c.Err = nil
	body, err := s.body()
	if err != nil {
		c.Err = err
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.cfg.Gateways[c.Gateway]+chatPath,
		strings.NewReader(body))
	if err != nil {
		c.Err = err
		return
	}
	req.Header.Set("Authorization", "Bearer "+s.account.Key)
	req.Header.Set("Content-Type", "application/json")
	if s.leaveAfter > 0 && !s.stream {
		timer := time.AfterFunc(s.leaveIn, func() {
			leave()
		})
		defer timer.Stop()
	}
	resp, err := l.http.Do(req)
	if err != nil {
		c.Left = s.leaveAfter > 0 && !s.stream && ctx.Err() == context.Canceled
		c.Err = err
		return
	}
	defer resp.Body.Close()
	c.Status, c.RequestID = resp.StatusCode, resp.Header.Get(requestIDHeader)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		c.readStream(ctx, resp.Body, s, leave)
	} else {
		c.readWhole(resp.Body)
		c.Left = c.Err != nil && s.leaveAfter > 0 && ctx.Err() == context.Canceled
	}
}

// message is what is read of an answer, an event or an error.
type message struct {
	Choices []struct {
		Delta   struct{ Content string }
		Message struct{ Content string }
	}
	Usage *record.Usage
	Error *struct{ Code, Type string }
}

// code is the code of an error.
func (m message) code() string {
	if m.Error.Code != "" {
		return m.Error.Code
	}
	return m.Error.Type
}

func (c *Call) readStream(ctx context.Context, body io.Reader, s wish, leave func()) {
	lines := bufio.NewScanner(io.LimitReader(body, maxAnswer))
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case data == "[DONE]":
			c.Complete = true
		default:
			c.event(data)
		}
		if s.leaveAfter > 0 && c.ContentTokens >= int64(s.leaveAfter) && !c.Complete {
			c.Left = true
			leave()
			return
		}
		if s.readPause > 0 {
			select {
			case <-time.After(s.readPause):
			case <-ctx.Done():
			}
		}
	}
	if err := lines.Err(); err != nil && !c.Complete {
		c.Err = err
	}
}

func (c *Call) event(data string) {
	var m message
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		c.Err = fmt.Errorf("an event that is not JSON: %w", err)
		return
	}
	if m.Error != nil {
		c.ErrorEvent, c.ErrorCode = true, m.code()
	}
	if m.Usage != nil {
		c.Usage = m.Usage
	}
	for _, choice := range m.Choices {
		if n := len(choice.Delta.Content); n > 0 {
			c.ContentTokens++
			c.ContentBytes += int64(n)
		}
	}
}

func (c *Call) readWhole(body io.Reader) {
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		c.Err = err
		return
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		c.Err = fmt.Errorf("an answer that is not JSON: %w", err)
		return
	}
	c.Usage = m.Usage
	if m.Error != nil {
		c.ErrorCode = m.code()
	}
	for _, choice := range m.Choices {
		c.ContentTokens += int64(len(strings.Fields(choice.Message.Content)))
		c.ContentBytes += int64(len(choice.Message.Content))
	}
	c.Complete = c.Status == http.StatusOK && m.Error == nil
}

// Answered reports whether the call was served properly, or refused for a reason of the
// client or the engine.
func (c Call) Answered() bool {
	switch c.Status {
	case http.StatusPaymentRequired, http.StatusTooManyRequests:
		return true
	case http.StatusOK:
		return c.Complete || c.End == engine.EndReset || c.End == engine.EndError
	}
	return c.End != engine.EndNormal && c.End != engine.EndSilent && c.Status != 0
}
