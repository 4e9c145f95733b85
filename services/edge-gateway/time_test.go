package edgegateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// pipes is a listener without sockets, for tests in a bubble of time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// inBubble serves a gateway over pipes, with the production server.
func inBubble(t *testing.T, test func(f *fleet, dial func() net.Conn)) {
	inBubbleOf(t, func(t testing.TB) *fleet { return newFleet(t) }, test)
}

// pass lets time go by in a bubble.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the bubble's time

func inBubbleOf(t *testing.T, made func(testing.TB) *fleet, test func(f *fleet, dial func() net.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		f := made(t)
		f.loops()
		lis := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- serve.HTTP(ctx, lis, f.svc.Handler(), serve.HTTPConfig{Log: slog.New(slog.DiscardHandler),
				DrainTimeout: time.Second})
		}()
		ops := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		opsDone := make(chan error, 1)
		go func() {
			opsDone <- serve.HTTP(ctx, ops, f.svc.OperatorHandler(), serve.HTTPConfig{Log: slog.New(slog.DiscardHandler),
				DrainTimeout: time.Second})
		}()
		f.dialOperators = ops.dial
		transport := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "localhost") {
				return ops.dial(), nil
			}
			return lis.dial(), nil
		}}
		f.base, f.operators, f.client = "http://gateway", "http://localhost", &http.Client{Transport: transport}
		test(f, lis.dial)
		transport.CloseIdleConnections()
		stop()
		if err := errors.Join(<-done, <-opsDone); err != nil {
			t.Error(err)
		}
	})
}

func TestASlowStreamIsKeptAlive(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.hub.set(func(p *played) error {
			time.Sleep(15 * time.Second) //nolint:forbidigo // the bubble's time
			return p.steps(
				func() error { return p.event(helloChunk, true, 1) }, p.committed,
				func() error { time.Sleep(25 * time.Second); return nil }, //nolint:forbidigo // the bubble's time
				func() error { return p.finish(1, 1) })
		})
		begun := time.Now()
		resp := f.post(helloStream)
		if waited := time.Since(begun); waited != 10*time.Second {
			f.t.Errorf("headers came after: got %v, want %v", waited, 10*time.Second)
		}
		wantHeaders(f.t.(*testing.T), resp.Header, map[string]string{
			"X-Svc-Provider-ID": "", "X-Svc-Attempts": "", "X-Svc-Route-Mode": "auto",
			"Content-Type": "text/event-stream; charset=utf-8",
		})
		if resp.Header.Get("X-Svc-Request-ID") == "" {
			f.t.Error("the request id is missing")
		}
		const beat = ": keep-alive\n\n"
		want := beat + "data: " + helloChunk + "\n\n" + beat + beat + "data: [DONE]\n\n"
		if body := read(f.t, resp); body != want {
			f.t.Errorf("body: got %q, want %q", body, want)
		}
	})
}

// What the hub says comes together is written together, and a keep-alive that
// falls between takes it along.
func TestEventsThatComeTogetherAreWrittenTogether(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		pause := func(d time.Duration) func() error {
			return func() error { time.Sleep(d); return nil } //nolint:forbidigo // the bubble's time
		}
		f.hub.set(func(p *played) error {
			say := func(more bool) func() error {
				return func() error {
					return p.send(&hubv1.DispatchEvent{Json: []byte(moreChunk), CompletionTokens: 2, More: more})
				}
			}
			return p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed,
				say(true), pause(time.Second), say(false),
				say(true), pause(15*time.Second), say(false),
				func() error { return p.finish(1, 1) })
		})
		const event = "data: " + moreChunk + "\n\n"
		resp := f.post(helloStream)
		begun, body := time.Now(), bufio.NewReader(resp.Body)
		at := map[time.Duration]string{}
		for {
			line, err := body.ReadString('\n')
			if err != nil {
				break
			}
			at[time.Since(begun)] += line
		}
		for when, want := range map[time.Duration]string{
			0:                "data: " + helloChunk + "\n\n",
			time.Second:      event + event,
			11 * time.Second: event + ": keep-alive\n\n",
			16 * time.Second: event + "data: [DONE]\n\n",
		} {
			if at[when] != want {
				f.t.Errorf("after %v: got %q, want %q", when, at[when], want)
			}
			delete(at, when)
		}
		if len(at) > 0 {
			f.t.Errorf("more came: got %d, want 0, in %q", len(at), at)
		}
	})
}

