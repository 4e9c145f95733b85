package edgegateway

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/config"
	"svc.internal/pkg/serve"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

func TestModelsAreListedWhenSomebodyServesThem(t *testing.T) {
	f := newFleet(t)
	f.catalog.models = append(f.catalog.models,
		&catalogv1.Model{ModelId: "idle", Slug: modelID, Active: true, Category: catalogv1.Category_CATEGORY_LLM,
			ContextLength: 512},
		&catalogv1.Model{ModelId: "retired", Slug: "old", Supply: &catalogv1.Supply{OnlineProviders: 1}})
	f.loops()
	f.listen()
	const tiny = `{"id":"acme/tiny-1b","object":"model","created":0,"owned_by":"acme","context_length":8192}`
	const idle = `{"id":"idle","object":"model","created":0,"owned_by":"svc","context_length":512}`
	if body := read(t, f.do(http.MethodGet, "/v1/models", "")); body != `{"object":"list","data":[`+tiny+`]}` {
		t.Errorf("callable: got %q, want %q", body, `{"object":"list","data":[`+tiny+`]}`)
	}
	if body := read(t, f.do(http.MethodGet, "/v1/models?all=true", "")); body != `{"object":"list","data":[`+tiny+`,`+idle+
		`]}` {
		t.Errorf("all: got %q, want %q", body, `{"object":"list","data":[`+tiny+`,`+idle+`]}`)
	}
	// An id is stronger than another model's slug, and what is retired has none.
	if body := read(t, f.do(http.MethodGet, "/v1/models/"+modelID, "")); body != tiny {
		t.Errorf("one: got %q, want %q", body, tiny)
	}
	wantError(t, f.do(http.MethodGet, "/v1/models/old", ""), 404, "model_not_found")
}

func TestThePublicCatalogWritesZerosAndNulls(t *testing.T) {
	f := start(t)
	body := read(t, f.do(http.MethodGet, "/api/v1/models?page=3", ""))
	for _, want := range []string{
		`{"code":0,"msg":"success","data":{"list":[{"id":"acme/tiny-1b",`, `"input_price":0.15,"output_price":0,`,
		`"guaranteed_context_length":null`,
		`"max_reported_context_length":null`, `"capabilities":[]`, `"created_at":null`, `"active":false`, `"page":3`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("looking for %s: got %q, want %q in it", want, body, want)
		}
	}
	for _, path := range []string{"/api/v1/models/acme/tiny-1b/providers",
		"/api/v1/models/acme%2Ftiny-1b/providers?page=1"} {
		resp := f.do(http.MethodGet, path, "")
		if body := read(t, resp); resp.StatusCode != 200 {
			t.Errorf("%s: resp.StatusCode: got %d, want 200", path, resp.StatusCode)
		} else if !strings.Contains(body, `"list":[]`) {
			t.Errorf("%s: body: got %q, want %q in it", path, body, `"list":[]`)
		}
	}
	wantError(t, f.do(http.MethodGet, "/api/v1/models?page=x", ""), 400, "invalid_request")
	for _, path := range []string{"/api/v1/models/acme/tiny-1b", "/api/v1/models/acme%2Ftiny-1b"} {
		want := `{"code":0,"msg":"success","data":{"id":"acme/tiny-1b",`
		if body := read(t, f.do(http.MethodGet, path, "")); !strings.HasPrefix(body, want) {
			t.Errorf("%s: body: got %q, want %q first", path, body, want)
		}
	}
	// The list of weights is no model.
	if body := read(t, f.do(http.MethodGet, "/api/v1/models/catalog", "")); strings.Contains(body, "model_not_found") {
		t.Errorf("the list of weights: got %q, want it without model_not_found", body)
	}
}

