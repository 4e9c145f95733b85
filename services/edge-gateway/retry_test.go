package edgegateway

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

const helloStream = `{"stream":true,"model":"acme/tiny-1b","messages":[{"role":"user","content":"Say hello to the ` +
	`world"}]}`

type errorBody struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func TestAFailureBeforeContentMovesOn(t *testing.T) {
	failures := map[string]func(*played) error{
		"failed":       failing(upstreamFailed()),
		"timeout":      failing(&hubv1.DispatchFailed{Retryable: true, Code: "timeout"}),
		"busy":         failing(&hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", Busy: true}),
		"session gone": refusing(fault.New(fault.Unavailable, fault.SessionGone, "gone")),
		"no slot":      refusing(fault.New(fault.Unavailable, fault.ProviderBusy, "busy")),
		"draining":     refusing(fault.New(fault.Unavailable, fault.HubDraining, "draining")),
		"hub broke":    refusing(errors.New("boom")),
		"no outcome":   refusing(nil),
		"empty finish": func(p *played) error { return p.finish(0, 0) },
		"cut early": func(p *played) error {
			return errors.Join(p.event(roleChunk, false, 0), errors.New("boom"))
		},
	}
	f := start(t)
	for name, failure := range failures {
		if name == "cut early" {
			continue // a whole answer is committed by its first event
		}
		t.Run("whole/"+name, func(t *testing.T) {
			f.hub.byAttempt(failure, wholeAnswer)
			resp := f.post(hello)
			switch body := read(t, resp); {
			case resp.StatusCode != 200:
				t.Errorf("resp.StatusCode: got %d, want 200 (body is %s)", resp.StatusCode, body)
			case resp.Header.Get("X-Svc-Attempts") != "2":
				t.Errorf(`resp.Header.Get("X-Svc-Attempts"): got %q, want "2" (body is %s)`,
					resp.Header.Get("X-Svc-Attempts"), body)
			case resp.Header.Get("X-Svc-Provider-ID") != providerB:
				t.Errorf(`resp.Header.Get("X-Svc-Provider-ID"): got %q, want %q (body is %s)`,
					resp.Header.Get("X-Svc-Provider-ID"), providerB, body)
			}
			w := f.report()
			switch {
			case w.GetCommittedAttempt() != 2:
				t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 2", w.GetCommittedAttempt())
			case len(w.GetAttempts()) != 2:
				t.Errorf("the request report: len(w.GetAttempts()): got %d, want 2, in %v", len(w.GetAttempts()), w)
			case w.GetAttempts()[0].GetResult() == "served":
				t.Error(`the request report: w.GetAttempts()[0].GetResult(): got "served", want any but "served"`)
			case w.GetAttempts()[1].GetProviderId() != providerB:
				t.Errorf("the request report: w.GetAttempts()[1].GetProviderId(): got %q, want %q",
					w.GetAttempts()[1].GetProviderId(), providerB)
			}
		})
	}
	for name, failure := range failures {
		t.Run("stream/"+name, func(t *testing.T) {
			f.hub.byAttempt(failure, streamAnswer)
			resp := f.post(helloStream)
			switch body := read(t, resp); {
			case resp.Header.Get("X-Svc-Attempts") != "2":
				t.Errorf(`resp.Header.Get("X-Svc-Attempts"): got %q, want "2"`, resp.Header.Get("X-Svc-Attempts"))
			case strings.Count(body, roleChunk) != 1:
				t.Errorf("strings.Count(body, roleChunk): got %d, want 1", strings.Count(body, roleChunk))
			case !strings.HasSuffix(body, "[DONE]\n\n"):
				t.Errorf("body: got %q, want the suffix %q", body, "[DONE]\n\n")
			}
			if w := f.report(); w.GetCommittedAttempt() != 2 {
				t.Errorf("the request report: got %d, want 2", w.GetCommittedAttempt())
			}
		})
	}
}

func TestNothingIsTriedAgainAfterContent(t *testing.T) {
	f := start(t)
	endings := map[string]func(*played) error{
		"failed":  func(p *played) error { return p.fail(&hubv1.DispatchFailed{Code: "upstream_error"}) },
		"claimed": func(p *played) error { return p.fail(upstreamFailed()) }, // retryable is a lie by then
		"broke":   func(*played) error { return errors.New("boom") },
		"silent":  func(*played) error { return nil },
	}
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			f.hub.set(func(p *played) error {
				return p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed, func() error { return ending(p) })
			})
			body := read(t, f.post(helloStream))
			first, rest, _ := strings.Cut(body, "\n\n")
			switch {
			case first != "data: "+helloChunk:
				t.Errorf("first: got %q, want %q", first, "data: "+helloChunk)
			case !strings.HasPrefix(rest, `data: {"error":{"message":`):
				t.Errorf("rest: got %q, want the prefix %q", rest, `data: {"error":{"message":`)
			case strings.Contains(body, "[DONE]"):
				t.Errorf(`body: got %q, want it without "[DONE]"`, body)
			case !strings.Contains(rest, `"code":"upstream_error"`):
				t.Errorf("rest: got %q, want %q in it", rest, `"code":"upstream_error"`)
			case !strings.Contains(rest, `"request_id":"`):
				t.Errorf("rest: got %q, want %q in it", rest, `"request_id":"`)
			}
			w := f.report()
			switch {
			case w.GetCommittedAttempt() != 1:
				t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 1", w.GetCommittedAttempt())
			case len(w.GetAttempts()) != 1:
				t.Errorf("the request report: len(w.GetAttempts()): got %d, want 1, in %v", len(w.GetAttempts()), w)
			case w.GetOutcome() != billingv1.Outcome_OUTCOME_FAILED:
				t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_FAILED)
			case w.GetErrorCode() != "upstream_error":
				t.Errorf(`the request report: w.GetErrorCode(): got %q, want "upstream_error"`, w.GetErrorCode())
			case w.GetHttpStatus() != 200:
				t.Errorf("the request report: w.GetHttpStatus(): got %d, want 200", w.GetHttpStatus())
			}
		})
	}
}

