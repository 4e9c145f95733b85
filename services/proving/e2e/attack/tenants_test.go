package attack

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/pkg/ids"
	"svc.internal/services/proving/internal/trial"
)

// tenants are hostile test 6: every id with the wrong tenant.
func tenants() []Case {
	return []Case{{Hole: "T6", Name: "every_id_and_the_wrong_tenant", Before: "404 each", Run: wrongTenant}}
}

// tenant is an account of either side, with everything that it may show.
type tenant struct {
	// ids are the ids of its things, by kind.
	ids map[string]string
	// credentials are its credentials, by the name of the scheme in the API's
	// description.
	credentials map[string]string
	provider    string
}

func (s *stage) tenant(t testing.TB, model string) tenant {
	t.Helper()
	v := tenant{ids: map[string]string{}, credentials: map[string]string{}}
	account, _ := s.caller(t)
	issued := s.Admin(t, http.MethodPost, "/api/v1/admin/accounts/"+account+"/keys", `{"name":"k"}`)
	key := trial.Text(t, issued, "api_key")
	v.credentials["consumerKey"] = key
	v.ids["account_id"], v.ids["consumer key_id"] = account, trial.Text(t, issued, "key_id")
	v.ids["request id"] = s.chat(t, key, trial.Chat(model, "")).id()
	s.Receipt(t, key, v.ids["request id"])

	_, user := s.signUp(t)
	session := trial.Text(t, user, "token")
	v.credentials["session"] = session
	call := func(method, path, body string) map[string]any {
		t.Helper()
		status, answer := s.call(t, method, path, session, body)
		if status >= http.StatusBadRequest {
			t.Fatalf("%s %s: got %d, want less than 400, with %s", method, path, status, answer)
		}
		return trial.Decode(t, []byte(answer))
	}
	upgraded := call(http.MethodPost, "/api/v1/consumer/upgrade-to-provider", `{"name":"GPUs","wallet_address":""}`)
	v.provider = trial.Text(t, upgraded, "provider_id")
	v.ids["provider_id"], v.credentials["providerKey"] = v.provider, trial.Text(t, upgraded, "provider_api_key")
	call(http.MethodPost, "/api/v1/user/me/provider-keys", `{"name":"second"}`)
	listed, err := json.Marshal(call(http.MethodGet, "/api/v1/user/me/provider-keys", ""))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`"key_id":"([0-9a-f-]{36})"`).FindSubmatch(listed)
	if found == nil {
		t.Fatalf("no key in %s", listed)
	}
	v.ids["provider key_id"] = string(found[1])
	v.ids["proposal_id"] = s.propose(t, farm{session, v.provider, v.credentials["providerKey"]}, honest)
	return v
}

// call is Call from an address of its own, so that no guess of one call counts against
// the next.
func (s *stage) call(t testing.TB, method, path, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.Base()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	// What moves money asks for one before it looks at the id.
	req.Header.Set("Idempotency-Key", rand.Text())
	resp, err := from(s.address()).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// operation is an operation of the API's description that names something by an id.
type operation struct {
	method, path string
	schemes      map[string]bool
}

// operations are all operations that have an id in their path and are not public.
func (s *stage) operations(t testing.TB) []operation {
	t.Helper()
	_, _, body := s.Call(t, http.MethodGet, "/openapi.json", "", "")
	var described struct {
		Security []map[string][]string `json:"security"`
		Paths    map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(body, &described); err != nil {
		t.Fatal(err)
	}
	var found []operation
	for path, methods := range described.Paths {
		for method, text := range methods {
			var o struct {
				Security *[]map[string][]string `json:"security"`
			}
			if !strings.Contains(path, "{") || nobodys.MatchString(path) || json.Unmarshal(text, &o) != nil {
				continue
			}
			security := described.Security
			if o.Security != nil {
				security = *o.Security
			}
			schemes, public := map[string]bool{}, len(security) == 0
			for _, alternative := range security {
				public = public || len(alternative) == 0
				for scheme := range alternative {
					schemes[scheme] = true
				}
			}
			if !public {
				found = append(found, operation{strings.ToUpper(method), path, schemes})
			}
		}
	}
	return found
}

var (
	pathID = regexp.MustCompile(`\{[^}]*\}`)
	// nobodys are paths that name nothing of anybody's.
	nobodys     = regexp.MustCompile(`\{(day|issuer)\}`)
	requestIDs  = regexp.MustCompile(`"request_id":"[^"]*"`)
	anythingIDs = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// bodyOf is a body that an operation takes, so that its answer depends on the id alone.
func bodyOf(o operation) string {
	if strings.HasSuffix(o.path, "/appeal") {
		return `{"text":"it is not mine"}`
	}
	return "{}"
}

// bare is an answer without the request's id and the id in it.
func bare(answer string) string {
	return anythingIDs.ReplaceAllString(requestIDs.ReplaceAllString(answer, ""), "ID")
}

func wrongTenant(t testing.TB, s *stage) Outcome {
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	victim, thief := s.tenant(t, id), s.tenant(t, id)
	never, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	operations, calls := s.operations(t), 0
	owned := 0
	for _, o := range operations {
		for scheme, key := range thief.credentials {
			path := func(id string) string { return pathID.ReplaceAllString(o.path, id) }
			wantStatus, want := s.call(t, o.method, path(never.String()), key, bodyOf(o))
			if o.schemes[scheme] {
				owned++
				if wantStatus != http.StatusNotFound {
					t.Errorf("%s %s of an id that never was: got %d, want 404", o.method, o.path, wantStatus)
				}
			}
			for kind, id := range victim.ids {
				calls++
				status, answer := s.call(t, o.method, path(id), key, bodyOf(o))
				if status != wantStatus || bare(answer) != bare(want) {
					t.Errorf("%s %s with another's %s and a %s: got %d %s, want %d %s as for an id that never was", o.method, o.path,
						kind, scheme, status, answer, wantStatus, want)
				}
			}
		}
	}
	if owned < 2 {
		t.Errorf("got %d operations that a tenant may make on an id, want those of receipts and of provider keys at least",
			owned)
	}
	// Nothing of the victim's has changed.
	if status, answer := s.call(t, http.MethodGet, "/api/v1/requests/"+victim.ids["request id"],
		victim.credentials["consumerKey"], ""); status != http.StatusOK {
		t.Errorf("the victim's receipt: got %d %s, want it", status, answer)
	}
	if status, answer := s.call(t, http.MethodGet, "/api/v1/user/me/provider-keys", victim.credentials["session"],
		""); status != http.StatusOK || !strings.Contains(answer, victim.ids["provider key_id"]) {
		t.Errorf("the victim's keys: got %d %s, want them all", status, answer)
	}
	if status, answer := s.call(t, http.MethodGet, proposalsPath, victim.credentials["session"],
		""); status != http.StatusOK || !strings.Contains(answer, victim.ids["proposal_id"]) {
		t.Errorf("the victim's proposal: got %d %s, want it to wait", status, answer)
	}
	return Outcome{Got: fmt.Sprintf("%d calls of %d operations", calls, len(operations)), Paid: "nothing", Harm: "none"}
}
