package edgegateway

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// several is a fleet with models m1 to m6 besides the usual one; m3 is served by
// nobody, m6 is no chat model.
func several(t testing.TB, change ...func(*Config)) *fleet {
	f := newFleet(t, change...)
	for _, id := range []string{"m1", "m2", "m3", "m4", "m5", "m6"} {
		m := proto.Clone(testModel()).(*catalogv1.Model)
		m.ModelId, m.Slug = id, "vendor/"+id
		switch id {
		case "m3":
			m.Supply = &catalogv1.Supply{}
		case "m5":
			m.MaxOutputTokens = 10
		case "m6":
			m.Category = catalogv1.Category_CATEGORY_EMBEDDING
		}
		f.catalog.models = append(f.catalog.models, m)
	}
	return f
}

// byModel plays a script for each model.
func (h *hub) byModel(scripts map[string]func(*played) error) {
	h.set(func(p *played) error { return scripts[p.open.GetModelId()](p) })
}

func withModels(models ...string) string {
	return routed(`"models":["` + strings.Join(models, `","`) + `"]`)
}

func TestARequestAdvancesToTheNextModel(t *testing.T) {
	failed := failing(upstreamFailed())
	timeout := failing(&hubv1.DispatchFailed{Retryable: true, Code: "timeout"})
	busy := refusing(fault.New(fault.Unavailable, fault.ProviderBusy, "busy"))
	for name, failure := range map[string]struct {
		script func(*played) error
		code   string
	}{"failed": {failed, "upstream_error"}, "timeout": {timeout, "timeout"}, "busy": {busy, "providers_busy"}} {
		for _, stream := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := several(t).start()
				f.hub.byModel(map[string]func(*played) error{modelID: failure.script, "m1": failure.script,
					"m2": func(p *played) error {
						if stream {
							return streamAnswer(p)
						}
						return wholeAnswer(p)
					}})
				body := withModels("vendor/m1", "m2", "m4")
				if stream {
					body = strings.Replace(body, "{", `{"stream":true,`, 1)
				}
				resp := f.post(body)
				if got := read(t, resp); resp.StatusCode != http.StatusOK {
					t.Fatalf("resp.StatusCode: got %d, want 200, with %s", resp.StatusCode, got)
				} else if stream != strings.HasSuffix(got, "[DONE]\n\n") {
					t.Fatalf("stream: got %t, want %t, with %s", stream, strings.HasSuffix(got, "[DONE]\n\n"), got)
				}
				first, second, last := f.report(), f.report(), f.report()
				if first.GetContinuedAs() != second.GetRequestId() || second.GetContinuedAs() != last.GetRequestId() ||
					last.GetContinuedAs() != "" {
					t.Errorf("the model attempts are %v, %v, %v", first, second, last)
				}
				for _, w := range []*billingv1.RequestReport{first, second} {
					if w.GetCommittedAttempt() != 0 || w.GetErrorCode() != failure.code || w.GetRelayedBytes() != 0 ||
						len(w.GetAttempts()) == 0 {
						t.Errorf("a model attempt that did not serve: %v", w)
					}
				}
				if last.GetCommittedAttempt() != 1 {
					t.Errorf("the model attempt that served: last.GetCommittedAttempt(): got %d, want 1", last.GetCommittedAttempt())
				} else if last.GetOutcome() != billingv1.Outcome_OUTCOME_COMPLETED {
					t.Errorf("the model attempt that served: last.GetOutcome(): got %v, want %v", last.GetOutcome(),
						billingv1.Outcome_OUTCOME_COMPLETED)
				}
				wantHeaders(t, resp.Header, map[string]string{
					"X-Svc-Request-Id": last.GetRequestId(), "X-Request-Id": last.GetRequestId(), "X-Svc-Attempts": "1",
				})
				for i, want := range []struct{ model, request string }{
					{modelID, first.GetRequestId()}, {"m1", second.GetRequestId()}, {"m2", last.GetRequestId()},
				} {
					admit := awaited(f.t, f.billing.admits)
					if admit.GetModelId() != want.model || admit.GetRequestId() != want.request {
						t.Errorf("model attempt %d was admitted as %v", i, admit)
					}
				}
				var open *hubv1.DispatchOpen
				for open.GetModelId() != "m2" {
					open = awaited(f.t, f.hub.opens)
				}
				if span := string(open.GetBody()[open.GetModelOffset() : open.GetModelOffset()+
					open.GetModelLength()]); span != `"m2"` ||
					!json.Valid(open.GetBody()) || open.GetRequestId() != last.GetRequestId() ||
					strings.Contains(string(open.GetBody()), "models") {
					t.Errorf("dispatched %s (%s)", open.GetBody(), span)
				}
			})
		}
	}
}

