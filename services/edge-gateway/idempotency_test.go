package edgegateway

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// claims keeps claims as billing-ledger does, for as long as a test lasts.
type claims struct {
	billingv1.UnimplementedIdempotencyServiceServer
	ended chan *billingv1.FinishKeyRequest
	// ending counts the calls that end a claim, also the calls that are stuck.
	ending atomic.Int32

	mu    sync.Mutex
	err   error
	asked int
	kept  map[string]*claimed
	slow  func(asked int) // goes ahead of an answer that grants the claim
	stuck chan struct{}   // no claim is ended before it is closed; nil for none
}

// pass gives all claims to another request.
func (c *claims) pass(holder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.kept {
		one.holder = holder
	}
}

// claimed is what is known under a token.
type claimed struct {
	holder  string
	content []byte
	end     billingv1.KeyEnd
	answer  *billingv1.KeptAnswer
}

func (c *claims) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *claims) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

func (c *claims) ClaimKey(_ context.Context, req *billingv1.ClaimKeyRequest) (*billingv1.ClaimKeyResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.err != nil {
		return nil, c.err
	}
	name := req.GetKeyId() + string(req.GetTokenSha256())
	now := c.kept[name]
	if now == nil {
		now = &claimed{holder: req.GetRequestId(), content: req.GetRequestSha256()}
		c.kept[name] = now
	}
	resp := &billingv1.ClaimKeyResponse{RequestId: now.holder}
	switch {
	case !bytes.Equal(now.content, req.GetRequestSha256()):
		resp.State = billingv1.KeyClaim_KEY_CLAIM_REUSED
	case now.end == billingv1.KeyEnd_KEY_END_ANSWERED:
		resp.State, resp.Answer = billingv1.KeyClaim_KEY_CLAIM_ANSWERED, now.answer
	case now.end == billingv1.KeyEnd_KEY_END_NOT_KEPT:
		resp.State = billingv1.KeyClaim_KEY_CLAIM_GONE
	case now.holder == req.GetRequestId():
		resp.State = billingv1.KeyClaim_KEY_CLAIM_GRANTED
		if asked := c.asked; c.slow != nil {
			c.mu.Unlock()
			c.slow(asked)
			c.mu.Lock()
		}
	default:
		resp.State = billingv1.KeyClaim_KEY_CLAIM_RUNNING
	}
	return resp, nil
}

func (c *claims) FinishKey(_ context.Context, req *billingv1.FinishKeyRequest) (*billingv1.FinishKeyResponse, error) {
	c.ending.Add(1)
	if c.stuck != nil {
		<-c.stuck
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := req.GetKeyId() + string(req.GetTokenSha256())
	if now := c.kept[name]; now != nil && now.holder == req.GetRequestId() {
		now.end, now.answer = req.GetEnd(), req.GetAnswer()
		if now.end == billingv1.KeyEnd_KEY_END_FORGOTTEN {
			delete(c.kept, name)
		}
	}
	c.ended <- req
	return &billingv1.FinishKeyResponse{}, nil
}

const keyed = "Idempotency-Key"

// wantEnd waits for the end of a claim.
func (f *fleet) wantEnd(want billingv1.KeyEnd) {
	f.t.Helper()
	if got := awaited(f.t, f.claims.ended); got.GetEnd() != want {
		f.t.Errorf("the claim is ended: got %s, want %s", got.GetEnd(), want)
	}
}

// refused reads an answer that is an error and is not to be sent again.
func refused(t testing.TB, resp *http.Response, status int, code string) string {
	t.Helper()
	body := read(t, resp)
	switch {
	case resp.StatusCode != status:
		t.Errorf("resp.StatusCode: got %d, want %d, with %s", resp.StatusCode, status, code)
	case !strings.Contains(body, `"code":"`+code+`"`):
		t.Errorf("body: got %q, want %q in it, with %s", body, `"code":"`+code+`"`, code)
	case resp.Header.Get("X-Should-Retry") != "false":
		t.Errorf(`resp.Header.Get("X-Should-Retry"): got %q, want "false", with %s`, resp.Header.Get("X-Should-Retry"), code)
	}
	return body
}

func TestARepeatedRequestIsAnsweredFromWhatIsKept(t *testing.T) {
	f := start(t)
	const body = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
	first := f.post(body, keyed, "one")
	said := read(t, first)
	f.wantEnd(billingv1.KeyEnd_KEY_END_ANSWERED)
	again := f.post(body, keyed, "one")
	if got := read(t, again); got != said {
		t.Errorf("read(t, again): got %q, want %q", got, said)
	} else if again.StatusCode != http.StatusOK {
		t.Errorf("the repeat: got %d, want 200", again.StatusCode)
	}
	for _, name := range []string{"X-Request-Id", "X-Svc-Request-Id", "X-Svc-Provider-Id", "X-Svc-Cost-Usd",
		"X-Svc-Attempts", "X-Svc-Billing-Type", "Content-Type"} {
		if first.Header.Get(name) == "" {
			t.Errorf(`%s: first.Header.Get(name): got "", want some text`, name)
		} else if first.Header.Get(name) != again.Header.Get(name) {
			t.Errorf("%s: again.Header.Get(name): got %q, want %q", name, again.Header.Get(name), first.Header.Get(name))
		}
	}
	if first.Header.Get("Idempotency-Replayed") != "" {
		t.Errorf(`Idempotency-Replayed: got %q, want ""`, first.Header.Get("Idempotency-Replayed"))
	} else if again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf(`again.Header.Get(…): got %q, want "true"`, again.Header.Get("Idempotency-Replayed"))
	}
	other := f.post(strings.Replace(body, "hi", "ho", 1), keyed, "one")
	refused(t, other, http.StatusUnprocessableEntity, "idempotency_key_reused")
	if n := len(f.billing.admits); n != 1 {
		t.Errorf("requests admitted: got %d, want 1", n)
	}
	// Without the key, and with another, it is a request of its own.
	read(t, f.post(body))
	read(t, f.post(body, keyed, "two"))
	if n := len(f.billing.admits); n != 3 {
		t.Errorf("requests admitted: got %d, want 3", n)
	}
}

