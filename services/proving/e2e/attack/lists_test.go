package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/trial"
)

// largestPage is the most that any list gives at once.
const largestPage = 500

// readers is how many malformed calls are under way at a time.
const readers = 8

// reading is a route with GET, as the API describes itself.
type reading struct {
	path string
	// params are the described parameters of the query.
	params []string
	// scheme is the credential that it needs; empty for none.
	scheme string
}

func (r reading) operators() bool { return strings.HasPrefix(r.path, "/api/v1/admin/") }

// readings are all routes that the served description has for GET.
func (s *stage) readings(t testing.TB) []reading {
	t.Helper()
	_, _, body := s.Call(t, http.MethodGet, "/openapi.json", "", "")
	type security []map[string][]string
	var described struct {
		Security security
		Paths    map[string]map[string]struct {
			Security   *security
			Parameters []struct{ In, Name string }
		}
	}
	if err := json.Unmarshal(body, &described); err != nil {
		t.Fatal(err)
	}
	var all []reading
	for _, path := range slices.Sorted(maps.Keys(described.Paths)) {
		get, ok := described.Paths[path]["get"]
		if !ok {
			continue
		}
		r, opens := reading{path: path}, described.Security
		if get.Security != nil {
			opens = *get.Security
		}
		for scheme := range opens[0] {
			r.scheme = scheme
		}
		for _, p := range get.Parameters {
			if p.In == "query" {
				r.params = append(r.params, p.Name)
			}
		}
		all = append(all, r)
	}
	return all
}

// misfits are values that no page, size, cursor, day or category has, as they stand in a
// query: not escaped, not numbers, below and beyond every bound, of other types, and
// words of SQL, of regular expressions and of patterns.
var misfits = []string{
	"%zz", "%", "%%%%", "%25%25%25%25", "%25_%25_%25", "*", "%00", "1%00", "%ff%fe", "%ed%a0%80", "%e2%80%ae",
	"%0d%0aSet-Cookie:x=1",
	"-1", "-2147483648", "-9223372036854775808", "1000000", "1000001", "2147483647", "2147483648", "9223372036854775807",
	"18446744073709551616",
	strings.Repeat("9", 4<<10), "1e309", "NaN", "0x10", "1.5", "%201", "null", "[]", "{}", "%27%20OR%201=1--",
	"1;SELECT%20pg_sleep(9)", ".*(a%2B)%2B$",
	"0000-01-01", "0001-01-01", "1970-01-01", "9999-12-31", "-0001-01-01", "2026-13-45", strings.Repeat("a", 4<<10),
}

// forms are queries that are malformed as a whole.
func forms() []string {
	many := make([]string, 500)
	for i := range many {
		many[i] = fmt.Sprintf("p%d=%d", i, i)
	}
	return []string{"%zz", "&&&&=", "=", ";", "?", "page[$gt]=1", "page[]=1&page[]=2", "page.page=1", "list=1",
		"data.list=1", "order=id;DROP", "sort=%00", strings.Join(many, "&")}
}

// queries are the queries for a route. The ids and cursors in them belong to others.
func (r reading) queries(others []string) []string {
	all := forms()
	for _, name := range r.params {
		for _, value := range misfits {
			all = append(all, name+"="+value)
		}
		all = append(all, name+"=1&"+name+"=2", name+"=1&"+name+"=%zz", name, name+"[0]=1", strings.ToUpper(name)+"=1")
		for _, id := range others {
			all = append(all, name+"="+url.QueryEscape(id))
		}
	}
	// None of these is described, and none may have an effect.
	for _, id := range others {
		id = url.QueryEscape(id)
		all = append(all, "limit=%25%25%25%25&offset=-1&cursor="+id+"&after="+id+"&user_id="+id+"&account_id="+
			id+"&provider_id="+id)
	}
	return append(all, "limit=%%%%", "limit=-1", "offset=99999999999999999999", "limit="+strings.Repeat("9", 4<<10))
}

