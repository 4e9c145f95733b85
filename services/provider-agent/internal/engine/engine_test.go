package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
)

// pool serves model "m" as local model "local" by the engine at url.
func pool(url string, change func(*Target)) *Pool {
	target := Target{ModelID: "m", URL: url, LocalModel: "local", Capacity: 4}
	if change != nil {
		change(&target)
	}
	return New(Config{}, []Target{target}, slog.New(slog.DiscardHandler))
}

// asking is a request whose model stands at its place.
func asking(body string) Request {
	at := strings.Index(body, `"catalog/m"`)
	return Request{ModelID: "m", Body: []byte(body), ModelOffset: at, ModelLength: len(`"catalog/m"`),
		Stream: strings.Contains(body, `"stream":true`)}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestOnlyTheModelIsReplaced(t *testing.T) {
	for name, body := range map[string]string{
		"first":  `{"model":"catalog/m","messages":[]}`,
		"last":   "{ \"messages\" : [],\t\"x\":1e400,  \"model\" : \"catalog/m\"\n}",
		"in two": `{"messages":[{"content":"\"model\":\"catalog/m\" é 😀"}],"model":"catalog/m","n":1.0}`,
	} {
		t.Run(name, func(t *testing.T) {
			engine := fakeengine.New(t)
			engine.Script("local", fakeengine.Behaviour{})
			r := asking(body)
			r.ModelOffset = strings.LastIndex(body, `"catalog/m"`)
			if a := pool(engine.URL+"/v1", nil).Forward(within(t), r, io.Discard); a.Err != nil {
				t.Fatalf("the answer: a.Err: got the error %v, want none", a.Err)
			} else if a.Status != 200 {
				t.Fatalf("the answer: a.Status: got %d, want 200", a.Status)
			}
			want := body[:r.ModelOffset] + `"local"` + body[r.ModelOffset+r.ModelLength:]
			seen := engine.Requests()[0]
			if string(seen.Body) != want {
				t.Errorf("the engine got\n%s\nwant\n%s", seen.Body, want)
			}
			if seen.Path != "/v1/chat/completions" {
				t.Errorf("the path: got %s, want /v1/chat/completions", seen.Path)
			}
		})
	}
}

func TestLocalNamesAreQuoted(t *testing.T) {
	engine := fakeengine.New(t)
	const local = `a"b\c/ü:latest`
	engine.Script(local, fakeengine.Behaviour{})
	p := pool(engine.URL+"/v1", func(t *Target) { t.LocalModel = local })
	if a := p.Forward(within(t), asking(`{"model":"catalog/m"}`), io.Discard); a.Status != 200 {
		t.Errorf("the answer: got %d, want 200", a.Status)
	}
}

func TestAnswersAreHandedOnAsTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		behaviour fakeengine.Behaviour
		stream    bool
		status    int
	}{
		"whole":  {fakeengine.Behaviour{}, false, 200},
		"stream": {fakeengine.Behaviour{Tokens: fakeengine.Words(300)}, true, 200},
		"not even JSON": {fakeengine.Behaviour{Raw: "\x00\xff\r\n\n" + strings.Repeat("z", 100_000),
			ContentType: "image/png"}, false, 200},
		"refused":          {fakeengine.Behaviour{Status: 400, Body: `{"error":{"message":"too long"}}`}, true, 400},
		"busy":             {fakeengine.Behaviour{Status: 429}, false, 429},
		"broken":           {fakeengine.Behaviour{Status: 500, Body: "Internal Server Error"}, false, 500},
		"error mid-stream": {fakeengine.Behaviour{End: fakeengine.EndError, EndAfter: 2}, true, 200},
	} {
		t.Run(name, func(t *testing.T) {
			engine := fakeengine.New(t)
			engine.Script("local", c.behaviour)
			body := fmt.Sprintf(`{"model":"catalog/m","stream":%v}`, c.stream)
			direct, err := http.Post(engine.URL+"/v1/chat/completions", "application/json",
				strings.NewReader(strings.Replace(body, "catalog/m", "local", 1)))
			if err != nil {
				t.Fatal(err)
			}
			want, err := io.ReadAll(direct.Body)
			if err != nil {
				t.Fatalf("got the error %v, want none", err)
			}
			if got := direct.Body.Close(); got != nil {
				t.Fatalf("direct.Body.Close(): got the error %v, want none", got)
			}
			var got bytes.Buffer
			a := pool(engine.URL+"/v1", nil).Forward(within(t), asking(body), &got)
			if a.Status != c.status {
				t.Errorf("the answer: a.Status: got %d, want %d", a.Status, c.status)
			} else if a.Err != nil {
				t.Errorf("the answer: a.Err: got the error %v, want none", a.Err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("got\n%.300q\nwant\n%.300q", got.Bytes(), want)
			}
		})
	}
}