func TestAStreamAndALargeAnswerAreNotKept(t *testing.T) {
	f := start(t)
	large := strings.Replace(wholeJSON, "Hello", strings.Repeat("x", 1<<20), 1)
	for token, script := range map[string]func(*played) error{
		"stream": streamAnswer,
		"large": func(p *played) error {
			return p.steps(func() error { return p.event(large, true, 3) }, p.committed, func() error { return p.finish(9, 3) })
		},
	} {
		f.hub.set(script)
		body := `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
		if token == "stream" {
			body = strings.Replace(body, "{", `{"stream":true,`, 1)
		}
		first := f.post(body, keyed, token)
		read(t, first)
		f.wantEnd(billingv1.KeyEnd_KEY_END_NOT_KEPT)
		answer := refused(t, f.post(body, keyed, token), http.StatusUnprocessableEntity, "idempotency_answer_gone")
		if !strings.Contains(answer, "/api/v1/requests/"+first.Header.Get("X-Request-Id")) {
			t.Errorf("%s: got %q, want %q in it, with %s", token, answer, "/api/v1/requests/"+first.Header.Get("X-Request-Id"),
				first.Header.Get("X-Request-Id"))
		}
	}
}

func TestARequestThatCostNothingRunsAgain(t *testing.T) {
	f := start(t)
	const body = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
	for _, tc := range []struct {
		name, body string
		status     int
		before     func()
	}{
		{"a bad body", `{"model":"tiny"}`, 400, func() {}},
		{"no credit", body, 402, func() { f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "x")) }},
		{"a failure", body, 502, func() { f.billing.refuse(nil); f.hub.set(failing(upstreamFailed())) }},
		{"a refusal", body, 400, func() { f.hub.set(failing(&hubFailed)) }},
	} {
		tc.before()
		for range 2 {
			if resp := f.post(tc.body, keyed, tc.name); resp.StatusCode != tc.status {
				t.Errorf("%s: resp.StatusCode: got %d, want %d, with %s", tc.name, resp.StatusCode, tc.status, read(t, resp))
			} else if resp.Header.Get("Idempotency-Replayed") != "" {
				t.Errorf(`%s: resp.Header.Get(…): got %q, want "", with %s`, tc.name, resp.Header.Get("Idempotency-Replayed"),
					read(t, resp))
			}
			f.wantEnd(billingv1.KeyEnd_KEY_END_FORGOTTEN)
		}
		f.hub.set(wholeAnswer)
	}
}

func TestARequestThatBreaksOffAfterContentIsNotRunAgain(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed,
			func() error { return p.fail(upstreamFailed()) })
	})
	body := `{"stream":true,"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
	read(t, f.post(body, keyed, "k"))
	f.wantEnd(billingv1.KeyEnd_KEY_END_NOT_KEPT)
	refused(t, f.post(body, keyed, "k"), http.StatusUnprocessableEntity, "idempotency_answer_gone")
}

func TestTheSecondOfTwoWaitsForTheFirst(t *testing.T) {
	f := start(t)
	runs, proceed := make(chan struct{}), make(chan struct{})
	f.hub.set(func(p *played) error {
		close(runs)
		if err := p.held(proceed); err != nil {
			return err
		}
		return wholeAnswer(p)
	})
	const body = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
	answers := make(chan string, 2)
	post := func() { answers <- read(t, f.post(body, keyed, "k")) }
	var both sync.WaitGroup
	both.Go(post)
	awaited(t, runs)
	both.Go(post)
	until(t, "the second has asked twice, and waits", func() bool { return f.claims.times() >= 3 })
	close(proceed)
	both.Wait()
	if a, b := awaited(t, answers), awaited(t, answers); a != b {
		t.Errorf("the answers: a: got %q, want %q", a, b)
	} else if !strings.Contains(a, "Hello") {
		t.Errorf(`the answers: a: got %q, want "Hello" in it`, a)
	}
	if n := len(f.billing.admits); n != 1 {
		t.Errorf("requests admitted: got %d, want 1", n)
	}
}

// The claim is granted long after the key was looked up, and whoever has it is served.
func TestAKeyThatIsRevokedWhileItsRequestWaitsIsRefused(t *testing.T) {
	f := start(t)
	runs, fails := make(chan struct{}), make(chan struct{})
	f.hub.set(func(p *played) error {
		close(runs)
		if err := p.held(fails); err != nil {
			return err
		}
		return failing(&hubFailed)(p)
	})
	const body = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
	var both sync.WaitGroup
	both.Go(func() { read(t, f.post(body, keyed, "k")) })
	awaited(t, runs)
	waited := make(chan *http.Response, 1)
	both.Go(func() { waited <- f.post(body, keyed, "k") })
	until(t, "the second has asked twice, and waits", func() bool { return f.claims.times() >= 3 })
	f.keys.set(fault.New(fault.Unauthenticated, fault.KeyRevoked, "no"))
	f.clock.standStill(2 * time.Second) // what is remembered of the key is no longer fresh
	close(fails)
	both.Wait()
	answer := refused(t, awaited(t, waited), http.StatusUnauthorized, "key_revoked")
	if want := "This API key has been revoked."; !strings.Contains(answer, want) {
		t.Errorf("got %s for the waiting request, want %q", answer, want)
	}
	if n := len(f.billing.admits); n != 1 {
		t.Errorf("got %d requests were admitted, want the first only", n)
	}
}

func TestAClientThatLeavesEndsItsClaim(t *testing.T) {
	f := start(t)
	runs := make(chan struct{})
	f.hub.set(func(p *played) error {
		close(runs)
		return untilCanceled(p)
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+"/v1/chat/completions",
		strings.NewReader(`{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.key)
	req.Header.Set(keyed, "k")
	go func() {
		select {
		case <-runs:
		case <-ctx.Done():
		}
		leave()
	}()
	if resp, err := f.client.Do(req); err == nil {
		resp.Body.Close()
		t.Fatal("it was answered")
	}
	// Whether something is billed is for billing-ledger to see.
	f.wantEnd(billingv1.KeyEnd_KEY_END_FORGOTTEN)
	if w := f.report(); w.GetOutcome() != billingv1.Outcome_OUTCOME_CLIENT_GONE {
		t.Errorf("the request is concluded: got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_CLIENT_GONE)
	}
}

func TestWithoutTheStoreNothingRuns(t *testing.T) {
	f := start(t)
	f.claims.refuse(fault.New(fault.Unavailable, fault.ServiceUnavailable, "the store cannot be reached"))
	resp := f.post(`{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`, keyed, "k")
	if body := read(t, resp); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("resp.StatusCode: got %d, want 503 (body is %s)", resp.StatusCode, body)
	} else if resp.Header.Get("Retry-After") == "" {
		t.Errorf(`resp.Header.Get("Retry-After"): got "", want some text (body is %s)`, body)
	}
	if n := len(f.billing.admits); n != 0 {
		t.Errorf("requests admitted: got %d, want 0", n)
	}
}

func TestAMalformedIdempotencyKeyIsRefusedInItsPlace(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxBodyBytes = 1000 })
	const body = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`
	for _, headers := range [][]string{{keyed, ""}, {keyed, strings.Repeat("x", 256)}, {keyed, "a", keyed, "a"},
		{keyed, "é"}} {
		answer := refused(t, f.post(body, headers...), http.StatusBadRequest, "invalid_value")
		if !strings.Contains(answer, `"param":"Idempotency-Key"`) {
			t.Errorf("%q: got %q, want %q in it", headers, answer, `"param":"Idempotency-Key"`)
		}
	}
	long := body + strings.Repeat(" ", 1000)
	refused(t, f.post(long, keyed, ""), http.StatusRequestEntityTooLarge, "request_too_large")
	refused(t, f.do(http.MethodPost, "/v1/chat/completions", body, "Authorization", "Bearer nonsense", keyed, ""),
		http.StatusUnauthorized, "invalid_api_key")
	if n := f.claims.times(); n != 0 {
		t.Errorf("the store was asked: got %d, want 0", n)
	}
}

func TestAKeyedBodyReachesTheProviderUnchanged(t *testing.T) {
	f := start(t)
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 2000) + `"}],"model":"` +
		modelID + `","max_tokens":5}`
	read(t, f.post(body))
	read(t, f.post(body, keyed, "k"))
	plain, withKey := awaited(f.t, f.hub.opens), awaited(f.t, f.hub.opens)
	if !bytes.Equal(plain.GetBody(), withKey.GetBody()) {
		t.Errorf("%d bytes are sent without the key, %d others with it: plain.GetBody(): got %q, want %q",
			len(plain.GetBody()), len(withKey.GetBody()), plain.GetBody(), withKey.GetBody())
	} else if len(plain.GetBody()) < 10_000 {
		t.Errorf("%d bytes are sent without the key, %d others with it: len(plain.GetBody()): got %d, want at least 10_000",
			len(plain.GetBody()), len(withKey.GetBody()), len(plain.GetBody()))
	}
}
