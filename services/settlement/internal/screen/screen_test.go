package screen_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/screen"
)

const (
	listed = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	both   = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
	other  = "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB"
)

func address(t *testing.T, text string) chain.Address {
	t.Helper()
	a, err := chain.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func write(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// says checks the verdict on an address, as its version begins.
func says(t *testing.T, s *screen.Screener, of string, denied bool, version string) {
	t.Helper()
	got, err := s.Check(t.Context(), address(t, of))
	if err != nil {
		t.Fatalf("%s: got the error %v, want none", of, err)
	}
	if got.Denied != denied {
		t.Errorf("%s: got denied %t, want %t", of, got.Denied, denied)
	}
	if !strings.HasPrefix(got.Version, version) {
		t.Errorf("%s: got the version %q, want one that begins with %q", of, got.Version, version)
	}
}

func TestTheAllowListWinsOverTheDenyListAndBothOverTheService(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("key") != "secret" {
			t.Errorf("got the query %q, want the key", r.URL.RawQuery)
		}
		fmt.Fprintf(w, `{"denied": %t, "version": "7"}`, strings.HasSuffix(r.URL.Path, other))
	}))
	defer service.Close()
	cfg := screen.Config{DenyFile: write(t, "# sanctioned", strings.ToLower(listed)+" # since today", "", both),
		AllowFile: write(t, both), URL: config.NewSecret(service.URL + "/check/?key=secret")}
	s, err := screen.New(cfg, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	says(t, s, listed, true, "deny:")
	says(t, s, both, false, "allow:")
	says(t, s, other, true, "service:7")
	says(t, s, "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb", false, "service:7")
}

func TestAListIsReadAgainWhenItsFileChanges(t *testing.T) {
	t.Parallel()
	now := clock.NewManual(time.Unix(1, 0))
	path := write(t, listed)
	s, err := screen.New(screen.Config{DenyFile: path}, now.Now)
	if err != nil {
		t.Fatal(err)
	}
	says(t, s, other, false, "deny:")
	if err := os.WriteFile(path, []byte(listed+"\n"+other), 0o600); err != nil {
		t.Fatal(err)
	}
	now.Advance(time.Minute)
	says(t, s, other, true, "deny:")
	if err := os.WriteFile(path, []byte("not an address"), 0o600); err != nil {
		t.Fatal(err)
	}
	now.Advance(time.Minute)
	if _, err := s.Check(t.Context(), address(t, other)); err == nil {
		t.Error("a list that cannot be read: got a verdict, want an error")
	}
}

func TestWithoutAVerdictThereIsAnErrorThatShowsNoKey(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{"no verdict": `{}`, "no version": `{"denied": false}`, "no JSON": `<`,
		"a long version": `{"denied":false,"version":"` + strings.Repeat("x", 101) + `"}`} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, answer)
		}))
		s, err := screen.New(screen.Config{URL: config.NewSecret(service.URL + "?key=secret")}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := s.Check(t.Context(), address(t, other)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, v)
		}
		service.Close()
		_, err = s.Check(t.Context(), address(t, other))
		if err == nil {
			t.Fatalf("%s: the service is down: got no error, want one", name)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
	if _, err := screen.New(screen.Config{DenyFile: "/none"}, time.Now); err == nil {
		t.Error("a list that is not there: got no error, want one")
	}
	if err := (screen.Config{URL: config.NewSecret("ftp://secret")}).Validate(); err == nil {
		t.Error("an address of another kind: got no error, want one")
	}
}

func TestWithoutListsEverybodyIsAllowed(t *testing.T) {
	t.Parallel()
	s, err := screen.New(screen.Config{}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	says(t, s, other, false, "deny:none")
}

func FuzzAListHasOnlyAddresses(f *testing.F) {
	f.Add(listed + " # x\n\n" + both)
	f.Add("0x\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := screen.Parse(text)
		if err == nil && len(got) > strings.Count(text, "\n")+1 {
			t.Errorf("%q: got %d addresses", text, len(got))
		}
	})
}
