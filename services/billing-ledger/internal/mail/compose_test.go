package mail

import (
	"strings"
	"testing"

	"svc.internal/services/billing-ledger/internal/user"
)

func TestALettersLinkLeadsToThePageOfTheConsoleThatTakesItsToken(t *testing.T) {
	t.Parallel()
	for kind, page := range map[user.LetterKind]string{
		user.ConfirmLetter: "https://site.example/app/confirm",
		user.ResetLetter:   "https://site.example/app/password",
	} {
		want := "\n" + page + "#token=" + token + "\n"
		if text := letter(t, kind).Text; strings.Count(text, want) != 1 {
			t.Errorf("%s: got %q, want the line %q once", kind, text, want)
		}
	}
}

func TestALetterWithoutATokenHasNoLink(t *testing.T) {
	t.Parallel()
	for _, kind := range []user.LetterKind{user.ReuseLetter, user.ChangedLetter, user.ResetDoneLetter, user.LinkedLetter,
		user.EndedLetter, user.AddressLetter} {
		m := letter(t, kind)
		if strings.Contains(m.Text, "://") {
			t.Errorf("%s: got %q, want no link", kind, m.Text)
		}
		if strings.Contains(m.Text, token) {
			t.Errorf("%s: got %q, want no token", kind, m.Text)
		}
	}
}
