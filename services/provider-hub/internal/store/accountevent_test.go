package store

import (
	"encoding/json"
	"slices"
	"testing"

	"svc.internal/pkg/accountevent"
)

func TestAChangeOfStatusIsToldUntilItIsStoredAndNotWhoChangedIt(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	a := create(t, d, "Farm")
	if _, err := s.pool.Exec(t.Context(), `INSERT INTO provider_status_change
			(provider_id, from_status, to_status, changed_by, reason)
		VALUES ($1, 'pending', 'pending', 'operator:alice', ''), ($1, 'pending', 'suspended', 'operator:alice', 'late')`,
		a.ID); err != nil {
		t.Fatal(err)
	}
	list, err := s.TakeAccountEvents(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("events: got %d, want 1", len(list))
	}
	if list[0].Kind != accountevent.StatusChanged || list[0].Provider != a.ID {
		t.Errorf("event: got %s of %s, want %s of %s", list[0].Kind, list[0].Provider, accountevent.StatusChanged, a.ID)
	}
	var data map[string]string
	if err := json.Unmarshal(list[0].Data, &data); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"from": "pending", "to": "suspended", "by": "operator", "reason": "late",
		"provider_id": a.ID.String()} {
		if data[name] != want {
			t.Errorf("%s: got %q, want %q", name, data[name], want)
		}
	}
	if again, err := s.TakeAccountEvents(t.Context(), 10); err != nil || len(again) != 0 {
		t.Errorf("events at once again: got %d, %v, want 0", len(again), err)
	}
	if err := s.DropAccountEvents(t.Context(), []accountevent.ID{list[0].ID}); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM account_event`).Scan(&left); err != nil || left != 0 {
		t.Errorf("events that were noted: got %d, %v, want 0", left, err)
	}
}

// addressesTold takes what is told of the addresses of providers.
func addressesTold(t *testing.T, s *Store) (told []accountevent.KnownBy) {
	t.Helper()
	list, err := s.TakeAccountEvents(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Kind != accountevent.Addresses {
			continue
		}
		subject, data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		heard, err := accountevent.Decode(subject, data)
		if err != nil {
			t.Fatal(err)
		}
		known, err := heard.Addresses()
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, known)
	}
	return told
}

// Hostile 40: the ledger hears of every address by which a provider is known, and of no claim.
func TestTheAddressesOfAProviderAreToldWheneverTheyChange(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := known(t, s, 1, "", "", another)
	for _, step := range []struct {
		name, sql string
		want      []accountevent.KnownBy
	}{
		{"at sign-up", ``, []accountevent.KnownBy{{PayoutAddress: another}}},
		{"a claim of a wallet", `UPDATE provider SET owner_address = '` + anAddress + `'`,
			[]accountevent.KnownBy{{PayoutAddress: another}}},
		{"a wallet that has signed", `UPDATE provider SET owner_proven_at = now()`,
			[]accountevent.KnownBy{{Wallet: anAddress, PayoutAddress: another}}},
		{"the same again", `UPDATE provider SET owner_address = owner_address,
			beneficiary_address = beneficiary_address`, nil},
		{"something else", `UPDATE provider SET name = 'Other'`, nil},
	} {
		if step.sql != "" {
			s.mustExec(t, step.sql+` WHERE provider_id = $1`, id)
		}
		if got := addressesTold(t, s); !slices.Equal(got, step.want) {
			t.Errorf("%s: told: got %+v, want %+v", step.name, got, step.want)
		}
	}
	known(t, s, 2, "u1", "", "")
	if got := addressesTold(t, s); len(got) != 0 {
		t.Errorf("a provider without addresses: told: got %+v, want none", got)
	}
}