// pieces signals every write.
type pieces chan string

func (p pieces) Write(b []byte) (int, error) {
	p <- string(b)
	return len(b), nil
}

func TestPiecesGoOutWhenTheyArrive(t *testing.T) {
	engine := fakeengine.New(t)
	next := make(chan struct{})
	engine.Script("local", fakeengine.Behaviour{Tokens: []string{"one", "two"}, BeforeToken: next})
	out := make(pieces, 100)
	go pool(engine.URL+"/v1", nil).Forward(within(t), asking(`{"model":"catalog/m","stream":true}`), out)
	for _, token := range []string{"one", "two"} {
		next <- struct{}{}
		for piece := ""; !strings.Contains(piece, token); { // the engine holds the next token back
			select {
			case piece = <-out:
			case <-within(t).Done():
				t.Fatalf("%q did not arrive", token)
			}
		}
	}
}

func TestGivingUpReachesTheEngine(t *testing.T) {
	for _, name := range []string{"hang-first", "hang", "endless"} {
		t.Run(name, func(t *testing.T) {
			engine := fakeengine.New(t)
			ctx, cancel := context.WithCancel(within(t))
			p := pool(engine.URL+"/v1", func(t *Target) { t.LocalModel = name })
			done := make(chan Answer, 1)
			go func() { done <- p.Forward(ctx, asking(`{"model":"catalog/m","stream":true}`), io.Discard) }()
			if err := engine.WaitRequests(within(t), 1); err != nil {
				t.Fatal(err)
			}
			cancel() // nothing else ends the answer of an engine that hangs
			if _, err := engine.WaitCancelled(within(t)); err != nil {
				t.Fatalf("the engine heard nothing: %v", err)
			}
			if a := <-done; a.Err == nil {
				t.Errorf("the answer is %+v", a)
			}
		})
	}
}

// failing writers take nothing.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("nobody wants it") }

func TestWriterThatFailsStopsTheEngine(t *testing.T) {
	engine := fakeengine.New(t)
	p := pool(engine.URL+"/v1", func(t *Target) { t.LocalModel = "endless" })
	if a := p.Forward(within(t), asking(`{"model":"catalog/m","stream":true}`), failing{}); a.Err == nil {
		t.Error("the answer: a.Err: got no error, want one")
	} else if a.Status != 200 {
		t.Errorf("the answer: a.Status: got %d, want 200", a.Status)
	}
	if _, err := engine.WaitCancelled(within(t)); err != nil {
		t.Errorf("the engine heard nothing: %v", err)
	}
}

func TestEngineThatDiesIsNotComplete(t *testing.T) {
	engine := fakeengine.New(t)
	for _, stream := range []string{"true", "false"} {
		p := pool(engine.URL+"/v1", func(t *Target) { t.LocalModel = "reset" })
		var got bytes.Buffer
		a := p.Forward(within(t), asking(`{"model":"catalog/m","stream":`+stream+`}`), &got)
		switch {
		case a.Status != 200:
			t.Errorf("stream %s: the answer: a.Status: got %d, want 200", stream, a.Status)
		case a.Err == nil:
			t.Errorf("stream %s: the answer: a.Err: got no error, want one", stream)
		case got.Len() == 0:
			t.Errorf("stream %s: got.Len(): got 0, want any but 0", stream)
		}
	}
}

func TestEngineThatIsNotThereHasNoStatus(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	a := pool(closed.URL+"/secret/v1", nil).Forward(within(t), asking(`{"model":"catalog/m"}`), io.Discard)
	switch {
	case a.Status != 0:
		t.Errorf("the answer: a.Status: got %d, want 0", a.Status)
	case a.Err == nil:
		t.Error("the answer: a.Err: got no error, want one")
	case strings.Contains(a.Err.Error(), "secret"):
		t.Errorf(`the answer: a.Err.Error(): got %q, want it without "secret"`, a.Err.Error())
	}
	if a := pool(closed.URL, nil).Forward(within(t), Request{ModelID: "other"}, io.Discard); !errors.Is(a.Err,
		errNoModel) {
		t.Errorf("another model: got the error %v, want %v", a.Err, errNoModel)
	}
}

