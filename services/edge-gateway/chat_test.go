package edgegateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

const hello = `{"model":"acme/tiny-1b","messages":[{"role":"user","content":"Say hello to the world"}]}`

func wantHeaders(t *testing.T, h http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := h.Get(name); got != value {
			t.Errorf("%s: got %q, want %q", name, got, value)
		}
	}
}

func TestAWholeAnswerCarriesItsAttribution(t *testing.T) {
	f := start(t)
	resp := f.post(hello)
	body := read(t, resp)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status: got %d, want 200, with %s", resp.StatusCode, body)
	}
	wantHeaders(t, resp.Header, map[string]string{
		"Content-Type":                   "application/json",
		"X-Svc-Provider-ID":              providerA,
		"X-Svc-Provider-Name":            "Provider a",
		"X-Svc-Connection-Mode":          "websocket",
		"X-Svc-Route-Mode":               "auto",
		"X-Svc-Requested-Provider":       "",
		"X-Svc-Fallback-Reason":          "",
		"X-Svc-Billing-Type":             "payg",
		"X-Svc-Context-Source":           "reported",
		"X-Svc-Context-Length":           "4096",
		"X-Svc-Attempts":                 "1",
		"X-Svc-Cost-Usd":                 "0.00000315",
		"X-Ratelimit-Limit-Requests":     "200",
		"X-Ratelimit-Remaining-Requests": "199",
		"X-Ratelimit-Reset-Requests":     "30.5s",
		"X-Request-ID":                   resp.Header.Get("X-Svc-Request-ID"),
	})
	if resp.Header.Get("X-Svc-Latency-Ms") == "" {
		t.Error(`latency and request id: resp.Header.Get("X-Svc-Latency-Ms"): got "", want some text`)
	} else if resp.Header.Get("X-Svc-Request-ID") == "" {
		t.Error(`latency and request id: resp.Header.Get("X-Svc-Request-ID"): got "", want some text`)
	}
	want := strings.NewReplacer(
		`{"index":0,`, `{"logprobs":null,"index":0,`,
		`{"role":"assistant",`, `{"refusal":null,"role":"assistant",`,
	).Replace(wholeJSON)
	if body != want {
		t.Errorf("body is\n%s\nwant\n%s", body, want)
	}
	w := f.report()
	switch {
	case w.GetRequestId() != resp.Header.Get("X-Svc-Request-ID"):
		t.Errorf("the request report: w.GetRequestId(): got %q, want %q", w.GetRequestId(),
			resp.Header.Get("X-Svc-Request-ID"))
	case w.GetOutcome() != billingv1.Outcome_OUTCOME_COMPLETED:
		t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_COMPLETED)
	case w.GetCommittedAttempt() != 1:
		t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 1", w.GetCommittedAttempt())
	case w.GetRelayedTokens() != 3:
		t.Errorf("the request report: w.GetRelayedTokens(): got %d, want 3", w.GetRelayedTokens())
	case w.GetRelayedBytes() != int64(len(body)):
		t.Errorf("the request report: w.GetRelayedBytes(): got %d, want %d", w.GetRelayedBytes(), int64(len(body)))
	case w.GetHttpStatus() != 200:
		t.Errorf("the request report: w.GetHttpStatus(): got %d, want 200", w.GetHttpStatus())
	case w.GetErrorCode() != "":
		t.Errorf(`the request report: w.GetErrorCode(): got %q, want ""`, w.GetErrorCode())
	case len(w.GetAttempts()) != 1:
		t.Errorf("the request report: len(w.GetAttempts()): got %d, want 1, in %v", len(w.GetAttempts()), w)
	case w.GetAttempts()[0].GetResult() != "served":
		t.Errorf(`the request report: w.GetAttempts()[0].GetResult(): got %q, want "served"`, w.GetAttempts()[0].GetResult())
	}
}

