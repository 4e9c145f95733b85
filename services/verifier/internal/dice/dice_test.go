package dice_test

import (
	"testing"

	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/prompt"
)

func TestEqualQuestionsHaveEqualAnswers(t *testing.T) {
	t.Parallel()
	secret := prompt.Secret{1}
	a, b := dice.New(secret, "p", []byte("x")), dice.New(secret, "p", []byte("x"))
	for range 100 {
		if got, want := a.Uint64(), b.Uint64(); got != want {
			t.Fatalf("the second time: got %d, want %d", got, want)
		}
	}
}

func TestEveryPartCounts(t *testing.T) {
	t.Parallel()
	secret := prompt.Secret{1}
	seen := map[[32]byte]string{}
	for name, bytes := range map[string][32]byte{
		"one":             dice.Bytes(secret, "p", []byte("xy")),
		"another secret":  dice.Bytes(prompt.Secret{2}, "p", []byte("xy")),
		"another purpose": dice.Bytes(secret, "q", []byte("xy")),
		"other parts":     dice.Bytes(secret, "p", []byte("x"), []byte("y")),
		"no parts":        dice.Bytes(secret, "p"),
		"an empty part":   dice.Bytes(secret, "p", nil),
		"moved":           dice.Bytes(secret, "px", []byte("y")),
	} {
		if before, known := seen[bytes]; known {
			t.Errorf("%s: got the bytes of %s, want others", name, before)
		}
		seen[bytes] = name
	}
}
