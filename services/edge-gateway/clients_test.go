package edgegateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// Errors that ordinary clients ran into, with their present texts.
func TestRefusalsSayWhatToChange(t *testing.T) {
	f := start(t)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		code               string
		want               string
	}{
		"a route without its prefix": {http.MethodPost, "/chat/completions", hello, 404, "unknown_route",
			"There is no route POST /chat/completions. The API is under /v1."},
		"a path of anything": {http.MethodGet, "/%0a%22" + strings.Repeat("x", 200), "", 404, "unknown_route",
			"There is no route GET /_\"" + strings.Repeat("x", 125) + ". The API is under /v1."},
		"an unknown model": {http.MethodPost, "/v1/chat/completions", strings.Replace(hello, modelID, "gpt-9", 1),
			404, "model_not_found",
			`The model "gpt-9" does not exist.`},
		"a stop that is none": {http.MethodPost, "/v1/chat/completions", strings.Replace(hello, "{", `{"stop":5,`, 1), 400,
			"invalid_value",
			"stop must be a string, or an array of at most 4 strings"},
	} {
		resp := f.do(c.method, c.path, c.body, "Authorization", "Bearer "+f.key)
		if e := wantError(t, resp, c.status, c.code); !strings.HasPrefix(e.Error.Message, c.want) {
			t.Errorf("%s: got %q, want %q", name, e.Error.Message, c.want)
		}
	}
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
		body := read(t, f.send(path, "{}"))
		switch {
		case !strings.HasPrefix(body, `{"type":"error","error":{"message":"`):
			t.Errorf("%s: body: got %q, want the prefix %q", path, body, `{"type":"error","error":{"message":"`)
		case !strings.Contains(body, `"type":"not_found_error"`):
			t.Errorf("%s: body: got %q, want %q in it", path, body, `"type":"not_found_error"`)
		case !strings.Contains(body, `,"request_id":"`):
			t.Errorf("%s: body: got %q, want %q in it", path, body, `,"request_id":"`)
		}
	}
}

func TestABoundThatNobodyNamedIsNotBlamed(t *testing.T) {
	f := start(t)
	f.router.refuse(fault.New(fault.Invalid, fault.ContextLengthExceeded, "no").With("max_context_length", "4096"))
	for body, want := range map[string]string{
		hello: " tokens.", strings.Replace(hello, "{", `{"max_completion_tokens":9,`,
			1): " tokens and max_completion_tokens asks for 9.",
	} {
		if e := wantError(t, f.post(body), 400, "context_length_exceeded"); !strings.HasSuffix(e.Error.Message, want) {
			t.Errorf("got %q, want it to end with %q", e.Error.Message, want)
		}
	}
}

// SDKs wait for Retry-After and try again, twice. Where nobody has been online for a
// minute that helps nobody.
func TestNobodyWaitsForAModelThatNobodyHasServedForAMinute(t *testing.T) {
	for _, served := range []bool{false, true} {
		f := newFleet(t)
		f.catalog.models[0].Supply.OnlineProviders = map[bool]int32{true: 1}[served]
		f.start()
		f.router.refuse(fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody"))
		ask := func(want string) {
			resp := f.post(hello)
			wantError(t, resp, http.StatusServiceUnavailable, "no_provider_online")
			wantHeaders(t, resp.Header, map[string]string{"Retry-After": "5", "X-Should-Retry": want})
		}
		ask("")
		f.clock.standStill(time.Minute)
		ask(map[bool]string{false: "false"}[served])
	}
}

// So it is with several prompts, whether it is the first to be admitted that finds nobody, or another one.
func TestNobodyWaitsForAModelWithSeveralPromptsEither(t *testing.T) {
	for found := range int32(2) {
		f := newFleet(t)
		f.catalog.models[0].Supply.OnlineProviders = 0
		f.start()
		f.clock.standStill(time.Minute)
		f.hub.set(func(p *played) error {
			if !comes(func() bool { return len(f.billing.reports) > 0 }) {
				t.Error("the other prompt has not ended")
			}
			return p.fail(upstreamFailed())
		})
		var selected atomic.Int32
		f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			if selected.Add(1) <= found {
				return candidates(providerA), nil
			}
			return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody")
		})
		resp := f.send(completionsPath, asking(2, ""))
		wantError(t, resp, http.StatusServiceUnavailable, "no_provider_online")
		wantHeaders(t, resp.Header, map[string]string{"X-Should-Retry": "false"})
	}
}