// A whole answer that fails after its commit is an error with a status, since
// nothing was written.
func TestAWholeAnswerNeverBeginsBeforeItIsComplete(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return p.event(wholeJSON, true, 3) }, p.committed,
			func() error { return p.fail(&hubv1.DispatchFailed{Code: "upstream_error"}) })
	})
	resp := f.post(hello)
	wantError(t, resp, http.StatusBadGateway, "upstream_error")
	if w := f.report(); w.GetCommittedAttempt() != 1 {
		t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 1", w.GetCommittedAttempt())
	} else if w.GetHttpStatus() != http.StatusBadGateway {
		t.Errorf("the request report: w.GetHttpStatus(): got %d, want 502", w.GetHttpStatus())
	}
}

func TestOneAttemptIsSpokenOfInTheSingular(t *testing.T) {
	f := start(t)
	for code, want := range map[string]string{
		"upstream_error": "The only attempt failed upstream.", "timeout": "No provider answered in time, after 1 attempt.",
	} {
		asked := false
		f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			if asked {
				return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody else")
			}
			asked = true
			return candidates(providerA), nil
		})
		f.hub.set(failing(&hubv1.DispatchFailed{Retryable: true, Code: code}))
		resp := f.post(hello)
		if e := wantError(t, resp, resp.StatusCode, code); e.Error.Message != want {
			t.Errorf("the message: got %q, want %q", e.Error.Message, want)
		}
	}
}

