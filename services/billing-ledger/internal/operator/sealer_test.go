package operator

import (
	"bytes"
	"crypto/rand"
	"testing"

	"svc.internal/pkg/apikey"
)

func TestASealedSecretOpensForItsOperatorUnderItsPepperAlone(t *testing.T) {
	one, err := NewSealer(apikey.Only(apikey.Pepper{1}))
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSealer(apikey.Only(apikey.Pepper{2}))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := newSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ada, eve := ID{1}, ID{2}
	sealed := one.seal(ada, secret)
	if bytes.Contains(sealed, secret.raw[:]) {
		t.Error("the sealed secret shows the secret")
	}
	if again := one.seal(ada, secret); bytes.Equal(again, sealed) {
		t.Error("sealed twice: got the same bytes, want others")
	}
	opened, _, err := one.open(ada, sealed)
	if err != nil {
		t.Fatal(err)
	}
	if opened != secret {
		t.Error("got another secret, want the one that was sealed")
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, open := range map[string]func() error{
		"another operator": func() error { _, _, err := one.open(eve, sealed); return err },
		"another pepper":   func() error { _, _, err := other.open(ada, sealed); return err },
		"a changed byte":   func() error { _, _, err := one.open(ada, changed); return err },
		"too short":        func() error { _, _, err := one.open(ada, sealed[:5]); return err },
	} {
		if open() == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}
