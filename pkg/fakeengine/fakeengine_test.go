package fakeengine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"svc.internal/pkg/openai"
)

// reply is an answer as a client understood it.
type reply struct {
	status  int
	body    []byte // of a whole answer
	chunks  int
	done    bool
	errored bool
	tally   openai.Tally
	err     error
}

func post(ctx context.Context, t *testing.T, e *Engine, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func ask(t *testing.T, e *Engine, model string, stream bool) reply {
	t.Helper()
	resp := post(t.Context(), t, e, `{"model":"`+model+`","messages":[],"stream":`+strconv.FormatBool(stream)+
		`,"stream_options":{"include_usage":true}}`)
	r := reply{status: resp.StatusCode}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		r.body, r.err = io.ReadAll(resp.Body)
		return r
	}
	events := openai.NewSSEStream(resp.Body, 0)
	for {
		event, err := events.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = err
			}
			return r
		}
		if event.Done {
			r.done = true
			continue
		}
		chunk, err := r.tally.Scan(event.Data)
		if err != nil {
			r.err = err
			continue
		}
		r.chunks++
		r.errored = r.errored || chunk.Error.Found()
	}
}

func TestStreamsEndAsTheirNamesSay(t *testing.T) {
	e := New(t)
	for model, want := range map[string]struct {
		content, finish int
		done, errored   bool
		broken          bool
		usage           openai.UsageState
	}{
		"ok":             {5, 1, true, false, false, openai.UsageValid},
		"ok-long":        {256, 1, true, false, false, openai.UsageValid},
		"empty":          {0, 1, true, false, false, openai.UsageValid},
		"extra":          {5, 1, true, false, false, openai.UsageValid},
		"wrong-model":    {5, 1, true, false, false, openai.UsageValid},
		"usage-missing":  {5, 1, true, false, false, openai.UsageAbsent},
		"usage-zero":     {5, 1, true, false, false, openai.UsageValid},
		"usage-negative": {5, 1, true, false, false, openai.UsageAbsurd},
		"usage-huge":     {5, 1, true, false, false, openai.UsageAbsurd},
		"usage-million":  {5, 1, true, false, false, openai.UsageValid},
		"usage-strings":  {5, 1, true, false, false, openai.UsageAbsurd},
		"usage-fraction": {5, 1, true, false, false, openai.UsageAbsurd},
		"usage-mismatch": {5, 1, true, false, false, openai.UsageAbsurd},
		"usage-twice":    {5, 1, true, false, false, openai.UsageAbsurd},
		"no-finish":      {5, 0, true, false, false, openai.UsageValid},
		"no-done":        {5, 1, false, false, false, openai.UsageAbsent},
		"silent":         {2, 0, false, false, false, openai.UsageAbsent},
		"reset":          {2, 0, false, false, true, openai.UsageAbsent},
		"error":          {2, 0, false, true, false, openai.UsageAbsent},
		"error-first":    {0, 0, false, true, false, openai.UsageAbsent},
		"huge-line":      {2, 0, false, false, true, openai.UsageAbsent},
		"garbage":        {2, 1, true, false, true, openai.UsageValid},
	} {
		t.Run(model, func(t *testing.T) {
			r := ask(t, e, model, true)
			switch {
			case r.status != http.StatusOK:
				t.Errorf("r.status: got %d, want 200", r.status)
			case r.tally.ContentChunks != want.content:
				t.Errorf("r.tally.ContentChunks: got %d, want %d", r.tally.ContentChunks, want.content)
			case r.tally.FinishCount != want.finish:
				t.Errorf("r.tally.FinishCount: got %d, want %d", r.tally.FinishCount, want.finish)
			case r.done != want.done:
				t.Errorf("r.done: got %t, want %t", r.done, want.done)
			case r.errored != want.errored:
				t.Errorf("r.errored: got %t, want %t", r.errored, want.errored)
			case (r.err != nil) != want.broken:
				t.Errorf("r.err != nil: got %t, want %t", r.err != nil, want.broken)
			case r.tally.Usage.State != want.usage:
				t.Errorf("r.tally.Usage.State: got %v, want %v", r.tally.Usage.State, want.usage)
			}
		})
	}
	if r := ask(t, e, "reset", true); !errors.Is(r.err, syscall.ECONNRESET) {
		t.Errorf("r.err: got the error %v, want %v", r.err, syscall.ECONNRESET)
	}
	if r := ask(t, e, "huge-line", true); !errors.Is(r.err, openai.ErrEventTooLarge) {
		t.Errorf("huge line: got the error %v, want %v", r.err, openai.ErrEventTooLarge)
	}
}

