package e2e

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

const (
	ownerAddress       = "0x52908400098527886E0F7030069857D2E4169EE7"
	beneficiaryAddress = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
)

// wantStatus makes a call that must be answered with the status, and decodes the
// response.
func wantStatus(t *testing.T, m *trial.Market, want int, method, path, key, body string) map[string]any {
	t.Helper()
	status, header, answer := m.Call(t, method, path, key, body)
	if status != want {
		t.Fatalf("%s %s: status: got %d, want %d, with %s", method, path, status, want, answer)
	}
	if header.Get("Content-Type") != "application/json" {
		t.Fatalf(`%s %s: header.Get("Content-Type"): got %q, want "application/json", with %s`, method, path,
			header.Get("Content-Type"), answer)
	}
	return trial.Decode(t, answer)
}

// The calls of an agent's wizard in their order: a user signs up, becomes a provider, and
// sees its account through review, activation, a new key and suspension.
func TestAUserBecomesAProviderByTheCallsOfItsAgent(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const account = `{"email":"Ann@example.org","password":"correct horse","display_name":"Ann"}`
	signed := wantStatus(t, m, http.StatusCreated, http.MethodPost, "/api/v1/user/signup", "", account)
	if status, _, body := m.Call(t, http.MethodGet, "/api/v1/requests/x", trial.Text(t, signed, "api_key"),
		""); status != http.StatusNotFound {
		t.Errorf("the consumer key of the sign-up: got %d, want 404 (body is %s)", status, body)
	}
	if again := wantStatus(t, m, http.StatusConflict, http.MethodPost, "/api/v1/user/signup", "",
		account); again["error"] != again["message"] {
		t.Errorf("a second sign-up: got %v, want %v", again["error"], again["message"])
	}
	wantStatus(t, m, http.StatusUnauthorized, http.MethodPost, "/api/v1/user/login", "",
		`{"email":"ann@example.org","password":"wrong horse"}`)
	session := wantStatus(t, m, http.StatusOK, http.MethodPost, "/api/v1/user/login", "",
		`{"email":"ann@example.org","password":"correct horse"}`)
	token := trial.Text(t, session, "token")
	if kind := trial.Text(t, session, "user", "account_type"); kind != "consumer" {
		t.Errorf(`the user: got %q, want "consumer"`, kind)
	}

	const upgrade = `{"name":"Ann's GPUs","wallet_address":"` + ownerAddress + `"}`
	upgraded := wantStatus(t, m, http.StatusCreated, http.MethodPost, "/api/v1/consumer/upgrade-to-provider", token,
		upgrade)
	if again := wantStatus(t, m, http.StatusConflict, http.MethodPost, "/api/v1/user/upgrade-to-provider", token,
		upgrade); !strings.Contains(again["error"].(string), "already a provider") {
		t.Errorf(`a second upgrade: got %q, want "already a provider" in it`, again["error"].(string))
	}
	providerID, key := trial.Text(t, upgraded, "provider_id"), trial.Text(t, upgraded, "provider_api_key")
	if made := wantStatus(t, m, http.StatusCreated, http.MethodPost, "/api/v1/user/me/provider-keys", token,
		`{"name":"CLI Key"}`); made["provider_id"] != providerID {
		t.Errorf(`a further key: made["provider_id"]: got %v, want %v`, made["provider_id"], providerID)
	} else if made["api_key"] == key {
		t.Errorf(`a further key: made["api_key"]: got %v, want any but %v`, made["api_key"], key)
	}
	const status = "/api/v1/provider/status"
	stands := func(key, want string, connects bool) map[string]any {
		t.Helper()
		got := wantStatus(t, m, http.StatusOK, http.MethodGet, status, key, "")
		switch {
		case got["status"] != want:
			t.Errorf(`got["status"]: got %v, want %v`, got["status"], want)
		case got["can_connect"] != connects:
			t.Errorf(`the status: got["can_connect"]: got %v, want %v`, got["can_connect"], connects)
		case got["api_key_valid"] != true:
			t.Errorf(`the status: got["api_key_valid"]: got %v, want true`, got["api_key_valid"])
		case got["provider_id"] != providerID:
			t.Errorf(`the status: got["provider_id"]: got %v, want %v`, got["provider_id"], providerID)
		case got["total_steps"] != 5.0:
			t.Errorf(`the status: got["total_steps"]: got %v, want 5.0`, got["total_steps"])
		}
		return got
	}
	switch got := stands(key, "pending", true); {
	case got["earnings_enabled"] != false:
		t.Errorf(`a new provider: got["earnings_enabled"]: got %v, want false`, got["earnings_enabled"])
	case got["step"] == 0.0:
		t.Error(`a new provider: got["step"]: got 0.0, want any but 0.0`)
	case got["step_label"] == "":
		t.Error(`a new provider: got["step_label"]: got "", want some text`)
	case len(got["next_steps"].([]any)) == 0:
		t.Errorf(`a new provider: len(got["next_steps"].([]any)): got 0, want at least 1, in %v`, got)
	}
	// The agent only reads the status; its user confirms the address.
	const me = "/api/v1/provider/me"
	said := wantStatus(t, m, http.StatusOK, http.MethodPut, me, key, `{"beneficiary_address":"`+beneficiaryAddress+`"}`)
	waiting, _ := said["proposals"].([]any)
	if len(waiting) != 1 || said["beneficiary_address"] != "" || trial.At(waiting[0], "address") != beneficiaryAddress {
		t.Fatalf("me: got %v, want one proposal", said)
	}
	if warning, _ := stands(key, "pending", true)["warning"].(string); !strings.Contains(warning, beneficiaryAddress) {
		t.Errorf("got the warning %q, want one that names the address", warning)
	}
	const proposals = "/api/v1/user/me/provider-proposals"
	if list := wantStatus(t, m, http.StatusOK, http.MethodGet, proposals, token, ""); len(list["proposals"].([]any)) != 1 {
		t.Errorf("proposals: got %v, want one", list)
	}
	if now := wantStatus(t, m, http.StatusOK, http.MethodPost, proposals+"/"+trial.Text(t, waiting[0], "proposal_id"),
		token, ""); now["beneficiary_address"] != beneficiaryAddress {
		t.Errorf("confirmed: got %v, want the address", now)
	}
	if again := wantStatus(t, m, http.StatusOK, http.MethodPut, me, key, `{"beneficiary_address":"`+beneficiaryAddress+
		`"}`); again["beneficiary_address"] != beneficiaryAddress || len(again["proposals"].([]any)) != 0 {
		t.Errorf("the same again: got %v, want nothing proposed", again)
	}
	wantStatus(t, m, http.StatusBadRequest, http.MethodPut, "/api/v1/provider/me", key,
		`{"beneficiary_address":"nowhere"}`)
	wantStatus(t, m, http.StatusOK, http.MethodPost, "/api/v1/provider/request-approval", key,
		`{"provider_name":"Ann","hardware_summary":"2 x RTX 4090","contact_email":"ann@example.org"}`)
	stands(key, "under_review", true)
	operator := func(status string) {
		t.Helper()
		m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+providerID+"/status", `{"status":"PROVIDER_STATUS_`+
			status+`","reason":"test"}`)
	}
	operator("APPROVED")
	stands(key, "approved", true)
	qualify := func(facts string) {
		t.Helper()
		m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+providerID+"/qualification", `{"reason":"test",`+facts+`}`)
	}
	qualify(`"collateral":true`)
	stands(key, "activating", true)
	refused := func(path, body, want string) {
		t.Helper()
		status, _, answer := trial.CallAt(t, m.AdminURL(), http.MethodPost, "/api/v1/admin/providers/"+providerID+path,
			m.Env["SVC_ADMIN_TOKEN"], body)
		if status/100 != 4 {
			t.Errorf("%s by an operator: status: got %d, want a refusal", body, status)
		}
		if !strings.Contains(string(answer), want) {
			t.Errorf("%s by an operator: got %s, want %q in it", body, answer, want)
		}
	}
	refused("/status", `{"status":"PROVIDER_STATUS_ACTIVE"}`, "a benchmark that was passed within 30 days")
	refused("/qualification", `{"benchmark":true}`, "by the verifier alone")
	qualify(`"gpu_waived":true`)
	stands(key, "activating", true)
	// The verifier waives the benchmark once an agent is there.
	a := fakeagent.StartV1(fakeagent.V1Options{URL: m.WSURL(), ServiceURL: m.Base(), Key: key,
		Models: []string{"test/wizard"}})
	t.Cleanup(a.Stop)
	shows := func(want string) {
		t.Helper()
		trial.Until(t, "the status is "+want, func() bool {
			return wantStatus(t, m, http.StatusOK, http.MethodGet, status, key, "")["status"] == want
		})
	}
	shows("active")
	a.Stop()
	shows("offline")
	stands(key, "offline", true)

	rotated := wantStatus(t, m, http.StatusCreated, http.MethodPost, "/api/v1/provider/keys", key,
		`{"name":"second","overlap_seconds":0}`)
	if refused := wantStatus(t, m, http.StatusUnauthorized, http.MethodGet, status, key,
		""); refused["api_key_valid"] != false {
		t.Errorf("the key that was replaced: got %v, want false", refused["api_key_valid"])
	}
	key = trial.Text(t, rotated, "api_key")
	operator("SUSPENDED")
	if got := stands(key, "suspended", false); got["earnings_enabled"] != false {
		t.Errorf("suspended: got %v, want false", got["earnings_enabled"])
	}
	wantStatus(t, m, http.StatusConflict, http.MethodPost, "/api/v1/provider/request-approval", key, `{}`)
	if code := trial.ErrorCode(answerTo(t, m, http.MethodPost, trial.ChatPath, key,
		trial.Chat("x/y", ""))); code != "wrong_key_type" {
		t.Errorf(`a provider key on the consumer API: got %q, want "wrong_key_type"`, code)
	}
	challenge := wantStatus(t, m, http.StatusOK, http.MethodPost, "/api/v1/provider/ws-challenge", "",
		`{"address":"`+ownerAddress+`"}`)
	if text := trial.Text(t, challenge, "message"); !strings.Contains(text, ownerAddress) {
		t.Errorf("the challenge: got %q, want %q in it", text, ownerAddress)
	} else if want := trial.Text(t, challenge, "nonce"); !strings.Contains(text, want) {
		t.Errorf("the challenge: got %q, want %q in it", text, want)
	}
}

