package rpc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func (d *desk) keys(m member) []*hubv1.ProviderKey {
	d.Helper()
	got, err := d.self.ListKeys(d.Context(), &hubv1.ListKeysRequest{ProviderId: m.id})
	d.must(err)
	return got.GetKeys()
}

func (d *desk) revoke(m member, key string) error {
	_, err := d.self.RevokeKey(d.Context(), &hubv1.RevokeKeyRequest{ProviderId: m.id, KeyId: key})
	return err
}

func (d *desk) issue(m member, name string) *hubv1.IssueKeyResponse {
	d.Helper()
	d.clock.Advance(time.Second)
	got, err := d.self.IssueKey(d.Context(), &hubv1.IssueKeyRequest{ProviderId: m.id, Name: name})
	d.must(err)
	return got
}

func TestAProviderSeesItsOwnKeysOnlyAndNeverTheirText(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m, other := d.signUp(), d.signUp()
	second := d.issue(m, "second")
	d.must(d.revoke(m, second.GetKeyId()))
	third := d.issue(m, "third")
	d.clock.Advance(time.Second)
	rotated, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, Name: "fourth",
		OverlapSeconds: 60})
	d.must(err)
	var got []string
	for _, k := range d.keys(m) {
		got = append(got, fmt.Sprintf("%s %v %v %v", k.GetName(), k.GetActive(), k.GetExpiresAt() != nil,
			k.GetRevokedAt() != nil))
		switch {
		case !strings.HasPrefix(k.GetKeyPrefix(), "sk-prov-"):
			t.Errorf(`shown: k.GetKeyPrefix(): got %q, want the prefix "sk-prov-"`, k.GetKeyPrefix())
		case strings.Contains(k.String(), m.key):
			t.Errorf("shown: k: got %q, want it without %q", k.String(), m.key)
		case k.GetCreatedAt() == nil:
			t.Error("shown: k.GetCreatedAt(): got nil, want a value")
		}
	}
	if want := []string{"fourth true false false", "third true false false", "first true true false",
		"second false false true"}; !slices.Equal(got, want) {
		t.Errorf("keys: got %q, want %q", got, want)
	}
	for _, id := range []string{third.GetKeyId(), rotated.GetKeyId()} {
		if err := d.revoke(other, id); !fault.Is(err, fault.KeyNotFound) {
			t.Errorf("another's key: got the error %v, want the reason %v", err, fault.KeyNotFound)
		}
	}
	for _, k := range d.keys(other) {
		if k.GetKeyId() == third.GetKeyId() {
			t.Errorf("the other sees: k.GetKeyId(): got %q, want any but %q", k.GetKeyId(), third.GetKeyId())
		} else if got := len(d.keys(other)); got != 1 {
			t.Errorf("the other sees: len(d.keys(other)): got %d, want 1", got)
		}
	}
	d.clock.Advance(time.Minute)
	if k := d.keys(m)[2]; k.GetActive() {
		t.Errorf("behind its overlap: %v", k)
	}
	for _, bad := range []string{"", "x", m.id} {
		if err := d.revoke(m, bad); !fault.Is(err, fault.KeyNotFound) {
			t.Errorf("key %q: got the error %v, want the reason %v", bad, err, fault.KeyNotFound)
		}
	}
	for _, bad := range []string{"", "x", third.GetKeyId()} {
		if _, err := d.self.ListKeys(t.Context(), &hubv1.ListKeysRequest{ProviderId: bad}); !fault.Is(err,
			fault.ProviderNotFound) {
			t.Errorf("provider %q: got the error %v, want the reason %v", bad, err, fault.ProviderNotFound)
		}
	}
}