func TestWholeAnswersFollowTheSameScripts(t *testing.T) {
	e := New(t)
	for model, want := range map[string]openai.UsageState{
		"ok": openai.UsageValid, "usage-missing": openai.UsageAbsent, "usage-zero": openai.UsageValid,
		"usage-huge": openai.UsageAbsurd, "usage-twice": openai.UsageAbsurd, "extra": openai.UsageValid,
	} {
		r := ask(t, e, model, false)
		c, err := openai.ScanCompletion(r.body)
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", model, err)
		case r.err != nil:
			t.Errorf("%s: r.err: got the error %v, want none", model, r.err)
		case c.Usage.State != want:
			t.Errorf("%s: c.Usage.State: got %v, want %v, with %s", model, c.Usage.State, want, r.body)
		case c.FinishCount != 1:
			t.Errorf("%s: c.FinishCount: got %d, want 1, with %s", model, c.FinishCount, r.body)
		case !c.HasContent:
			t.Errorf("%s: c.HasContent: got false, want true, with %s", model, r.body)
		}
	}
	if r := ask(t, e, "reset", false); r.err == nil {
		t.Error("a reset answer is whole")
	}
	if r := ask(t, e, "empty", false); bytes.Contains(r.body, []byte(`"content":"x`)) {
		t.Errorf("r.body: got %q, want it without %q", r.body, []byte(`"content":"x`))
	}
	if r := ask(t, e, "error", false); openai.ParseError(r.body).Message != "scripted failure" {
		t.Errorf("%s", r.body)
	}
}

func TestStatusesCarryErrorBodies(t *testing.T) {
	e := New(t)
	for model, status := range map[string]int{"status-400": 400, "status-404": 404, "status-429": 429, "status-500": 500,
		"status-503": 503, "status-500-text": 500, "never heard of": 404} {
		r := ask(t, e, model, true)
		if r.status != status {
			t.Errorf("%s: r.status: got %d, want %d", model, r.status, status)
		} else if openai.ParseError(r.body).Message == "" {
			t.Errorf(`%s: openai.ParseError(r.body).Message: got "", want some text, with %s`, model, r.body)
		}
	}
}

func TestScriptsAnswerInTurn(t *testing.T) {
	e := New(t)
	e.Script("m", Behaviour{Status: 503}, Behaviour{Tokens: []string{"x"}})
	for i, want := range []int{503, 200, 200} {
		if r := ask(t, e, "m", true); r.status != want {
			t.Errorf("request %d: got %d, want %d", i, r.status, want)
		}
	}
	e.Script("m")
	if r := ask(t, e, "m", true); r.status != 404 {
		t.Errorf("a model without behaviours: got %d, want 404", r.status)
	}
	requests := e.Requests()
	switch {
	case len(requests) != 4:
		t.Errorf("recorded: len(requests): got %d, want 4, in %+v", len(requests), requests)
	case requests[0].Model != "m":
		t.Errorf(`recorded: requests[0].Model: got %q, want "m"`, requests[0].Model)
	case !requests[0].Stream:
		t.Error("recorded: requests[0].Stream: got false, want true")
	case requests[0].Header.Get("Content-Type") != "application/json":
		t.Errorf(`recorded: requests[0].Header.Get(…): got %q, want "application/json"`,
			requests[0].Header.Get("Content-Type"))
	case !bytes.Contains(requests[0].Body, []byte("messages")):
		t.Errorf("recorded: requests[0].Body: got %q, want %q in it", requests[0].Body, []byte("messages"))
	}
	if err := e.WaitRequests(t.Context(), 4); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.WaitRequests(over, 5); err == nil {
		t.Error("a fifth request was seen")
	}
}