// segments replace an id in a path.
var segments = []string{"%00", "%ff%fe", "%ed%a0%80", "%25%25%25%25", "%2e%2e%2f", "%27%20OR%201=1--",
	strings.Repeat("9", 4<<10), "%0d%0aX:1"}

// leaks are words from behind the API: of the database, of the language, of the
// connections between services.
var leaks = []string{"SQLSTATE", "pgx", "SELECT ", "ERROR:", "strconv", "goroutine", ".go:", "runtime error", "proto:",
	"protobuf", "rpc error", "grpc"}

// lists are hostile test 59: whatever stands in the query or in the path of a route with
// GET, the answer is an error of the API's own form with a 4xx, or 200 with a page.
// Nothing fails, nothing from behind the API is shown, and nothing of others. The
// services bound how far a page may lie, and have tests of their own for that.
func lists() []Case {
	return []Case{{Hole: "T59", Name: "malformed_queries_of_lists",
		Before: "500 for what is no UTF-8, and strconv's words", Run: malformedQueries}}
}

// needy are routes that need a parameter, or what only time, a card or a verifier that asks would have made.
var needy = []string{
	"/api/v1/admin/verification/observations", "/api/v1/admin/verification/offerings/{provider_id}/{model_id}",
	"/api/v1/admin/verification/verdicts/{verdict_id}/evidence", "/api/v1/provider/penalties/{penalty_id}/evidence",
	"/api/v1/provider/earnings.csv", "/api/v1/provider/statements/{day}", "/api/v1/stats/plan-pool/{month}",
	"/sandbox/checkout/{session}", "/api/v1/admin/chains/{chain_id}/adoption", "/api/v1/user/me/keys/{key_id}",
	"/api/v1/consumer/checkout/{checkout_id}", "/api/v1/consumer/invoices/{number}", "/api/v1/consumer/receipts/{number}",
	"/api/v1/user/me/webhooks/{webhook_id}/deliveries", "/api/v1/provider/external-endpoints/{endpoint_id}",
	"/api/v1/user/oidc/{issuer}/start", "/api/v1/user/oidc/{issuer}/callback",
	"/api/v1/admin/ledger/entries",
}

func malformedQueries(t testing.TB, s *stage) Outcome {
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	own, other := s.tenant(t, id), s.tenant(t, id)
	own.credentials["operatorToken"] = s.Env["SVC_ADMIN_TOKEN"]
	others := slices.Sorted(maps.Values(other.ids))
	type call struct {
		reading
		at    string
		plain int // the status without a query; 0 where the path is malformed too
	}
	calls := make(chan call)
	var mu sync.Mutex
	answers := map[int]int{}
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for c := range calls {
				status := s.judge(t, c.reading, c.at, own, other)
				// A refused key, or a route that does not exist, would prove nothing.
				switch {
				case c.plain == http.StatusOK && status == http.StatusUnauthorized:
					t.Errorf("GET %.200s: status: got 401, want any but 401, where c.plain == http.StatusOK", c.at)
				case c.plain == http.StatusOK && status == http.StatusForbidden:
					t.Errorf("GET %.200s: status: got 403, want any but 403, where c.plain == http.StatusOK", c.at)
				case c.plain == http.StatusOK && status == http.StatusTooManyRequests && !strings.HasSuffix(c.path, ".csv") &&
					c.path != "/v1/playground/models":
					// An account may have few tables made at once, and a network few sessions of visitors.
					t.Errorf("GET %.200s: status: got 429, want any but 429, where c.plain == http.StatusOK", c.at)
				}
				mu.Lock()
				answers[status]++
				mu.Unlock()
			}
		})
	}
	routes := s.readings(t)
	for _, r := range routes {
		path := strings.NewReplacer("{model_id}", id, "{provider_id}", own.provider, "{account_id}",
			own.ids["account_id"], "{request_id}", own.ids["request id"]).Replace(r.path)
		path = strings.Replace(path, "/requests/{id}", "/requests/"+own.ids["request id"], 1)
		path = strings.Replace(path, "{id}", id, 1)
		plain := s.judge(t, r, path, own, other)
		if plain != http.StatusOK && !strings.HasPrefix(path, "/v1/playground/") &&
			path != "/api/v1/models/"+id+"/files" && !slices.Contains(needy, r.path) {
			t.Errorf("GET %s: got %d without a query, want 200", path, plain)
		}
		for _, query := range r.queries(others) {
			calls <- call{r, path + "?" + query, plain}
		}
		if pathID.MatchString(r.path) {
			for _, segment := range segments {
				calls <- call{r, pathID.ReplaceAllString(r.path, segment), 0}
			}
		}
	}
	close(calls)
	group.Wait()
	switch {
	case len(routes) < 15:
		t.Errorf("len(routes): got %d, want at least 15", len(routes))
	case answers[http.StatusOK] < 200:
		t.Errorf("answers[http.StatusOK]: got %d, want at least 200", answers[http.StatusOK])
	case answers[http.StatusBadRequest] < 200:
		t.Errorf("answers[http.StatusBadRequest]: got %d, want at least 200", answers[http.StatusBadRequest])
	}
	return Outcome{Got: fmt.Sprintf("%v of %d routes", answers, len(routes)), Paid: "nothing", Harm: "none"}
}

