package edgegateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// routed is the hello request with members of its own.
func routed(members string) string { return strings.Replace(hello, "{", "{"+members+",", 1) }

func list(providers ...string) string { return `["` + strings.Join(providers, `","`) + `"]` }

// wantedRouting is a body's routing, the routing headers, and what becomes of both.
type wantedRouting struct {
	body    string
	headers []string
	want    *routerv1.SelectRequest // as far as routing goes
	pinned  bool                    // as admission sees it
	mode    string
}

func TestTheBodysRoutingReachesTheRouter(t *testing.T) {
	a, b, c := providerA, providerB, providerC
	wantRouted(t, map[string]wantedRouting{
		"nothing": {`"provider":{}`, nil, &routerv1.SelectRequest{AllowFallbacks: true}, false, "auto"},
		"nulls": {`"provider":{"order":null,"only":null,"sort":null,"max_price":null}`, nil,
			&routerv1.SelectRequest{AllowFallbacks: true}, false, "auto"},
		"order": {`"provider":{"order":` + list(b, strings.ToUpper(a)) + `}`, nil,
			&routerv1.SelectRequest{AllowFallbacks: true, Preferences: &routerv1.Preferences{OrderProviderIds: []string{b, a}}},
			true, "auto"},
		"order, bound": {`"provider":{"order":` + list(b, a) + `,"allow_fallbacks":false}`, nil,
			&routerv1.SelectRequest{Preferences: &routerv1.Preferences{OrderProviderIds: []string{b, a},
				OnlyProviderIds: []string{b, a}}}, true, "auto"},
		"order of one": {`"provider":{"order":` + list(b) + `}`, nil, &routerv1.SelectRequest{PinnedProviderId: b,
			AllowFallbacks: true}, true, "explicit"},
		"one, bound": {`"provider":{"order":` + list(b) + `,"allow_fallbacks":false}`, nil,
			&routerv1.SelectRequest{PinnedProviderId: b}, true, "explicit"},
		"only one": {`"provider":{"only":` + list(b) + `}`, nil, &routerv1.SelectRequest{PinnedProviderId: b}, true,
			"explicit"},
		"only": {`"provider":{"only":` + list(b, c) + `}`, nil, &routerv1.SelectRequest{AllowFallbacks: true,
			Preferences: &routerv1.Preferences{OnlyProviderIds: []string{b, c}}}, true, "auto"},
		"ignore": {`"provider":{"ignore":` + list(b) + `,"allow_fallbacks":false}`, nil,
			&routerv1.SelectRequest{Preferences: &routerv1.Preferences{IgnoreProviderIds: []string{b}}}, false, "auto"},
		"quantizations": {`"provider":{"quantizations":["fp8","bf16"]}`, nil, &routerv1.SelectRequest{AllowFallbacks: true,
			Preferences: &routerv1.Preferences{Quantizations: []string{"fp8", "bf16"}}}, false, "auto"},
		"throughput": {`"provider":{"sort":"throughput"}`, nil, &routerv1.SelectRequest{AllowFallbacks: true,
			Preferences: &routerv1.Preferences{Sort: routerv1.Sort_SORT_THROUGHPUT}}, false, "auto"},
		"latency": {`"provider":{"sort":"latency"}`, nil, &routerv1.SelectRequest{AllowFallbacks: true,
			Preferences: &routerv1.Preferences{Sort: routerv1.Sort_SORT_LATENCY}}, false, "auto"},
		"price": {`"provider":{"sort":"price"}`, nil, &routerv1.SelectRequest{AllowFallbacks: true}, false, "auto"},
	})
}

func TestARoutingHeaderWinsOverTheBody(t *testing.T) {
	a, b, c := providerA, providerB, providerC
	wantRouted(t, map[string]wantedRouting{
		"header wins over order": {`"provider":{"order":` + list(b, c) + `}`, []string{"X-Svc-Provider", a},
			&routerv1.SelectRequest{PinnedProviderId: a, AllowFallbacks: true}, true, "explicit"},
		"header wins over only": {`"provider":{"only":` + list(b, c) + `}`, []string{"X-Svc-Provider", a},
			&routerv1.SelectRequest{PinnedProviderId: a, AllowFallbacks: true,
				Preferences: &routerv1.Preferences{OnlyProviderIds: []string{b, c, a}}}, true, "explicit"},
		"header wins over ignore": {`"provider":{"ignore":` + list(a, c) + `}`, []string{"X-Svc-Provider", a},
			&routerv1.SelectRequest{PinnedProviderId: a, AllowFallbacks: true,
				Preferences: &routerv1.Preferences{IgnoreProviderIds: []string{c}}}, true, "explicit"},
		"header wins over allow_fallbacks": {`"provider":{"order":` + list(b) + `,"allow_fallbacks":false}`,
			[]string{"X-Svc-Allow-Fallbacks", "true"},
			&routerv1.SelectRequest{PinnedProviderId: b, AllowFallbacks: true}, true, "explicit"},
		"the body binds a pin of the header": {`"provider":{"allow_fallbacks":false}`, []string{"X-Svc-Provider", a},
			&routerv1.SelectRequest{PinnedProviderId: a}, true, "explicit"},
	})
}