func TestTokensWaitForTheTest(t *testing.T) {
	e := New(t)
	first, gap := make(chan struct{}), make(chan struct{})
	e.Script("m", Behaviour{BeforeFirstToken: first, BeforeToken: gap})
	resp := post(t.Context(), t, e, `{"model":"m","stream":true}`)
	events := openai.NewSSEStream(resp.Body, 0)
	next := func() openai.Chunk {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		c, err := openai.ScanChunk(event.Data)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if next().HasContent {
		t.Error("content before the first token was let go")
	}
	close(first)
	for range defaultTokens {
		gap <- struct{}{}
		if !next().HasContent {
			t.Error("no content for a token")
		}
	}
	if c := next(); c.FinishCount != 1 {
		t.Errorf("c.FinishCount: got %d, want 1", c.FinishCount)
	}
}

func TestHangUpsReachTheEngine(t *testing.T) {
	for _, model := range []string{"hang", "endless"} {
		t.Run(model, func(t *testing.T) {
			e := New(t)
			ctx, hangUp := context.WithCancel(t.Context())
			resp := post(ctx, t, e, `{"model":"`+model+`","stream":true}`)
			if _, err := openai.NewSSEStream(resp.Body, 0).Next(); err != nil {
				t.Fatal(err)
			}
			hangUp()
			wait, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			if r, err := e.WaitCancelled(wait); err != nil {
				t.Errorf("got the error %v, want none", err)
			} else if r.Model != model {
				t.Errorf("r.Model: got %q, want %q", r.Model, model)
			}
		})
	}
}

func TestACompleteAnswerIsNoHangUp(t *testing.T) {
	e := New(t)
	for range 20 {
		ctx, leave := context.WithCancel(t.Context())
		resp := post(ctx, t, e, `{"model":"ok","stream":true}`)
		events := openai.NewSSEStream(resp.Body, 0)
		for {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			if event.Done {
				break
			}
		}
		leave()
	}
	if n := len(e.cancelled); n != 0 {
		t.Errorf("hang-ups: got %d, want 0", n)
	}
}

func TestFirstByteWaitsForTheTest(t *testing.T) {
	e := New(t)
	release := make(chan struct{})
	e.Script("m", Behaviour{BeforeFirstByte: release})
	got := make(chan int, 1)
	go func() {
		resp, err := http.Post(e.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
		if err != nil {
			got <- 0
			return
		}
		resp.Body.Close()
		got <- resp.StatusCode
	}()
	if err := e.WaitRequests(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-got:
		t.Fatal("answered before it was released")
	default:
	}
	close(release)
	if status := <-got; status != http.StatusOK {
		t.Errorf("status: got %d, want 200", status)
	}
}

func TestOtherEndpoints(t *testing.T) {
	e := New(t)
	e.Script("img", Behaviour{Raw: `{"data":[{"url":"x"}]}`, ContentType: "application/json"})
	for _, tc := range []struct{ path, kind, body, want string }{
		{"/v1/completions", "application/json", `{"model":"img"}`, `"url"`},
		{"/v1/images/generations", "application/json", `{"model":"img","prompt":"p"}`, `"url"`},
		{"/v1/audio/transcriptions", "multipart/form-data; boundary=b",
			"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nimg\r\n--b--\r\n", `"url"`},
		{"/v1/completions", "application/json", `{"model":"ok","prompt":["a"]}`, `"text_completion"`},
		{"/v1/completions", "application/json", `{"model":"ok","stream":true}`, "data: [DONE]"},
		{"/v1/embeddings", "application/json", `{"model":"ok"}`, `"embedding":[`},
		{"/v1/images/edits", "application/json", `{"model":"ok"}`, `"Not Found"`},
	} {
		resp, err := http.Post(e.URL+tc.path, tc.kind, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Errorf("%s: got the error %v, want none", tc.path, err)
		} else if !bytes.Contains(body, []byte(tc.want)) {
			t.Errorf("%s: body: got %q, want %q in it", tc.path, body, []byte(tc.want))
		}
	}
	resp, err := http.Get(e.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if !bytes.Contains(body, []byte(`"id":"img","object":"model"`)) {
		t.Errorf("body: got %q, want %q in it", body, []byte(`"id":"img","object":"model"`))
	} else if bytes.Contains(body, []byte(`"ok"`)) {
		t.Errorf("body: got %q, want it without %q", body, []byte(`"ok"`))
	}
}

func TestRecordingIsBounded(t *testing.T) {
	e := New(t)
	post(t.Context(), t, e, `{"model":"ok","pad":"`+strings.Repeat("x", 2*MaxBody)+`"}`)
	r := e.Requests()[0]
	switch {
	case len(r.Body) != MaxBody:
		t.Errorf("%d bytes of %d kept, model %q: len(r.Body): got %d, want %d", len(r.Body), r.Size, r.Model, len(r.Body),
			MaxBody)
	case r.Size <= 2*MaxBody:
		t.Errorf("%d bytes of %d kept, model %q: r.Size: got %d, want more than %d", len(r.Body), r.Size, r.Model, r.Size,
			2*MaxBody)
	case r.Model != "ok":
		t.Errorf(`%d bytes of %d kept, model %q: r.Model: got %q, want "ok"`, len(r.Body), r.Size, r.Model, r.Model)
	}
	for range MaxRecorded + 1 {
		e.take(Request{Model: "x"})
	}
	if n := len(e.Requests()); n != MaxRecorded {
		t.Errorf("requests kept: got %d, want %d", n, MaxRecorded)
	}
}
