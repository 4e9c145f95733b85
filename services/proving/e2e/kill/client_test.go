package kill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc.internal/services/proving/internal/trial"
)

// Names of the events of a stream.
const (
	dataPrefix = "data: "
	doneMark   = "[DONE]"
)

// client behaves as a load balancer does: it skips a gateway that refuses connections.
type client struct {
	http *http.Client
}

func newClient() *client {
	// Every call has a connection of its own, because a connection that died with a
	// gateway must not be used for the next call.
	return &client{http: &http.Client{Timeout: 2 * tellBound, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// chat makes a call and reads it to its end. bases are tried in order.
func (c *client) chat(ctx context.Context, bases []string, key, body string, headers ...string) told {
	began := time.Now()
	var t told
	for _, base := range bases {
		t = c.try(ctx, base, key, body, headers)
		if !errors.Is(t.err, syscall.ECONNREFUSED) {
			break
		}
	}
	t.took = time.Since(began)
	return t
}

func (c *client) try(ctx context.Context, base, key, body string, headers []string) told {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+trial.ChatPath, strings.NewReader(body))
	if err != nil {
		return told{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return told{err: err}
	}
	defer resp.Body.Close()
	t := told{status: resp.StatusCode}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.readStream(resp.Body)
	} else {
		t.readBody(resp.Body)
	}
	return t
}

// message is what the suite reads of an answer, an event or an error.
type message struct {
	Choices []struct {
		Delta   struct{ Content string }
		Message struct{ Content string }
	}
	Error struct{ Code string }
}

func (t *told) readStream(body io.Reader) {
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), dataPrefix)
		switch {
		case !ok:
		case data == doneMark:
			t.whole = true
		default:
			t.event(data)
		}
	}
	t.err = lines.Err()
}

func (t *told) event(data string) {
	var m message
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		t.err = err
		return
	}
	t.code += m.Error.Code
	for _, choice := range m.Choices {
		if choice.Delta.Content != "" {
			t.tokens++
		}
	}
}

func (t *told) readBody(body io.Reader) {
	text, err := io.ReadAll(body)
	if err != nil {
		t.err = err
		return
	}
	var m message
	if t.err = json.Unmarshal(text, &m); t.err != nil {
		return
	}
	t.code = m.Error.Code
	if t.status == http.StatusOK && len(m.Choices) == 1 {
		t.whole = true
		t.tokens = int64(len(strings.Fields(m.Choices[0].Message.Content)))
	}
}

func TestTheClientPassesOverAGatewayThatRefuses(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"two words"}}]}`)
	})}
	go func() { served <- server.Serve(lis) }()
	got := newClient().chat(t.Context(), []string{"http://" + trial.FreeAddress(t), "http://" + lis.Addr().String()}, "k",
		"{}")
	switch {
	case !got.whole:
		t.Error("told: whole: got false, want true")
	case got.tokens != 2:
		t.Errorf("told: tokens: got %d, want 2", got.tokens)
	case got.err != nil:
		t.Errorf("err: got the error %v, want none", got.err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("got the error %v, want %v", err, http.ErrServerClosed)
	}
}

func TestAStreamIsWholeOnlyWithItsEndMark(t *testing.T) {
	for text, want := range map[string]told{
		`data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\ndata: [DONE]\n\n": {tokens: 1, whole: true},
		`data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n" + `data: {"error":{"code":"upstream_error"}}` +
			"\n\n": {tokens: 1, code: "upstream_error"},
		": keep-alive\n\n": {},
	} {
		var got told
		got.readStream(strings.NewReader(text))
		if got != want {
			t.Errorf("%q is read: got %v, want %v", text, got, want)
		}
	}
}
