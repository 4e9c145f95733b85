package proof

import (
	"bytes"
	"fmt"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
)

var (
	secret   = Derive([]byte("a pepper"))
	attempt  = Attempt{Request: ids.RequestID{1}, Attempt: 2, Provider: ids.ProviderID{3}, Epoch: 4, Model: "m"}
	dispatch = Dispatch{Hub: "hub-a", PriceVersion: "0190a8b0-0000-7000-8000-000000000001"}
)

func TestAProofHoldsForItsAttemptAlone(t *testing.T) {
	made := secret.Issue(attempt, dispatch)
	if got, ok := secret.Check(made, attempt); !ok {
		t.Fatal("ok of secret.Check(made, attempt): got false, want true")
	} else if got != dispatch {
		t.Fatalf("secret.Check(made, attempt): got %+v, want %+v", got, dispatch)
	}
	for name, change := range map[string]func(*Attempt){
		"request": func(a *Attempt) { a.Request[9]++ }, "attempt": func(a *Attempt) { a.Attempt++ },
		"provider": func(a *Attempt) { a.Provider[9]++ }, "epoch": func(a *Attempt) { a.Epoch++ },
		"model": func(a *Attempt) { a.Model = "n" },
	} {
		other := attempt
		change(&other)
		if _, ok := secret.Check(made, other); ok {
			t.Errorf("it holds for another %s", name)
		}
	}
	for i := range made {
		altered := bytes.Clone(made)
		altered[i] ^= 1
		if _, ok := secret.Check(altered, attempt); ok {
			t.Errorf("byte %d may be another", i)
		}
	}
	if _, ok := Derive([]byte("another pepper")).Check(made, attempt); ok {
		t.Error("another fleet's holds")
	}
	if _, ok := (Secret{}).Check(made, attempt); ok {
		t.Error("no secret holds")
	}
}

func TestASecretThatIsRotatedOutHoldsWhileItIsThePreviousOne(t *testing.T) {
	next := Derive([]byte("the next pepper"))
	old, fresh := secret.Issue(attempt, dispatch), next.Issue(attempt, dispatch)
	both := Secrets{Current: next, Previous: &secret}
	for name, proof := range map[string][]byte{"previous": old, "current": fresh} {
		if got, ok := both.Check(proof, attempt); !ok {
			t.Errorf("the %s one: ok of both.Check(proof, attempt): got false, want true", name)
		} else if got != dispatch {
			t.Errorf("the %s one: both.Check(proof, attempt): got %+v, want %+v", name, got, dispatch)
		}
	}
	if got := both.Issue(attempt, dispatch); !bytes.Equal(got, fresh) {
		t.Errorf("it issues with another than the current one: got %q, want %q", got, fresh)
	}
	alone := Secrets{Current: next}
	if _, ok := alone.Check(old, attempt); ok {
		t.Error("the previous one holds for ever")
	}
	if _, ok := both.Check(Derive([]byte("guessed")).Issue(attempt, dispatch), attempt); ok {
		t.Error("a third one holds")
	}
}

func TestAProofFitsAReceipt(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), maxText))
	if n := len(secret.Issue(attempt, Dispatch{Hub: long, PriceVersion: long})); n == 0 || n > workreceipt.MaxProof {
		t.Errorf("bytes: got %d, want 1 to %d", n, workreceipt.MaxProof)
	}
	if secret.Issue(attempt, Dispatch{Hub: long + "x"}) != nil {
		t.Error("a name that is too long has a proof")
	}
}

func TestASecretIsNotPrinted(t *testing.T) {
	if s := fmt.Sprintf("%v %+v %#v %s", secret, secret, secret,
		secret); s != "[redacted] [redacted] [redacted] [redacted]" {
		t.Errorf(`fmt.Sprintf(…): got %q, want "[redacted] [redacted] [redacted] [redacted]"`, s)
	}
}

func FuzzNothingMadeUpIsAProof(f *testing.F) {
	made := secret.Issue(attempt, dispatch)
	f.Add(made)
	f.Add(made[:7])
	f.Add([]byte{version, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, ok := secret.Check(data, attempt); ok && !bytes.Equal(data, made) {
			t.Errorf("%x holds", data)
		}
	})
}
