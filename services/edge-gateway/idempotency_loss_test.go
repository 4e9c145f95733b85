package edgegateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// What goes wrong around a request with an Idempotency-Key must neither bill it
// twice nor lose what was paid for.

const keyedHello = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`

func TestAGatewayThatStoodStillAdmitsOnlyWhatItStillClaims(t *testing.T) {
	made := func(t testing.TB) *fleet { return newFleet(t, func(c *Config) { c.AdmitTimeout = 2 * time.Minute }) }
	for _, taken := range []bool{false, true} {
		inBubbleOf(t, made, func(f *fleet, _ func() net.Conn) {
			f.claims.slow = func(asked int) {
				if asked > 1 {
					return
				}
				pass(31 * time.Second)
				if taken {
					f.claims.pass("another")
				}
			}
			resp := f.post(keyedHello, keyed, "k")
			body := read(f.t, resp)
			switch {
			case taken && resp.StatusCode != http.StatusServiceUnavailable:
				t.Errorf("resp.StatusCode: got %d, want 503, where taken (body is %s)", resp.StatusCode, body)
			case taken && resp.Header.Get("Retry-After") == "":
				t.Errorf(`resp.Header.Get("Retry-After"): got "", want some text, where taken (body is %s)`, body)
			case taken && resp.Header.Get("X-Should-Retry") == "false":
				t.Errorf(`resp.Header.Get("X-Should-Retry"): got "false", want any but "false", where taken (body is %s)`, body)
			case !taken && resp.StatusCode != http.StatusOK:
				t.Errorf("resp.StatusCode: got %d, want 200, where not taken (body is %s)", resp.StatusCode, body)
			}
			if n := len(f.billing.admits); (n == 0) != taken {
				t.Errorf("requests admitted: n == 0: got %t, want %t", n == 0, taken)
			}
			if n := f.claims.times(); n != 2 {
				t.Errorf("the claim was asked: got %d, want 2", n)
			}
		})
	}
}

// The log of a request whose claim is lost says how many prompts it has, although none has begun.
func TestPromptsWhoseClaimIsLostAreCounted(t *testing.T) {
	made := func(t testing.TB) *fleet { return newFleet(t, func(c *Config) { c.AdmitTimeout = 2 * time.Minute }) }
	inBubbleOf(t, made, func(f *fleet, _ func() net.Conn) {
		f.claims.slow = func(asked int) {
			if asked == 1 {
				pass(31 * time.Second)
				f.claims.pass("another")
			}
		}
		resp := f.send(completionsPath, asking(3, ""), keyed, "k")
		if body := read(t, resp); resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("got %d %s, want 503", resp.StatusCode, body)
		}
		if n := len(f.billing.admits); n != 0 {
			t.Errorf("got %d prompts admitted, want 0", n)
		}
		synctest.Wait()
		if text := f.log.String(); !strings.Contains(text, " prompts=3 ") {
			t.Errorf("got the log\n%swant prompts=3 in it", text)
		}
	})
}

func TestARequestUnderAClaimAdvancesOnlyOnceItsReportIsTaken(t *testing.T) {
	offered := func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		if req.GetModelId() == "m2" {
			return nil, fault.New(fault.Unavailable, fault.ProvidersBusy, "busy")
		}
		return candidates(providerA), nil
	}
	for _, first := range []string{modelID, "m2"} { // one fails at its provider, one in admission
		for _, lost := range []bool{false, true} {
			f := several(t).start()
			f.router.set(offered)
			f.hub.byModel(map[string]func(*played) error{modelID: failing(upstreamFailed()), "m1": wholeAnswer})
			if lost {
				f.billing.loseAccounts(1)
			}
			resp := f.post(strings.Replace(withModels("m1"), modelID, first, 1), keyed, "k")
			body := read(t, resp)
			w := f.report()
			if !lost {
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s: resp.StatusCode: got %d, want 200, with %s", first, resp.StatusCode, body)
				} else if w.GetContinuedAs() == "" {
					t.Errorf(`%s: w.GetContinuedAs(): got "", want some text, with %s`, first, body)
				}
				f.wantEnd(billingv1.KeyEnd_KEY_END_ANSWERED)
				continue
			}
			switch {
			case resp.StatusCode < 500:
				t.Errorf("%s: resp.StatusCode: got %d, want at least 500", first, resp.StatusCode)
			case !strings.Contains(body, `"request_id":"`+w.GetRequestId()+`"`):
				t.Errorf("%s: body: got %q, want %q in it", first, body, `"request_id":"`+w.GetRequestId()+`"`)
			case resp.Header.Get("X-Request-Id") != w.GetRequestId():
				t.Errorf(`%s: resp.Header.Get("X-Request-Id"): got %q, want %q`, first, resp.Header.Get("X-Request-Id"),
					w.GetRequestId())
			case resp.Header.Get("X-Should-Retry") == "false":
				t.Errorf(`%s: resp.Header.Get("X-Should-Retry"): got "false", want any but "false"`, first)
			}
			switch {
			case w.GetContinuedAs() != "":
				t.Errorf(`%s: the first model attempt: w.GetContinuedAs(): got %q, want ""`, first, w.GetContinuedAs())
			case w.GetErrorCode() == "":
				t.Errorf(`%s: the first model attempt: w.GetErrorCode(): got "", want some text`, first)
			case int(w.GetHttpStatus()) != resp.StatusCode:
				t.Errorf("%s: the first model attempt: w.GetHttpStatus(): got %d, want %d", first, int(w.GetHttpStatus()),
					resp.StatusCode)
			}
			if n := len(f.billing.admits); n != 1 {
				t.Errorf("%s: model attempts admitted: got %d, want 1", first, n)
			}
			f.wantEnd(billingv1.KeyEnd_KEY_END_FORGOTTEN)
		}
	}
}

func TestARequestWithoutAClaimAdvancesThoughItsReportComesLater(t *testing.T) {
	f := several(t).start()
	f.hub.byModel(map[string]func(*played) error{modelID: failing(upstreamFailed()), "m1": wholeAnswer})
	f.billing.loseAccounts(1)
	if resp := f.post(withModels("m1")); resp.StatusCode != http.StatusOK {
		t.Fatalf("resp.StatusCode: got %d, want 200, with %v", resp.StatusCode, read(t, resp))
	}
	continued := 0
	for range 2 {
		if f.report().GetContinuedAs() != "" {
			continued++
		}
	}
	if continued != 1 {
		t.Errorf("model attempts went on: got %d, want 1", continued)
	}
}

// A stream whose headers are sent hears the error in its place.
func TestAStreamThatDoesNotAdvanceGetsTheError(t *testing.T) {
	inBubbleOf(t, func(t testing.TB) *fleet { return several(t) }, func(f *fleet, _ func() net.Conn) {
		f.hub.byModel(map[string]func(*played) error{modelID: func(p *played) error {
			pass(12 * time.Second)
			return p.fail(&hubv1.DispatchFailed{Code: "upstream_error"})
		}, "m1": streamAnswer})
		f.billing.loseAccounts(1)
		resp := f.post(strings.Replace(withModels("m1"), "{", `{"stream":true,`, 1), keyed, "k")
		body := read(f.t, resp)
		switch {
		case strings.Count(body, `data: {"error":`) != 1:
			t.Errorf("strings.Count(…): got %d, want 1", strings.Count(body, `data: {"error":`))
		case strings.Contains(body, "[DONE]"):
			t.Errorf(`body: got %q, want it without "[DONE]"`, body)
		case !strings.Contains(body, `"request_id":"`+resp.Header.Get("X-Request-Id")+`"`):
			t.Errorf("body: got %q, want %q in it", body, `"request_id":"`+resp.Header.Get("X-Request-Id")+`"`)
		}
	})
}

func TestAnAnswerIsKeptThoughItsClientLeavesWhileItIsWritten(t *testing.T) {
	f := start(t)
	const size = 1<<20 - 1<<10
	large := strings.Replace(wholeJSON, "Hello", strings.Repeat("x", size), 1)
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return p.event(large, true, 3) }, p.committed, func() error { return p.finish(9, 3) })
	})
	client := narrow(t, f)()
	fmt.Fprintf(client,
		"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\n%s: k\r\nContent-Length: %d\r\n"+
			"\r\n%s",
		f.key, keyed, len(keyedHello), keyedHello)
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, 1000); err != nil {
		t.Fatal(err)
	}
	client.Close()
	f.wantEnd(billingv1.KeyEnd_KEY_END_ANSWERED)
	again := f.post(keyedHello, keyed, "k")
	if body := read(t, again); again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf(`again.Header.Get(…): got %q, want "true"`, again.Header.Get("Idempotency-Replayed"))
	} else if strings.Count(body, "x") < size {
		t.Errorf(`strings.Count(body, "x"): got %d, want at least %d`, strings.Count(body, "x"), size)
	}
	if w := f.report(); w.GetOutcome() != billingv1.Outcome_OUTCOME_CLIENT_GONE {
		t.Errorf("the request is concluded: got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_CLIENT_GONE)
	}
	if n := len(f.billing.admits); n != 1 {
		t.Errorf("requests admitted: got %d, want 1", n)
	}
}

// narrow serves the gateway on connections that carry nothing that is not read.
func narrow(t *testing.T, f *fleet) (dial func() net.Conn) {
	t.Helper()
	lis := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: f.svc.Handler(), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("got the error %v, want %v", err, http.ErrServerClosed)
		}
	})
	return lis.dial
}

func TestAnAnswerDoesNotWaitForTheEndOfItsClaim(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		status int
	}{"an answer": {keyedHello, 200}, "an error": {`{"model":"tiny"}`, 400}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(c *Config) { c.AdmitTimeout = 20 * time.Second })
			f.claims.stuck = make(chan struct{})
			resp := f.post(c.body, keyed, "k")
			if body := read(t, resp); resp.StatusCode != c.status {
				t.Errorf("resp.StatusCode: got %d, want %d (body is %s)", resp.StatusCode, c.status, body)
			}
			if n := f.claims.ending.Load(); n > 1 {
				t.Errorf("tries to end the claim before the answer came: got %d, want at most 1", n)
			}
			// Whoever asks again meanwhile, on another connection, waits.
			other := &http.Transport{DisableKeepAlives: true}
			ctx, leave := context.WithCancel(t.Context())
			var again sync.WaitGroup
			again.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+"/v1/chat/completions",
					strings.NewReader(c.body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+f.key)
				req.Header.Set(keyed, "k")
				if resp, err := other.RoundTrip(req); err == nil {
					resp.Body.Close()
					t.Errorf("the repeat is answered %d", resp.StatusCode)
				}
			})
			until(t, "the repeat has asked twice, and waits", func() bool { return f.claims.times() >= 3 })
			leave()
			again.Wait()
			close(f.claims.stuck)
			awaited(f.t, f.claims.ended)
		})
	}
}

func TestKeysThatComeTooFastAreRefused(t *testing.T) {
	made := func(t testing.TB) *fleet {
		return newFleet(t, func(c *Config) { c.IdempotencyRate, c.IdempotencyBurst = 1, 2 })
	}
	inBubbleOf(t, made, func(f *fleet, _ func() net.Conn) {
		t := f.t.(*testing.T)
		for i := range 2 {
			read(t, f.post(keyedHello, keyed, itoa(i)))
		}
		resp := f.post(keyedHello, keyed, "2")
		wantError(t, resp, http.StatusTooManyRequests, "rate_limit_exceeded")
		if resp.Header.Get("Retry-After") == "" {
			t.Error("it is not said when to try again")
		}
		if n := f.claims.times(); n != 2 {
			t.Errorf("the store was asked: got %d, want 2", n)
		}
		if resp := f.post(keyedHello); resp.StatusCode != http.StatusOK {
			t.Errorf("without a key: got %d, want 200, with %s", resp.StatusCode, read(t, resp))
		}
	})
}

// waiter sends a request that waits for the first of its Idempotency-Key.
func (f *fleet) waiter(post func() *http.Response) (answered chan *http.Response) {
	asked := f.claims.times()
	answered = make(chan *http.Response, 1)
	go func() { answered <- post() }()
	until(f.t, "it has asked again, and waits", func() bool { return f.claims.times() >= asked+2 })
	return answered
}

// crowd sends a request that runs until proceed is called, and behind it as many as
// wait for it; one more is refused.
func (f *fleet) crowd(waiters int, answer func(*played) error, post func() *http.Response) {
	f.t.Helper()
	runs, proceed := make(chan struct{}), make(chan struct{})
	f.hub.set(func(p *played) error {
		close(runs)
		if err := p.held(proceed); err != nil {
			return err
		}
		return answer(p)
	})
	all := []chan *http.Response{make(chan *http.Response, 1)}
	go func() { all[0] <- post() }()
	awaited(f.t, runs)
	for range waiters {
		all = append(all, f.waiter(post))
	}
	resp := post()
	switch body := read(f.t, resp); {
	case resp.StatusCode != http.StatusTooManyRequests:
		f.t.Errorf("one more: resp.StatusCode: got %d, want 429", resp.StatusCode)
	case !strings.Contains(body, `"code":"concurrency_limit_exceeded"`):
		f.t.Errorf("one more: body: got %q, want %q in it", body, `"code":"concurrency_limit_exceeded"`)
	case resp.Header.Get("Retry-After") == "":
		f.t.Error(`one more: resp.Header.Get("Retry-After"): got "", want some text`)
	case resp.Header.Get("X-Should-Retry") == "false":
		f.t.Error(`one more: resp.Header.Get("X-Should-Retry"): got "false", want any but "false"`)
	}
	close(proceed)
	for _, answered := range all {
		if resp := awaited(f.t, answered); resp.StatusCode != http.StatusOK {
			f.t.Errorf("resp.StatusCode: got %d, want 200, with %s", resp.StatusCode, read(f.t, resp))
		}
	}
}

func TestThoseThatWaitHoldABoundedMemory(t *testing.T) {
	f := start(t, func(c *Config) { c.WaitingMemoryBytes = 400_000 }) // a quarter holds one such body, and not two
	body := strings.Replace(keyedHello, "hi", strings.Repeat("x", 60_000), 1)
	f.crowd(1, wholeAnswer, func() *http.Response { return f.post(body, keyed, "k") })
}

func TestTwoUploadsOfAKeyWaitForOthersAtMost(t *testing.T) {
	f := withSpeech(t)
	body, kind := formBody(t, "b", speech()...)
	f.crowd(2, transcript, func() *http.Response {
		return f.send(transcriptionsPath, body, "Content-Type", kind, keyed, "k")
	})
}

// An upload of unknown length reserves up to twice of what comes.
func TestAnUploadThatMayWaitGivesItsExcessBack(t *testing.T) {
	f := withSpeech(t, func(c *Config) { c.UploadKeyMemoryBytes = 300_000 })
	// above 128 KiB, so 256 KiB are reserved
	body, kind := formBody(t, "b", field{"@file", silence(16_900)}, field{"model", audioID})
	running, proceed := make(chan struct{}), make(chan struct{})
	f.hub.set(func(p *played) error {
		running <- struct{}{}
		if err := p.held(proceed); err != nil {
			return err
		}
		return transcript(p)
	})
	answers := make(chan *http.Response, 2)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.base+transcriptionsPath,
			io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Authorization", "Bearer "+f.key)
		req.Header.Set("Content-Type", kind)
		req.Header.Set(keyed, "k")
		resp, err := f.client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		answers <- resp
	}()
	awaited(t, running)
	go func() { answers <- f.send(transcriptionsPath, body, "Content-Type", kind) }()
	select {
	case <-running:
	case resp := <-answers:
		t.Errorf("there was no room beside it: %d %s", resp.StatusCode, read(t, resp))
		answers <- resp
	case <-time.After(patience):
		t.Fatal("the second upload neither ran nor was answered")
	}
	close(proceed)
	for range 2 {
		resp := awaited(t, answers)
		resp.Body.Close()
	}
}

func TestAKeyHasAShareOfTheMemoryOfUploads(t *testing.T) {
	f := withSpeech(t, func(c *Config) { c.UploadKeyMemoryBytes = 300_000 })
	running, proceed := make(chan struct{}), make(chan struct{})
	f.hub.set(func(p *played) error {
		close(running)
		if err := p.held(proceed); err != nil {
			return err
		}
		return transcript(p)
	})
	big := field{"@file", silence(25_000)}
	first := make(chan *http.Response, 1)
	go func() { first <- f.transcribe(big, field{"model", audioID}) }()
	awaited(t, running)
	resp := f.transcribe(big, field{"model", audioID})
	wantError(t, resp, http.StatusTooManyRequests, "concurrency_limit_exceeded")
	wantHeaders(t, resp.Header, map[string]string{"Retry-After": "2", "X-Should-Retry": ""})
	close(proceed)
	if resp := awaited(t, first); resp.StatusCode != http.StatusOK {
		t.Errorf("the first: got %d, want 200", resp.StatusCode)
	}
}