// X9.
func TestAModelWhoseTimeIsOverNamesItsSuccessor(t *testing.T) {
	f := newFleet(t)
	f.catalog.models[0].DeprecatedAt = timestamppb.New(time.Now().Add(time.Hour))
	f.catalog.models[0].Successor = "acme/tiny-2b"
	f.start()
	if resp := f.post(hello); resp.StatusCode != http.StatusOK {
		t.Errorf("before its time: resp.StatusCode: got %d, want 200", resp.StatusCode)
	} else if resp.Header.Get("Sunset") == "" {
		t.Error(`before its time: resp.Header.Get("Sunset"): got "", want some text`)
	}
	f.clock.standStill(time.Hour)
	if e := wantError(t, f.post(hello), http.StatusNotFound, "model_not_found"); !strings.HasSuffix(e.Error.Message,
		`Use "acme/tiny-2b".`) {
		t.Errorf("e.Error.Message: got %q, want the suffix %q", e.Error.Message, `Use "acme/tiny-2b".`)
	}
}

// X11.
func TestAnErrorAfterAFallbackSaysWhy(t *testing.T) {
	f := start(t)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		resp := candidates(providerB)
		resp.FallbackReason = eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE
		return resp, nil
	})
	for name, failed := range map[string]*hubv1.DispatchFailed{
		"upstream": upstreamFailed(),
		"refused":  {Code: "engine_refused", EngineStatus: 422, Message: "no"},
	} {
		f.hub.set(failing(failed))
		resp := f.post(hello, "X-Svc-Provider", providerA)
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Fallback-Reason": "requested_provider_unavailable"})
		if body := read(t, resp); !strings.Contains(body, `"metadata":{"reason":"requested_provider_unavailable"}}`) {
			t.Errorf("%s: got %q, want %q in it", name, body, `"metadata":{"reason":"requested_provider_unavailable"}}`)
		}
		resp = f.post(hello)
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Fallback-Reason": ""})
		if body := read(t, resp); strings.Contains(body, "metadata") {
			t.Errorf(`%s, without a pin: got %q, want it without "metadata"`, name, body)
		}
	}
}

// An address within a provider's network is its failure, and the next one is asked.
func TestAnImageThatNobodyCanFetchIsTriedElsewhere(t *testing.T) {
	const inside, outside = `{"created":1,"data":[{"url":"http://10.0.0.7:8188/a.png"}]}`,
		`{"created":1,"data":[{"url":"https://images.org/a.png"}]}`
	f := withKinds(t)
	f.hub.byAttempt(answering(inside, 0, 1), answering(outside, 0, 1))
	if body := read(t, f.send(imagesPath, paintHello)); body != outside {
		t.Errorf("body: got %q, want %q", body, outside)
	}
	switch w := f.report(); {
	case len(w.GetAttempts()) != 2:
		t.Errorf("the request report: len(w.GetAttempts()): got %d, want 2, in %v", len(w.GetAttempts()), w)
	case w.GetAttempts()[0].GetResult() != "failed":
		t.Errorf(`the request report: w.GetAttempts()[0].GetResult(): got %q, want "failed"`, w.GetAttempts()[0].GetResult())
	case w.GetCommittedAttempt() != 2:
		t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 2", w.GetCommittedAttempt())
	}
	f.hub.set(answering(inside, 0, 1))
	wantError(t, f.send(imagesPath, paintHello), http.StatusBadGateway, "upstream_error")
	if w := f.report(); w.GetCommittedAttempt() != 0 {
		t.Errorf("the request report: got %d, want 0", w.GetCommittedAttempt())
	}
}

