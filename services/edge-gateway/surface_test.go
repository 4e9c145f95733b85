package edgegateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"

	"svc.internal/services/edge-gateway/internal/openapi"
	"svc.internal/services/edge-gateway/internal/operator"
)

// operation is one described route, ready to be asked.
type operation struct {
	method, path string
	template     string // the path as it is described
	contentType  string
	body         string
	model        string // whom it asks
	keyless      bool
	operators    bool
	priced       bool
	flat         bool   // whether its errors are those that agents of users read
	opener       string // the scheme of the credential it needs; empty for none
}

func (o operation) String() string { return o.method + " " + o.path }

// operations reads the whole surface out of the description.
func operations(t testing.TB) []operation {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Security   []map[string]any
			Parameters []struct {
				Name    string
				In      string
				Example string
			}
			RequestBody struct {
				Content map[string]struct{ Example map[string]any }
			}
			Responses map[string]any
		}
	}
	if err := json.Unmarshal(openapi.Document(), &doc); err != nil {
		t.Fatal(err)
	}
	var all []operation
	for path, item := range doc.Paths {
		for verb, described := range item {
			o := operation{method: strings.ToUpper(verb), path: path, template: path,
				operators: strings.HasPrefix(path, "/api/v1/admin/")}
			o.keyless = len(described.Security) > 0 && len(described.Security[0]) == 0
			o.opener = "consumerKey"
			if len(described.Security) > 0 {
				o.opener = strings.Join(slices.Collect(maps.Keys(described.Security[0])), " ")
			}
			_, o.priced = described.Responses["402"]
			failed, _ := described.Responses["default"].(map[string]any)
			o.flat = failed["$ref"] == "#/components/responses/FlatError"
			for _, p := range described.Parameters {
				if p.In == "path" {
					value := p.Example
					switch {
					case p.Name == "model_id":
						value = modelID
					case p.Name == "chain_id":
						value = "1"
					case value == "":
						value = "x"
					}
					o.path = strings.Replace(o.path, "{"+p.Name+"}", value, 1)
				}
			}
			for kind, content := range described.RequestBody.Content {
				o.contentType = kind
				o.model, _ = content.Example["model"].(string)
				o.fill(t, content.Example)
			}
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// fill makes the body of an example.
func (o *operation) fill(t testing.TB, example map[string]any) {
	if o.contentType == "application/x-www-form-urlencoded" {
		fields := url.Values{}
		for name, value := range example {
			fields.Set(name, fmt.Sprint(value))
		}
		o.body = fields.Encode()
		return
	}
	if o.contentType != "multipart/form-data" {
		raw, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		o.body = string(raw)
		if example == nil {
			o.body = "{}"
		}
		return
	}
	var buf bytes.Buffer
	form := multipart.NewWriter(&buf)
	part, err := form.CreateFormFile("file", "a.wav")
	if err == nil {
		_, err = part.Write(second())
	}
	if err == nil {
		err = form.WriteField("model", o.model)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	o.body, o.contentType = buf.String(), form.FormDataContentType()
}

// second is a second of silence as wav.
func second() []byte {
	const rate = 8000
	head := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt "), make([]byte, 28)...)
	binary.LittleEndian.PutUint32(head[4:], 36+rate)
	for at, value := range map[int]uint32{16: 16, 20: 1 | 1<<16, 24: rate, 28: rate, 32: 1 | 8<<16, 40: rate} {
		binary.LittleEndian.PutUint32(head[at:], value)
	}
	copy(head[36:], "data")
	return append(head, bytes.Repeat([]byte{128}, rate)...)
}

// surfaceFleet serves a model of every kind that the description's examples ask
// for, and has a playground.
func surfaceFleet(t testing.TB) *fleet {
	// Every route is tried with every wrong key from one address; tests of the bound set their own.
	f := newFleet(t, func(c *Config) { c.WrongKeys, c.Origins = 1_000, consoleOrigin })
	f.cfg.PlaygroundModels = modelID
	f.cfg.VisitorSecret = config.NewSecret("the gateways' own secret, long enough")
	svc, err := New(t.Context(), f.cfg, f.svc.deps)
	if err != nil {
		t.Fatal(err)
	}
	f.svc = svc
	for id, category := range map[string]catalogv1.Category{
		"acme/embed-1": catalogv1.Category_CATEGORY_EMBEDDING, "acme/paint-1": catalogv1.Category_CATEGORY_IMAGE,
		"acme/listen-1": catalogv1.Category_CATEGORY_AUDIO,
	} {
		m := proto.Clone(testModel()).(*catalogv1.Model)
		m.ModelId, m.Slug, m.Category = id, "", category
		f.catalog.models = append(f.catalog.models, m)
	}
	return f.start()
}

// ask sends an operation with headers of its own.
func (f *fleet) ask(o operation, headers ...string) *http.Response {
	f.t.Helper()
	if o.contentType != "" {
		headers = append([]string{"Content-Type", o.contentType}, headers...)
	}
	return f.do(o.method, o.path, o.body, headers...)
}

// credential is what an operation needs to be let in.
func (f *fleet) credential(o operation) []string {
	switch {
	case o.path == operator.RefreshPath:
		return []string{"Cookie", "svc_operator=" + bossToken, "Sec-Fetch-Site", "same-origin"}
	case o.operators && (operator.Principal{Role: operator.Admin}).Check(o.method, o.template) != nil:
		return []string{"Authorization", "Bearer " + bossToken} // this act is refused to a machine
	case o.operators:
		return []string{"Authorization", "Bearer " + adminToken}
	case o.path == "/v1/playground/chat" && f.cfg.PlaygroundModels != "":
		return []string{"Sec-Fetch-Site", "same-origin", "Cookie", f.session()}
	case strings.HasPrefix(o.path, "/v1/playground/"):
		return []string{"Sec-Fetch-Site", "same-origin"}
	case o.keyless:
		return nil
	case o.opener == "providerKey":
		return []string{"Authorization", "Bearer " + f.providerKey}
	case o.opener == "session":
		return []string{"Authorization", "Bearer " + sessionToken}
	}
	return []string{"Authorization", "Bearer " + f.key}
}

// wantError checks an error in the form of the operation, and gives its message.
func (o operation) wantError(t *testing.T, resp *http.Response, status int, code string) string {
	t.Helper()
	flat := o.flat
	if !flat && (o.path != "/api/v1/provider/status" || status != http.StatusUnauthorized) {
		return wantError(t, resp, status, code).Error.Message
	}
	var e struct {
		Error, Message, Code string
		RequestID            string `json:"request_id"`
		Valid                *bool  `json:"api_key_valid"`
	}
	raw := read(t, resp)
	if err := json.Unmarshal([]byte(raw), &e); err != nil {
		t.Fatalf("%s: %d %q", o, resp.StatusCode, raw)
	}
	switch {
	case resp.StatusCode != status:
		t.Errorf("%s: %s: resp.StatusCode: got %d, want %d", o, raw, resp.StatusCode, status)
	case e.Code != code:
		t.Errorf("%s: %d %s: e.Code: got %q, want %q", o, resp.StatusCode, raw, e.Code, code)
	case e.Message == "":
		t.Errorf(`%s: %d %s: e.Message: got "", want some text`, o, resp.StatusCode, raw)
	case e.RequestID != resp.Header.Get("X-Request-ID"):
		t.Errorf("%s: %d %s: e.RequestID: got %q, want %q", o, resp.StatusCode, raw, e.RequestID,
			resp.Header.Get("X-Request-ID"))
	}
	switch {
	case flat && e.Error != e.Message:
		t.Errorf("the body is %s: e.Error: got %q, want %q, where flat", raw, e.Error, e.Message)
	case !flat && e.Valid == nil:
		t.Errorf("the body is %s: e.Valid: got nil, want a value, where not flat", raw)
	case !flat && *e.Valid:
		t.Errorf("the body is %s: *e.Valid: got true, want false, where not flat", raw)
	}
	return e.Message
}

func TestEveryDescribedOperationIsServed(t *testing.T) {
	f := surfaceFleet(t)
	for _, o := range operations(t) {
		resp := f.ask(o, f.credential(o)...)
		var e errorBody
		_ = json.Unmarshal([]byte(read(t, resp)), &e) // an answer that is no error has no code
		if e.Error.Code != nil && *e.Error.Code == "unknown_route" {
			t.Errorf(`%s: %d: *e.Error.Code: got "unknown_route", want any but "unknown_route"`, o, resp.StatusCode)
		} else if e.Error.Code != nil && *e.Error.Code == "method_not_allowed" {
			t.Errorf(`%s: %d: *e.Error.Code: got "method_not_allowed", want any but "method_not_allowed"`, o, resp.StatusCode)
		}
		if resp.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s wants another credential", o)
		}
	}
}

// Nothing that costs money runs without having been admitted, and nothing is
// dispatched that was not.
func TestEveryPricedRouteIsAdmitted(t *testing.T) {
	f := surfaceFleet(t)
	f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short"))
	priced := 0
	for _, o := range operations(t) {
		resp := f.ask(o, f.credential(o)...)
		if !o.priced {
			read(t, resp)
			if o.method != http.MethodPost || !strings.HasPrefix(o.path, "/v1/") {
				continue
			}
			// The platform pays for the playground, by the same way.
			if o.path != "/v1/playground/chat" {
				t.Errorf(`without a described price: o.path: got %q, want "/v1/playground/chat"`, o.path)
			} else if len(f.billing.admits) != 1 {
				t.Errorf("without a described price: len(f.billing.admits): got %d, want 1", len(f.billing.admits))
			}
			awaited(f.t, f.billing.admits)
			continue
		}
		priced++
		wantError(t, resp, http.StatusPaymentRequired, "insufficient_credits")
		select {
		case a := <-f.billing.admits:
			if a.GetModelId() != o.model {
				t.Errorf("%s was admitted: got %q, want %q", o, a.GetModelId(), o.model)
			}
		default:
			t.Errorf("%s was not admitted", o)
		}
	}
	if len(f.hub.opens) != 0 {
		t.Errorf("requests dispatched without admission: got %d, want 0", len(f.hub.opens))
	}
	if priced < 4 {
		t.Errorf("priced routes: got %d, want at least 4", priced)
	}
}

// Hostile tests 1, 2 and 4: every route that needs a key refuses what is none,
// with one body for all that are wrong, and keyless routes do not look.
func TestNoRouteIsOpenedByAWrongKey(t *testing.T) {
	f := surfaceFleet(t)
	provider, err := apikey.Generate(apikey.Provider, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	credentials := map[string]struct{ value, code string }{
		"empty":     {"Bearer ", "missing_api_key"},
		"scheme":    {"Basic c2stc3Zj", "invalid_api_key"},
		"garbage":   {"Bearer garbage", "invalid_api_key"},
		"sql":       {"Bearer ' OR '1'='1'; DROP TABLE keys; --", "invalid_api_key"},
		"percent":   {"Bearer %' UNION SELECT NULL,NULL,version()--", "invalid_api_key"},
		"oversized": {"Bearer " + strings.Repeat("k", 30_000), "invalid_api_key"},
		"not ascii": {"Bearer sk-svc-\xff\xfe\u2028", "invalid_api_key"},
		"provider":  {"Bearer " + provider, "wrong_key_type"},
	}
	for _, o := range operations(t) {
		for name, c := range credentials {
			resp := f.ask(o, "Authorization", c.value)
			if o.keyless {
				if read(t, resp); resp.StatusCode == http.StatusUnauthorized {
					t.Errorf("%s looks at the credential %q: got 401, want any but 401", o, name)
				}
				continue
			}
			code := c.code
			switch {
			case (o.operators || o.opener == "providerKey" || strings.HasPrefix(o.path, "/api/v1/provider/")) &&
				name == "provider": // of who moves money, a provider key is looked at too
				code = "invalid_api_key"
			case o.opener == "session" && code == "invalid_api_key":
				code = "invalid_session"
			}
			message := o.wantError(t, resp, http.StatusUnauthorized, code)
			for _, secret := range []string{"pq:", "SQL", "DROP", "UNION", "kkkk", "sk-"} {
				if strings.Contains(message, secret) {
					t.Errorf("%s, %s: the message: got %q, want it without %q", o, name, message, secret)
				}
			}
		}
		if !o.keyless {
			o.wantError(t, f.ask(o), http.StatusUnauthorized, "missing_api_key")
		}
	}
	if len(f.billing.admits) != 0 {
		t.Errorf("requests admitted with a wrong key: got %d, want 0", len(f.billing.admits))
	}
}

// Hostile test 2, for what else comes from outside and is looked up.
func TestMetacharactersFindNothing(t *testing.T) {
	f := surfaceFleet(t)
	auth := []string{"Authorization", "Bearer " + f.key}
	for _, text := range []string{`' OR '1'='1`, `"; DROP TABLE holds; --`, `%25%25%25`, `\x00`, `1; SELECT pg_sleep(9)`,
		`../../etc/passwd`, "\u202e"} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, f.post(strings.Replace(hello, `"`+modelID+`"`, string(quoted), 1)), http.StatusNotFound,
			"model_not_found")
		wantError(t, f.post(hello, "X-Svc-Provider", text), http.StatusBadRequest, "invalid_provider")
		path := strings.NewReplacer(" ", "%20", "\u202e", "%E2%80%AE", `"`, "%22", `\`, "%5C").Replace(text)
		wantError(t, f.do(http.MethodGet, "/v1/models/"+path, ""), http.StatusNotFound, "model_not_found")
		wantError(t, f.do(http.MethodGet, "/api/v1/requests/"+path, "", auth...), http.StatusNotFound, "request_not_found")
	}
}

// Hostile test 18: what a client or a provider says of itself comes back in no
// header unless it is plain.
func TestHeadersReflectNothingRaw(t *testing.T) {
	f := surfaceFleet(t)
	for _, value := range []string{"caf\u00e9", "\xff\xfe", "a\tb", strings.Repeat("x", 20_000),
		providerA + ", " + providerB} {
		resp := f.post(hello, "X-Svc-Provider", value)
		e := wantError(t, resp, http.StatusBadRequest, "invalid_provider")
		if strings.Contains(e.Error.Message, value) {
			t.Errorf("%.40q in an answer: e.Error.Message: got %q, want it without %q", value, e.Error.Message, value)
		} else if resp.Header.Get("X-Svc-Requested-Provider") != "" {
			t.Errorf(`%.40q in an answer: resp.Header.Get(…): got %q, want ""`, value,
				resp.Header.Get("X-Svc-Requested-Provider"))
		}
	}
}

// HEAD is GET without its body, and no other method passes for another.
func TestEveryRouteKnowsItsMethods(t *testing.T) {
	f := surfaceFleet(t)
	served := map[string][]string{}
	for _, o := range operations(t) {
		served[o.path] = append(served[o.path], o.method)
	}
	for _, o := range operations(t) {
		if o.operators {
			continue // another test's
		}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"} {
			if slices.Contains(served[o.path], method) {
				continue
			}
			other := operation{method: method, path: o.path, flat: o.flat}
			resp := f.ask(other, f.credential(o)...)
			if method == "HEAD" && slices.Contains(served[o.path], "GET") {
				if body := read(t, resp); resp.StatusCode >= 500 {
					t.Errorf("%s: got %d, want less than 500", other, resp.StatusCode)
				} else if body != "" {
					t.Errorf(`body: got %q, want ""`, body)
				}
				continue
			}
			if method == "HEAD" { // which has no body to look at
				if resp.StatusCode != http.StatusMethodNotAllowed {
					t.Errorf("resp.StatusCode: got %d, want 405", resp.StatusCode)
				}
				continue
			}
			other.wantError(t, resp, http.StatusMethodNotAllowed, "method_not_allowed")
			if resp.Header.Get("Allow") == "" {
				t.Errorf(`what %s says is allowed: got "", want some text`, other)
			}
		}
	}
}

func TestPagesOfOtherOriginsMayCallTheOpenAIRoutesOnly(t *testing.T) {
	f := surfaceFleet(t)
	for _, o := range operations(t) {
		open := strings.HasPrefix(o.path, "/v1/") && !strings.HasPrefix(o.path, "/v1/playground/")
		asked := operation{method: http.MethodOptions, path: o.path}
		resp := f.ask(asked, "Origin", "https://app.example", "Access-Control-Request-Method", o.method,
			"Access-Control-Request-Headers", "authorization,x-stainless-retry-count,idempotency-key")
		read(t, resp)
		if allowed := resp.Header.Get("Access-Control-Allow-Origin") == "*" &&
			resp.StatusCode == http.StatusNoContent; allowed != open {
			t.Errorf("preflight of %s: %d: got %t, want %t", o, resp.StatusCode, allowed, open)
		}
		if open {
			wantHeaders(t, resp.Header, map[string]string{
				"Access-Control-Allow-Headers": "authorization,x-stainless-retry-count,idempotency-key",
				"Access-Control-Max-Age":       "86400", "Access-Control-Allow-Credentials": "",
			})
		}
		for _, credential := range [][]string{nil, f.credential(o)} {
			resp := f.ask(o, append([]string{"Origin", "https://app.example"}, credential...)...)
			read(t, resp)
			if allowed := resp.Header.Get("Access-Control-Allow-Origin") == "*"; allowed != open {
				t.Errorf("%s: %d: allowed: got %t, want %t", o, resp.StatusCode, allowed, open)
			}
			exposed := strings.Split(strings.ToLower(resp.Header.Get("Access-Control-Expose-Headers")), ", ")
			for name := range resp.Header {
				name = strings.ToLower(name)
				ours := strings.HasPrefix(name, "x-svc-") || strings.HasPrefix(name, "x-ratelimit-") || name == "x-request-id" ||
					name == "x-should-retry"
				if open && ours && !slices.Contains(exposed, name) {
					t.Errorf("%s: %s is not exposed", o, name)
				}
			}
		}
	}
}