func TestWhenAllAttemptsFailTheLastWordFitsThem(t *testing.T) {
	failed, timeout := failing(upstreamFailed()), failing(&hubv1.DispatchFailed{Retryable: true, Code: "timeout"})
	busy := refusing(fault.New(fault.Unavailable, fault.ProviderBusy, "busy"))
	cases := map[string]struct {
		scripts []func(*played) error
		status  int
		code    string
	}{
		"failed":           {[]func(*played) error{failed, failed, failed}, 502, "upstream_error"},
		"timeouts":         {[]func(*played) error{timeout, timeout, timeout}, 504, "timeout"},
		"busy":             {[]func(*played) error{busy, busy, busy}, 503, "providers_busy"},
		"timeout and busy": {[]func(*played) error{timeout, busy, busy}, 502, "upstream_error"},
	}
	f := start(t)
	f.router.set(func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		return candidates(providerA, providerB, providerC), nil
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f.hub.byAttempt(c.scripts...)
			resp := f.post(hello)
			e := wantError(t, resp, c.status, c.code)
			if c.code == "upstream_error" && !strings.Contains(e.Error.Message, "3") {
				t.Errorf("the message does not count: %s", e.Error.Message)
			}
			if resp.Header.Get("X-Svc-Attempts") != "3" {
				t.Errorf(`attempts: got %q, want "3"`, resp.Header.Get("X-Svc-Attempts"))
			}
			if w := f.report(); w.GetCommittedAttempt() != 0 {
				t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 0", w.GetCommittedAttempt())
			} else if len(w.GetAttempts()) != 3 {
				t.Errorf("the request report: len(w.GetAttempts()): got %d, want 3, in %v", len(w.GetAttempts()), w)
			}
		})
	}
}

func TestTheRouterIsAskedAgainForOthers(t *testing.T) {
	f := start(t)
	f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		if len(req.GetExcludeProviderIds()) == 1 && req.GetExcludeProviderIds()[0] == providerA {
			return candidates(providerC), nil
		}
		return candidates(providerA), nil
	})
	f.hub.byAttempt(failing(upstreamFailed()), wholeAnswer)
	if resp := f.post(hello); resp.Header.Get("X-Svc-Provider-ID") != providerC {
		t.Errorf("served: got %q, want %q", resp.Header.Get("X-Svc-Provider-ID"), providerC)
	}
	// When it knows no other providers, the client gets the failure.
	f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		if len(req.GetExcludeProviderIds()) > 0 {
			return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody")
		}
		return candidates(providerA), nil
	})
	f.hub.set(failing(upstreamFailed()))
	wantError(t, f.post(hello), http.StatusBadGateway, "upstream_error")
}

func TestAnEngineRefusalIsFinalAndInItsOwnWords(t *testing.T) {
	f := start(t)
	f.hub.set(failing(&hubv1.DispatchFailed{
		Code: "engine_refused", EngineStatus: 422, Message: "tools are not supported", EngineType: "BadRequest",
		EngineParam: "tools", EngineCode: "x",
	}))
	resp := f.post(hello)
	e := wantError(t, resp, 422, "x")
	switch {
	case e.Error.Message != "tools are not supported":
		t.Errorf(`e.Error.Message: got %q, want "tools are not supported"`, e.Error.Message)
	case e.Error.Type != "BadRequest":
		t.Errorf(`e.Error.Type: got %q, want "BadRequest"`, e.Error.Type)
	case e.Error.Param == nil:
		t.Error("e.Error.Param: got nil, want a value")
	case *e.Error.Param != "tools":
		t.Errorf(`*e.Error.Param: got %q, want "tools"`, *e.Error.Param)
	}
	wantHeaders(t, resp.Header, map[string]string{"X-Should-Retry": "false", "X-Svc-Provider-ID": providerA,
		"X-Svc-Attempts": "1"})
	w := f.report()
	switch {
	case w.GetOutcome() != billingv1.Outcome_OUTCOME_REFUSED:
		t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(), billingv1.Outcome_OUTCOME_REFUSED)
	case w.GetCommittedAttempt() != 0:
		t.Errorf("the request report: w.GetCommittedAttempt(): got %d, want 0", w.GetCommittedAttempt())
	case w.GetAttempts()[0].GetResult() != "refused":
		t.Errorf(`the request report: w.GetAttempts()[0].GetResult(): got %q, want "refused"`, w.GetAttempts()[0].GetResult())
	case w.GetErrorCode() != "engine_refused":
		t.Errorf(`the request report: w.GetErrorCode(): got %q, want "engine_refused"`, w.GetErrorCode())
	}
	for engine, want := range map[int32]int{409: 400, 401: 502, 403: 502, 402: 502, 400: 400, 413: 413} {
		f.hub.set(failing(&hubv1.DispatchFailed{Code: "engine_refused", EngineStatus: engine, Message: "no"}))
		if resp := f.post(hello); resp.StatusCode != want {
			t.Errorf("engine status %d: got %d, want %d", engine, resp.StatusCode, want)
		}
	}
}

