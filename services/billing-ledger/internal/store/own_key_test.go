package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
)

// own makes a key as its owner does.
func (e *env) own(t testing.TB, account ids.AccountID, s key.Settings) (key.Owned, consumer) {
	t.Helper()
	k, text, err := e.ownKeys.Make(t.Context(), account, s)
	if err != nil {
		t.Fatal(err)
	}
	return k, consumer{account: account, key: k.ID, digest: apikey.Sum(text)}
}

// wantKey wants the digest to be of the key, or to be refused for the reason.
func (e *env) wantKey(t testing.TB, digest apikey.Digest, want ids.KeyID, reason fault.Reason) {
	t.Helper()
	k, err := e.keys.Authenticate(t.Context(), digest)
	switch {
	case reason == "" && err != nil:
		t.Errorf("got the error %v, want none", err)
	case reason == "" && k.ID != want:
		t.Errorf("key: got %s, want %s", k.ID, want)
	case reason != "" && !fault.Is(err, reason):
		t.Errorf("got the error %v, want %s", err, reason)
	}
}

func TestAKeyOfAnotherAccountDoesNotExist(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	ann, bob := e.consumer(t, 0), e.consumer(t, 0)
	for name, call := range map[string]func(ids.KeyID) error{
		"get": func(id ids.KeyID) error {
			_, err := e.ownKeys.Get(t.Context(), bob.account, id)
			return err
		},
		"change": func(id ids.KeyID) error {
			_, err := e.ownKeys.Change(t.Context(), bob.account, id, key.Settings{Name: "mine"})
			return err
		},
		"rotate": func(id ids.KeyID) error {
			_, _, err := e.ownKeys.Rotate(t.Context(), bob.account, id, time.Time{})
			return err
		},
		"revoke": func(id ids.KeyID) error {
			_, err := e.ownKeys.RevokeOwn(t.Context(), bob.account, id)
			return err
		},
	} {
		for whose, id := range map[string]ids.KeyID{"another's": ann.key, "nobody's": {1}} {
			if err := call(id); !fault.Is(err, fault.KeyNotFound) {
				t.Errorf("%s %s: got the error %v, want %s", name, whose, err, fault.KeyNotFound)
			}
		}
	}
	e.wantKey(t, ann.digest, ann.key, "")
	page, _, err := e.ownKeys.List(t.Context(), bob.account, "", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range page {
		if k.ID != bob.key {
			t.Errorf("listed: got the key %s, want %s alone", k.ID, bob.key)
		}
	}
	page, _, err = e.ownKeys.List(t.Context(), bob.account, ann.key.String(), true, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(page) > 1 {
		t.Errorf("behind another's key: got %d keys, want one at most", len(page))
	}
}

func TestKeysAreListedInPagesTheNewestFirst(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	account := e.consumer(t, 0).account
	for i := range 6 {
		e.own(t, account, key.Settings{Name: fmt.Sprint(i)})
	}
	page, _, err := e.ownKeys.List(t.Context(), account, "", false, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.ownKeys.RevokeOwn(t.Context(), account, page[2].ID); err != nil {
		t.Fatal(err)
	}
	for revoked, want := range map[bool]string{false: "5 4 2 1 0 ", true: "5 4 3 2 1 0 "} {
		var names []string
		cursor, pages := "", 0
		for done := false; !done; done = cursor == "" {
			part, next, err := e.ownKeys.List(t.Context(), account, cursor, revoked, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(part) > 2 {
				t.Errorf("page: got %d keys, want 2 at most", len(part))
			}
			for _, k := range part {
				names = append(names, k.Name)
			}
			cursor, pages = next, pages+1
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("revoked %t: got %q, want %q", revoked, got, want)
		}
		if pages < 3 {
			t.Errorf("revoked %t: got %d pages, want 3 at least", revoked, pages)
		}
	}
	for size, cursor := range map[int]string{-1: "", key.MaxPage + 1: "", 1: "%"} {
		if _, _, err := e.ownKeys.List(t.Context(), account, cursor, false, size); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("size %d, cursor %q: got the error %v, want %s", size, cursor, err, fault.InvalidValue)
		}
	}
}

func TestBothTextsOfAKeyWorkUntilTheOverlapIsOver(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	clock := newDatabaseClock(t, e)
	st := e.replicas(t, 1, map[string]string{"search_path": clock.searchPath})[0]
	e.keys.Store, e.ownKeys.Store = st, st
	now := time.Now()
	clock.set(t, now)
	made, first := e.own(t, e.consumer(t, 0).account, key.Settings{Name: "robot"})
	until := now.Add(key.MaxOverlap - time.Minute)
	rotated, text, err := e.ownKeys.Rotate(t.Context(), first.account, first.key, until)
	if err != nil {
		t.Fatal(err)
	}
	second := apikey.Sum(text)
	switch {
	case rotated.ID != first.key:
		t.Errorf("id: got %s, want %s", rotated.ID, first.key)
	case rotated.OldPrefix != made.Prefix:
		t.Errorf("old prefix: got %q, want %q", rotated.OldPrefix, made.Prefix)
	case rotated.Prefix == made.Prefix:
		t.Errorf("prefix: got %q, want another", rotated.Prefix)
	}
	e.wantKey(t, first.digest, first.key, "")
	e.wantKey(t, second, first.key, "")
	if k, err := e.keys.Authenticate(t.Context(), first.digest); err != nil {
		t.Error(err)
	} else if k.ExpiresAt.Sub(until).Abs() > time.Microsecond {
		t.Errorf("the old text expires: got %s, want %s", k.ExpiresAt, until)
	}
	// Whoever has the old text cannot get a third one to work beside both.
	refused := func(what string, c consumer, at time.Time, want fault.Reason) {
		t.Helper()
		if _, _, err := e.ownKeys.Rotate(t.Context(), c.account, c.key, at); !fault.Is(err, want) {
			t.Errorf("%s: got the error %v, want %s", what, err, want)
		}
	}
	refused("during the overlap", first, until, fault.TransitionNotAllowed)
	clock.set(t, until.Add(time.Second))
	e.wantKey(t, first.digest, first.key, fault.KeyExpired)
	e.wantKey(t, second, first.key, "")
	// Without overlap every old text ends at once.
	clock.set(t, now)
	_, text, err = e.ownKeys.Rotate(t.Context(), first.account, first.key, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	e.wantKey(t, first.digest, first.key, fault.InvalidAPIKey)
	e.wantKey(t, second, first.key, fault.KeyExpired)
	e.wantKey(t, apikey.Sum(text), first.key, "")
	if _, err := e.ownKeys.RevokeOwn(t.Context(), first.account, first.key); err != nil {
		t.Fatal(err)
	}
	e.wantKey(t, apikey.Sum(text), first.key, fault.KeyRevoked)
	e.wantKey(t, second, first.key, fault.KeyRevoked)
	refused("a revoked key", first, time.Time{}, fault.TransitionNotAllowed)
	refused("an overlap that is over", first, now.Add(-time.Second), fault.InvalidValue)
	refused("an overlap of more than a week", first, now.Add(key.MaxOverlap+time.Hour), fault.InvalidValue)
}

func TestAnExpiredKeySaysSoAndComesBackWithAnotherEnd(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	_, c := e.own(t, e.consumer(t, 10*cent).account, key.Settings{ExpiresAt: time.Now().Add(time.Hour)})
	e.exec(t, `UPDATE consumer_key SET expires_at = now() - interval '1 second' WHERE id = $1`, [16]byte(c.key))
	e.wantKey(t, c.digest, c.key, fault.KeyExpired)
	e.admitOne(t, e.reservation(t, c, 1), hold.KeyExpired)
	_, _, err := e.ownKeys.Rotate(t.Context(), c.account, c.key, time.Time{})
	if !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("an expired key is rotated: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	if _, err := e.ownKeys.Change(t.Context(), c.account, c.key, key.Settings{Name: "again"}); err != nil {
		t.Fatal(err)
	}
	e.wantKey(t, c.digest, c.key, "")
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted)
}

// A key that is not allowed a model is refused by admission, whatever a gateway remembers.
func TestModelsOfAKeyAreThoseThatItsOwnerNames(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	_, c := e.own(t, e.consumer(t, 10*cent).account, key.Settings{Models: []string{"acme/large", "acme/free"}})
	e.admitOne(t, e.reservation(t, c, 1), hold.Admitted)
	if _, err := e.ownKeys.Change(t.Context(), c.account, c.key, key.Settings{Models: []string{"acme/free"}}); err != nil {
		t.Fatal(err)
	}
	e.admitOne(t, e.reservation(t, c, 1), hold.ModelNotAllowed)
	for name, models := range map[string][]string{
		"unknown": {"acme/none"}, "other case": {"ACME/large"}, "empty": {""}, "pattern": {"acme/%"},
		"too many": strings.Split(strings.Repeat("acme/large ", 101), " ")[:101],
	} {
		_, _, err := e.ownKeys.Make(t.Context(), c.account, key.Settings{Models: models})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.InvalidValue)
		}
	}
}

func TestKeysThatAreMadeAndEndedAreBounded(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	account := e.consumer(t, 0).account
	e.keys.MaxKeys = 3
	for range 3 {
		k, _ := e.own(t, account, key.Settings{})
		if _, err := e.ownKeys.RevokeOwn(t.Context(), account, k.ID); err != nil {
			t.Fatal(err)
		}
	}
	again := func() error {
		_, _, err := e.ownKeys.Make(t.Context(), account, key.Settings{})
		return err
	}
	if err := again(); !fault.Is(err, fault.TooManyKeys) {
		t.Errorf("after as many that ended today: got the error %v, want %s", err, fault.TooManyKeys)
	}
	e.exec(t, `UPDATE consumer_key SET revoked_at = revoked_at - interval '1 day' WHERE state = 'revoked'`)
	for range 2 {
		if err := again(); err != nil {
			t.Fatal(err)
		}
	}
	if err := again(); !fault.Is(err, fault.TooManyKeys) {
		t.Errorf("beside as many: got the error %v, want %s", err, fault.TooManyKeys)
	}
}

func TestLastUseIsWrittenOnceAMinute(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.consumer(t, 10*cent)
	used := func() time.Time {
		t.Helper()
		k, err := e.ownKeys.Get(t.Context(), c.account, c.key)
		if err != nil {
			t.Fatal(err)
		}
		return k.UsedAt
	}
	end := func() time.Time {
		t.Helper()
		reservation := e.reservation(t, c, 1)
		e.admitOne(t, reservation, hold.Admitted)
		e.conclude(t, servedWord(reservation.Request, 1))
		return used()
	}
	if at := used(); !at.IsZero() {
		t.Errorf("of a new key: got %s, want never", at)
	}
	first := end()
	if again := end(); !again.Equal(first) || first.IsZero() {
		t.Errorf("within a minute: got %s, want %s", again, first)
	}
	e.exec(t, `UPDATE key_inflight SET used_at = used_at - interval '61 seconds'`)
	if later := end(); !later.After(first) {
		t.Errorf("after a minute: got %s, want later than %s", later, first)
	}
}

func TestAnAccountWithoutAWalletMakesNoKey(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	_, err := e.store.MakeKey(t.Context(), key.Key{Account: ids.AccountID{9}}, 9)
	if !errors.Is(err, key.ErrAccountNotFound) {
		t.Errorf("got the error %v, want %v", err, key.ErrAccountNotFound)
	}
}
