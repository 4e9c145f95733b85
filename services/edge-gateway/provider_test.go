package edgegateway

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

const agentStatus = "/api/v1/provider/status"

func (f *fleet) asProvider() []string { return []string{"Authorization", "Bearer " + f.providerKey} }

// wantJSON checks the status of an answer and decodes it.
func wantJSON(t *testing.T, resp *http.Response, status int, into any) string {
	t.Helper()
	body := read(t, resp)
	if resp.StatusCode != status || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s %s, want %d", resp.StatusCode, resp.Header.Get("Content-Type"), body, status)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(body), into); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
	}
	return body
}

// verdict is how an agent of v1 reads a status, whatever its code: JSON that does not
// say api_key_valid and can_connect keeps it away until a human restarts it.
func verdict(body string) (mayDial bool) {
	var said struct {
		Valid bool `json:"api_key_valid"`
		Can   bool `json:"can_connect"`
	}
	if json.Unmarshal([]byte(body), &said) != nil {
		return true
	}
	return said.Valid && said.Can
}

// Fact 4: an outage of ours must not read as a verdict.
func TestAnOutageNeverKeepsAnAgentAway(t *testing.T) {
	for _, err := range []error{
		errors.New("a programming error"), fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"),
		fault.New(fault.Timeout, fault.DeadlineExceeded, "late"), fault.New(fault.NotFound, fault.ProviderNotFound, "odd"),
		fault.New(fault.Denied, fault.CallerNotAllowed, "set up wrong"), fault.New(fault.Unauthenticated,
			fault.CallerNotAllowed, "set up wrong"),
		fault.New(fault.Exhausted, fault.RateLimitExceeded, "busy"),
	} {
		f := start(t)
		f.selves.set(err, hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE)
		resp := f.do(http.MethodGet, agentStatus, "", f.asProvider()...)
		body := read(t, resp)
		if !verdict(body) || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") ||
			resp.Header.Get("Retry-After") == "" ||
			resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%v: %d %v %q", err, resp.StatusCode, resp.Header, body)
		}
	}
}