// pinnedCase is a pinned request: what the router and the providers do, and the answer.
type pinnedCase struct {
	allow   string
	answer  func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error)
	scripts []func(*played) error
	status  int
	code    string
	served  string
	reason  string
}

func TestPinsAreHonouredOrExplained(t *testing.T) {
	failed := failing(upstreamFailed())
	gone := refusing(fault.New(fault.Unavailable, fault.SessionGone, "gone"))
	fallback := func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		resp := candidates(providerB)
		resp.FallbackReason = eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_UNAVAILABLE
		return resp, nil
	}
	pinned := func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		return candidates(providerA, providerB), nil
	}
	alone := func(*routerv1.SelectRequest) (*routerv1.SelectResponse, error) { return candidates(providerA), nil }
	cases := map[string]pinnedCase{
		"served":                   {"", pinned, []func(*played) error{wholeAnswer}, 200, "", providerA, ""},
		"served without fallbacks": {"FALSE", alone, []func(*played) error{wholeAnswer}, 200, "", providerA, ""},
		"unavailable": {"true", fallback, []func(*played) error{wholeAnswer}, 200, "", providerB,
			"requested_provider_unavailable"},
		"failed": {"True", pinned, []func(*played) error{failed, wholeAnswer}, 200, "", providerB,
			"requested_provider_failed"},
		"gone at dispatch": {"", pinned, []func(*played) error{gone, wholeAnswer}, 200, "", providerB,
			"requested_provider_unavailable"},
		"failed, no fallbacks": {"false", alone, []func(*played) error{failed}, 502, "requested_provider_failed", "",
			""},
		"gone, no fallbacks": {"false", alone, []func(*played) error{gone}, 503, "requested_provider_unavailable", "",
			""},
		"fallback's fallback failed": {"", pinned, []func(*played) error{failed, failed, wholeAnswer}, 502, "upstream_error",
			"", "requested_provider_failed"},
	}
	f := start(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { f.wantPinned(t, c) })
	}
}

// wantPinned sends a pinned request and looks at its answer and its report.
func (f *fleet) wantPinned(t *testing.T, c pinnedCase) {
	t.Helper()
	f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		if len(req.GetExcludeProviderIds()) > 0 {
			if !req.GetAllowFallbacks() {
				t.Error("a pin without fallbacks asked for others")
			}
			return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody")
		}
		if req.GetPinnedProviderId() != providerA {
			t.Errorf("select: req.GetPinnedProviderId(): got %q, want %q", req.GetPinnedProviderId(), providerA)
		} else if req.GetAllowFallbacks() == strings.EqualFold(c.allow, "false") {
			t.Errorf("select: req.GetAllowFallbacks(): got %t, want any but %t", req.GetAllowFallbacks(),
				strings.EqualFold(c.allow, "false"))
		}
		return c.answer(req)
	})
	f.hub.byAttempt(c.scripts...)
	headers := []string{"X-Svc-Provider", strings.ToUpper(providerA)}
	if c.allow != "" {
		headers = append(headers, "X-Svc-Allow-Fallbacks", c.allow)
	}
	resp := f.post(hello, headers...)
	if c.code != "" {
		wantError(t, resp, c.status, c.code)
		if final := resp.Header.Get("X-Should-Retry") == "false"; final != (c.allow == "false") {
			t.Errorf("X-Should-Retry is %q: got %t, want %t", resp.Header.Get("X-Should-Retry"), final, c.allow == "false")
		}
	}
	wantHeaders(t, resp.Header, map[string]string{
		"X-Svc-Route-Mode": "explicit", "X-Svc-Requested-Provider": providerA,
		"X-Svc-Provider-ID": c.served, "X-Svc-Fallback-Reason": c.reason,
	})
	w := f.report()
	if w.GetRoute().GetMode() != eventsv1.RouteMode_ROUTE_MODE_EXPLICIT {
		t.Errorf("the request report: w.GetRoute().GetMode(): got %v, want %v", w.GetRoute().GetMode(),
			eventsv1.RouteMode_ROUTE_MODE_EXPLICIT)
	} else if w.GetRoute().GetRequestedProviderId() != providerA {
		t.Errorf("the request report: w.GetRoute().GetRequestedProviderId(): got %q, want %q",
			w.GetRoute().GetRequestedProviderId(), providerA)
	}
	for {
		select {
		case a := <-f.billing.admits:
			if !a.GetPinned() {
				t.Error("admitted as if it were not pinned")
			}
			continue
		default:
		}
		break
	}
}