func answerTo(t *testing.T, m *trial.Market, method, path, key, body string) []byte {
	t.Helper()
	_, _, answer := m.Call(t, method, path, key, body)
	return answer
}

// A provider that serves sees from its status that it is chosen. A provider whose account
// is not active sees why it is not. The wizard's lists name what it may serve.
func TestAProviderSeesWhyItGetsRequestsOrNot(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	m := trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	const model = "test/traffic"
	m.PutModel(t, model)
	m.Admin(t, http.MethodPut, "/api/v1/admin/model-files/"+model,
		`{"weight_source_url":"https://weights.example/","files":[{"filename":"model.safetensors",
		"hash":"`+strings.Repeat("ab", 32)+
			`","algorithm":"sha256","size_bytes":16000000000,"url":"https://weights.example/model.safetensors"}]}`)
	engine := fakeengine.New(t)
	engine.Script(model, fakeengine.Behaviour{})
	p := m.Join(t, "chosen", engine.URL, model)
	_, key := m.Consumer(t, "1")
	if status, _, body := m.Call(t, http.MethodPost, trial.ChatPath, key,
		trial.Chat(model, `,"max_tokens":8`)); status != http.StatusOK {
		t.Fatalf("status: got %d, want 200 (body is %s)", status, body)
	}
	var status map[string]any
	var models []any
	// A status leaves out a router that does not answer at once.
	trial.Until(t, "the machine is written down, and the router is asked in time", func() bool {
		status = wantStatus(t, m, http.StatusOK, http.MethodGet, "/api/v1/provider/status", p.Key, "")
		models, _ = trial.At(status, "traffic", "models").([]any)
		return len(status["nodes"].([]any)) == 1 && len(models) > 0
	})
	if status["status"] != "active" || status["online"] != true || len(models) != 1 ||
		trial.At(models[0], "model_id") != model || trial.At(models[0], "chosen") != 1.0 {
		t.Errorf("the status of who serves is %v", status)
	}
	m.Admin(t, http.MethodPost, "/api/v1/admin/providers/"+p.ID+"/status",
		`{"status":"PROVIDER_STATUS_PENDING","reason":"test"}`)
	trial.Until(t, "the router tells that the account is not active", func() bool {
		m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(model, `,"max_tokens":8`))
		got := wantStatus(t, m, http.StatusOK, http.MethodGet, "/api/v1/provider/status", p.Key, "")
		rejects, _ := trial.At(got, "traffic", "rejects").([]any)
		return len(rejects) > 0 && trial.At(rejects[0], "reason") == "not_active" && trial.At(rejects[0], "meaning") != ""
	})
	files := wantStatus(t, m, http.StatusOK, http.MethodGet, "/api/v1/models/"+strings.ReplaceAll(model, "/", "%2F")+
		"/files", "", "")
	if got := trial.At(files, "data", "file_count"); got != 1.0 {
		t.Errorf("its files: trial.At(…): got %v, want 1.0", got)
	} else if got := trial.At(files, "data", "model_id"); got != model {
		t.Errorf(`its files: trial.At(files, "data", "model_id"): got %v, want %v`, got, model)
	}
	if catalog := wantStatus(t, m, http.StatusOK, http.MethodGet, "/api/v1/models/catalog", "", ""); trial.At(catalog,
		"data", "total") != 1.0 {
		t.Errorf("the catalog: %v", catalog)
	}
	// The ledger takes little time for it, and is left alone for a while where that is
	// not enough.
	var demand []byte
	trial.Until(t, "the demand is summed up", func() bool {
		var status int
		status, _, demand = m.Call(t, http.MethodGet, "/api/v1/stats/model-demand?category=llm", "", "")
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("the demand: %d %s", status, demand)
		}
		return status == http.StatusOK
	})
	wanted, _ := trial.At(trial.Decode(t, demand), "data", "models").([]any)
	if len(wanted) == 0 {
		t.Errorf("the demand: got 0, want at least 1, with %s", demand)
	}
}