// wantRouted sends each request and looks at what its peers get.
func wantRouted(t *testing.T, cases map[string]wantedRouting) {
	t.Helper()
	f := start(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			resp := f.post(routed(c.body), c.headers...)
			if body := read(t, resp); resp.StatusCode != http.StatusOK {
				t.Fatalf("resp.StatusCode: got %d, want 200 (body is %s)", resp.StatusCode, body)
			}
			sel, admit := awaited(f.t, f.router.selects), awaited(f.t, f.billing.admits)
			open := awaited(f.t, f.hub.opens)
			got := &routerv1.SelectRequest{PinnedProviderId: sel.GetPinnedProviderId(), AllowFallbacks: sel.GetAllowFallbacks(),
				Preferences: sel.GetPreferences()}
			if !proto.Equal(got, c.want) {
				t.Errorf("select: got %v, want %v", got, c.want)
			}
			if admit.GetPinned() != c.pinned {
				t.Errorf("admitted as pinned: got %t, want %t", admit.GetPinned(), c.pinned)
			}
			wantHeaders(t, resp.Header, map[string]string{"X-Svc-Route-Mode": c.mode,
				"X-Svc-Requested-Provider": c.want.GetPinnedProviderId()})
			explicit := open.GetRoute().GetMode() == eventsv1.RouteMode_ROUTE_MODE_EXPLICIT
			if explicit != (c.mode == "explicit") {
				t.Errorf("dispatched: got %t, want %t", explicit, c.mode == "explicit")
			}
			if unbound(open.GetBody()) != hello {
				t.Errorf("sent on: %s", open.GetBody())
			}
			f.report()
		})
	}
}

// refusedRouting is a body's routing with the error that it gets.
type refusedRouting struct{ body, code, param string }

// manyProviders are more than a list may have.
func manyProviders() []string {
	many := make([]string, 33)
	for i := range many {
		many[i] = fmt.Sprintf("01890000-0000-7000-8000-%012x", i)
	}
	return many
}

func TestListsOfProvidersThatCannotBeHonouredAreRefused(t *testing.T) {
	huge := strings.Repeat(`"`+providerA+`",`, 200_000)
	wantRefused(t, map[string]refusedRouting{
		"no object":        {`"provider":"acme"`, "invalid_value", "provider"},
		"unknown member":   {`"provider":{"require_parameters":true}`, "invalid_value", "provider.require_parameters"},
		"name of no kind":  {`"provider":{"Ord\u000aer":[]}`, "invalid_value", "provider"},
		"case":             {`"provider":{"Order":[]}`, "invalid_value", "provider"},
		"twice":            {`"provider":{"sort":"price","s\u006frt":"price"}`, "duplicate_field", "provider.sort"},
		"whole twice":      {`"provider":{},"provider":{}`, "duplicate_field", "provider"},
		"order no list":    {`"provider":{"order":"` + providerA + `"}`, "invalid_value", "provider.order"},
		"order of numbers": {`"provider":{"order":[1]}`, "invalid_value", "provider.order[0]"},
		"order of names": {`"provider":{"order":["` + providerA + `","acme"]}`, "invalid_provider",
			"provider.order[1]"},
		"order of nulls": {`"provider":{"order":[null]}`, "invalid_value", "provider.order[0]"},
		"metacharacters": {`"provider":{"only":["' OR 1=1 --"]}`, "invalid_provider", "provider.only[0]"},
		"an empty id":    {`"provider":{"ignore":[""]}`, "invalid_provider", "provider.ignore[0]"},
		"the same again": {`"provider":{"order":` + list(providerA, strings.ToUpper(providerA)) + `}`, "invalid_value",
			"provider.order[1]"},
		"too many": {`"provider":{"ignore":` + list(manyProviders()...) + `}`, "invalid_value",
			"provider.ignore"},
		"hundreds of thousands": {`"provider":{"ignore":[` + huge + `""]}`, "invalid_value", "provider.ignore[1]"},
		"only nobody":           {`"provider":{"only":[]}`, "invalid_value", "provider.only"},
		"ordered and ignored": {`"provider":{"ignore":` + list(providerA) + `,"order":` + list(providerB, providerA) + `}`,
			"invalid_value", "provider.order[1]"},
		"wanted and ignored": {`"provider":{"only":` + list(providerA) + `,"ignore":` + list(providerA) + `}`,
			"invalid_value", "provider.only[0]"},
		"ordered, not wanted": {`"provider":{"order":` + list(providerA) + `,"only":` + list(providerB) + `}`,
			"invalid_value", "provider.order[0]"},
	})
}

