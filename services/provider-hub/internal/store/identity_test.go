package store

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

const (
	anAddress   = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	another     = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
	kindsOfMost = "[1 2 3]"
)

// identitiesOf reads the identities of one provider under a pepper.
func identitiesOf(t *testing.T, s *Store, pepper byte, id ids.ProviderID) []provider.Identity {
	t.Helper()
	d := provider.NewDirectory(s, provider.SecretsOf(apikey.Pepper{pepper}), site, clock.System, rand.Reader)
	all, err := d.Identities(t.Context(), []ids.ProviderID{id})
	if err != nil {
		t.Fatal(err)
	}
	return all[id]
}

// known adds an account; each value is empty for none. The wallet is proven.
func known(t *testing.T, s *Store, n byte, user, wallet, payout string) ids.ProviderID {
	t.Helper()
	id := ids.ProviderID{15: n}
	prepare(t, s, `INSERT INTO provider (provider_id, name, status, region, user_id, owner_address, owner_proven_at,
			beneficiary_address, created_at)
		VALUES ($1, 'Farm', 'pending', '', nullif($2, ''), nullif($3, ''), CASE WHEN $3 <> '' THEN now() END,
			nullif($4, ''), now())`, id, user, wallet, payout)
	return id
}

// kinds are the kinds of identities.
func kinds(list []provider.Identity) string {
	all := []int{}
	for _, one := range list {
		all = append(all, int(one[0]))
	}
	return fmt.Sprint(all)
}

func TestIdentitiesShowWhatAccountsShareAndNothingElse(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	user := known(t, s, 1, "u1", "0x52908400098527886E0F7030069857D2E4169EE7", another)
	whole, payee := known(t, s, 2, "", anAddress, another), known(t, s, 3, "", "", another)
	claims := known(t, s, 4, "", "", "")
	prepare(t, s, `UPDATE provider SET owner_address = $2 WHERE provider_id = $1`, claims, anAddress)
	if got := kinds(identitiesOf(t, s, 1, user)); got != kindsOfMost {
		t.Errorf("kinds of an account with a user: got %s, want %s", got, kindsOfMost)
	}
	// A wallet that has not signed is a claim, which binds nothing.
	if got, want := kinds(identitiesOf(t, s, 1, claims)), "[]"; got != want {
		t.Errorf("kinds of an account that only claims a wallet: got %s, want %s", got, want)
	}
	of, shared := identitiesOf(t, s, 1, whole), identitiesOf(t, s, 1, payee)
	if got, want := kinds(of), "[2 3]"; got != want {
		t.Fatalf("kinds of an account with a proven wallet: got %s, want %s", got, want)
	}
	if !slices.Equal(shared, of[1:]) {
		t.Errorf("two accounts with one payout address: got %v, want %v", shared, of[1:])
	}
	if one := identitiesOf(t, s, 2, payee); one[0] == shared[0] {
		t.Errorf("under another pepper: got the same %v, want another", one[0])
	}
}
