package pages

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"svc.internal/services/console"
)

const script = "console.log('a page');"

func site(t *testing.T, audience Audience) *Site {
	t.Helper()
	files, err := Read(fstest.MapFS{
		"index.html":      {Data: []byte(`<meta content="__NONCE__"><meta content="__AUDIENCE__">`)},
		"assets/a-1.js":   {Data: []byte(strings.Repeat(script, 100))},
		"assets/tiny.css": {Data: []byte("a{}")},
		"icon.svg":        {Data: []byte("<svg/>")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return files.Site(audience)
}

func TestEveryPathBelowTheRootIsThePage(t *testing.T) {
	s := site(t, Operators)
	for _, path := range []string{
		"/", "/app", "/app/", "/app/models/acme/one", "/app/../etc/passwd", "/app/index.html",
	} {
		a, ok := s.Answer(path, nil)
		if !ok {
			t.Fatalf("%s: got no answer, want the page", path)
		}
		if a.Status != http.StatusOK {
			t.Fatalf("%s: got %d, want the page", path, a.Status)
		}
		if text := string(a.Body); !strings.Contains(text, `content="operators"`) {
			t.Errorf("%s: got %q, want the document of operators", path, text)
		} else if strings.Contains(text, "__") {
			t.Errorf("%s: got %q, in which a name was left", path, text)
		}
		if got := a.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control: got %q, want %q", path, got, "no-store")
		}
	}
	if _, ok := s.Answer("/app/assets/none.js", nil); ok {
		t.Error("a file that is not there: got an answer, want none")
	}
}

// A nonce that is given twice could be learned from one answer and used in another.
func TestEachPageHasANonceOfItsOwn(t *testing.T) {
	s := site(t, Public)
	seen := map[string]bool{}
	for range 100 {
		a, _ := s.Answer("/app/", nil)
		_, rest, _ := strings.Cut(a.Header.Get("Content-Security-Policy"), "'nonce-")
		nonce, _, _ := strings.Cut(rest, "'")
		if len(nonce) < 22 {
			t.Fatalf("nonce %q: it is short", nonce)
		}
		if seen[nonce] {
			t.Fatalf("nonce %q: it was given before", nonce)
		}
		if seen[nonce] = true; !strings.Contains(string(a.Body), `content="`+nonce+`"`) {
			t.Fatalf("the document lacks the nonce %q of its policy", nonce)
		}
	}
}

func TestThePolicyLetsNothingOfStrangersRun(t *testing.T) {
	a, _ := site(t, Public).Answer("/app/", nil)
	policy := a.Header.Get("Content-Security-Policy")
	for _, want := range []string{
		"default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "base-uri 'none'",
	} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q: it lacks %q", policy, want)
		}
	}
	for _, never := range []string{"unsafe", "http:", "https:", "*"} {
		if strings.Contains(policy, never) {
			t.Errorf("policy %q: it has %q", policy, never)
		}
	}
}