// The hold of a model attempt is released before the next is made.
func TestAModelAttemptIsConcludedBeforeTheNextIsAdmitted(t *testing.T) {
	f := several(t).start()
	f.hub.byModel(map[string]func(*played) error{modelID: failing(upstreamFailed()), "m1": wholeAnswer})
	concluded := 0
	f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		switch {
		case req.GetModelId() == "m1":
			concluded = len(f.billing.reports)
		case len(req.GetExcludeProviderIds()) > 0:
			return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody else")
		}
		return candidates(providerA), nil
	})
	if resp := f.post(withModels("m1")); resp.StatusCode != http.StatusOK {
		t.Fatalf("resp.StatusCode: got %d, want 200, with %v", resp.StatusCode, read(t, resp))
	}
	if concluded != 1 {
		t.Errorf("model attempts concluded when the second began: got %d, want 1", concluded)
	}
}

func TestARequestAdvancesAfterARefusalOfTheRouterToo(t *testing.T) {
	for _, reason := range []fault.Reason{fault.NoProviderOnline, fault.ProvidersBusy,
		fault.RequestedProviderUnavailable} {
		f := several(t).start()
		f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			if req.GetModelId() != "m2" {
				return nil, fault.New(fault.Unavailable, reason, "no")
			}
			return candidates(providerA), nil
		})
		resp := f.post(withModels("m1", "m2"))
		if got := read(t, resp); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %d, want 200, with %s", reason, resp.StatusCode, got)
		}
		first, second, last := f.report(), f.report(), f.report()
		switch {
		case first.GetErrorCode() != string(reason):
			t.Errorf("reason: got %q, want %q", string(reason), first.GetErrorCode())
		case first.GetContinuedAs() != second.GetRequestId():
			t.Errorf("second.GetRequestId(): got %q, want %q", second.GetRequestId(), first.GetContinuedAs())
		case second.GetContinuedAs() != last.GetRequestId():
			t.Errorf("second.GetContinuedAs(): got %q, want %q", second.GetContinuedAs(), last.GetRequestId())
		}
	}
}

func TestARequestAdvancesOnlyAfterAnErrorThatAnotherModelCanMend(t *testing.T) {
	cases := map[string]struct {
		arrange func(*fleet)
		status  int
		code    string
	}{
		"credit": {func(f *fleet) { f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short")) },
			402, "insufficient_credits"},
		"rate": {func(f *fleet) { f.billing.refuse(fault.New(fault.Exhausted, fault.RateLimitExceeded, "slow")) }, 429,
			"rate_limit_exceeded"},
		"context": {func(f *fleet) { f.router.refuse(fault.New(fault.Invalid, fault.ContextLengthExceeded, "long")) }, 400,
			"context_length_exceeded"},
		"refused": {func(f *fleet) { f.hub.set(failing(&hubFailed)) }, 400, ""},
		"after content": {func(f *fleet) {
			f.hub.set(func(p *played) error {
				return p.steps(func() error { return p.event(wholeJSON, true, 3) }, p.committed,
					func() error { return p.fail(upstreamFailed()) })
			})
		}, 502, "upstream_error"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := several(t).start()
			c.arrange(f)
			wantError(t, f.post(withModels("m1", "m2")), c.status, c.code)
			if n := len(f.billing.admits); n != 1 {
				t.Errorf("model attempts admitted: got %d, want 1", n)
			}
		})
	}
}

