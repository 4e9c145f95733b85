package kin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/kin"
)

const address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

func evidence(t *testing.T, address string) kin.Evidence {
	t.Helper()
	e, err := kin.OfAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAnAddressIsTheSameEvidenceInAllLetters(t *testing.T) {
	t.Parallel()
	want := evidence(t, address).Digest([]byte("key"))
	for _, form := range []string{strings.ToLower(address), "0x" + strings.ToUpper(address[2:])} {
		if got := evidence(t, form).Digest([]byte("key")); got != want {
			t.Errorf("digest of %s: got %x, want %x", form, got, want)
		}
	}
	if got := evidence(t, address).Digest([]byte("other")); got == want {
		t.Error("digest under another key: got the same, want another one")
	}
	if got := evidence(t, "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359").Digest([]byte("key")); got == want {
		t.Error("digest of another address: got the same, want another one")
	}
}

func TestWhatIsNobodysAddressIsNoEvidence(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "0x", address[2:], address[:41], strings.Replace(address, "A", "a", 1),
		"0x" + strings.Repeat("0", 40)} {
		if _, err := kin.OfAddress(text); err == nil {
			t.Errorf("%q: got no error, want one", text)
		}
	}
}

func TestEvidenceIsNotPrinted(t *testing.T) {
	t.Parallel()
	m := kin.Mark{Cause: kin.Wallet, Evidence: evidence(t, address)}
	for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
		if got, want := fmt.Sprintf(form, m.Evidence), "[evidence]"; got != want {
			t.Errorf("%s: got %q, want %q", form, got, want)
		}
		if got := fmt.Sprintf(form, m); strings.Contains(strings.ToLower(got), strings.ToLower(address[2:10])) {
			t.Errorf("%s: got %q, want nothing of the address", form, got)
		}
	}
}

func TestAMarkIsOfOneBearerWithACauseAndEvidence(t *testing.T) {
	t.Parallel()
	account, provider, e := ids.AccountID{1}, ids.ProviderID{2}, evidence(t, address)
	for name, tc := range map[string]struct {
		mark kin.Mark
		ok   bool
	}{
		"an account's":        {kin.Mark{Account: account, Cause: kin.DepositSource, Evidence: e}, true},
		"a provider's":        {kin.Mark{Provider: provider, Cause: kin.PayoutAddress, Evidence: e}, true},
		"an account's payout": {kin.Mark{Account: account, Cause: kin.PayoutAddress, Evidence: e}, false},
		"nobody's":            {kin.Mark{Cause: kin.Wallet, Evidence: e}, false},
		"two bearers'":        {kin.Mark{Account: account, Provider: provider, Cause: kin.Wallet, Evidence: e}, false},
		"without evidence":    {kin.Mark{Account: account, Cause: kin.Wallet}, false},
		"without a cause":     {kin.Mark{Account: account, Evidence: e}, false},
		"by another cause":    {kin.Mark{Account: account, Cause: "looks", Evidence: e}, false},
		"a card's, by hand":   {kin.Mark{Account: account, Cause: kin.Card, Evidence: e}, false},
	} {
		if got := tc.mark.Check() == nil; got != tc.ok {
			t.Errorf("%s: is a mark: got %t, want %t", name, got, tc.ok)
		}
	}
}

func TestMarksHaveOneOrder(t *testing.T) {
	t.Parallel()
	marks := []kin.Stored{
		{Provider: ids.ProviderID{1}, Cause: kin.PayoutAddress, Digest: [32]byte{1}},
		{Provider: ids.ProviderID{1}, Cause: kin.Wallet, Digest: [32]byte{1}},
		{Provider: ids.ProviderID{1}, Cause: kin.PayoutAddress, Digest: [32]byte{2}},
		{Provider: ids.ProviderID{2}, Cause: kin.PayoutAddress, Digest: [32]byte{1}},
		{Account: ids.AccountID{1}, Cause: kin.DepositSource, Digest: [32]byte{1}},
	}
	turned := slices.Clone(marks)
	slices.Reverse(turned)
	slices.SortFunc(turned, kin.Stored.Compare)
	if !slices.Equal(turned, marks) {
		t.Errorf("marks: got %v, want %v", turned, marks)
	}
}
