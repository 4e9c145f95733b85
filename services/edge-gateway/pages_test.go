package edgegateway

import (
	"net/http"
	"strings"
	"testing"

	"svc.internal/services/edge-gateway/internal/pages"
)

const acceptsHTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// wantPage checks that an answer is a page of an audience.
func wantPage(t *testing.T, resp *http.Response, audience pages.Audience) {
	t.Helper()
	path := resp.Request.URL.Path
	body := read(t, resp)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: got %d, want 200", path, resp.StatusCode)
	}
	if resp.Request.Method == http.MethodHead {
		body = `content="` + string(audience) + `"` // it has none
	}
	if !strings.Contains(body, `content="`+string(audience)+`"`) {
		t.Errorf("%s: got %q, want the page of %s", path, body, audience)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("%s: Content-Type: got %q, want HTML", path, got)
	}
	if got := resp.Header.Get("Content-Security-Policy"); !strings.Contains(got, "'nonce-") {
		t.Errorf("%s: Content-Security-Policy: got %q, want a nonce in it", path, got)
	}
	if got := resp.Header.Get("X-Request-Id"); got == "" {
		t.Errorf("%s: X-Request-Id: got none, want an id", path)
	}
}

func TestEachListenerHasItsPages(t *testing.T) {
	f := start(t)
	for _, l := range []struct {
		base     string
		audience pages.Audience
	}{{f.base, pages.Public}, {f.operators, pages.Operators}} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			wantPage(t, f.doAt(l.base, method, "/", "", "Accept", acceptsHTML), l.audience)
			for _, path := range []string{"/app", "/app/", "/app/models/acme/tiny-1b", "/app/v1/models"} {
				wantPage(t, f.doAt(l.base, method, path, ""), l.audience)
			}
		}
	}
}

func TestWhatIsNoPageStaysJSON(t *testing.T) {
	f := start(t)
	for _, base := range []string{f.base, f.operators} {
		for _, c := range []struct{ method, path, accept string }{
			{http.MethodGet, "/", "application/json"},
			{http.MethodGet, "/", "*/*"},
			{http.MethodPost, "/", acceptsHTML},
			{http.MethodPost, "/app/", acceptsHTML},
			{http.MethodPut, "/app", acceptsHTML},
			{http.MethodOptions, "/app/", acceptsHTML},
			{http.MethodDelete, "/app/assets/none.js", acceptsHTML},
			{http.MethodGet, "/app/assets/none.js", acceptsHTML},
			{http.MethodGet, "/app/assets/", acceptsHTML},
			{http.MethodGet, "/apple", acceptsHTML},
			{http.MethodGet, "/v1", acceptsHTML},
			{http.MethodGet, "/v1/none", acceptsHTML},
			{http.MethodGet, "/api/none", acceptsHTML},
			{http.MethodGet, "/webhooks/none", acceptsHTML},
			{http.MethodGet, "/index.html", acceptsHTML},
		} {
			resp := f.doAt(base, c.method, c.path, "", "Accept", c.accept, "Origin", "https://evil.example",
				"Access-Control-Request-Method", "GET")
			wantError(t, resp, http.StatusNotFound, "unknown_route")
			if got := resp.Header.Get("Content-Security-Policy"); got != "" {
				t.Errorf("%s %s: Content-Security-Policy: got %q, want none", c.method, c.path, got)
			}
		}
	}
}

// Pages of other origins read neither the document nor the files.
func TestNoOriginMayReadPages(t *testing.T) {
	f := start(t)
	for _, base := range []string{f.base, f.operators} {
		for _, path := range []string{"/", "/app/", "/app/assets/none.js"} {
			resp := f.doAt(base, http.MethodGet, path, "", "Accept", acceptsHTML, "Origin", "https://evil.example")
			for name := range resp.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s: got the header %s, want none of CORS", path, name)
				}
			}
			read(t, resp)
		}
	}
}

