package store

import (
	"crypto/rand"
	"slices"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/provider"
)

// fleet is the start of a hub with these peppers.
func fleet(t *testing.T, s *Store, current, previous apikey.Pepper) *provider.Directory {
	t.Helper()
	secrets, err := s.Secrets(t.Context(), current, previous)
	if err != nil {
		t.Fatal(err)
	}
	return provider.NewDirectory(s, secrets, site, clock.System, rand.Reader)
}

// hashesOf counts the hashes of each pepper.
func hashesOf(t *testing.T, s *Store) (counts []int64) {
	t.Helper()
	known, err := Peppers.List(t.Context(), s.pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range known {
		counts = append(counts, k.Hashes)
	}
	return counts
}

func TestHubsChangeThePepperUnderUseWithoutARefusal(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	older, newer := apikey.Pepper{1}, apikey.Pepper{2}
	before := fleet(t, s, older, apikey.Pepper{})
	farm := create(t, before, "Farm")
	texts := make([]string, 0, 4)
	issue := func(by *provider.Directory) {
		_, text, err := by.IssueKey(t.Context(), farm.ID, "key")
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	use := func(step string, hubs ...*provider.Directory) {
		for _, hub := range hubs {
			for _, text := range texts {
				if _, err := hub.Authenticate(t.Context(), text); err != nil {
					t.Errorf("%s: an agent connects: got the error %v, want none", step, err)
				}
				if _, err := hub.Holder(t.Context(), apikey.Sum(text)); err != nil {
					t.Errorf("%s: a provider calls: got the error %v, want none", step, err)
				}
			}
		}
	}
	issue(before)
	first := fleet(t, s, older, newer)
	issue(first)
	use("the new pepper is accepted", before, first)
	second := fleet(t, s, newer, older)
	issue(second)
	if got, want := hashesOf(t, s), []int64{2, 1}; !slices.Equal(got, want) {
		t.Errorf("after the swap: hashes of the peppers: got %v, want %v", got, want)
	}
	if _, err := s.Secrets(t.Context(), newer, apikey.Pepper{}); err == nil {
		t.Error("removing a pepper of which hashes are left: got no error, want one")
	}
	use("the peppers are swapped", second, first)
	if got, want := hashesOf(t, s), []int64{0, 3}; !slices.Equal(got, want) {
		t.Errorf("after each was used: hashes of the peppers: got %v, want %v", got, want)
	}
	use("the older pepper is removed", fleet(t, s, newer, apikey.Pepper{}))
}

// The row is locked, so the look-up waits for no longer than it may.
func TestAHashThatCannotBeRenewedIsCountedAndItsKeyIsGood(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	older, newer := apikey.Pepper{1}, apikey.Pepper{2}
	first := fleet(t, s, older, apikey.Pepper{})
	_, text, err := first.IssueKey(t.Context(), create(t, first, "Farm").ID, "key")
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := s.Secrets(t.Context(), newer, older)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	secrets.RenewFailed = func() { failed++ }
	hub := provider.NewDirectory(s, secrets, site, clock.System, rand.Reader)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM provider_key FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := hub.Holder(t.Context(), apikey.Sum(text)); err != nil {
		t.Errorf("a key whose row is locked: got the error %v, want none", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := hub.Holder(t.Context(), apikey.Sum(text)); err != nil {
		t.Errorf("the key after the lock: got the error %v, want none", err)
	}
	if failed != 1 {
		t.Errorf("failures: got %d, want 1", failed)
	}
	if got, want := hashesOf(t, s), []int64{0, 1}; !slices.Equal(got, want) {
		t.Errorf("after the lock: hashes of the peppers: got %v, want %v", got, want)
	}
}

// The verifier keeps identities for ever: a removed provider is known again under any pepper.
func TestIdentitiesStayWhenThePepperChanges(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	id := known(t, s, 1, "u1", anAddress, another)
	read := func(hub *provider.Directory) []provider.Identity {
		all, err := hub.Identities(t.Context(), []ids.ProviderID{id})
		if err != nil {
			t.Fatal(err)
		}
		return all[id]
	}
	one, two, three := apikey.Pepper{1}, apikey.Pepper{2}, apikey.Pepper{3}
	want := identitiesOf(t, s, 1, id)
	for step, peppers := range [][2]apikey.Pepper{{one, {}}, {one, two}, {two, one}, {two, {}}, {two, three}, {three, two},
		{three, {}}} {
		if got := read(fleet(t, s, peppers[0], peppers[1])); !slices.Equal(got, want) {
			t.Errorf("step %d: got %v, want %v", step, got, want)
		}
	}
	if _, err := s.Secrets(t.Context(), apikey.Pepper{4}, apikey.Pepper{}); err == nil {
		t.Error("a pepper that never stood beside the last one: got no error, want one")
	}
}

// A pepper that was enrolled by itself would count as in use although nothing was sealed under it.
func TestAPepperIsEnrolledWithTheSecretOfIdentitiesOrNotAtAll(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	fleet(t, s, apikey.Pepper{1}, apikey.Pepper{})
	if _, err := s.Secrets(t.Context(), apikey.Pepper{2}, apikey.Pepper{}); err == nil {
		t.Error("a pepper that never stood beside the first one: got no error, want one")
	}
	if got, want := hashesOf(t, s), []int64{0}; !slices.Equal(got, want) {
		t.Errorf("after the refusal: hashes of the peppers: got %v, want %v", got, want)
	}
}

// Another text under the same pepper would be another key.
func TestTheTextOfAProviderKeyStays(t *testing.T) {
	t.Parallel()
	s, d := setup(t)
	if _, _, err := d.IssueKey(t.Context(), create(t, d, "Farm").ID, "key"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `UPDATE provider_key SET key_hash = sha256('x')`); err == nil {
		t.Error("got no error, want one")
	}
}