// The hub's stream ends by the hub's own word here, and not because the gateway gave it up: the client has the
// answer before.
func TestAWholeAnswerIsSentBeforeItsHubEndsTheStream(t *testing.T) {
	f := start(t)
	read := make(chan struct{})
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return wholeAnswer(p) }, func() error { return p.held(read) })
	})
	resp := f.post(hello)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	close(read)
	if err := awaited(t, f.hub.ended); err != nil {
		t.Errorf("the end of the stream: got the error %v, want none", err)
	}
}

func TestTheHeadersSayWhereTheWindowIsKnownFrom(t *testing.T) {
	f := start(t)
	for source, want := range map[routerv1.ContextSource]string{
		routerv1.ContextSource_CONTEXT_SOURCE_REPORTED:    "reported",
		routerv1.ContextSource_CONTEXT_SOURCE_MEASURED:    "measured",
		routerv1.ContextSource_CONTEXT_SOURCE_CATALOG:     "catalog",
		routerv1.ContextSource_CONTEXT_SOURCE_UNSPECIFIED: "",
	} {
		f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			resp := candidates(providerA)
			resp.Candidates[0].ContextLength, resp.Candidates[0].ContextSource = 2048, source
			return resp, nil
		})
		resp := f.post(hello)
		body := read(t, resp)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%v: status: got %d, want 200, with %s", source, resp.StatusCode, body)
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-Context-Source": want, "X-Svc-Context-Length": "2048"})
	}
}