func TestAKeyKnowsWhenItWasLastUsed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	use := func(what string, want time.Time) {
		t.Helper()
		_, err := d.self.GetOwnStatus(t.Context(), &hubv1.GetOwnStatusRequest{KeyDigest: m.digest})
		d.must(err)
		if got := d.keys(m)[0].GetLastUsedAt().AsTime(); !got.Equal(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	if got := d.keys(m)[0].GetLastUsedAt(); got != nil {
		t.Errorf("a fresh key: got %v, want nothing", got)
	}
	_, err := d.accounts.Authenticate(t.Context(), m.key)
	d.must(err)
	first := d.clock.Now().Truncate(time.Microsecond)
	use("at once", first)
	d.clock.Advance(9 * time.Minute)
	use("within ten minutes", first)
	d.clock.Advance(time.Minute)
	use("after ten minutes", d.clock.Now().Truncate(time.Microsecond))
}

func TestAnOperatorSeesTheKeysOfAProviderAndNeverTheirText(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	d.must(d.revoke(m, d.issue(m, "second").GetKeyId()))
	got, err := d.admin.ListProviderKeys(t.Context(), &hubv1.ListProviderKeysRequest{ProviderId: m.id})
	d.must(err)
	want := d.keys(m)
	if len(got.GetKeys()) != len(want) {
		t.Fatalf("got %d keys, want %d", len(got.GetKeys()), len(want))
	}
	for i, k := range got.GetKeys() {
		if !proto.Equal(k, want[i]) {
			t.Errorf("key %d: got %v, want %v", i, k, want[i])
		}
		if strings.Contains(k.String(), m.key) {
			t.Errorf("key %d: got %v, want it without the key", i, k)
		}
	}
	for _, bad := range []string{"", "x", got.GetKeys()[0].GetKeyId()} {
		_, err := d.admin.ListProviderKeys(t.Context(), &hubv1.ListProviderKeysRequest{ProviderId: bad})
		if !fault.Is(err, fault.ProviderNotFound) {
			t.Errorf("provider %q: got the error %v, want the reason %v", bad, err, fault.ProviderNotFound)
		}
	}
}

// A provider that revokes every key would shut its machines out.
func TestTheLastKeyThatLastsStays(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	first := d.keys(m)[0].GetKeyId()
	if err := d.revoke(m, first); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Fatalf("the only key: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	} else if !strings.Contains(err.Error(), "make another one") {
		t.Fatalf(`the only key: got the error %q, want "make another one" in it`, err)
	}
	// One that ends by itself does not stand in for it.
	rotated, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, OverlapSeconds: 3600})
	d.must(err)
	if err := d.revoke(m, rotated.GetKeyId()); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("the last but for one that ends: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	for range 2 { // a second time changes nothing
		d.must(d.revoke(m, first))
	}
	if _, err := d.accounts.Authenticate(t.Context(), m.key); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("a revoked key: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	d.issue(m, "spare")
	d.must(d.revoke(m, rotated.GetKeyId()))
	// A wallet that is proven connects without a key.
	spare := d.keys(m)[0].GetKeyId()
	if _, err := d.pool.Exec(t.Context(),
		`UPDATE provider SET owner_address = '0x52908400098527886E0F7030069857D2E4169EE7' WHERE provider_id = $1`,
		m.id); err != nil {
		t.Fatal(err)
	}
	if err := d.revoke(m, spare); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("a wallet that is only claimed: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
	if _, err := d.pool.Exec(t.Context(), `UPDATE provider SET owner_proven_at = now() WHERE provider_id = $1`,
		m.id); err != nil {
		t.Fatal(err)
	}
	d.must(d.revoke(m, spare))
}

// Of two keys that are revoked at once, one stays: the second revocation waits for
// the first.
func TestRevocationsAtOnceLeaveOneKey(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	first := d.keys(m)[0].GetKeyId()
	second := d.issue(m, "second").GetKeyId()
	other, err := d.pool.Begin(t.Context())
	d.must(err)
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = other.Exec(t.Context(), `SELECT FROM provider WHERE provider_id = $1 FOR UPDATE`, m.id)
	d.must(err)
	_, err = other.Exec(t.Context(), `UPDATE provider_key SET revoked_at = now() WHERE key_id = $1`, first)
	d.must(err)
	watcher := pgtest.Owner(t, d.pool) // the role does not see who waits
	done := make(chan error, 1)
	go func() { done <- d.revoke(m, second) }()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for waits := false; !waits; {
		select {
		case err := <-done:
			t.Fatalf("the second did not wait: %v", err)
		case <-again.C:
			d.must(watcher.QueryRow(t.Context(), `
				SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(
				&waits))
		}
	}
	d.must(other.Commit(t.Context()))
	if err := <-done; !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("the last key: got the error %v, want the reason %v", err, fault.TransitionNotAllowed)
	}
}

func TestAListOfKeysIsBounded(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	if _, err := d.pool.Exec(t.Context(), `
		INSERT INTO provider_key (key_id, provider_id, name, key_hash, key_prefix, created_at, revoked_at)
		SELECT gen_random_uuid(), $1, n::text, decode(lpad(to_hex(n), 64, '0'), 'hex'), 'sk-prov-0123',
			now() + n * interval '1 s', now()
		FROM generate_series(1, 500) n`, m.id); err != nil {
		t.Fatal(err)
	}
	list := d.keys(m)
	switch {
	case len(list) != 200:
		t.Errorf("%d keys, first %v, then %v: len(list): got %d, want 200", len(list), list[0], list[1], len(list))
	case !list[0].GetActive():
		t.Errorf("%d keys, first %v, then %v: list[0].GetActive(): got false, want true", len(list), list[0], list[1])
	case list[1].GetName() != "500":
		t.Errorf(`%d keys, first %v, then %v: list[1].GetName(): got %q, want "500"`, len(list), list[0], list[1],
			list[1].GetName())
	}
}
