package providerapi

import (
	"testing"
	"time"

	"svc.internal/pkg/fault"
)

func TestTheSignInMethodsAreAskedForOnceAMinute(t *testing.T) {
	b := setup(t)
	const want = `{"code":0,"msg":"success","data":{"openid":[{"name":"local","label":"Local"}],"wallet":false,` +
		`"letters":true,"playground":false}}`
	read := func() {
		t.Helper()
		got, err := b.SignInMethods(t.Context(), with("", ""))
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if string(got.JSON) != want {
			t.Errorf("got %s, want %s", got.JSON, want)
		}
		if cached := got.Header.Get("Cache-Control"); cached != "public, max-age=60" {
			t.Errorf("Cache-Control: got %q, want a minute", cached)
		}
	}
	b.ledger.err = fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	if _, err := b.SignInMethods(t.Context(), with("", "")); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("before the first answer: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
	b.ledger.err, b.ledger.asked = nil, 0
	b.clock.Advance(refreshRetry)
	for range 3 {
		read()
	}
	if b.ledger.asked != 1 {
		t.Errorf("within a minute: asked %d times, want once", b.ledger.asked)
	}
	b.clock.Advance(time.Minute)
	b.ledger.err = fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")
	for range 3 {
		read()
	}
	if b.ledger.asked != 2 {
		t.Errorf("while the ledger is away: asked %d times, want twice", b.ledger.asked)
	}
}

func TestTheSignInMethodsAreThoseOfTheSettings(t *testing.T) {
	b := setup(t)
	b.cfg.Origins, b.cfg.Playground = []string{"https://console.example.com"}, true
	got, err := b.SignInMethods(t.Context(), with("", ""))
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	var said struct {
		Data struct{ Wallet, Playground bool }
	}
	b.decode(t, got, &said)
	if !said.Data.Wallet {
		t.Error("wallet: got false, want true where there is an origin")
	}
	if !said.Data.Playground {
		t.Error("playground: got false, want true where there is one")
	}
}
