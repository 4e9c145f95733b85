package guard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"svc.internal/pkg/dialguard"
)

// local is a guard that may reach this machine.
func local() *Guard {
	g := New(Members(), true, nil)
	g.client = (&dialguard.Dialer{Allow: netip.Addr.IsLoopback}).Client()
	g.check = func(text string) error {
		if strings.HasPrefix(text, "http://127.0.0.1:") {
			return nil
		}
		return dialguard.URL(text)
	}
	return g
}

func message(part string) string {
	return `{"messages":[{"role":"user","content":[` + part + `]}],"model":"m"}`
}

func picture(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }

var png = []byte("\x89PNG\r\n\x1a\n rest")

// files serves a picture, and counts who asks.
func files(t *testing.T, asked *atomic.Int64) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/picture":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(png)
		case "/bare":
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(png)
		case "/odd":
			w.Header().Set("Content-Type", `image/png"injected`)
			_, _ = w.Write(png)
		case "/page":
			_, _ = w.Write([]byte("<html>secret</html>"))
		case "/large":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(make([]byte, maxBytes+1))
		case "/largest":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write(make([]byte, maxBytes))
		case "/moved":
			http.Redirect(w, r, "/picture", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestMediaReachTheEngineAsDataURLs(t *testing.T) {
	var asked atomic.Int64
	s := files(t, &asked)
	const want = "data:image/png;base64,iVBORw0KGgogcmVzdA=="
	for name, part := range map[string]string{
		"a picture":               picture(s.URL + "/picture"),
		"one that says no type":   picture(s.URL + "/bare"),
		"a type that is unusual":  picture(s.URL + "/odd"),
		"an escaped address":      picture(strings.ReplaceAll(s.URL, "/", `\/`) + `\u002fpicture`),
		"a string for an object":  `{"type":"image_url","image_url":"` + s.URL + `/picture"}`,
		"a member nobody knows":   `{"type":"x","deep":[{"thumbURL":"` + s.URL + `/picture"}]}`,
		"a list below the member": `{"type":"x","image_url":["` + s.URL + `/picture"]}`,
	} {
		for _, body := range []string{message(part), `{"model":"m","messages":[{"content":[` + part + `]}]}`} {
			got, refusal := local().Look(t.Context(), []byte(body), strings.Index(body, `"m"`))
			if refusal != nil {
				t.Errorf("%s: refused: got %+v, want nil", name, refusal)
				continue
			}
			switch text := string(got.Bytes); {
			case !json.Valid(got.Bytes):
				t.Errorf("%s: json.Valid(got.Bytes): got false, want true", name)
			case !strings.Contains(text, want):
				t.Errorf("%s: text: got %q, want %q in it", name, text, want)
			case strings.Contains(text, "127.0.0.1"):
				t.Errorf(`%s: text: got %q, want it without "127.0.0.1"`, name, text)
			}
			if at := string(got.Bytes[got.ModelOffset:][:3]); at != `"m"` {
				t.Errorf("%s: the model stands: got %q, want %q", name, at, `"m"`)
			}
			got.Done()
		}
	}
	if asked.Load() != 14 {
		t.Errorf("got %d files were fetched, want 14", asked.Load())
	}
}

func TestWhatNamesNoMediaIsLeftAlone(t *testing.T) {
	for _, body := range []string{
		message(picture("data:image/png;base64,AAAA")), message(picture("DATA:,x")), message(picture("")),
		`{"messages":[{"content":"see http://10.0.0.1/ and image_url"}],"image_url":"http://10.0.0.1"}`,
		`{"messages":[{"content":null,"annotations":[{"url":"http://10.0.0.1"}]}]}`, `{"input":"x"}`, `[]`, `{`, ``,
		message(`{"type":"text","text":"http://10.0.0.1"}`), `{"chat_template":null,"model":"m"}`,
	} {
		got, refusal := local().Look(t.Context(), []byte(body), 1)
		switch {
		case refusal != nil:
			t.Errorf("%s: refusal: got %+v, want nil", body, refusal)
		case string(got.Bytes) != body:
			t.Errorf("%s: got.Bytes: got %q, want %q", body, string(got.Bytes), body)
		case got.ModelOffset != 1:
			t.Errorf("%s: ModelOffset: got %d, want 1", body, got.ModelOffset)
		}
	}
}

func TestWhatMustNotReachTheEngineIsRefused(t *testing.T) {
	var asked atomic.Int64
	s := files(t, &asked)
	many := strings.TrimSuffix(strings.Repeat(picture(s.URL+"/picture")+",", maxMedia+1), ",")
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"metadata of a cloud":  {message(picture("http://169.254.169.254/latest")), 400},
		"a private address":    {message(picture("http://10.0.0.1/x.png")), 400},
		"loopback, by a name":  {message(picture("http://localhost/x.png")), 400},
		"an odd spelling":      {message(picture("http://0x7f.1/x.png")), 400},
		"a file of the engine": {message(picture("file:///etc/passwd")), 400},
		"a path":               {message(picture("/etc/passwd")), 400},
		"an odd port":          {message(picture("http://pictures.example.org:5432/")), 400},
		"a redirect":           {message(picture(s.URL + "/moved")), 400},
		"nothing there":        {message(picture(s.URL + "/none")), 400},
		"a page":               {message(picture(s.URL + "/page")), 400},
		"a file too large":     {message(picture(s.URL + "/large")), 501},
		"too many":             {message(many), 501},
		"nobody listens":       {message(picture("http://127.0.0.1:1/")), 501},
		"kv_transfer_params":   {`{"model":"m","kv_transfer_params":{"remote_host":"x"}}`, 501},
		"an escaped member":    {`{"model":"m","kv_transfer\u005fparams":{}}`, 501},
		"chat_template":        {`{"model":"m","chat_template":"{{x}}"}`, 501},
		"lora_request":         {`{"model":"m","lora_request":{}}`, 501},
		"extra_args":           {`{"model":"m","extra_args":[]}`, 501},
	} {
		g := local()
		_, refusal := g.Look(t.Context(), []byte(c.body), 0)
		if refusal == nil || refusal.Status != c.want || !json.Valid(refusal.JSON()) {
			t.Errorf("%s: got %+v, want status %d", name, refusal, c.want)
			continue
		}
		if strings.Contains(refusal.Message, "127.0.0.1") {
			t.Errorf(`%s: refusal.Message: got %q, want it without "127.0.0.1"`, name, refusal.Message)
		} else if strings.Contains(refusal.Message, "secret") {
			t.Errorf(`%s: refusal.Message: got %q, want it without "secret"`, name, refusal.Message)
		}
		if g.held.Load() != 0 {
			t.Errorf("%s: bytes held: got %d, want 0", name, g.held.Load())
		}
	}
}

