package demo

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheBuiltinCatalogIsSound(t *testing.T) {
	c, err := Builtin()
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(c.Models) != 2 {
		t.Fatalf("len(c.Models): got %d, want 2, in %+v", len(c.Models), c)
	}
	for _, m := range c.Models {
		if m.local() != "tinylm-1" {
			t.Errorf(`m.local(): got %q, want "tinylm-1"`, m.local())
		}
	}
}

func TestACatalogFileIsReadStrictly(t *testing.T) {
	for name, text := range map[string]string{
		"unknown key": "models:\n  - id: a\n    prize: 1\n",
		"no model":    "models: []\n",
		"empty":       "",
		"no id":       "models:\n  - name: x\n",
		"not YAML":    "models: [",
		"too many":    "models:\n" + strings.Repeat("  - id: a\n", maxModels+1),
	} {
		if c, err := ParseCatalog([]byte(text)); err == nil {
			t.Errorf("%s: accepted as %d models", name, len(c.Models))
		}
	}
	c, err := ParseCatalog([]byte("models:\n  - &a {id: a, input_price: \"1.5\"}\n  - {<<: *a, id: b}\n"))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if c.Models[1].InputPrice != "1.5" {
		t.Errorf(`c.Models[1].InputPrice: got %q, want "1.5"`, c.Models[1].InputPrice)
	}
}

func FuzzParseCatalog(f *testing.F) {
	f.Add(builtin)
	f.Add([]byte("models:\n  - id: [a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := ParseCatalog(text); err == nil && len(c.Models) == 0 {
			t.Errorf("len(c.Models): got 0, want at least 1, with %q", text)
		} else if err == nil && c.Models[0].ID == "" {
			t.Errorf(`c.Models[0].ID: got "", want some text, with %q`, text)
		}
	})
}

func TestAnEnginesModelsBecomeCatalogEntries(t *testing.T) {
	c := FromEngine([]string{"qwen2.5:0.5b", "a b/ü"})
	if c.Models[0].ID != "demo/qwen2.5:0.5b" {
		t.Errorf(`c.Models[0].ID: got %q, want "demo/qwen2.5:0.5b"`, c.Models[0].ID)
	} else if c.Models[0].LocalModel != "qwen2.5:0.5b" {
		t.Errorf(`c.Models[0].LocalModel: got %q, want "qwen2.5:0.5b"`, c.Models[0].LocalModel)
	}
	for _, r := range c.Models[1].ID {
		if r > 'z' {
			t.Errorf("id %q: r: got %d, want at most 'z'", c.Models[1].ID, r)
		} else if r == ' ' {
			t.Errorf("id %q: r: got ' ', want any but ' '", c.Models[1].ID)
		}
	}
	if n := len(FromEngine(make([]string, 100)).Models); n != 20 {
		t.Errorf("models of an engine with 100: got %d, want 20", n)
	}
}

func TestOnlyWhatTheEngineServesIsOffered(t *testing.T) {
	catalog := Catalog{Models: []Model{{ID: "a", LocalModel: "x"}, {ID: "y"}, {ID: "z"}}}
	offers := Offers(catalog, Engine{Models: []string{"x", "y"}})
	switch {
	case len(offers) != 2:
		t.Errorf("len(offers): got %d, want 2, in %+v", len(offers), offers)
	case offers["a"].LocalModel != "x":
		t.Errorf(`offers["a"].LocalModel: got %q, want "x"`, offers["a"].LocalModel)
	case offers["y"].LocalModel != "y":
		t.Errorf(`offers["y"].LocalModel: got %q, want "y"`, offers["y"].LocalModel)
	}
}

func TestTheEngineThatIsNamedIsTaken(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" {
			http.NotFound(w, r)
			return
		}
		if _, err := w.Write([]byte(`{"object":"list","data":[{"id":"m"}]}`)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	log := slog.New(slog.DiscardHandler)
	engine, err := ChooseEngine(t.Context(), server.URL+"/v1/", nobody, log)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case engine.URL != server.URL+"/v1":
		t.Errorf("engine.URL: got %q, want %q", engine.URL, server.URL+"/v1")
	case engine.Models[0] != "m":
		t.Errorf(`engine.Models[0]: got %q, want "m"`, engine.Models[0])
	case engine.Builtin:
		t.Error("engine.Builtin: got true, want false")
	}
	for _, url := range []string{server.URL, "http://127.0.0.1:1/v1", "::"} {
		if _, err := ChooseEngine(t.Context(), url, nobody, log); err == nil {
			t.Errorf("%s: got no error, want one", url)
		} else if !strings.Contains(err.Error(), "ENGINE_URL") {
			t.Errorf(`%s: got the error %q, want "ENGINE_URL" in it`, url, err)
		}
	}
}

func TestTheEnvironmentIsOneThatShellsRead(t *testing.T) {
	text := string(Environment{BaseURL: "http://127.0.0.1:8080", DatabaseURL: "postgres://u:p@h/d?a=b&c='d'"}.File())
	for _, want := range []string{"SVC_BASE_URL=http://127.0.0.1:8080\n",
		`SVC_DATABASE_URL='postgres://u:p@h/d?a=b&c='\''d'\'''` + "\n", "SVC_API_KEY=\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// nobody is an address at which no Ollama answers.
const nobody = "127.0.0.1:1"

func TestOllamaIsLookedForWhereItsOwnVariableSays(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "http://127.0.0.1:11434/v1",
		"127.0.0.1:5":            "http://127.0.0.1:5/v1",
		":5":                     "http://127.0.0.1:5/v1",
		"0.0.0.0":                "http://127.0.0.1:11434/v1",
		"[::]:5":                 "http://127.0.0.1:5/v1",
		"gpu.local":              "http://gpu.local:11434/v1",
		"https://gpu.local:5/x/": "https://gpu.local:5/x/v1",
		"'10.0.0.9:5'":           "http://10.0.0.9:5/v1",
	} {
		if got := ollamaURL(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestTheEnvironmentIsReadAsItWasWritten(t *testing.T) {
	e := Environment{BaseURL: "http://127.0.0.1:8080", DatabaseURL: "postgres://u:p@h/d?a=b&c='d'", AdminToken: "a b=c",
		ChainURLs: "8453=http://127.0.0.1:1,254=http://127.0.0.1:2"}
	got := ReadFile(e.File())
	for name, want := range map[string]string{"SVC_BASE_URL": e.BaseURL, "SVC_DATABASE_URL": e.DatabaseURL,
		"SVC_ADMIN_TOKEN": e.AdminToken, "SVC_CHAIN_URLS": e.ChainURLs, "SVC_MODEL": ""} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}