// judge makes a call and checks its answer.
func (s *stage) judge(t testing.TB, r reading, at string, own, other tenant) (status int) {
	base := s.Base()
	if r.operators() {
		base = s.AdminURL()
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+at, nil)
	if err != nil {
		t.Errorf("%.200s: %v", at, err)
		return 0
	}
	if key := own.credentials[r.scheme]; key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if strings.HasPrefix(r.path, "/v1/playground/") {
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("GET %.200s: %v", at, err)
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("GET %.200s: %v", at, err)
		return resp.StatusCode
	}
	fault := ""
	switch {
	case resp.StatusCode == http.StatusOK && strings.HasSuffix(r.path, ".csv"):
		if !strings.HasPrefix(string(body), "at,") {
			fault = "no table"
		}
	case resp.StatusCode == http.StatusOK:
		fault = notAPage(body)
	case resp.StatusCode >= 400 && resp.StatusCode < 500:
		fault = notAnError(body, resp.Header)
	default:
		fault = "neither a page nor a refusal"
	}
	if fault != "" {
		t.Errorf(`GET %.200s: %s: %d %.300s: got %q, want ""`, at, fault, resp.StatusCode, body, fault)
	}
	text := fmt.Sprint(resp.Header) + string(body)
	for _, leak := range leaks {
		// The description of the API names many things, and none by accident.
		if strings.Contains(text, leak) && r.path != "/openapi.json" {
			t.Errorf("GET %.200s: %d tells %q: %.300s", at, resp.StatusCode, leak, text)
		}
	}
	for what, id := range other.ids {
		// The names of providers are public.
		if !r.operators() && what != "provider_id" && strings.Contains(text, id) {
			t.Errorf("GET %.200s: %d shows another's %s: %.300s", at, resp.StatusCode, what, body)
		}
	}
	return resp.StatusCode
}

// notAPage says why an answer is not one page of a list, or one thing; empty when it is.
func notAPage(body []byte) string {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return "no JSON"
	}
	for _, in := range []any{v, trial.At(v, "data")} {
		size, paged := trial.At(in, "page_size").(float64)
		list, _ := trial.At(in, "list").([]any)
		if len(list) > largestPage || paged && (size < 1 || size > largestPage || len(list) > int(size)) {
			return fmt.Sprintf("a page of %d where %v were asked for", len(list), size)
		}
	}
	return ""
}

// notAnError says why an answer is not an error in one of the API's two forms: its own,
// and the flat form that agents read; empty when it is.
func notAnError(body []byte, header http.Header) string {
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil || header.Get("Content-Type") != "application/json" {
		return "no JSON"
	}
	in := v
	if own, ok := v["error"].(map[string]any); ok {
		in = own
	}
	for _, member := range []string{"message", "code"} {
		if s, ok := in[member].(string); !ok || s == "" {
			return "an error without " + member
		}
	}
	if len(body) > 4<<10 {
		return fmt.Sprintf("an error of %d bytes", len(body))
	}
	return ""
}