func TestAFileThatABrowserHasIsNotSentAgain(t *testing.T) {
	f := start(t)
	document := read(t, f.doAt(f.base, http.MethodGet, "/app/", ""))
	_, rest, found := strings.Cut(document, `"/app/assets/`)
	name, _, _ := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("got %q, want it to load a file", document)
	}
	first := f.doAt(f.base, http.MethodGet, "/app/assets/"+name, "")
	if body := read(t, first); body == "" {
		t.Fatalf("%s: got nothing, want the file", name)
	}
	if first.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %d, want the file", name, first.StatusCode)
	}
	if got := first.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options: got %q, want nosniff", got)
	}
	again := f.doAt(f.base, http.MethodGet, "/app/assets/"+name, "", "If-None-Match", first.Header.Get("Etag"))
	if body := read(t, again); again.StatusCode != http.StatusNotModified {
		t.Errorf("again: got %d, want 304", again.StatusCode)
	} else if body != "" {
		t.Errorf("again: got %q, want no body", body)
	}
	if got := again.Header.Get("Content-Length"); got != "" {
		t.Errorf("again: Content-Length: got %q, want none", got)
	}
}

// A path below /app/ is the visitor's to choose, and stands in no log line and no metric.
func TestThePathOfAPageIsNotLogged(t *testing.T) {
	f := start(t)
	for _, base := range []string{f.base, f.operators} {
		read(t, f.doAt(base, http.MethodGet, "/app/secret-of-a-visitor", "", "Accept", acceptsHTML))
		read(t, f.doAt(base, http.MethodGet, "/app/assets/secret-of-a-visitor", ""))
	}
	text := f.log.String()
	if got := strings.Count(text, "route=/app/{page}"); got != 4 {
		t.Errorf("lines of pages: got %d in %q, want 4", got, text)
	}
	if strings.Contains(text, "secret-of-a-visitor") {
		t.Errorf("got %q, want it without the path", text)
	}
}

// A page in an operator's browser can have its own name resolve to a loopback address.
func TestAForeignHostHasNoOperatorsPage(t *testing.T) {
	f := start(t)
	for _, path := range []string{"/", "/app/", "/api/v1/models", "/openapi.json"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.operators+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "evil.example"
		req.Header.Set("Accept", acceptsHTML)
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		wantError(t, resp, http.StatusNotFound, "unknown_route")
	}
}

// The pages of operators call their own listener alone, so the public catalog is there too.
func TestOperatorsPagesReadThePublicCatalog(t *testing.T) {
	f := start(t)
	for _, path := range []string{
		"/api/v1/models", "/api/v1/models/catalog", "/api/v1/models/" + modelID + "/files",
		"/api/v1/stats/plan-pool/2026-01", "/openapi.json",
	} {
		public, operators := f.doAt(f.base, http.MethodGet, path, ""), f.doAt(f.operators, http.MethodGet, path, "")
		want, got := read(t, public), read(t, operators)
		if operators.StatusCode != public.StatusCode {
			t.Errorf("%s: got %d, want %d", path, operators.StatusCode, public.StatusCode)
		}
		// An error names its own request.
		if got, want := got[:min(len(got), 64)], want[:min(len(want), 64)]; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
		if strings.Contains(got, `"code":"unknown_route"`) {
			t.Errorf("%s: got %.200q, want it served", path, got)
		}
		if refused := f.doAt(f.operators, http.MethodPost, path, ""); refused.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: got %d, want 405", path, refused.StatusCode)
		}
	}
	for _, path := range []string{
		"/api/v1/models/" + modelID + "/providers", "/api/v1/stats/model-demand", "/api/v1/stats/signers", "/v1/models",
		"/api/v1/user/me", "/webhooks/card", "/sandbox/checkout/x",
	} {
		wantError(t, f.doAt(f.operators, http.MethodGet, path, ""), http.StatusNotFound, "unknown_route")
	}
}