func TestImagesAreAskedForWithinTheAnswer(t *testing.T) {
	asked := func(f *fleet, body string) string {
		f.hub.set(answering(`{"created":1,"data":[{"b64_json":"AAAA"}]}`, 0, 1))
		read(f.t, f.send(imagesPath, body))
		return string(awaited(f.t, f.hub.opens).GetBody())
	}
	f := withKinds(t)
	said := strings.Replace(paintHello, "{", `{"response_format":"url",`, 1)
	for body, want := range map[string]string{
		paintHello: strings.Replace(paintHello, "{", `{"response_format":"b64_json",`, 1),
		strings.Replace(said, `"url"`, "null", 1): strings.Replace(said, `"url"`, `"b64_json"`, 1),
		said: said,
	} {
		if got := asked(f, body); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// A model whose engine refuses response_format lists the parameters
	// that the engine takes.
	knowing := newFleet(t)
	knowing.catalog.models = []*catalogv1.Model{{ModelId: imageID, Category: catalogv1.Category_CATEGORY_IMAGE,
		Active:              true,
		SupportedParameters: []string{"n", "size"}, Supply: &catalogv1.Supply{OnlineProviders: 1}}}
	knowing.start()
	if got := asked(knowing, paintHello); got != paintHello {
		t.Errorf("asked(knowing, paintHello): got %q, want %q", got, paintHello)
	}
}

// The last candidate has the rest of the 60 s. A long prompt, or media to fetch, adds to
// the time of an attempt.
func TestTheTimeToFirstContentIsUsed(t *testing.T) {
	long := strings.Replace(helloStream, "Say", strings.Repeat("word ", 5000), 1)
	media := strings.Replace(helloStream, `"Say hello to the world"`,
		`[{"type":"text","text":"Say"},{"type":"image_url","image_url":{"url":"https://pictures.example.org/x.png"}}]`, 1)
	for name, c := range map[string]struct {
		body      string
		providers []string
		want      []int64
	}{
		"one provider":            {helloStream, []string{providerA}, []int64{60_000}},
		"two":                     {helloStream, []string{providerA, providerB}, []int64{20_000, 40_000}},
		"two, and a long prompt":  {long, []string{providerA, providerB}, []int64{30_000, 30_000}},
		"two, and media to fetch": {media, []string{providerA, providerB}, []int64{32_000, 28_000}},
		"three":                   {helloStream, []string{providerA, providerB, providerC}, []int64{20_000, 20_000, 20_000}},
		"three and a long prompt": {long, []string{providerA, providerB, providerC}, []int64{30_000, 30_000}},
	} {
		inBubble(t, func(f *fleet, _ func() net.Conn) {
			f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
				if len(req.GetExcludeProviderIds()) > 0 {
					return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody")
				}
				return candidates(c.providers...), nil
			})
			f.hub.set(func(p *played) error {
				pass(time.Duration(p.open.GetFirstContentTimeoutMs()) * time.Millisecond)
				return p.fail(&hubv1.DispatchFailed{Retryable: true, Code: "timeout"})
			})
			if body := read(f.t, f.post(c.body)); !strings.Contains(body, `"code":"timeout"`) {
				f.t.Errorf("%s: got %q, want %q in it", name, body, `"code":"timeout"`)
			}
			close(f.hub.opens)
			i := 0
			for open := range f.hub.opens {
				if got := open.GetFirstContentTimeoutMs(); i >= len(c.want) {
					f.t.Errorf("%s: i: got %d, want less than %d", name, i, len(c.want))
				} else if got < c.want[i]-2000 || got > c.want[i]+2000 {
					f.t.Errorf("%s: open.GetFirstContentTimeoutMs(): got %d, want %d to %d", name, got, c.want[i]-2000, c.want[i]+2000)
				}
				i++
			}
			if i != len(c.want) {
				f.t.Errorf("%s: got %d attempts, want %d", name, i, len(c.want))
			}
			f.report()
		})
	}
}

// raw sends bytes on a connection of its own.
func (f *fleet) raw(text string) net.Conn {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.base, "http://"))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		f.t.Fatal(err)
	}
	return conn
}

// A client that has closed its side for writing looks like a client that has left. It
// must not read an empty success.
func TestAHalfClosedClientReadsNoEmptySuccess(t *testing.T) {
	f := start(t)
	f.hub.set(untilCanceled)
	conn := f.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + f.key +
		"\r\nContent-Length: " + itoa(len(hello)) + "\r\n\r\n" + hello)
	awaited(f.t, f.hub.opens)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(conn); len(got) != 0 {
		t.Errorf("got %q, want a connection that is broken off", got)
	}
	f.report()
}

// F15: a body without a good key is not waited for.
func TestABodyWithoutAKeyIsNotRead(t *testing.T) {
	f := start(t)
	for name, head := range map[string]string{
		"of a known length":   "Content-Length: 1000",
		"of unknown length":   "Transfer-Encoding: chunked",
		"with a made-up key":  "Authorization: Bearer sk-svc-nobody\r\nContent-Length: 1000",
		"that is far too big": "Content-Length: 1000000000",
	} {
		conn := f.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + head + "\r\n\r\n")
		if err := conn.SetReadDeadline(time.Now().Add(f.cfg.BodyTimeout / 2)); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		} else if resp.StatusCode != 401 && resp.StatusCode != 413 {
			t.Errorf("%s: resp.StatusCode: got %d, want 401 or 413", name, resp.StatusCode)
		}
		if _, err := in.ReadByte(); err == nil {
			t.Errorf("%s: reading from the connection: got no error, want one", name)
		} else if strings.Contains(err.Error(), "timeout") {
			t.Errorf(`%s: reading from the connection: got the error %q, want it without "timeout"`, name, err)
		}
	}
}