func TestAFileIsPackedForWhoReadsGzip(t *testing.T) {
	s := site(t, Public)
	for _, c := range []struct {
		accept string
		packed bool
	}{
		{"gzip", true}, {"br, GZIP;q=0.5", true}, {"deflate, gzip ; q=1", true},
		{"", false}, {"br", false}, {"gzip;q=0", false}, {"gzip; q=0.000", false}, {"xgzip", false},
	} {
		a, ok := s.Answer("/app/assets/a-1.js", http.Header{"Accept-Encoding": {c.accept}})
		if !ok {
			t.Fatalf("Accept-Encoding %q: got no answer, want the file", c.accept)
		}
		if (a.Header.Get("Content-Encoding") == "gzip") != c.packed {
			t.Errorf("Accept-Encoding %q: got packed %v, want %v", c.accept, !c.packed, c.packed)
			continue
		}
		var r io.Reader = bytes.NewReader(a.Body)
		if c.packed {
			var err error
			if r, err = gzip.NewReader(r); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != strings.Repeat(script, 100) {
			t.Errorf("Accept-Encoding %q: got another content", c.accept)
		}
	}
	a, _ := s.Answer("/app/assets/tiny.css", http.Header{"Accept-Encoding": {"gzip"}})
	if a.Header.Get("Content-Encoding") != "" {
		t.Error("a file that packing makes longer: got it packed")
	}
}

func TestABrowserKeepsWhatCannotChange(t *testing.T) {
	s := site(t, Public)
	for path, want := range map[string]string{
		"/app/assets/a-1.js": "public, max-age=31536000, immutable", "/app/icon.svg": "no-cache",
	} {
		a, _ := s.Answer(path, nil)
		if got := a.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s: Cache-Control: got %q, want %q", path, got, want)
		}
		tag := a.Header.Get("Etag")
		for _, had := range []string{tag, strings.TrimPrefix(tag, "W/"), `"another", ` + tag} {
			again, _ := s.Answer(path, http.Header{"If-None-Match": {had}})
			if again.Status != http.StatusNotModified {
				t.Errorf("%s, If-None-Match %s: got %d, want 304", path, had, again.Status)
			}
			if len(again.Body) != 0 {
				t.Errorf("%s, If-None-Match %s: got %d bytes, want none", path, had, len(again.Body))
			}
		}
		if changed, _ := s.Answer(path, http.Header{"If-None-Match": {`"another"`}}); changed.Status != http.StatusOK {
			t.Errorf("%s, If-None-Match of another content: got %d, want 200", path, changed.Status)
		}
	}
}

func TestTheRootIsAPageForBrowsersAlone(t *testing.T) {
	for _, c := range []struct {
		path, accept string
		want         bool
	}{
		{"/", "text/html,application/xhtml+xml,*/*;q=0.8", true}, {"/", "*/*", false}, {"/", "", false},
		{"/", "application/json", false}, {"/app", "", true}, {"/app/keys", "*/*", true}, {"/apple", "text/html", false},
		{"/v1/app/", "text/html", false}, {"", "text/html", false},
	} {
		if got := Takes(c.path, []string{c.accept}); got != c.want {
			t.Errorf("path %q, Accept %q: got %v, want %v", c.path, c.accept, got, c.want)
		}
	}
}

func TestTheBuiltPagesAreComplete(t *testing.T) {
	files, err := Read(console.Files())
	if err != nil {
		t.Fatal(err)
	}
	s := files.Site(Public)
	a, _ := s.Answer("/app/", nil)
	if !strings.Contains(string(a.Body), "/app/assets/") {
		t.Errorf("the document loads nothing: %s", a.Body)
	}
	for _, part := range strings.Split(string(a.Body), `"`) {
		if !strings.HasPrefix(part, Root+assets) {
			continue
		}
		if _, ok := s.Answer(part, nil); !ok {
			t.Errorf("the document loads %s, which is not there", part)
		}
	}
}

func TestPagesThatCannotBeServedAreRefused(t *testing.T) {
	good := []byte(`<meta content="__NONCE__">`)
	for name, built := range map[string]fstest.MapFS{
		"no place for a nonce": {"index.html": {Data: []byte("<html>")}},
		"no document":          {"icon.svg": {Data: []byte("<svg/>")}},
		"an unknown ending":    {"index.html": {Data: good}, "assets/a.exe": {Data: good}},
	} {
		if _, err := Read(built); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func TestAFileSaysWhatItIs(t *testing.T) {
	s := site(t, Public)
	for path, want := range map[string]string{
		"/app/assets/a-1.js": "text/javascript; charset=utf-8", "/app/assets/tiny.css": "text/css; charset=utf-8",
		"/app/icon.svg": "image/svg+xml",
	} {
		if a, _ := s.Answer(path, nil); a.Header.Get("Content-Type") != want {
			t.Errorf("%s: got %q, want %q", path, a.Header.Get("Content-Type"), want)
		}
	}
}
