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
		switch {
		case !verdict(body):
			t.Errorf("%v: verdict(body): got false, want true, with %q", err, body)
		case !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"):
			t.Errorf(`%v: resp.Header.Get("Content-Type"): got %q, want the prefix "text/plain", with %q`, err,
				resp.Header.Get("Content-Type"), body)
		case resp.Header.Get("Retry-After") == "":
			t.Errorf(`%v: resp.Header.Get("Retry-After"): got "", want some text, with %q`, err, body)
		case resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusTooManyRequests:
			t.Errorf("%v: resp.StatusCode: got %d, want 503 or 429, with %q", err, resp.StatusCode, body)
		}
	}
}

// An address with a prefix or a slash too much is no verdict on the key either.
func TestAMisspeltStatusPathIsNoVerdict(t *testing.T) {
	f := start(t)
	for _, path := range []string{"/" + agentStatus, "/prefix" + agentStatus} {
		resp := f.do(http.MethodGet, path, "", f.asProvider()...)
		if body := read(t, resp); resp.StatusCode != 404 {
			t.Errorf("%s: resp.StatusCode: got %d, want 404, with %s", path, resp.StatusCode, body)
		} else if !verdict(body) {
			t.Errorf("%s: verdict(body): got false, want true, with %s", path, body)
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
		switch {
		case got.Valid == nil:
			t.Errorf("%.12q: Valid: got nil, want a value, with %s", credential, body)
		case *got.Valid:
			t.Errorf("%.12q: *got.Valid: got true, want false, with %s", credential, body)
		case got.Code != code:
			t.Errorf("%.12q: Code: got %q, want %q, with %s", credential, got.Code, code, body)
		case verdict(body):
			t.Errorf("%.12q: verdict(body): got true, want false, with %s", credential, body)
		}
	}
	f.selves.set(nil, hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED)
	if body := wantJSON(t, f.do(http.MethodGet, agentStatus, "", f.asProvider()...), 200, nil); verdict(body) {
		t.Errorf("a suspended provider gets: verdict(body): got true, want false, with %s", body)
	} else if !strings.Contains(body, `"api_key_valid":true`) {
		t.Errorf("a suspended provider gets: got %q, want %q in it", body, `"api_key_valid":true`)
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
	switch {
	case answers[401] < 2:
		t.Errorf("answers by status: answers[401]: got %d, want at least 2", answers[401])
	case answers[429] < 5:
		t.Errorf("answers by status: answers[429]: got %d, want at least 5", answers[429])
	case len(answers) != 2:
		t.Errorf("answers by status: len(answers): got %d, want 2, in %v", len(answers), answers)
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
	if !strings.Contains(flat.Error, "already a provider") {
		t.Errorf(`upgraded twice: flat.Error: got %q, want "already a provider" in it`, flat.Error)
	} else if flat.Message != flat.Error {
		t.Errorf("upgraded twice: flat.Message: got %q, want %q", flat.Message, flat.Error)
	}
	var created struct {
		APIKey     string `json:"api_key"`
		ProviderID string `json:"provider_id"`
		Message    string
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/user/me/provider-keys", `{"name":"CLI Key"}`, auth...), 201, &created)
	switch {
	case created.APIKey != "sk-prov-of-"+providerA:
		t.Errorf("created.APIKey: got %q, want %q", created.APIKey, "sk-prov-of-"+providerA)
	case created.ProviderID != providerA:
		t.Errorf("a key: created.ProviderID: got %q, want %q", created.ProviderID, providerA)
	case created.Message == "":
		t.Error(`a key: created.Message: got "", want some text`)
	}
	wantJSON(t, f.do(http.MethodPost, "/api/v1/user/login", `{"email":"ann@example.org","password":"correct horse"}`), 200,
		&session)
	switch {
	case session.User.AccountType != "provider":
		t.Errorf(`signed: session.User.AccountType: got %q, want "provider"`, session.User.AccountType)
	case session.User.ProviderID != providerA:
		t.Errorf("signed: session.User.ProviderID: got %q, want %q", session.User.ProviderID, providerA)
	case session.User.Email != "ann@example.org":
		t.Errorf(`signed: session.User.Email: got %q, want "ann@example.org"`, session.User.Email)
	}
}

// The calls with a provider key, with the members that an agent reads.
func TestAProvidersCallsAreAnsweredAsAgentsReadThem(t *testing.T) {
	f := start(t)
	wantJSON(t, f.do(http.MethodPut, "/api/v1/provider/me",
		`{"beneficiary_address":"0x52908400098527886E0F7030069857D2E4169EE7"}`, f.asProvider()...), 200, nil)
	e := wantError(t, f.do(http.MethodPut, "/api/v1/provider/me", `{"beneficiary_address":"nowhere"}`, f.asProvider()...),
		400, "invalid_value")
	if e.Error.Param == nil {
		t.Error("the param: got nil, want a value")
	} else if *e.Error.Param != "beneficiary_address" {
		t.Errorf(`*e.Error.Param: got %q, want "beneficiary_address"`, *e.Error.Param)
	}
	var review struct {
		ProviderID  string `json:"provider_id"`
		Status      string
		Message     string
		RequestedAt string `json:"requested_at"`
	}
	const ask = `{"provider_name":"A","hardware_summary":"2 x RTX 4090","contact_email":"a@example.org"}`
	wantJSON(t, f.do(http.MethodPost, "/api/v1/provider/request-approval", ask, f.asProvider()...), 200, &review)
	switch {
	case review.ProviderID != providerA:
		t.Errorf("review.ProviderID: got %q, want %q", review.ProviderID, providerA)
	case review.Status != "under_review":
		t.Errorf(`review.Status: got %q, want "under_review"`, review.Status)
	case review.Message == "":
		t.Error(`review.Message: got "", want some text`)
	case review.RequestedAt == "":
		t.Error(`review.RequestedAt: got "", want some text`)
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
	switch {
	case challenge.Nonce == "":
		t.Error(`challenge.Nonce: got "", want some text`)
	case challenge.Message != "sign in with 0x1":
		t.Errorf(`challenge.Message: got %q, want "sign in with 0x1"`, challenge.Message)
	case challenge.ExpiresAt == "":
		t.Error(`challenge.ExpiresAt: got "", want some text`)
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
	switch {
	case opened.ProviderID == "":
		t.Error(`opened.ProviderID: got "", want some text`)
	case opened.APIKey == "":
		t.Error(`opened.APIKey: got "", want some text`)
	case opened.KeyPrefix == "":
		t.Error(`opened.KeyPrefix: got "", want some text`)
	case opened.Status != "pending":
		t.Errorf(`opened.Status: got %q, want "pending"`, opened.Status)
	case !opened.CanConnect:
		t.Error("opened.CanConnect: got false, want true")
	case len(opened.NextSteps) == 0:
		t.Errorf("len(opened.NextSteps): got 0, want at least 1, in %+v", opened)
	}
	wantHeaders(t, resp.Header, map[string]string{"Deprecation": "@1767225600", "Cache-Control": "no-store"})
	wantError(t, f.do(http.MethodPost, "/api/v1/provider/signup", body, "Idempotency-Key", "k"), 409, "already_exists")
	for range 3 {
		read(t, f.do(http.MethodPost, "/api/v1/provider/signup", body))
	}
	resp = f.do(http.MethodPost, "/api/v1/provider/signup", body)
	wantError(t, resp, 429, "rate_limit_exceeded")
	if resp.Header.Get("Retry-After") == "" {
		t.Error(`resp.Header.Get("Retry-After"): got "", want some text`)
	} else if len(f.selves.signedUp()) != 1 {
		t.Errorf("len(f.selves.signedUp()): got %d, want 1", len(f.selves.signedUp()))
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
		if flat.Code != "invalid_credentials" {
			t.Errorf(`flat.Code: got %q, want "invalid_credentials"`, flat.Code)
		} else if strings.Contains(flat.Error, "@") {
			t.Errorf(`flat.Error: got %q, want it without "@"`, flat.Error)
		}
	}
	if len(errorsSeen) != 1 {
		t.Errorf("different errors, with and without an account: got %d, want 1, in %v", len(errorsSeen), errorsSeen)
	}
	for path, status := range map[string]int{"/api/v1/user/login": 400, "/api/v1/user/signup": 400} {
		var flat struct{ Error, Message string }
		wantJSON(t, f.do(http.MethodPost, path, `[]`), status, &flat)
		if flat.Error == "" {
			t.Errorf(`%s: flat.Error: got "", want some text`, path)
		} else if flat.Error != flat.Message {
			t.Errorf("%s: flat.Error: got %q, want %q", path, flat.Error, flat.Message)
		}
	}
	for _, path := range []string{"/api/v1/provider/nothing", "/api/v1/user/nothing", "/api/v1/consumer/nothing"} {
		wantError(t, f.do(http.MethodPost, path, `{}`), 404, "unknown_route")
	}
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
	switch {
	case envelope.Code == nil:
		t.Fatalf("models: envelope.Code: got nil, want a value, with %s", body)
	case *envelope.Code != 0:
		t.Fatalf("models: *envelope.Code: got %d, want 0, with %s", *envelope.Code, body)
	case envelope.Msg != "success":
		t.Fatalf(`models: envelope.Msg: got %q, want "success", with %s`, envelope.Msg, body)
	case len(envelope.Data.List) == 0:
		t.Fatalf("models: len(envelope.Data.List): got 0, want at least 1, with %s", body)
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
	switch {
	case contract.Code == nil:
		t.Error("contract.Code: got nil, want a value")
	case len(contract.Data.Chains) != 1:
		t.Errorf("got %d chains, want 1, in %+v", len(contract.Data.Chains), contract)
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
	if !strings.Contains(log, "route=/api/v1/user/login status=401") {
		t.Fatalf(`the log: got %q, want "route=/api/v1/user/login status=401" in it`, log)
	}
	if !strings.Contains(log, "status=503") {
		t.Fatalf(`the log: got %q, want "status=503" in it`, log)
	}
	for _, canary := range canaries {
		if strings.Contains(log, canary) {
			t.Errorf("%.12q is in the log:\n%s", canary, log)
		}
	}
	digest := apikey.Sum(f.providerKey)
	if strings.Contains(log, string(digest[:])) {
		t.Errorf("a digest in the log: got %q, want it without %q", log, string(digest[:]))
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
	if got.Name != "Provider <a>" {
		t.Errorf(`Name: got %q, want "Provider <a>"`, got.Name)
	} else if got.Nodes[0].NodeName != `"><script>` {
		t.Errorf("Nodes[0].NodeName: got %q, want %q", got.Nodes[0].NodeName, `"><script>`)
	}
}

func TestFiguresOfTheServiceArePublic(t *testing.T) {
	f := start(t)
	var service struct {
		Data struct {
			Requests int64 `json:"requests_24h"`
			Active   int32 `json:"providers_active"`
		}
	}
	wantJSON(t, f.do(http.MethodGet, "/api/v1/stats/service", ""), 200, &service)
	if got := service.Data.Requests; got != 30 {
		t.Errorf("requests: got %d, want 30", got)
	}
	if got := service.Data.Active; got != 1 {
		t.Errorf("active providers: got %d, want 1", got)
	}
	var list struct {
		Data struct{ Total int }
	}
	for path, want := range map[string]int{"/api/v1/stats/models": 1, "/api/v1/stats/providers": 1} {
		wantJSON(t, f.do(http.MethodGet, path, ""), 200, &list)
		if list.Data.Total < want {
			t.Errorf("%s: got %d rows, want at least %d", path, list.Data.Total, want)
		}
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
	switch m := got.Data.Models; {
	case len(m) != 1:
		t.Errorf("len(m): got %d, want 1", len(m))
	case m[0].ModelID != openModel:
		t.Errorf("m[0].ModelID: got %q, want %q", m[0].ModelID, openModel)
	case m[0].Trend != "up":
		t.Errorf(`m[0].Trend: got %q, want "up"`, m[0].Trend)
	}
}
