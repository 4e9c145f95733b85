package demo

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestTheOwnerWaitsForServicesThatStartSlowly answers as an edge whose ledger starts: the first sign-up is
// carried out, but its answer is lost.
func TestTheOwnerWaitsForServicesThatStartSlowly(t *testing.T) {
	const answer = `{"token":"t","provider_id":"p","provider_api_key":"k"}`
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		} else if !json.Valid(body) {
			t.Errorf("%s: got the body %q, want JSON", r.URL.Path, body)
		}
		asked[r.URL.Path]++
		status := http.StatusOK
		switch {
		case asked[r.URL.Path] == 1:
			status = http.StatusServiceUnavailable
		case r.URL.Path == "/api/v1/user/signup":
			status = http.StatusConflict
		}
		w.WriteHeader(status)
		if _, err := io.WriteString(w, answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	got, err := signUpOwner(t.Context(), server.URL, "secret")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Credentials{ProviderID: "p", ProviderKey: "k", OwnerPassword: "secret"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, path := range []string{"/api/v1/user/signup", "/api/v1/user/login", "/api/v1/user/upgrade-to-provider"} {
		if n := asked[path]; n != 2 {
			t.Errorf("%s: asked %d times, want 2", path, n)
		}
	}
}

func TestARefusalEndsTheOwnersCalls(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	if _, err := signUpOwner(t.Context(), server.URL, "secret"); err == nil {
		t.Error("got no error, want one")
	} else if errors.Is(err, errBusy) {
		t.Errorf("got %v, want a refusal", err)
	}
	if asked != 1 {
		t.Errorf("asked %d times, want once", asked)
	}
}