// Failover goes on behind the keep-alives, and what fails then is an event.
func TestALateFailureIsAnErrorEvent(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.hub.set(func(p *played) error {
			time.Sleep(12 * time.Second) //nolint:forbidigo // the bubble's time
			return p.fail(upstreamFailed())
		})
		f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			return candidates(providerA, providerB, providerC), nil
		})
		body := read(f.t, f.post(helloStream))
		switch n := strings.Count(body, ": keep-alive\n\n"); {
		case n != 3:
			f.t.Errorf("strings.Count(…): got %d, want 3", n)
		case !strings.Contains(body, `data: {"error":{"message":"All 3 attempts`):
			f.t.Errorf("body: got %q, want %q in it", body, `data: {"error":{"message":"All 3 attempts`)
		case strings.Contains(body, "[DONE]"):
			f.t.Errorf(`body: got %q, want it without "[DONE]"`, body)
		}
		if w := f.report(); w.GetCommittedAttempt() != 0 {
			f.t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 0", w.GetCommittedAttempt())
		} else if len(w.GetAttempts()) != 3 {
			f.t.Errorf("the request report: len(w.GetAttempts()): got %d, want 3, in %v", len(w.GetAttempts()), w)
		}
	})
}

// An attempt has 20 s, and all attempts together have 60 s: the third has the rest.
func TestAttemptsShareTheTimeToFirstContent(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			return candidates(providerA, providerB, providerC), nil
		})
		f.hub.set(func(p *played) error {
			limit := time.Duration(p.open.GetFirstContentTimeoutMs()) * time.Millisecond
			time.Sleep(limit) //nolint:forbidigo // the bubble's time
			return p.fail(&hubv1.DispatchFailed{Retryable: true, Code: "timeout"})
		})
		body := read(f.t, f.post(helloStream))
		if !strings.Contains(body, `"code":"timeout"`) {
			f.t.Errorf("body: got %q, want %q in it", body, `"code":"timeout"`)
		}
		for _, want := range []int64{20_010, 20_010, 19_980} { // the prompt has about five tokens
			if got := awaited(f.t, f.hub.opens).GetFirstContentTimeoutMs(); got != want {
				f.t.Errorf("an attempt: got %d, want %d", got, want)
			}
		}
		if w := f.report(); w.GetOutcome() != billingv1.Outcome_OUTCOME_TIMEOUT {
			f.t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_TIMEOUT)
		} else if w.GetTotalMs() != 60_000 {
			f.t.Errorf("the request report: w.GetTotalMs(): got %d, want 60_000", w.GetTotalMs())
		}
	})
}

// A hub decides whether an attempt has run out of time. A hub that says nothing at all is
// given up, and its attempt can never be billed.
func TestASilentHubIsGivenUp(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.hub.byAttempt(untilCanceled, streamAnswer)
		begun := time.Now()
		body := read(f.t, f.post(helloStream))
		if took := time.Since(begun); took != 30*time.Second+10*time.Millisecond {
			f.t.Errorf("took: got %v, want %v", took, 30*time.Second+10*time.Millisecond)
		} else if !strings.HasSuffix(body, "[DONE]\n\n") {
			f.t.Errorf("body: got %q, want the suffix %q", body, "[DONE]\n\n")
		}
		// The silent dispatch and the dispatch that served, in any order.
		if first, second := awaited(f.t, f.hub.ended), awaited(f.t, f.hub.ended); first == nil && second == nil {
			f.t.Error("the silent dispatch goes on")
		}
	})
}

func TestAWholeAnswerMayTakeTheWholeTime(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.hub.set(func(p *played) error {
			time.Sleep(5 * time.Minute) //nolint:forbidigo // the bubble's time
			return wholeAnswer(p)
		})
		resp := f.post(hello)
		if body := read(f.t, resp); resp.StatusCode != 200 {
			f.t.Errorf("resp.StatusCode: got %d, want 200 (body is %s)", resp.StatusCode, body)
		} else if resp.Header.Get("X-Svc-Latency-Ms") != "300000" {
			f.t.Errorf(`resp.Header.Get("X-Svc-Latency-Ms"): got %q, want "300000" (body is %s)`,
				resp.Header.Get("X-Svc-Latency-Ms"), body)
		}
		f.hub.set(untilCanceled)
		resp = f.post(hello)
		wantError(f.t.(*testing.T), resp, 504, "timeout")
	})
}