func TestOperatorsNeedTheToken(t *testing.T) {
	f := start(t)
	paths := []string{"/api/v1/admin/accounts/a1/credit", "/api/v1/admin/none", "/api/v1/admin/providers"}
	for _, path := range paths {
		wantError(t, f.do(http.MethodPost, path, "{}"), 401, "missing_api_key")
		wantError(t, f.do(http.MethodPost, path, "{}", "Authorization", "Bearer "+f.key), 401, "invalid_api_key")
		wantError(t, f.do(http.MethodPost, path, "{}", "Authorization", "Bearer "), 401, "missing_api_key")
		wantError(t, f.do(http.MethodPost, path, "{}", "X-Api-Key", adminToken), 401, "missing_api_key")
	}
	bare := start(t, func(c *Config) { c.MachineTokens = config.Secret{} })
	for _, path := range paths {
		wantError(t, bare.do(http.MethodPost, path, "{}", "Authorization", "Bearer "), 401, "missing_api_key")
		wantError(t, bare.do(http.MethodPost, path, "{}", "Authorization", "Bearer "+adminToken), 401, "invalid_api_key")
	}
}

func TestOperatorsReachTheServices(t *testing.T) {
	f := start(t, func(c *Config) { c.MaxAdminBodyBytes = 1 << 10 })
	admin := []string{"Authorization", "Bearer " + adminToken, "Idempotency-Key", "grant-1", "Grpc-Timeout", "1n",
		"X-Other", "x",
		"X-Svc-Operator", "mallory", "Grpc-Metadata-X-Svc-Operator", "mallory"}
	const path = "/api/v1/admin/accounts/a1/credit"
	resp := f.do(http.MethodPost, path, `{"amount_usd":"5.00"}`, admin...)
	if body := read(t, resp); resp.StatusCode != 200 ||
		!strings.HasPrefix(body, `{"entry_id":"e1","account":{"account_id":"a1","name":"","limits":null,"balance_usd":0,`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	md, _ := metadata.FromIncomingContext(f.market.last())
	if got := md.Get("idempotency-key"); len(got) != 1 {
		t.Errorf("the key came: len(got): got %d, want 1, in %v", len(got), got)
	} else if got[0] != "grant-1" {
		t.Errorf(`the key came: got[0]: got %q, want "grant-1"`, got[0])
	}
	if got := serve.Operator(f.market.last()); got != operatorName {
		t.Errorf("got the operator %q, want %q", got, operatorName)
	}
	for name, values := range md {
		if strings.Contains(strings.Join(values, " "), adminToken) {
			t.Errorf(`handed on: strings.Join(values, " "): got %q, want it without %q`, strings.Join(values, " "), adminToken)
		} else if strings.Contains(name, "other") {
			t.Errorf(`handed on: name: got %q, want it without "other"`, name)
		}
	}
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"reused"}`, admin...), 422, "idempotency_key_reused")
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"1","amount":1}`, admin...), 400, "invalid_request")
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":`, admin...), 400, "invalid_request")
	wantError(t, f.do(http.MethodPost, path, `{"memo":"`+strings.Repeat("x", 1<<10)+`"}`, admin...),
		413, "request_too_large")
	wantError(t, f.do(http.MethodGet, path, "", admin...), 405, "method_not_allowed")
	wantError(t, f.do(http.MethodGet, "/api/v1/admin/none", "", admin...), 404, "unknown_route")
	e := wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"boom"}`, admin...), 500, "internal_error")
	if strings.Contains(e.Error.Message, "pq") {
		t.Errorf(`driver text: got %q, want it without "pq"`, e.Error.Message)
	}
	for _, id := range []string{"acme/tiny-1b", "acme%2Ftiny-1b", "llama3:8b"} {
		resp := f.do(http.MethodPut, "/api/v1/admin/models/"+id, `{"name":"x"}`, admin...)
		want := strings.ReplaceAll(id, "%2F", "/")
		if body := read(t, resp); resp.StatusCode != 200 {
			t.Errorf("%s: resp.StatusCode: got %d, want 200", id, resp.StatusCode)
		} else if !strings.Contains(body, `{"model":{"id":"`+want+`"`) {
			t.Errorf("%s: body: got %q, want %q in it", id, body, `{"model":{"id":"`+want+`"`)
		}
	}
}

func TestOperatorsScheduleAndCancelChangesOfModels(t *testing.T) {
	f := start(t)
	admin := []string{"Authorization", "Bearer " + adminToken}
	for _, id := range []string{"acme/tiny-1b", "acme%2Ftiny-1b", "llama3:8b", "a/changes"} {
		path := "/api/v1/admin/models/" + id + "/changes"
		named := `"model_id":"` + strings.ReplaceAll(id, "%2F", "/") + `"`
		for name, call := range map[string]struct{ method, path, body, want string }{
			"schedule": {http.MethodPost, path,
				`{"effective_from":"2026-12-01T00:00:00Z","entry":{"input_price":"1.5","inactive":true}}`,
				`"state":"scheduled","effective_from":"2026-12-01T00:00:00Z","entry":{`},
			"list":   {http.MethodGet, path, "", `{"list":[{`},
			"cancel": {http.MethodDelete, path + "/c1", "", `"change_id":"c1"`},
		} {
			resp := f.do(call.method, call.path, call.body, admin...)
			body := read(t, resp)
			switch {
			case resp.StatusCode != http.StatusOK:
				t.Errorf("%s of %s: got %d, want 200, with %s", name, id, resp.StatusCode, body)
			case !strings.Contains(body, named):
				t.Errorf("%s of %s: got %s, want %s in it", name, id, body, named)
			case !strings.Contains(body, call.want):
				t.Errorf("%s of %s: got %s, want %s in it", name, id, body, call.want)
			}
		}
	}
	const path = "/api/v1/admin/models/" + modelID + "/changes"
	wantError(t, f.do(http.MethodDelete, path+"/c2", "", admin...), 404, "change_not_found")
	wantError(t, f.do(http.MethodPost, path, `{"entry":{"model_id":"other"}}`, admin...), 400, "invalid_request")
	wantError(t, f.do(http.MethodPost, path, `{"effective_from":"tomorrow"}`, admin...), 400, "invalid_request")
	wantError(t, f.do(http.MethodGet, path, ""), 401, "missing_api_key")
	if resp := f.do(http.MethodPut, path+"/c1", "{}", admin...); resp.StatusCode != http.StatusOK {
		t.Errorf("a model whose id looks like a change: got %d, want 200", resp.StatusCode)
	}
}

func TestHeadIsAnsweredAsGet(t *testing.T) {
	f := start(t)
	for _, path := range []string{"/api/v1/models", "/api/v1/models/acme/tiny-1b/providers"} {
		resp := f.do(http.MethodHead, path, "")
		switch body := read(t, resp); {
		case resp.StatusCode != 200:
			t.Errorf("%s: resp.StatusCode: got %d, want 200", path, resp.StatusCode)
		case body != "":
			t.Errorf(`%s: body: got %q, want ""`, path, body)
		case resp.Header.Get("Content-Type") != "application/json":
			t.Errorf(`%s: resp.Header.Get("Content-Type"): got %q, want "application/json"`, path,
				resp.Header.Get("Content-Type"))
		}
	}
}

func TestAWrongMethodGetsTheRightOnes(t *testing.T) {
	f := start(t)
	admin := []string{"Authorization", "Bearer " + adminToken}
	for path, allowed := range map[string]string{
		"/api/v1/admin/accounts/a1/credit": "POST", "/api/v1/admin/models/acme/tiny-1b": "PUT",
		"/api/v1/admin/providers": "GET, HEAD, POST",
	} {
		resp := f.do(http.MethodDelete, path, "", admin...)
		wantError(t, resp, 405, "method_not_allowed")
		if got := resp.Header.Get("Allow"); got != allowed {
			t.Errorf("%s allows: got %q, want %q", path, got, allowed)
		}
	}
}

// What a body holds besides its one message must not be passed over in silence.
func TestAnOperatorsBodyIsOnePlainMessage(t *testing.T) {
	f := start(t)
	const path = "/api/v1/admin/accounts/a1/credit"
	admin := []string{"Authorization", "Bearer " + adminToken}
	for _, more := range []string{` {"x":1}`, ` 1`, `,`, `}`, ` null`} {
		wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"5.00","idempotency_key":"k"}`+more, admin...),
			400, "invalid_request")
	}
	wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"5.00"}`, append(admin, "Content-Encoding", "gzip")...), 415,
		"unsupported_encoding")
	for _, name := range []string{"idempotency_key", "idempotencyKey", `idempotency\u005fkey`} {
		e := wantError(t, f.do(http.MethodPost, path, `{"amount_usd":"5.00","`+name+`":"k"}`, append(admin, "Idempotency-Key",
			"other")...), 400, "invalid_value")
		if e.Error.Param == nil {
			t.Error("the param: got nil, want a value")
		} else if *e.Error.Param != "idempotency_key" {
			t.Errorf(`*e.Error.Param: got %q, want "idempotency_key"`, *e.Error.Param)
		}
	}
	if f.market.last() != nil {
		t.Error("a refused body booked credit")
	}
	for _, body := range []string{` {"amount_usd":"5.00","idempotency_key":"k"}` + "\r\n",
		`{"amount_usd":"5.00","idempotency_key":""}`, ``} {
		resp := f.do(http.MethodPost, path, body, append(admin, "Idempotency-Key", "k", "Content-Encoding", "identity")...)
		if resp.StatusCode != 200 {
			t.Errorf("%q: got %d, want 200, with %s", body, resp.StatusCode, read(t, resp))
		}
	}
}

func TestReceiptsAreTheAccountsOwn(t *testing.T) {
	f := start(t)
	auth := []string{"Authorization", "Bearer " + f.key}
	resp := f.do(http.MethodGet, "/api/v1/requests/01890000-0000-7000-8000-00000000000a", "", auth...)
	if body := read(t, resp); resp.StatusCode != 200 ||
		!strings.HasPrefix(body, `{"request_id":"01890000-0000-7000-8000-00000000000a","model":"","status":"settled",`) ||
		!strings.Contains(body, `"attempts":[],"admitted_at":null`) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for _, id := range []string{"01890000-0000-7000-8000-00000000000b", "x", "'%20OR%201=1", "a/b"} {
		wantError(t, f.do(http.MethodGet, "/api/v1/requests/"+id, "", auth...), 404, "request_not_found")
	}
}

func TestBrowsersMayCall(t *testing.T) {
	f := start(t)
	resp := f.do(http.MethodOptions, "/v1/chat/completions", "", "Origin", "https://app.example",
		"Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization, x-stainless-lang, x-svc-provider")
	if resp.StatusCode != http.StatusNoContent {
		t.Errorf("status: got %d, want 204", resp.StatusCode)
	}
	wantHeaders(t, resp.Header, map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Max-Age": "86400", "Access-Control-Allow-Credentials": "",
		"Access-Control-Allow-Headers": "authorization, x-stainless-lang, x-svc-provider",
	})
	resp = f.do(http.MethodOptions, "/v1/chat/completions", "", "Origin", "x", "Access-Control-Request-Headers", "a;b")
	if got := resp.Header.Get("Access-Control-Allow-Headers"); strings.Contains(got, ";") {
		t.Errorf(`an answer to odd names: resp.Header.Get(…): got %q, want it without ";"`, got)
	} else if !strings.Contains(got, "Authorization") {
		t.Errorf(`an answer to odd names: resp.Header.Get(…): got %q, want "Authorization" in it`, got)
	}
	resp = f.do(http.MethodPost, "/v1/chat/completions", hello, "Origin", "https://app.example")
	wantError(t, resp, 401, "missing_api_key")
	wantHeaders(t, resp.Header, map[string]string{"Access-Control-Allow-Origin": "*"})
	for _, name := range []string{"X-Svc-Provider-Id", "X-Request-Id", "Retry-After", "X-Ratelimit-Remaining-Requests"} {
		if !strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("exposing %s: got %q, want %q in it", name, resp.Header.Get("Access-Control-Expose-Headers"), name)
		}
	}
	if resp := f.do(http.MethodGet, "/api/v1/models", "", "Origin",
		"x"); resp.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf(`the pages that may read /api/v1: got %q, want ""`, resp.Header.Get("Access-Control-Allow-Origin"))
	}
}