func TestPreferencesThatCannotBeHonouredAreRefused(t *testing.T) {
	wantRefused(t, map[string]refusedRouting{
		"fallbacks":          {`"provider":{"allow_fallbacks":"no"}`, "invalid_value", "provider.allow_fallbacks"},
		"sort":               {`"provider":{"sort":"random"}`, "invalid_value", "provider.sort"},
		"sort object":        {`"provider":{"sort":{"by":"price"}}`, "invalid_value", "provider.sort"},
		"quantizations":      {`"provider":{"quantizations":"fp8"}`, "invalid_value", "provider.quantizations"},
		"no quantizations":   {`"provider":{"quantizations":[]}`, "invalid_value", "provider.quantizations"},
		"empty quantization": {`"provider":{"quantizations":[""]}`, "invalid_value", "provider.quantizations[0]"},
		"long quantization": {`"provider":{"quantizations":["` + strings.Repeat("x", 33) + `"]}`, "invalid_value",
			"provider.quantizations[0]"},
		"17 quantizations": {`"provider":{"quantizations":["` + strings.Join(manyProviders()[:17], `","`) + `"]}`,
			"invalid_value",
			"provider.quantizations[0]"},
		"price no object":  {`"provider":{"max_price":1}`, "invalid_value", "provider.max_price"},
		"price of what":    {`"provider":{"max_price":{"request":1}}`, "invalid_value", "provider.max_price.request"},
		"price below zero": {`"provider":{"max_price":{"prompt":-1}}`, "invalid_value", "provider.max_price.prompt"},
		"price too exact": {`"provider":{"max_price":{"prompt":0.1234567}}`, "invalid_value",
			"provider.max_price.prompt"},
		"price too large": {`"provider":{"max_price":{"completion":1e999999}}`, "invalid_value",
			"provider.max_price.completion"},
		"price of digits": {`"provider":{"max_price":{"image":` + strings.Repeat("9", 1000) + `}}`, "invalid_value",
			"provider.max_price.image"},
		"price of words": {`"provider":{"max_price":{"audio":"cheap"}}`, "invalid_value", "provider.max_price.audio"},
		"empty price":    {`"provider":{"max_price":{"audio":""}}`, "invalid_value", "provider.max_price.audio"},
		"price twice": {`"provider":{"max_price":{"image":1,"image":2}}`, "duplicate_field",
			"provider.max_price.image"},
	})
}

func TestModelsThatCannotBeHonouredAreRefused(t *testing.T) {
	wantRefused(t, map[string]refusedRouting{
		"models no list":    {`"models":"` + modelID + `"`, "invalid_value", "models"},
		"models of numbers": {`"models":[1]`, "invalid_value", "models[0]"},
		"models of nothing": {`"models":[""]`, "invalid_value", "models[0]"},
		"nine models": {`"models":["` + strings.Repeat(modelID+`","`, 8) + modelID + `"]`, "invalid_value",
			"models"},
		"many models":  {`"models":["` + strings.Repeat(`x","`, 1_000_000) + `x"]`, "invalid_value", "models"},
		"models twice": {`"models":[],"models":[]`, "duplicate_field", "models"},
	})
}

// wantRefused sends each request and looks at its error. None is admitted.
func wantRefused(t *testing.T, cases map[string]refusedRouting) {
	t.Helper()
	f := start(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := wantError(t, f.post(routed(c.body)), http.StatusBadRequest, c.code)
			if e.Error.Param == nil {
				t.Error("the param: got nil, want a value")
			} else if *e.Error.Param != c.param {
				t.Errorf("*e.Error.Param: got %q, want %q", *e.Error.Param, c.param)
			}
		})
	}
	if n := len(f.billing.admits); n != 0 {
		t.Errorf("refused requests admitted: got %d, want 0", n)
	}
}