// Hostile test 20, the reader: a client that does not read is cut off, and the
// provider stops working for it.
func TestAReaderThatStopsIsCutOff(t *testing.T) {
	inBubble(t, func(f *fleet, dial func() net.Conn) {
		f.hub.set(func(p *played) error {
			if err := p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed); err != nil {
				return err
			}
			for gone := p.hungUp(); ; {
				select {
				case <-gone:
					return errHungUp
				default:
				}
				if err := p.event(moreChunk, false, 2); err != nil {
					return err
				}
			}
		})
		conn := dial()
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+f.key+
			"\r\nContent-Length: "+itoa(len(helloStream))+"\r\n\r\n"+helloStream); err != nil {
			f.t.Fatal(err)
		}
		line, err := bufio.NewReaderSize(conn, 16).ReadString('\n')
		if err != nil {
			f.t.Fatalf("got the error %v, want none", err)
		}
		if !strings.Contains(line, "200") {
			f.t.Fatalf(`line: got %q, want "200" in it`, line)
		}
		begun := time.Now()
		if err, took := awaited(f.t, f.hub.ended), time.Since(begun); err == nil {
			f.t.Error("got no error, want one")
		} else if took > 31*time.Second {
			f.t.Errorf("took: got %v, want at most %v", took, 31*time.Second)
		}
		if w := f.report(); w.GetOutcome() != billingv1.Outcome_OUTCOME_CLIENT_GONE {
			f.t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(),
				billingv1.Outcome_OUTCOME_CLIENT_GONE)
		} else if w.GetHttpStatus() != 499 {
			f.t.Errorf("the request report: w.GetHttpStatus(): got %d, want 499", w.GetHttpStatus())
		}
	})
}

// Hostile test 20, the writer: a body that trickles in is not waited for.
func TestABodyThatDoesNotArriveIsRefused(t *testing.T) {
	inBubble(t, func(f *fleet, dial func() net.Conn) {
		conn := dial()
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+f.key+
			"\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
			f.t.Fatal(err)
		}
		begun := time.Now()
		// No test may wait for what never comes.
		if err := conn.SetReadDeadline(begun.Add(time.Hour)); err != nil {
			f.t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			f.t.Fatal(err)
		}
		defer resp.Body.Close()
		switch took := time.Since(begun); {
		case took != time.Minute:
			f.t.Errorf("took: got %v, want %v", took, time.Minute)
		case resp.StatusCode != 400:
			f.t.Errorf("resp.StatusCode: got %d, want 400", resp.StatusCode)
		case !resp.Close:
			f.t.Error("resp.Close: got false, want true")
		}
	})
}

// Hostile test 20: whatever the answer, a body that never comes holds no
// connection.
func TestABodyThatNeverComesHoldsNoConnection(t *testing.T) {
	const chat = "/v1/chat/completions"
	cases := map[string]struct {
		line    string
		headers string
		status  int
		after   time.Duration
	}{
		"unknown route": {"POST /v1/none", "Content-Length: 1000", 404, 0},
		"wrong method":  {"PUT " + chat, "Content-Length: 1000", 405, 0},
		"no key":        {"POST " + chat, "Content-Length: 1000", 401, 0},
		"encoded": {"POST " + chat, "Content-Length: 1000\r\nContent-Encoding: gzip\r\nAuthorization: Bearer KEY", 415,
			0},
		"bad pin":   {"POST " + chat, "Content-Length: 1000\r\nX-Svc-Provider: x\r\nAuthorization: Bearer KEY", 400, 0},
		"too large": {"POST " + chat, "Content-Length: 99999999\r\nAuthorization: Bearer KEY", 413, 0},
		"health":    {"GET /healthz", "Content-Length: 1000", 200, 0},
		"models":    {"GET /v1/models", "Content-Length: 1000", 200, 0},
		"preflight": {"OPTIONS " + chat, "Content-Length: 1000", 204, 0},
		"admin route": {"POST /api/v1/admin/providers", "Content-Length: 1000\r\nAuthorization: Bearer " + adminToken, 404,
			0},
		"no admin token": {"POST /api/v1/admin/providers", "Content-Length: 1000\r\nHost: localhost", 401, 0},
		"chunks, no key": {"POST " + chat, "Transfer-Encoding: chunked", 401, 0},
		"slow body":      {"POST " + chat, "Content-Length: 1000\r\nAuthorization: Bearer KEY", 400, time.Minute},
		"slow chunks":    {"POST " + chat, "Transfer-Encoding: chunked\r\nAuthorization: Bearer KEY", 400, time.Minute},
		"slow catalog":   {"GET /api/v1/models", "Content-Length: 1000", 400, time.Minute},
		"slow operator": {"POST /api/v1/admin/providers",
			"Content-Length: 1000\r\nHost: localhost\r\nAuthorization: Bearer " + adminToken, 400, time.Minute},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet, dial func() net.Conn) {
				host := "Host: x\r\n"
				if strings.Contains(c.headers, "Host: ") {
					dial, host = f.dialOperators, ""
				}
				conn := dial()
				defer conn.Close()
				begun := time.Now()
				if _, err := io.WriteString(conn, c.line+" HTTP/1.1\r\n"+host+strings.ReplaceAll(c.headers, "KEY", f.key)+
					"\r\n\r\n"); err != nil {
					f.t.Fatal(err)
				}
				// No test may wait for what never comes.
				if err := conn.SetReadDeadline(begun.Add(time.Hour)); err != nil {
					f.t.Fatal(err)
				}
				buffered := bufio.NewReader(conn)
				resp, err := http.ReadResponse(buffered, nil)
				if err != nil {
					f.t.Fatal(err)
				}
				defer resp.Body.Close()
				if took := time.Since(begun); took != c.after || resp.StatusCode != c.status || !resp.Close {
					f.t.Errorf("%d after %v, closes: %v", resp.StatusCode, took, resp.Close)
				}
				read(f.t, resp)
				if _, err := buffered.ReadByte(); !errors.Is(err, io.EOF) {
					f.t.Errorf("the connection ended: got the error %v, want %v", err, io.EOF)
				}
				if took := time.Since(begun); took > time.Minute+time.Second {
					f.t.Errorf("the connection was held for: got %v, want at most %v", took, time.Minute+time.Second)
				}
			})
		})
	}
}

