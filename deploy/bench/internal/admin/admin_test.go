package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAProviderIsMadeActivatedAndGivenAKey(t *testing.T) {
	var asked []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf(`authorization: got %q, want "Bearer token"`, r.Header.Get("Authorization"))
		}
		asked = append(asked, r.Method+" "+r.URL.Path)
		text := `{"provider":{"provider_id":"p1"}}`
		if strings.HasSuffix(r.URL.Path, "/keys") {
			text = `{"api_key":"k1"}`
		}
		_, _ = w.Write([]byte(text))
	}))
	defer gateway.Close()
	key, err := Client{Base: gateway.URL, Token: "token"}.Provider(t.Context(), "a")
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if key != "k1" {
		t.Errorf(`key: got %q, want "k1"`, key)
	}
	want := "POST /api/v1/admin/providers POST /api/v1/admin/providers/p1/qualification " +
		"POST /api/v1/admin/providers/p1/keys"
	if got := strings.Join(asked, " "); got != want {
		t.Errorf("asked: got %q, want %q", got, want)
	}
}

func TestAConsumerHasAsManyKeysAsAsked(t *testing.T) {
	var names []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := `{"account":{"account_id":"a1"}}`
		if strings.HasSuffix(r.URL.Path, "/a1/keys") {
			var asked struct {
				Name string `json:"name"`
			}
			_ = json.NewDecoder(r.Body).Decode(&asked)
			names = append(names, asked.Name)
			text = `{"api_key":"sk-` + asked.Name + `"}`
		}
		_, _ = w.Write([]byte(text))
	}))
	defer gateway.Close()
	keys, err := Client{Base: gateway.URL}.ConsumerKeys(t.Context(), "many", "10", 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(keys, " "), "sk-many-0 sk-many-1"; got != want {
		t.Errorf("keys: got %q, want %q", got, want)
	}
	if got := len(names); got != 2 {
		t.Errorf("keys asked for: got %d, want 2", got)
	}
}

func TestARefusalSaysWhy(t *testing.T) {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such currency", http.StatusBadRequest)
	}))
	defer gateway.Close()
	err := Client{Base: gateway.URL}.PutModel(t.Context(), Model{ID: "m"})
	if err == nil {
		t.Error("error: got no error, want one")
	} else if !strings.Contains(err.Error(), "no such currency") {
		t.Errorf(`error: got the error %q, want "no such currency" in it`, err)
	}
}