// An address with a prefix or a slash too much is no verdict on the key either.
func TestAMisspeltStatusPathIsNoVerdict(t *testing.T) {
	f := start(t)
	for _, path := range []string{"/" + agentStatus, "/prefix" + agentStatus} {
		resp := f.do(http.MethodGet, path, "", f.asProvider()...)
		if body := read(t, resp); resp.StatusCode != 404 || !verdict(body) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

func TestAStatusSurvivesItsHub(t *testing.T) {
	f := start(t)
	var good, kept map[string]any
	began := time.Now()
	wantJSON(t, f.do(http.MethodGet, agentStatus, "", f.asProvider()...), 200, &good)
	delete(good, "traffic")
	good["nodes"] = []any{}
	f.selves.set(fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"), 0)
	resp := f.do(http.MethodGet, agentStatus, "", f.asProvider()...)
	if last := wantJSON(t, resp, 200, &kept); !reflect.DeepEqual(kept, good) || !verdict(last) {
		t.Errorf("got %s %v, want %v", last, resp.Header, good)
	}
	if age, err := strconv.Atoi(resp.Header.Get("Age")); err != nil || age < 0 ||
		age > int(time.Since(began)/time.Second) {
		t.Errorf("it is %q seconds old", resp.Header.Get("Age"))
	}
}

func TestABadKeyIsAVerdict(t *testing.T) {
	f := start(t)
	other, err := apikey.Generate(apikey.Provider, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	for credential, code := range map[string]string{"": "missing_api_key", other: "invalid_api_key",
		"sk-prov-test0123456789abcdef": "invalid_api_key", f.key: "wrong_key_type"} {
		var headers []string
		if credential != "" {
			headers = []string{"Authorization", "Bearer " + credential}
		}
		resp := f.do(http.MethodGet, agentStatus, "", headers...)
		var got struct {
			Valid *bool `json:"api_key_valid"`
			Code  string
		}
		body := wantJSON(t, resp, http.StatusUnauthorized, &got)
		if got.Valid == nil || *got.Valid || got.Code != code || verdict(body) {
			t.Errorf("%.12q: %s", credential, body)
		}
	}
	f.selves.set(nil, hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED)
	if body := wantJSON(t, f.do(http.MethodGet, agentStatus, "", f.asProvider()...), 200, nil); verdict(body) ||
		!strings.Contains(body, `"api_key_valid":true`) {
		t.Errorf("a suspended provider gets %s", body)
	}
}

// Too many wrong keys from an address are plain text too: the next agent behind it may
// have a good one.
func TestAFloodOfWrongKeysIsNoVerdict(t *testing.T) {
	f := start(t, func(c *Config) { c.WrongKeys = 2 })
	answers := map[int]int{}
	for range 12 {
		key, err := apikey.Generate(apikey.Provider, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		resp := f.do(http.MethodGet, agentStatus, "", "Authorization", "Bearer "+key)
		body := read(t, resp)
		answers[resp.StatusCode]++
		if verdict(body) != (resp.StatusCode == http.StatusTooManyRequests) {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
	if answers[401] < 2 || answers[429] < 5 || len(answers) != 2 {
		t.Errorf("answers by status: %v", answers)
	}
}

// The calls by which a user becomes a provider, with the members that an agent reads.
func TestAUsersCallsAreAnsweredAsAgentsReadThem(t *testing.T) {
	f := start(t)
	var session struct {
		Token  string
		APIKey string `json:"api_key"`
		User   struct {
			ID, Email   string
			DisplayName string `json:"display_name"`
			AccountType string `json:"account_type"`
			ProviderID  string `json:"provider_id"`
		}
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/user/signup",
		`{"email":"ann@example.org","password":"correct horse","display_name":"Ann"}`), 201, &session)
	if session.Token != sessionToken || session.APIKey == "" || session.User.ID != userID ||
		session.User.AccountType != "consumer" || session.User.ProviderID != "" {
		t.Errorf("signed up: %+v", session)
	}
	auth := []string{"Authorization", "Bearer " + session.Token}
	var upgraded struct {
		ProviderID string   `json:"provider_id"`
		Key        string   `json:"provider_api_key"`
		Prefix     string   `json:"provider_key_prefix"`
		Status     string   `json:"status"`
		CanConnect bool     `json:"can_connect"`
		Message    string   `json:"message"`
		NextSteps  []string `json:"next_steps"`
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/consumer/upgrade-to-provider", `{"name":"Ann's","wallet_address":""}`,
		auth...), 201, &upgraded)
	if upgraded.ProviderID != providerA || !strings.HasPrefix(upgraded.Key, "sk-prov-") ||
		!strings.HasPrefix(upgraded.Key, upgraded.Prefix) ||
		upgraded.Status != "pending" || !upgraded.CanConnect || upgraded.Message == "" || len(upgraded.NextSteps) == 0 {
		t.Errorf("upgraded: %+v", upgraded)
	}
	var flat struct{ Error, Message string }
	wantJSON(t, f.do(http.MethodPost, "/api/v1/user/upgrade-to-provider", `{"name":"Ann's"}`, auth...), 409, &flat)
	if !strings.Contains(flat.Error, "already a provider") || flat.Message != flat.Error {
		t.Errorf("upgraded twice: %+v", flat)
	}
	var created struct {
		APIKey     string `json:"api_key"`
		ProviderID string `json:"provider_id"`
		Message    string
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/user/me/provider-keys", `{"name":"CLI Key"}`, auth...), 201, &created)
	if created.APIKey != "sk-prov-of-"+providerA || created.ProviderID != providerA || created.Message == "" {
		t.Errorf("a key: %+v", created)
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/user/login", `{"email":"ann@example.org","password":"correct horse"}`), 200,
		&session)
	if session.User.AccountType != "provider" || session.User.ProviderID != providerA ||
		session.User.Email != "ann@example.org" {
		t.Errorf("signed in: %+v", session)
	}
}

// The calls with a provider key, with the members that an agent reads.
func TestAProvidersCallsAreAnsweredAsAgentsReadThem(t *testing.T) {
	f := start(t)
	wantJSON(t, f.do(http.MethodPut, "/api/v1/provider/me",
		`{"beneficiary_address":"0x52908400098527886E0F7030069857D2E4169EE7"}`, f.asProvider()...), 200, nil)
	e := wantError(t, f.do(http.MethodPut, "/api/v1/provider/me", `{"beneficiary_address":"nowhere"}`, f.asProvider()...),
		400, "invalid_value")
	if e.Error.Param == nil || *e.Error.Param != "beneficiary_address" {
		t.Errorf("the param is %v", e.Error.Param)
	}
	var review struct {
		ProviderID  string `json:"provider_id"`
		Status      string
		Message     string
		RequestedAt string `json:"requested_at"`
	}
	const ask = `{"provider_name":"A","hardware_summary":"2 x RTX 4090","contact_email":"a@example.org"}`
	wantJSON(t, f.do(http.MethodPost, "/api/v1/provider/request-approval", ask, f.asProvider()...), 200, &review)
	if review.ProviderID != providerA || review.Status != "under_review" || review.Message == "" ||
		review.RequestedAt == "" {
		t.Errorf("a review: %+v", review)
	}
	f.selves.set(nil, hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED)
	wantError(t, f.do(http.MethodPost, "/api/v1/provider/request-approval", ask, f.asProvider()...), 409,
		"transition_not_allowed")
	var rotated struct {
		APIKey string `json:"api_key"`
		Ends   string `json:"old_key_expires_at"`
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/provider/keys", ``, f.asProvider()...), 201, &rotated)
	if rotated.APIKey == "" || rotated.Ends != "1970-01-02T00:00:00Z" { // a day of overlap
		t.Errorf("rotated: %+v", rotated)
	}
	var challenge struct {
		Nonce, Message string
		ExpiresAt      string `json:"expires_at"`
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/provider/ws-challenge", `{"address":"0x1"}`), 200, &challenge)
	if challenge.Nonce == "" || challenge.Message != "sign in with 0x1" || challenge.ExpiresAt == "" {
		t.Errorf("a challenge: %+v", challenge)
	}
}

func TestProviderSignUpIsDeprecatedAndOneForAnOwner(t *testing.T) {
	f := start(t)
	const body = `{"name":"One","owner_address":"0x52908400098527886E0F7030069857D2E4169EE7"}`
	var opened struct {
		ProviderID string   `json:"provider_id"`
		APIKey     string   `json:"api_key"`
		KeyPrefix  string   `json:"key_prefix"`
		Status     string   `json:"status"`
		CanConnect bool     `json:"can_connect"`
		NextSteps  []string `json:"next_steps"`
	}
	resp := f.do(http.MethodPost, "/api/v1/provider/signup", body, "Idempotency-Key", "k")
	wantJSON(t, resp, 201, &opened)
	if opened.ProviderID == "" || opened.APIKey == "" || opened.KeyPrefix == "" || opened.Status != "pending" ||
		!opened.CanConnect || len(opened.NextSteps) == 0 {
		t.Errorf("got %+v", opened)
	}
	wantHeaders(t, resp.Header, map[string]string{"Deprecation": "@1767225600", "Cache-Control": "no-store"})
	wantError(t, f.do(http.MethodPost, "/api/v1/provider/signup", body, "Idempotency-Key", "k"), 409, "already_exists")
	for range 3 {
		read(t, f.do(http.MethodPost, "/api/v1/provider/signup", body))
	}
	resp = f.do(http.MethodPost, "/api/v1/provider/signup", body)
	wantError(t, resp, 429, "rate_limit_exceeded")
	if resp.Header.Get("Retry-After") == "" || len(f.selves.signedUp()) != 1 {
		t.Errorf("%v; %d accounts", resp.Header, len(f.selves.signedUp()))
	}
}

func TestErrorsOfUsersAreFlatAndRevealNothing(t *testing.T) {
	f := start(t)
	errorsSeen := map[string]bool{}
	for _, body := range []string{`{"email":"ann@example.org","password":"wrong horse"}`,
		`{"email":"nobody@example.org","password":"wrong horse"}`} {
		var flat struct{ Error, Message, Code string }
		wantJSON(t, f.do(http.MethodPost, "/api/v1/user/login", body), 401, &flat)
		errorsSeen[flat.Error+flat.Message+flat.Code] = true
		if flat.Code != "invalid_credentials" || strings.Contains(flat.Error, "@") {
			t.Errorf("got %+v", flat)
		}
	}
	if len(errorsSeen) != 1 {
		t.Errorf("an error reveals who has an account: %v", errorsSeen)
	}
	for path, status := range map[string]int{"/api/v1/user/nothing": 404, "/api/v1/consumer/nothing": 404,
		"/api/v1/user/signup": 400} {
		var flat struct{ Error, Message string }
		wantJSON(t, f.do(http.MethodPost, path, `[]`), status, &flat)
		if flat.Error == "" || flat.Error != flat.Message {
			t.Errorf("%s: %+v", path, flat)
		}
	}
	wantError(t, f.do(http.MethodPost, "/api/v1/provider/nothing", `{}`), 404, "unknown_route")
}

// The wizard's lists, in their envelope, with ids raw and percent-encoded.
func TestTheModelsHaveTheFormThatAgentsRead(t *testing.T) {
	f := start(t)
	var envelope struct {
		Code *int
		Msg  string
		Data struct {
			List []struct {
				ID, Slug, Name, Category *string
				Active                   *bool
			}
			Models []struct {
				ModelID        string `json:"model_id"`
				Name, Category string
				FileCount      int     `json:"file_count"`
				TotalSize      float64 `json:"total_size_bytes"`
			}
			Total   int
			ModelID string `json:"model_id"`
			Files   []struct {
				Filename, Hash, Algorithm, URL string
				Size                           float64 `json:"size_bytes"`
			}
			TotalSize float64 `json:"total_size_bytes"`
			FileCount int     `json:"file_count"`
		}
	}
	body := wantJSON(t, f.do(http.MethodGet, "/api/v1/models?page_size=200", ""), 200, &envelope)
	if envelope.Code == nil || *envelope.Code != 0 || envelope.Msg != "success" || len(envelope.Data.List) == 0 {
		t.Fatalf("models: %s", body)
	}
	if m := envelope.Data.List[1]; m.ID == nil || *m.ID != openModel || *m.Slug != "open" || *m.Name != "Open" ||
		*m.Category != "llm" || !*m.Active {
		t.Errorf("a model lacks something: %s", body)
	}
	body = wantJSON(t, f.do(http.MethodGet, "/api/v1/models/catalog", ""), 200, &envelope)
	if d := envelope.Data; d.Total != 1 || len(d.Models) != 1 || d.Models[0].ModelID != "Qwen/Qwen3-8B" ||
		d.Models[0].FileCount != 1 || d.Models[0].TotalSize != 16e9 {
		t.Errorf("catalog: %s", body)
	}
	for _, id := range []string{"Qwen%2FQwen3-8B", "Qwen%2fQwen3-8B", "Qwen/Qwen3-8B"} {
		body = wantJSON(t, f.do(http.MethodGet, "/api/v1/models/"+id+"/files", ""), 200, &envelope)
		if d := envelope.Data; d.ModelID != "Qwen/Qwen3-8B" || d.FileCount != 1 || len(d.Files) != 1 ||
			d.Files[0].Algorithm != "sha256" || d.Files[0].Size != 16e9 {
			t.Errorf("files of %s: %s", id, body)
		}
	}
	var contract struct {
		Code *int
		Data struct{ Chains []any }
	}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/provider/collateral/contract", ""), 200, &contract)
	if contract.Code == nil || contract.Data.Chains == nil || len(contract.Data.Chains) != 0 {
		t.Errorf("no contract is configured, and yet: %+v", contract)
	}
}

func TestBodiesOfAgentsAreBounded(t *testing.T) {
	f := start(t)
	path, auth := "/api/v1/provider/me", f.asProvider()
	large := `{"beneficiary_address":"0x1","pad":"` + strings.Repeat("x", 64<<10) + `"}`
	wantError(t, f.do(http.MethodPut, path, large, auth...), 413, "request_too_large")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.base+path,
		io.MultiReader(strings.NewReader(large)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", auth[1])
	resp, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	wantError(t, resp, 413, "request_too_large")
	wantError(t, f.do(http.MethodPut, path, `{"beneficiary_address":"0x1","beneficiary_address":"0x2"}`, auth...),
		400, "duplicate_field")
	wantError(t, f.do(http.MethodPut, path, `{}`, append(auth, "Content-Encoding", "gzip")...), 415,
		"unsupported_encoding")
	// Who asks comes before what is asked.
	other, err := apikey.Generate(apikey.Provider, zeros{})
	if err != nil {
		t.Fatal(err)
	}
	for key, code := range map[string]string{f.key: "wrong_key_type", other: "invalid_api_key"} {
		wantError(t, f.do(http.MethodPut, path, `{`, "Authorization", "Bearer "+key), 401, code)
		wantError(t, f.do(http.MethodPut, path, `{}`, "Authorization", "Bearer "+key, "Content-Encoding", "gzip"), 401, code)
		wantError(t, f.do(http.MethodPut, path, large, "Authorization", "Bearer "+key), 413, "request_too_large")
	}
}

// Nothing secret of a call is in the log, whether it succeeds or fails, nor what peers
// say of it.
func TestNoSecretOfAnAgentIsLogged(t *testing.T) {
	f := start(t)
	canaries := []string{f.providerKey, sessionToken, "correct horse", "wrong horse", "sk-svc-first", "sk-prov-second",
		"sk-prov-of-", "canary"}
	calls := []struct{ method, path, body, credential string }{
		{"GET", agentStatus + "?key=canary", "", f.providerKey},
		{"POST", "/api/v1/user/signup", `{"email":"canary@example.org","password":"correct horse"}`, ""},
		{"POST", "/api/v1/user/login", `{"email":"canary@example.org","password":"wrong horse"}`, ""},
		{"POST", "/api/v1/user/login", `{"email":"canary@example.org","password":"wrong horse`, ""},
		{"POST", "/api/v1/consumer/upgrade-to-provider", `{"name":"canary"}`, sessionToken},
		{"POST", "/api/v1/user/me/provider-keys", `{}`, sessionToken},
		{"POST", "/api/v1/user/me/provider-keys", `{}`, "canary-session"},
		{"POST", "/api/v1/provider/keys", `{"name":"canary"}`, f.providerKey},
		{"PUT", "/api/v1/provider/me", `{"beneficiary_address":"canary"}`, f.providerKey},
		{"PUT", "/api/v1/provider/me", `{"canary":"canary","canary":1}`, f.providerKey},
	}
	round := func() {
		for _, c := range calls {
			var headers []string
			if c.credential != "" {
				headers = []string{"Authorization", "Bearer " + c.credential}
			}
			read(t, f.do(c.method, c.path, c.body, headers...))
		}
	}
	round()
	f.selves.set(fault.Wrap(errors.New("cause"), fault.Unavailable, fault.ServiceUnavailable, "away"), 0)
	f.people.set("", fault.New(fault.Unavailable, fault.ServiceUnavailable, "away"))
	round()
	log := f.log.String()
	if !strings.Contains(log, "route=/api/v1/user/login status=401") || !strings.Contains(log, "status=503") {
		t.Fatalf("the log is %s", log)
	}
	for _, canary := range canaries {
		if strings.Contains(log, canary) {
			t.Errorf("%.12q is in the log:\n%s", canary, log)
		}
	}
	digest := apikey.Sum(f.providerKey)
	if strings.Contains(log, string(digest[:])) {
		t.Error("a digest is in the log")
	}
}

// Hostile test 12: what a provider calls itself comes back as text.
func TestNamesOfProvidersStayText(t *testing.T) {
	f := start(t)
	var got struct {
		Name  string
		Nodes []struct {
			NodeName string `json:"node_name"`
		}
	}
	resp := f.do(http.MethodGet, agentStatus, "", f.asProvider()...)
	wantJSON(t, resp, 200, &got)
	wantHeaders(t, resp.Header, map[string]string{"X-Content-Type-Options": "nosniff"})
	if got.Name != "Provider <a>" || got.Nodes[0].NodeName != `"><script>` {
		t.Errorf("got %+v", got)
	}
}

func TestDemandIsPublic(t *testing.T) {
	f := start(t)
	var got struct {
		Data struct {
			Models []struct {
				ModelID string `json:"model_id"`
				Trend   string `json:"demand_trend"`
			}
		}
	}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/stats/model-demand?category=llm", ""), 200, &got)
	if m := got.Data.Models; len(m) != 1 || m[0].ModelID != openModel || m[0].Trend != "up" {
		t.Errorf("got %+v", got)
	}
}