// The time for a body is over once it was read, however long the answer takes.
func TestAReadBodyHasNoDeadline(t *testing.T) {
	inBubble(t, func(f *fleet, dial func() net.Conn) {
		f.hub.set(func(p *played) error {
			if err := p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed); err != nil {
				return err
			}
			time.Sleep(5 * time.Minute) //nolint:forbidigo // the bubble's time
			return p.finish(1, 1)
		})
		for _, framing := range []string{"Content-Length: " + itoa(len(helloStream)) + "\r\n\r\n" + helloStream,
			"Transfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(helloStream)), 16) + "\r\n" + helloStream +
				"\r\n0\r\n\r\n"} {
			conn := dial()
			defer conn.Close()
			if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+f.key+
				"\r\n"+framing); err != nil {
				f.t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				f.t.Fatal(err)
			}
			defer resp.Body.Close()
			// Chunks are the last of their connection.
			inChunks := strings.HasPrefix(framing, "Transfer-Encoding")
			if body := read(f.t, resp); !strings.HasSuffix(body, "data: [DONE]\n\n") {
				f.t.Errorf("the end of the stream: body: got %q, want the suffix %q", body, "data: [DONE]\n\n")
			} else if resp.Close != inChunks {
				f.t.Errorf("the end of the stream: resp.Close: got %t, want %t", resp.Close, inChunks)
			}
		}
	})
}

// A connection is used again after a stream's write deadlines.
func TestAConnectionOutlivesItsDeadlines(t *testing.T) {
	inBubble(t, func(f *fleet, _ func() net.Conn) {
		f.hub.set(streamAnswer)
		read(f.t, f.post(helloStream))
		time.Sleep(100 * time.Second) //nolint:forbidigo // the bubble's time
		f.hub.set(wholeAnswer)
		if resp := f.post(hello); resp.StatusCode != 200 {
			f.t.Errorf("status: got %d, want 200", resp.StatusCode)
		}
	})
}

// elapse is a step of the hub's play that lets time pass, within a bubble.
func elapse(d time.Duration) func() error {
	return func() error {
		time.Sleep(d) //nolint:forbidigo // the bubble's time
		return nil
	}
}

// A transcript begins when the engine has the audio, and the time of the upload is not
// the engine's.
func TestAStreamedTranscriptHasTheWholeTimeForItsFirstContent(t *testing.T) {
	f := withSpeech(t)
	read(t, f.transcribe(speech(field{"stream", "true"})...))
	if open := awaited(f.t, f.hub.opens); open.GetFirstContentTimeoutMs() != open.GetTotalTimeoutMs() {
		t.Errorf("open: got %d, want %d", open.GetFirstContentTimeoutMs(), open.GetTotalTimeoutMs())
	} else if open.GetFirstContentTimeoutMs() <= f.cfg.FirstContentTimeout.Milliseconds() {
		t.Errorf("open: got %d, want more than %d", open.GetFirstContentTimeoutMs(), f.cfg.FirstContentTimeout.Milliseconds())
	}
}

// slowDial is a connection to a hub that takes its time to open the stream of a dispatch.
type slowDial struct {
	grpc.ClientConnInterface
	takes time.Duration
}

func (s slowDial) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if strings.HasSuffix(method, "/Dispatch") {
		pass(s.takes)
	}
	return s.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// A hub is told the time that is left when it can be reached, not when dialing it began.
func TestTheTimeToReachAHubIsTakenFromTheTimeOfTheRequest(t *testing.T) {
	made := func(t testing.TB) *fleet {
		f := newFleet(t)
		f.named.ClientConnInterface = slowDial{f.named.ClientConnInterface, 3 * time.Second}
		return f
	}
	inBubbleOf(t, made, func(f *fleet, _ func() net.Conn) {
		read(f.t, f.post(hello))
		want := (f.cfg.TotalTimeout - 3*time.Second).Milliseconds()
		if got := awaited(f.t, f.hub.opens).GetTotalTimeoutMs(); got > want {
			f.t.Errorf("the time of the request: got %d ms, want at most %d ms", got, want)
		}
	})
}