func TestAModelThatMayNotServeIsNamed(t *testing.T) {
	cases := map[string]struct {
		body   string
		status int
		code   string
		param  string
	}{
		"unknown":    {withModels("m1", "nothing"), 404, "model_not_found", "models[1]"},
		"hostile":    {withModels("'; DROP TABLE models; --"), 404, "model_not_found", "models[0]"},
		"other kind": {withModels("m6"), 400, "unsupported_endpoint_for_model", "models[0]"},
		"forbidden":  {withModels("m1", "m2", "m4"), 403, "model_not_allowed", "models[2]"},
	}
	f := several(t).start()
	f.keys.set(nil, modelID, "m1", "m2", "m5")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if e := wantError(t, f.post(c.body), c.status, c.code); e.Error.Param == nil {
				t.Error("the param: got nil, want a value")
			} else if *e.Error.Param != c.param {
				t.Errorf("*e.Error.Param: got %q, want %q", *e.Error.Param, c.param)
			}
		})
	}
	if len(f.billing.admits) != 0 {
		t.Errorf("refused requests admitted: got %d, want 0", len(f.billing.admits))
	}
}

// Models that nobody serves are passed over without a model attempt, but for the last.
func TestModelsWithNobodyOnlineArePassedOver(t *testing.T) {
	f := several(t).start()
	f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody")
	})
	for body, want := range map[string]string{
		withModels("m3", "m1"): modelID + " m1",
		withModels("m1", "m3"): modelID + " m1 m3",
		strings.Replace(withModels("m1", "m3"), modelID, "m3", 1):              "m1",
		strings.Replace(withModels("m3", "vendor/m3", "m3"), modelID, "m3", 1): "m3",
		withModels("m1", "vendor/m1", modelID, modelSlug, "m1"):                modelID + " m1",
		withModels("m1", "m2", "m4", "m5"):                                     modelID + " m1 m2 m4",
	} {
		resp := f.post(body)
		e := wantError(t, resp, http.StatusServiceUnavailable, "no_provider_online")
		var tried []string
		for len(f.billing.admits) > 0 {
			tried = append(tried, awaited(f.t, f.billing.admits).GetModelId())
		}
		if strings.Join(tried, " ") != want {
			t.Errorf("tried %v, want %s", tried, want)
		}
		var last *billingv1.RequestReport
		for range tried {
			last = f.report()
		}
		if last.GetRequestId() != e.RequestID {
			t.Errorf("last.GetRequestId(): got %q, want %q", last.GetRequestId(), e.RequestID)
		} else if last.GetContinuedAs() != "" {
			t.Errorf(`last.GetContinuedAs(): got %q, want ""`, last.GetContinuedAs())
		}
	}
}

