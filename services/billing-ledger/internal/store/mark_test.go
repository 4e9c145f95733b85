package store_test

import (
	"strings"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/user"
)

// Whoever has money go elsewhere is told on by the letter.
func TestAUserIsToldOnceOfANewAddressOfItsProvider(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	ada, own, nobodys := e.member(t, "ada@example.com"), ids.ProviderID{1}, ids.ProviderID{2}
	if _, err := e.users(t).LinkProvider(t.Context(), ada.User.ID, own); err != nil {
		t.Fatal(err)
	}
	e.exec(t, `DELETE FROM mail_outbox`)
	e.exec(t, `INSERT INTO sign_in_count (email_sha256, network, full_at) VALUES (sha256('ada@example.com'), $1,
		now() + interval '1 day')`, user.TellingMark[:]) // that many identities were linked and ended before
	for _, step := range []struct {
		name    string
		mark    func()
		letters int
	}{
		{"a payout address", func() { e.markProvider(t, own, kin.PayoutAddress, 1) }, 1},
		{"the same again", func() { e.markProvider(t, own, kin.PayoutAddress, 1) }, 0},
		{"another one", func() { e.markProvider(t, own, kin.PayoutAddress, 2) }, 1},
		{"a wallet", func() { e.markProvider(t, own, kin.Wallet, 3) }, 1},
		{"an address of a provider without a user", func() { e.markProvider(t, nobodys, kin.PayoutAddress, 4) }, 0},
	} {
		step.mark()
		sent, _ := e.deliver(t, &letters{})
		if len(sent) != step.letters {
			t.Errorf("%s: letters: got %d, want %d", step.name, len(sent), step.letters)
		}
		for _, m := range sent {
			if m.To != "ada@example.com" {
				t.Errorf("%s: got a letter to %s, want one to ada@example.com", step.name, m.To)
			}
			if m.Kind != user.AddressLetter {
				t.Errorf("%s: got a letter of the kind %s, want %s", step.name, m.Kind, user.AddressLetter)
			}
			if strings.Contains(m.Text, "0x") {
				t.Errorf("%s: got the letter %q, want no address in it", step.name, m.Text)
			}
		}
	}
	// Beyond the pace of letters the marks stand without any.
	for n := range 20 {
		e.markProvider(t, own, kin.PayoutAddress, 100+n)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM provider_mark WHERE provider_id = $1`, [16]byte(own)); n != 23 {
		t.Errorf("marks: got %d, want 23", n)
	}
	if n := scan[int](t, e, `SELECT count(*) FROM mail_outbox`); n > user.LetterPace.AtOnce {
		t.Errorf("letters that wait: got %d, want at most %d", n, user.LetterPace.AtOnce)
	}
}