func TestDispatchSaysAllThatTheHubNeeds(t *testing.T) {
	f := start(t)
	body := `{ "model" : "tiny", "n": 2, "max_tokens": 10, "seed": 1e2, "vendor": {"a": [1.0, 2]}, ` +
		`"messages":[{"role":"user","content":"hi"}], "usage": {"include": false} }`
	read(t, f.post(body))
	open := awaited(f.t, f.hub.opens)
	want := `{ "model" : "acme/tiny-1b", "n": 2, "max_tokens": 10, "seed": 1e2, "vendor": {"a": [1.0, 2]}, ` +
		`"messages":[{"role":"user","content":"hi"}] }`
	if string(open.GetBody()) != want {
		t.Errorf("body is\n%s\nwant\n%s", open.GetBody(), want)
	}
	span := string(open.GetBody()[open.GetModelOffset() : open.GetModelOffset()+open.GetModelLength()])
	if span != `"acme/tiny-1b"` {
		t.Errorf("the model's span: got %q, want %q", span, `"acme/tiny-1b"`)
	}
	if open.GetModelId() != modelID || open.GetChoices() != 2 || open.GetMaxOutputTokens() != 10 || open.GetStream() ||
		open.GetAttempt() != 1 || open.GetProviderId() != providerA || open.GetNodeId() != "node-1" || open.GetEpoch() != 7 ||
		open.GetPriceVersionId() != "price-1" || open.GetRates().GetOutputPicoUsdPerToken() != 600_000 ||
		open.GetEstimatedPromptTokens() < 1 || open.GetRoute().GetMode() != eventsv1.RouteMode_ROUTE_MODE_AUTO ||
		open.GetTotalTimeoutMs() > 600_000 || open.GetTotalTimeoutMs() < 590_000 {
		t.Errorf("open says %v", open)
	}
	admit, sel := awaited(f.t, f.billing.admits), awaited(f.t, f.router.selects)
	switch {
	case admit.GetMaxCompletionTokens() != 20:
		t.Errorf("admit.GetMaxCompletionTokens(): got %d, want 20", admit.GetMaxCompletionTokens())
	case admit.GetPromptTokens() <= open.GetEstimatedPromptTokens():
		t.Errorf("admit.GetPromptTokens(): got %d, want more than %d", admit.GetPromptTokens(),
			open.GetEstimatedPromptTokens())
	case admit.GetPinned():
		t.Errorf("admit.GetPinned(): got true, want false, with %v", admit)
	case admit.GetKeyId() != "key-1":
		t.Errorf(`admit.GetKeyId(): got %q, want "key-1"`, admit.GetKeyId())
	case admit.GetModelId() != modelID:
		t.Errorf("admit.GetModelId(): got %q, want %q", admit.GetModelId(), modelID)
	}
	switch {
	case sel.GetPromptTokens() != open.GetEstimatedPromptTokens():
		t.Errorf("select: sel.GetPromptTokens(): got %d, want %d", sel.GetPromptTokens(), open.GetEstimatedPromptTokens())
	case sel.GetExplicitMaxTokens() != 10:
		t.Errorf("select: sel.GetExplicitMaxTokens(): got %d, want 10", sel.GetExplicitMaxTokens())
	case sel.GetBodyBytes() != int64(len(want)):
		t.Errorf("select: sel.GetBodyBytes(): got %d, want %d", sel.GetBodyBytes(), int64(len(want)))
	case strings.Join(sel.GetRequiredCapabilities(), " ") != "chat":
		t.Errorf(`select: strings.Join(…): got %q, want "chat"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	case !sel.GetAllowFallbacks():
		t.Errorf("select: sel.GetAllowFallbacks(): got false, want true, with %v", sel)
	}
}

func TestUsageIsAddedToAWholeAnswerThatHasNone(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		return p.steps(
			func() error { return p.event(`{"id":"x","choices":[]}`, true, 3) }, p.committed,
			func() error { return p.finish(9, 3) })
	})
	body := read(t, f.post(strings.Replace(hello, "{", `{"usage":{"include":true},`, 1)))
	var got struct {
		Usage struct {
			Prompt     int     `json:"prompt_tokens"`
			Completion int     `json:"completion_tokens"`
			Total      int     `json:"total_tokens"`
			Cost       float64 `json:"cost"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	switch {
	case got.Usage.Prompt != 9:
		t.Errorf("Usage.Prompt: got %d, want 9", got.Usage.Prompt)
	case got.Usage.Completion != 3:
		t.Errorf("Usage.Completion: got %d, want 3", got.Usage.Completion)
	case got.Usage.Total != 12:
		t.Errorf("Usage.Total: got %d, want 12", got.Usage.Total)
	case got.Usage.Cost != 0.00000315:
		t.Errorf("Usage.Cost: got %v, want 0.00000315", got.Usage.Cost)
	}
}

func TestAStreamIsRelayedEventByEvent(t *testing.T) {
	f := start(t)
	f.hub.set(streamAnswer)
	resp := f.post(strings.Replace(hello, "{", `{"stream":true,`, 1))
	body := read(t, resp)
	want := "data: " + roleChunk + "\n\ndata: " + helloChunk + "\n\ndata: " + moreChunk + "\n\ndata: [DONE]\n\n"
	if body != want {
		t.Errorf("body is\n%s\nwant\n%s", body, want)
	}
	wantHeaders(t, resp.Header, map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"X-Svc-Provider-ID": providerA, "X-Svc-Attempts": "1", "X-Svc-Cost-Usd": "", "Content-Encoding": "",
	})
	w := f.report()
	switch {
	case w.GetRelayedTokens() != 3:
		t.Errorf("the request report: w.GetRelayedTokens(): got %d, want 3", w.GetRelayedTokens())
	case w.GetRelayedBytes() != int64(len(roleChunk)+len(helloChunk)+len(moreChunk)):
		t.Errorf("the request report: w.GetRelayedBytes(): got %d, want %d", w.GetRelayedBytes(),
			int64(len(roleChunk)+len(helloChunk)+len(moreChunk)))
	case !w.GetStream():
		t.Errorf("the request report: w.GetStream(): got false, want true, with %v", w)
	}
	if sel := awaited(f.t, f.router.selects); strings.Join(sel.GetRequiredCapabilities(), " ") != "chat stream" {
		t.Errorf(`select asks: got %q, want "chat stream"`, strings.Join(sel.GetRequiredCapabilities(), " "))
	}
}

// unbound is a body without the bound of the answer that the gateway writes.
func unbound(sent []byte) string { return strings.Replace(string(sent), `"max_tokens":1024,`, "", 1) }

// Hostile test 22: whatever the client says, the engine is asked for usage,
// and the client sees what it asked for.
func TestUsageInAStreamIsAskedForAlwaysAndShownOnRequest(t *testing.T) {
	cases := map[string]struct {
		member string
		sent   string
		shown  bool
	}{
		"absent": {``, `{"stream_options":{"include_usage":true},"stream":true,`, false},
		"null":   {`"stream_options":null,`, `{"stream_options":{"include_usage":true},"stream":true,`, false},
		"false": {`"stream_options":{"include_usage":false,"x":1},`,
			`{"stream_options":{"include_usage":true,"x":1},"stream":true,`, false},
		"empty": {`"stream_options":{},`, `{"stream_options":{"include_usage":true},"stream":true,`, false},
		"other": {`"stream_options":{"x":1},`, `{"stream_options":{"include_usage":true,"x":1},"stream":true,`, false},
		"true": {`"stream_options":{"include_usage":true},`, `{"stream_options":{"include_usage":true},"stream":true,`,
			true},
		"escaped": {`"stream_options":{"include\u005fusage":true},`,
			`{"stream_options":{"include\u005fusage":true},"stream":true,`, true},
	}
	f := start(t)
	f.hub.set(streamAnswer)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			body := read(t, f.post(strings.Replace(hello, "{", "{"+c.member+`"stream":true,`, 1)))
			open := awaited(f.t, f.hub.opens)
			if want := strings.Replace(hello, "{", c.sent, 1); unbound(open.GetBody()) != want {
				t.Errorf("sent\n%s\nwant\n%s", open.GetBody(), want)
			}
			if open.GetIncludeUsage() != c.shown {
				t.Errorf("asked the hub for usage: open.GetIncludeUsage(): got %t, want %t, with %s", open.GetIncludeUsage(),
					c.shown, body)
			} else if strings.Contains(body, usageChunk) != c.shown {
				t.Errorf("asked the hub for usage: strings.Contains(body, usageChunk): got %t, want %t",
					strings.Contains(body, usageChunk), c.shown)
			}
		})
	}
}