// A stream whose headers are sent keeps the id of its first model attempt in them and
// still advances.
func TestAStreamThatHasBegunAdvances(t *testing.T) {
	for _, fails := range []string{"", "admission", "provider"} {
		made := func(t testing.TB) *fleet { return several(t) }
		inBubbleOf(t, made, func(f *fleet, _ func() net.Conn) {
			scripts := map[string]func(*played) error{
				modelID: func(p *played) error {
					pass(12 * time.Second)
					return p.fail(&hubv1.DispatchFailed{Code: "timeout"})
				},
				"m1": streamAnswer,
			}
			f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
				if fails == "admission" && req.GetModelId() == "m1" {
					return nil, fault.New(fault.Unavailable, fault.ProvidersBusy, "busy")
				}
				return candidates(providerA), nil
			})
			if fails == "provider" {
				scripts["m1"] = failing(&hubv1.DispatchFailed{Code: "upstream_error"})
			}
			f.hub.byModel(scripts)
			resp := f.post(strings.Replace(withModels("m1"), "{", `{"stream":true,`, 1))
			body, err := io.ReadAll(resp.Body)
			first, last := f.report(), f.report()
			switch {
			case err != nil:
				t.Errorf("got the error %v, want none", err)
			case resp.StatusCode != http.StatusOK:
				t.Errorf("resp.StatusCode: got %d, want 200", resp.StatusCode)
			case resp.Header.Get("X-Request-Id") != first.GetRequestId():
				t.Errorf(`resp.Header.Get("X-Request-Id"): got %q, want %q`, resp.Header.Get("X-Request-Id"), first.GetRequestId())
			case first.GetContinuedAs() != last.GetRequestId():
				t.Errorf("last.GetRequestId(): got %q, want %q", last.GetRequestId(), first.GetContinuedAs())
			case last.GetHttpStatus() != http.StatusOK:
				t.Errorf("last.GetHttpStatus(): got %d, want 200", last.GetHttpStatus())
			}
			errors := 1
			if fails == "" {
				errors = 0
			}
			switch {
			case !strings.HasPrefix(string(body), ": keep-alive\n\n"):
				t.Errorf("%s: body: got %q, want the prefix %q", fails, string(body), ": keep-alive\n\n")
			case strings.Contains(string(body), "[DONE]") != (fails == ""):
				t.Errorf("%s: strings.Contains(…): got %t, want %t", fails, strings.Contains(string(body), "[DONE]"), fails == "")
			case strings.Count(string(body), `data: {"error":`) != errors:
				t.Errorf("%s: strings.Count(…): got %d, want %d", fails, strings.Count(string(body), `data: {"error":`), errors)
			case fails != "" && !strings.Contains(string(body), `"request_id":"`+last.GetRequestId()+`"`):
				t.Errorf(`%s: body: got %q, want %q in it, where fails != ""`, fails, string(body),
					`"request_id":"`+last.GetRequestId()+`"`)
			}
		})
	}
}

// The client has waited for the first model, so the next one shows at once that the stream continues.
func TestANextModelKeepsItsClientAliveAtOnce(t *testing.T) {
	made := func(t testing.TB) *fleet { return several(t) }
	inBubbleOf(t, made, func(f *fleet, _ func() net.Conn) {
		f.hub.byModel(map[string]func(*played) error{
			modelID: func(p *played) error {
				pass(12 * time.Second)
				return p.fail(&hubv1.DispatchFailed{Code: "timeout"})
			},
			"m1": func(p *played) error {
				pass(time.Second)
				return streamAnswer(p)
			},
		})
		begun := time.Now()
		resp := f.post(strings.Replace(withModels("m1"), "{", `{"stream":true,`, 1))
		var got []time.Duration
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if lines.Text() == ": keep-alive" {
				got = append(got, time.Since(begun))
			}
		}
		if want := []time.Duration{10 * time.Second, 12 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("got keep-alives after %v, want them after %v", got, want)
		}
	})
}

// However many model attempts a request has, it ends within its whole time.
func TestModelAttemptsShareTheWholeTime(t *testing.T) {
	made := func(t testing.TB) *fleet {
		return several(t, func(c *Config) {
			c.TotalTimeout, c.FirstContentTimeout, c.FirstContentTotalTimeout = 100*time.Second, 40*time.Second, 40*time.Second
		})
	}
	inBubbleOf(t, made, func(f *fleet, _ func() net.Conn) {
		f.hub.set(func(p *played) error {
			pass(time.Duration(p.open.GetFirstContentTimeoutMs()) * time.Millisecond)
			return p.fail(&hubv1.DispatchFailed{Retryable: true, Code: "timeout"})
		})
		begun := time.Now()
		resp := f.post(strings.Replace(withModels("m1", "m2", "m4"), "{", `{"stream":true,`, 1))
		body, err := io.ReadAll(resp.Body)
		switch took := time.Since(begun); {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case took > 101*time.Second:
			t.Errorf("took: got %v, want at most %v", took, 101*time.Second)
		case !strings.Contains(string(body), `"code":"timeout"`):
			t.Errorf("body: got %q, want %q in it", string(body), `"code":"timeout"`)
		}
		if n := len(f.billing.admits); n != 3 {
			t.Errorf("model attempts: got %d, want 3", n)
		}
	})
}