// The hub must know of the fallback when it meters, not only the client.
func TestTheRouteOfAFallbackIsDispatched(t *testing.T) {
	f := start(t)
	f.hub.byAttempt(failing(upstreamFailed()), wholeAnswer)
	read(t, f.post(hello, "X-Svc-Provider", providerA))
	first, second := awaited(f.t, f.hub.opens), awaited(f.t, f.hub.opens)
	switch {
	case first.GetRoute().GetFallbackReason() != eventsv1.FallbackReason_FALLBACK_REASON_UNSPECIFIED:
		t.Errorf("dispatched: first.GetRoute().GetFallbackReason(): got %v, want %v", first.GetRoute().GetFallbackReason(),
			eventsv1.FallbackReason_FALLBACK_REASON_UNSPECIFIED)
	case second.GetRoute().GetFallbackReason() != eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED:
		t.Errorf("second.GetRoute().GetFallbackReason(): got %v, want %v", second.GetRoute().GetFallbackReason(),
			eventsv1.FallbackReason_FALLBACK_REASON_REQUESTED_PROVIDER_FAILED)
	case second.GetAttempt() != 2:
		t.Errorf("second.GetAttempt(): got %d, want 2", second.GetAttempt())
	}
}

func TestAClientThatHangsUpEndsTheDispatch(t *testing.T) {
	for _, kind := range []string{"before content", "after content", "whole"} {
		t.Run(kind, func(t *testing.T) {
			f := start(t)
			f.hub.set(func(p *played) error {
				if kind == "after content" {
					if err := p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed); err != nil {
						return err
					}
				}
				return untilCanceled(p)
			})
			leave := f.postAndLeave(kind != "whole", kind == "after content")
			awaited(f.t, f.hub.opens)
			leave()
			if err := awaited(f.t, f.hub.ended); err == nil {
				t.Error("the dispatch went on")
			}
			w := f.report()
			switch {
			case w.GetOutcome() != billingv1.Outcome_OUTCOME_CLIENT_GONE:
				t.Errorf("the request report: w.GetOutcome(): got %v, want %v", w.GetOutcome(),
					billingv1.Outcome_OUTCOME_CLIENT_GONE)
			case w.GetHttpStatus() != 499:
				t.Errorf("the request report: w.GetHttpStatus(): got %d, want 499", w.GetHttpStatus())
			case w.GetErrorCode() != "client_closed":
				t.Errorf(`the request report: w.GetErrorCode(): got %q, want "client_closed"`, w.GetErrorCode())
			case (w.GetCommittedAttempt() == 1) != (kind == "after content"):
				t.Errorf("the request report: w.GetCommittedAttempt() == 1: got %t, want %t", w.GetCommittedAttempt() == 1,
					kind == "after content")
			case w.GetAttempts()[0].GetResult() != "client_gone":
				t.Errorf(`the request report: w.GetAttempts()[0].GetResult(): got %q, want "client_gone"`,
					w.GetAttempts()[0].GetResult())
			}
		})
	}
}