func TestTheCostStandsInTheUsageThatAskedForIt(t *testing.T) {
	f := start(t)
	f.hub.set(streamAnswer)
	body := read(t, f.post(strings.Replace(hello, "{", `{"stream":true,"usage":{"include":true},`, 1)))
	want := strings.Replace(usageChunk, `"usage":{`, `"usage":{"cost":0.00000315,`, 1)
	if !strings.HasSuffix(body, "data: "+want+"\n\ndata: [DONE]\n\n") {
		t.Errorf("the stream ends otherwise:\n%s", body)
	}
}

// itself is what an engine says of its answer.
const itself = `"id":"x","object":"o","created":1,"model":"acme/tiny-1b"`

// What is billed is what the client sees, whatever the engine counts.
func TestTheClientSeesWhatIsBilled(t *testing.T) {
	const billed = `"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}`
	f := start(t)
	finish := func(p *played) func() error { return func() error { return p.finish(9, 3) } }
	for _, usage := range []string{
		`{"prompt_tokens":9,"completion_tokens":99999,"total_tokens":100008,"prompt_tokens_details":{}}`,
		`{"prompt_tokens":-1,"completion_tokens":3,"total_tokens":2}`, `{"prompt_tokens":"9"}`, `"many"`,
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`} {
		said := `"usage":` + usage
		f.hub.set(func(p *played) error {
			return p.steps(func() error { return p.event(`{`+itself+`,"choices":[],`+said+`}`, true, 3) }, p.committed,
				finish(p))
		})
		if body := read(t, f.post(hello)); body != `{`+itself+`,"choices":[],`+billed+`}` {
			t.Errorf("whole, %s: got %q, want %q", usage, body, `{`+itself+`,"choices":[],`+billed+`}`)
		}
		withContent := strings.Replace(moreChunk, `{`, `{`+said+`,`, 1)
		alone := strings.Replace(usageChunk, billed, said, 1)
		for name, c := range map[string]struct{ events, want []string }{
			"alone":            {[]string{moreChunk, alone}, []string{quiet(moreChunk), usageChunk}},
			"twice":            {[]string{alone, moreChunk, alone}, []string{quiet(moreChunk), usageChunk}},
			"too early":        {[]string{alone, moreChunk}, []string{quiet(moreChunk), usageChunk}},
			"with the content": {[]string{withContent}, []string{strings.Replace(moreChunk, `{`, `{`+billed+`,`, 1)}},
			"never":            {[]string{moreChunk}, []string{quiet(moreChunk), usageChunk}},
			"null": {[]string{strings.Replace(moreChunk, `{`, `{"usage":null,`, 1)},
				[]string{strings.Replace(moreChunk, `{`, `{"usage":null,`, 1), usageChunk}},
		} {
			f.hub.set(func(p *played) error {
				err := p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed)
				for _, event := range c.events {
					err = errors.Join(err, p.event(event, false, 3))
				}
				return errors.Join(err, finish(p)())
			})
			body := read(t, f.post(strings.Replace(hello, "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)))
			want := "data: " + strings.Join(append([]string{quiet(helloChunk)}, c.want...), "\n\ndata: ") +
				"\n\ndata: [DONE]\n\n"
			if strings.ReplaceAll(body, usageMade, usageChunk) != want {
				t.Errorf("%s, %s:\n%s\nwant\n%s", name, usage, body, want)
			}
		}
	}
}

// quiet is a chunk as it is shown to a client that asked for usage.
func quiet(chunk string) string { return strings.Replace(chunk, "{", `{"usage":null,`, 1) }

// usageMade is usageChunk as the gateway makes it.
const usageMade = `{"id":"x","created":1,"model":"acme/tiny-1b","object":"chat.completion.chunk","choices":[],` +
	`"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`

func TestContentThatWaitsForItsUsageIsNotLostWithTheProvider(t *testing.T) {
	f := start(t)
	last := strings.Replace(moreChunk, `{`, `{"usage":{},`, 1)
	f.hub.set(func(p *played) error {
		return p.steps(
			func() error { return p.event(helloChunk, true, 1) }, p.committed,
			func() error { return p.event(last, false, 2) },
			func() error { return p.fail(upstreamFailed()) })
	})
	body := read(t, f.post(strings.Replace(hello, "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)))
	if !strings.HasPrefix(body, "data: "+quiet(helloChunk)+"\n\ndata: "+last+"\n\n") {
		t.Errorf("body: got %q, want the prefix %q", body, "data: "+quiet(helloChunk)+"\n\ndata: "+last+"\n\n")
	} else if !strings.Contains(body, `data: {"error":`) {
		t.Errorf("body: got %q, want %q in it", body, `data: {"error":`)
	}
}

func TestDoneFollowsOnlyOnFinished(t *testing.T) {
	f := start(t)
	release := make(chan struct{})
	f.hub.set(func(p *played) error {
		return p.steps(
			func() error { return p.event(helloChunk, true, 1) }, p.committed,
			func() error { return p.event(moreChunk, false, 2) },
			func() error { return p.held(release) }, func() error { return p.finish(1, 2) })
	})
	resp := f.post(strings.Replace(hello, "{", `{"stream":true,`, 1))
	want := "data: " + helloChunk + "\n\ndata: " + moreChunk + "\n\n"
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		m, err := resp.Body.Read(got[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if string(got) != want {
		t.Errorf("got %q, want %q", string(got), want)
	}
	close(release)
	if rest := read(t, resp); rest != "data: [DONE]\n\n" {
		t.Errorf("the rest: got %q, want %q", rest, "data: [DONE]\n\n")
	}
}

func TestLineEndsWithinAnEventDoNotBreakIt(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		return p.steps(
			func() error { return p.event("{\r\n"+itself+",\"choices\":\n[]}", true, 1) }, p.committed,
			func() error { return p.finish(1, 1) })
	})
	body := read(t, f.post(strings.Replace(hello, "{", `{"stream":true,`, 1)))
	if body != "data: {  "+itself+",\"choices\": []}\n\ndata: [DONE]\n\n" {
		t.Errorf("body: got %q, want %q", body, "data: {  "+itself+",\"choices\": []}\n\ndata: [DONE]\n\n")
	}
}
