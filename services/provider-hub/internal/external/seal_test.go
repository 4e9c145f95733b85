package external

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/config"
)

func sealer(t *testing.T, current, previous, derived string) *Sealer {
	t.Helper()
	s, err := NewSealer(config.NewSecret(current), config.NewSecret(previous), []byte(derived))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestASealedKeyOpensForItsEndpointAndOriginAlone(t *testing.T) {
	t.Parallel()
	s := sealer(t, "one", "", "")
	k := config.NewSecret("sk-12345678")
	e := Endpoint{ID: ID{1}, BaseURL: "https://a.example.org/v1"}
	e.Sealed = s.Seal(e.ID, e.BaseURL, k)
	for name, c := range map[string]struct {
		change func(*Endpoint)
		opens  bool
	}{
		"as it is":       {func(*Endpoint) {}, true},
		"another path":   {func(e *Endpoint) { e.BaseURL = "https://a.example.org/v2" }, true},
		"another host":   {func(e *Endpoint) { e.BaseURL = "https://b.example.org/v1" }, false},
		"another port":   {func(e *Endpoint) { e.BaseURL = "https://a.example.org:8443/v1" }, false},
		"another scheme": {func(e *Endpoint) { e.BaseURL = "http://a.example.org/v1" }, false},
		"another id":     {func(e *Endpoint) { e.ID = ID{2} }, false},
		"another box":    {func(e *Endpoint) { e.Sealed.Box = bytes.Repeat([]byte{1}, 40) }, false},
		"cut off":        {func(e *Endpoint) { e.Sealed.Box = e.Sealed.Box[:5] }, false},
	} {
		other := e
		other.Sealed.Box = bytes.Clone(e.Sealed.Box)
		c.change(&other)
		got, err := s.Open(&other)
		if opens := err == nil && got == k; opens != c.opens {
			t.Errorf("%s: opens: got %v, want %v", name, opens, c.opens)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v %v", e, k), k.Reveal()) {
		t.Error("an endpoint shows its key when it is printed")
	}
	if bytes.Contains(e.Sealed.Box, []byte(k.Reveal())) {
		t.Error("a sealed key is readable")
	}
}

func TestASecretIsChangedWhileItsKeysOpen(t *testing.T) {
	t.Parallel()
	k := config.NewSecret("sk-12345678")
	e := Endpoint{ID: ID{1}, BaseURL: "https://a.example.org"}
	e.Sealed = sealer(t, "", "", "fleet").Seal(e.ID, e.BaseURL, k)
	steps := []struct{ current, previous string }{{"one", ""}, {"one", "two"}, {"two", "one"}, {"two", ""}}
	for _, step := range steps {
		s := sealer(t, step.current, step.previous, "fleet")
		if got, err := s.Open(&e); err != nil {
			t.Fatalf("%v: got the error %v, want none", step, err)
		} else if got != k {
			t.Fatalf("%v: got another key", step)
		}
		sealed := s.Reseal(e)
		if sealed == nil {
			t.Fatalf("%v: got no key, want one", step)
		}
		if sealed.By != s.Current() {
			t.Fatalf("%v: got it under %x, want it under the current secret", step, sealed.By)
		}
		e.Sealed = *sealed
	}
	if _, err := sealer(t, "three", "", "fleet").Open(&e); err == nil {
		t.Error("under another secret: got no error, want one")
	}
}