func TestModelPlaceIsChecked(t *testing.T) {
	engine := fakeengine.New(t)
	p := pool(engine.URL+"/v1", nil)
	for _, place := range [][2]int{{-1, 5}, {0, 3}, {9, 4}, {9, 1}, {9, 100}, {1 << 40, 2}} {
		r := Request{ModelID: "m", Body: []byte(`{"model":"catalog/m"}`), ModelOffset: place[0], ModelLength: place[1]}
		if a := p.Forward(within(t), r, io.Discard); !errors.Is(a.Err, errModelSpan) {
			t.Errorf("%v: the answer: got the error %v, want %v", place, a.Err, errModelSpan)
		}
	}
	if n := len(engine.Requests()); n != 0 {
		t.Errorf("the engine was asked: got %d, want 0", n)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	engine := fakeengine.New(t)
	engine.Script("local", fakeengine.Behaviour{Raw: strings.Repeat("x", maxWhole+1), ContentType: "application/json"})
	var got bytes.Buffer
	if a := pool(engine.URL+"/v1", nil).Forward(within(t), asking(`{"model":"catalog/m"}`), &got); !errors.Is(a.Err,
		errTooLarge) {
		t.Errorf("the answer: a.Err: got the error %v, want %v", a.Err, errTooLarge)
	} else if got.Len() > maxWhole {
		t.Errorf("got.Len(): got %d, want at most %d", got.Len(), maxWhole)
	}
	engine.Script("local", fakeengine.Behaviour{Raw: strings.Repeat("x", maxWhole), ContentType: "application/json"})
	got.Reset()
	if a := pool(engine.URL+"/v1", nil).Forward(within(t), asking(`{"model":"catalog/m"}`), &got); a.Err != nil {
		t.Errorf("the largest answer: a.Err: got the error %v, want none", a.Err)
	} else if got.Len() != maxWhole {
		t.Errorf("got.Len(): got %d, want %d", got.Len(), maxWhole)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := fakeengine.New(t)
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	for _, p := range []*Pool{
		pool(server.URL, nil),
		New(Config{Client: &http.Client{}}, []Target{{ModelID: "m", URL: server.URL, LocalModel: "local"}},
			slog.New(slog.DiscardHandler)),
	} {
		if a := p.Forward(within(t), asking(`{"model":"catalog/m"}`), io.Discard); a.Status != http.StatusTemporaryRedirect {
			t.Errorf("the answer: got %d, want 307", a.Status)
		}
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("the other place was asked: got %d, want 0", n)
	}
}

func TestHeadersOfARequest(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		traceparent, key      string
		wantTrace, wantBearer string
	}{
		"nothing":           {},
		"both":              {good, "sk-engine", good, "Bearer sk-engine"},
		"split header":      {traceparent: good[:53] + "\r\n"},
		"too long":          {traceparent: good + "0"},
		"not hexadecimal":   {traceparent: strings.ToUpper(good)},
		"a dash in an id":   {traceparent: good[:10] + "-" + good[11:]},
		"dashes not at all": {traceparent: strings.ReplaceAll(good, "-", "0")},
	} {
		t.Run(name, func(t *testing.T) {
			engine := fakeengine.New(t)
			engine.Script("local", fakeengine.Behaviour{})
			p := pool(engine.URL+"/v1", func(t *Target) { t.APIKey = config.NewSecret(c.key) })
			r := asking(`{"model":"catalog/m"}`)
			r.Traceparent = c.traceparent
			if a := p.Forward(within(t), r, io.Discard); a.Status != 200 {
				t.Fatalf("the answer: got %d, want 200", a.Status)
			}
			h := engine.Requests()[0].Header
			switch {
			case h.Get("Traceparent") != c.wantTrace:
				t.Errorf(`the headers: h.Get("Traceparent"): got %q, want %q`, h.Get("Traceparent"), c.wantTrace)
			case h.Get("Authorization") != c.wantBearer:
				t.Errorf(`the headers: h.Get("Authorization"): got %q, want %q`, h.Get("Authorization"), c.wantBearer)
			case h.Get("Content-Type") != "application/json":
				t.Errorf(`the headers: h.Get("Content-Type"): got %q, want "application/json"`, h.Get("Content-Type"))
			}
			if h.Get("Idempotency-Key") != "" {
				t.Errorf(`headers that nobody asked for: h.Get("Idempotency-Key"): got %q, want ""`, h.Get("Idempotency-Key"))
			} else if h.Get("Accept-Encoding") != "" {
				t.Errorf(`headers that nobody asked for: h.Get("Accept-Encoding"): got %q, want ""`, h.Get("Accept-Encoding"))
			}
		})
	}
}