// The receipt of the last model attempt names none before it.
func TestAnAnswerOfALaterModelAttemptNamesTheFirst(t *testing.T) {
	f := several(t).start()
	failed := failing(upstreamFailed())
	f.hub.byModel(map[string]func(*played) error{modelID: failed, "m1": failed, "m2": wholeAnswer, "m4": failed})
	for _, last := range []string{"m2", "m4"} {
		resp := f.post(withModels("m1", last))
		read(t, resp)
		first := f.report()
		f.report()
		if w := f.report(); w.GetRequestId() == first.GetRequestId() {
			t.Fatalf("the model attempts: got %q, want any but %q", w.GetRequestId(), first.GetRequestId())
		}
		wantHeaders(t, resp.Header, map[string]string{"X-Svc-First-Request-Id": first.GetRequestId()})
	}
	resp := f.post(strings.Replace(withModels("m1"), modelID, "m2", 1))
	read(t, resp)
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-First-Request-Id": ""})
}

// A model whose answers are shorter than the client asks for is passed over.
func TestModelsWithTooShortAnswersArePassedOver(t *testing.T) {
	f := several(t).start() // m5 gives 10 tokens
	f.hub.byModel(map[string]func(*played) error{modelID: failing(upstreamFailed()), "m1": wholeAnswer})
	long := func(body string) string { return strings.Replace(body, "{", `{"max_tokens":11,`, 1) }
	resp := f.post(long(withModels("m5", "m1")))
	if body := read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("resp.StatusCode: got %d, want 200 (body is %s)", resp.StatusCode, body)
	}
	for _, want := range []string{modelID, "m1"} {
		if got := awaited(f.t, f.billing.admits).GetModelId(); got != want {
			t.Errorf("admitted: got %s, want %s", got, want)
		}
	}
	f.report()
	f.report()
	e := wantError(t, f.post(long(strings.Replace(withModels("m1"), `"model":"`+modelID, `"model":"m5`, 1))), 400,
		"invalid_value")
	if e.Error.Param == nil {
		t.Error("the param: got nil, want a value")
	} else if *e.Error.Param != "max_tokens" {
		t.Errorf(`*e.Error.Param: got %q, want "max_tokens"`, *e.Error.Param)
	}
}

// A model whose name makes the body too long for a hub is passed over alone, and its
// departure is not shown.
func TestAModelWhoseNameDoesNotFitIsPassedOver(t *testing.T) {
	f := newFleet(t, func(c *Config) { c.MaxBodyBytes = 1 << 10 })
	long := strings.Repeat("n", 200)
	for _, id := range []string{long, "m1"} {
		m := proto.Clone(testModel()).(*catalogv1.Model)
		m.ModelId, m.Slug = id, "slug-"+strconv.Itoa(len(id))
		if id == long {
			m.DeprecatedAt = timestamppb.New(time.Now().Add(time.Hour))
		}
		f.catalog.models = append(f.catalog.models, m)
	}
	f.start()
	f.hub.byModel(map[string]func(*played) error{modelID: failing(upstreamFailed()), "m1": wholeAnswer})
	body := withModels("slug-200", "m1")
	body = strings.Replace(body, "Say hello", strings.Repeat("x", 1000-len(body)), 1)
	resp := f.post(strings.Replace(body, `","m1"`, `"`, 1))
	wantError(t, resp, http.StatusBadGateway, "upstream_error")
	wantHeaders(t, resp.Header, map[string]string{"Deprecation": "", "X-Svc-First-Request-Id": ""})
	f.report()
	resp = f.post(body)
	if got := read(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("resp.StatusCode: got %d, want 200, with %s", resp.StatusCode, got)
	}
	first, last := f.report(), f.report()
	if first.GetContinuedAs() != last.GetRequestId() {
		t.Errorf("the model attempts: got %q, want %q", last.GetRequestId(), first.GetContinuedAs())
	}
}