func TestTheOwnerMayChangeWhatIsRefusedAndFetched(t *testing.T) {
	g := New([]string{"seed"}, false, nil)
	for body, want := range map[string]bool{
		`{"seed":1}`: false, `{"chat_template":"x"}`: true, message(picture("http://10.0.0.1/")): true,
	} {
		if _, refusal := g.Look(t.Context(), []byte(body), 0); (refusal == nil) != want {
			t.Errorf("%s: %+v, want it taken: %v", body, refusal, want)
		}
	}
}

func TestMediaOfAllRequestsAreBounded(t *testing.T) {
	var asked atomic.Int64
	s := files(t, &asked)
	g := local()
	large, small := []byte(message(picture(s.URL+"/largest"))), []byte(message(picture(s.URL+"/picture")))
	look := func(body []byte, want int) Body {
		t.Helper()
		got, refusal := g.Look(t.Context(), body, 0)
		if refusal == nil && want != http.StatusOK || refusal != nil && refusal.Status != want {
			t.Fatalf("got %+v with %d bytes held, want status %d", refusal, g.held.Load(), want)
		}
		return got
	}
	var all []Body
	for range 100 { // small ones keep nobody out
		all = append(all, look(small, http.StatusOK))
	}
	for range maxHeld/maxBytes - 1 {
		all = append(all, look(large, http.StatusOK))
	}
	look(large, http.StatusTooManyRequests)
	all = append(all, look(small, http.StatusOK))
	for _, b := range all {
		b.Done()
	}
	if left := g.held.Load(); left != 0 {
		t.Errorf("bytes held behind all: got %d, want 0", left)
	}
	look(large, http.StatusOK).Done()
}

func TestFilesThatDoNotArriveKeepNobodyOut(t *testing.T) {
	const stalled = 2 * maxHeld / maxBytes
	var asked atomic.Int64
	s := files(t, &asked)
	begun, release := make(chan struct{}, 2*stalled), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-release
		_, _ = w.Write(png)
	}))
	t.Cleanup(slow.Close)
	g := local()
	var waiting sync.WaitGroup
	for range stalled {
		waiting.Go(func() {
			if got, refusal := g.Look(t.Context(), []byte(message(picture(slow.URL))), 0); refusal != nil {
				t.Errorf("of a slow server: got %+v, want nil", refusal)
				begun <- struct{}{} // it asks for nothing
			} else {
				got.Done()
			}
		})
	}
	for range stalled {
		<-begun
	}
	got, refusal := g.Look(t.Context(), []byte(message(picture(s.URL+"/picture"))), 0)
	if refusal != nil {
		t.Errorf("beside %d that stall: got %+v, want nil", stalled, refusal)
	} else {
		got.Done()
	}
	close(release)
	waiting.Wait()
}

func FuzzLookKeepsValidBodiesValid(f *testing.F) {
	f.Add([]byte(message(picture("https://pictures.example.org/x.png"))))
	f.Add([]byte(`{"messages":[{"content":[{"url":["http://a.org",{"b":"c"}]}]}],"chat_template":1}`))
	f.Add([]byte(`{"messages":{"content":[]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		g := New(Members(), true, nil)
		g.check = func(string) error { return dialguard.ErrPrivate } // nothing is fetched
		got, refusal := g.Look(t.Context(), body, 0)
		if refusal == nil && string(got.Bytes) != string(body) {
			t.Errorf("%q became %q", body, got.Bytes)
		}
	})
}