// A price above what the client pays is not billed: what is compared is what was
// pinned.
func TestNobodyPaysMoreThanMaxPrice(t *testing.T) {
	f := start(t)
	for body, served := range map[string]bool{
		`{"prompt":0.15,"completion":"0.60"}`:     true,
		`{"prompt":1,"image":0,"audio":0}`:        true,
		`{"prompt":0.149999}`:                     false,
		`{"prompt":5,"completion":"0.599999"}`:    false,
		`{"completion":0}`:                        false,
		`{"prompt":null,"completion":null}`:       true,
		`{"completion":"600000.5","prompt":"99"}`: true,
	} {
		resp := f.post(routed(`"provider":{"max_price":` + body + `}`))
		if served {
			if got := read(t, resp); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: got %d, want 200, with %s", body, resp.StatusCode, got)
			}
			awaited(f.t, f.hub.opens)
		} else if e := wantError(t, resp, http.StatusServiceUnavailable, "no_provider_online"); !strings.Contains(
			e.Error.Message, "max_price") {
			t.Errorf(`%s: got %q, want "max_price" in it`, body, e.Error.Message)
		} else {
			wantHeaders(t, resp.Header, map[string]string{"X-Should-Retry": "false", "Retry-After": ""})
		}
		if w := f.report(); (w.GetCommittedAttempt() == 1) != served {
			t.Errorf("%s: the request report: w.GetCommittedAttempt() == 1: got %t, want %t", body, w.GetCommittedAttempt() == 1,
				served)
		}
	}
	if len(f.hub.opens) != 0 {
		t.Errorf("requests dispatched that were too dear: got %d, want 0", len(f.hub.opens))
	}
}

func TestAPinOfTheBodySpeaksLikeOneOfTheHeader(t *testing.T) {
	f := start(t)
	f.router.refuse(fault.New(fault.Unavailable, fault.RequestedProviderUnavailable, "no"))
	resp := f.post(routed(`"provider":{"only":` + list(providerA) + `}`))
	wantError(t, resp, http.StatusServiceUnavailable, "requested_provider_unavailable")
	wantHeaders(t, resp.Header, map[string]string{"X-Svc-Route-Mode": "explicit", "X-Svc-Requested-Provider": providerA,
		"X-Should-Retry": "false"})
	if w := f.report(); w.GetRoute().GetRequestedProviderId() != providerA {
		t.Errorf("the request report: got %q, want %q", w.GetRoute().GetRequestedProviderId(), providerA)
	}
}

// What is asked for again is asked for in the same way.
func TestPreferencesHoldForFurtherCandidates(t *testing.T) {
	f := start(t)
	f.router.set(func(req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
		if !slices.Equal(req.GetPreferences().GetIgnoreProviderIds(), []string{providerC}) {
			t.Errorf("select: got %q, want %q", req.GetPreferences().GetIgnoreProviderIds(), []string{providerC})
		}
		if len(req.GetExcludeProviderIds()) > 0 {
			return candidates(providerB), nil
		}
		return candidates(providerA), nil
	})
	f.hub.byAttempt(failing(upstreamFailed()), wholeAnswer)
	resp := f.post(routed(`"provider":{"ignore":` + list(providerC) + `}`))
	if read(t, resp); resp.Header.Get("X-Svc-Provider-Id") != providerB {
		t.Errorf(`resp.Header.Get("X-Svc-Provider-Id"): got %q, want %q`, resp.Header.Get("X-Svc-Provider-Id"), providerB)
	}
}

// A plan's money cannot be steered: a client that chooses who serves, by name or by the names of
// more than three rivals, pays as it goes. What chooses no provider leaves the plan to pay.
func TestWhoChoosesTheProviderPaysAsTheyGo(t *testing.T) {
	f := start(t)
	for provider, pinned := range map[string]bool{
		fmt.Sprintf(`{"order":%s}`, list(providerA)):                                       true,
		fmt.Sprintf(`{"order":%s}`, list(providerA, providerC)):                            true,
		fmt.Sprintf(`{"order":%s,"allow_fallbacks":false}`, list(providerA, providerC)):    true,
		fmt.Sprintf(`{"only":%s}`, list(providerA)):                                        true,
		fmt.Sprintf(`{"only":%s}`, list(providerA, providerC)):                             true,
		fmt.Sprintf(`{"ignore":%s}`, list(providerA, providerC, stranger(1), stranger(2))): true,
		fmt.Sprintf(`{"ignore":%s}`, list(providerA, providerC, stranger(1))):              false,
		`{"quantizations":["fp8-of-acme"]}`:                                                false,
		`{"ignore":[]}`:                                                                    false,
		`{"sort":"latency"}`:                                                               false,
		`{"allow_fallbacks":false,"max_price":{"prompt":99}}`:                              false,
	} {
		read(t, f.post(routed(`"provider":`+provider)))
		if admit := awaited(f.t, f.billing.admits); admit.GetPinned() != pinned {
			t.Errorf("%s: admitted as pinned: got %t, want %t", provider, admit.GetPinned(), pinned)
		}
	}
}

// stranger is the id of a provider that nobody knows.
func stranger(n int) string { return fmt.Sprintf("01890000-0000-7000-8000-0000000001%02d", n) }
