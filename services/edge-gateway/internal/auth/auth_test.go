package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// ledger answers look-ups and counts them.
type ledger struct {
	billingv1.KeyServiceClient
	mu     sync.Mutex
	asked  int
	answer func(digest []byte) (*billingv1.AuthenticateKeyResponse, error)
}

func (l *ledger) AuthenticateKey(
	_ context.Context, req *billingv1.AuthenticateKeyRequest, _ ...grpc.CallOption,
) (*billingv1.AuthenticateKeyResponse, error) {
	l.mu.Lock()
	l.asked++
	answer := l.answer
	l.mu.Unlock()
	return answer(req.GetKeySha256())
}

type bundle struct {
	*Authenticator
	ledger *ledger
	clock  *clock.Manual
	key    http.Header
}

func setup(t *testing.T) bundle {
	t.Helper()
	l := &ledger{answer: func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return &billingv1.AuthenticateKeyResponse{KeyId: "k", AccountId: "a", AllowedModelIds: []string{"m"}}, nil
	}}
	c := clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	cfg := Config{Known: 4, Refused: 4, KnownFor: time.Minute, RefusedFor: 5 * time.Second, Timeout: time.Second,
		WrongKeys: 1000, WrongKeyNetworks: 8, Tokens: 4, MaxOptionalLookups: 4, OptionalLookupPause: time.Second}
	return bundle{New(l, c, cfg), l, c, header(t)}
}

func header(t *testing.T) http.Header {
	t.Helper()
	key, err := apikey.Generate(apikey.Consumer, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{"Authorization": {"Bearer " + key}}
}

func (b bundle) want(t *testing.T, asked int, reason fault.Reason) {
	t.Helper()
	who, err := b.Authenticate(t.Context(), b.key, netip.Addr{})
	switch {
	case reason == "" && err != nil:
		t.Errorf(`got the error %v, want none, where reason == ""`, err)
	case reason == "" && who.KeyID != "k":
		t.Errorf(`who.KeyID: got %q, want "k", where reason == ""`, who.KeyID)
	case reason == "" && who.AccountID != "a":
		t.Errorf(`who.AccountID: got %q, want "a", where reason == ""`, who.AccountID)
	case reason == "" && !who.MayUse("m"):
		t.Errorf(`who.MayUse("m"): got false, want true, where reason == "", with %+v`, who)
	case reason == "" && who.MayUse("x"):
		t.Errorf(`who.MayUse("x"): got true, want false, where reason == "", with %+v`, who)
	case reason != "" && !fault.Is(err, reason):
		t.Errorf(`got the error %v, want the reason %v, where reason != ""`, err, reason)
	}
	if b.ledger.asked != asked {
		t.Errorf("billing-ledger was asked: got %d times, want %d", b.ledger.asked, asked)
	}
}

func refusal(reason fault.Reason) func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
	return func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return nil, fault.New(fault.Unauthenticated, reason, "secret words")
	}
}

func TestAKeyIsRememberedForAMinute(t *testing.T) {
	b := setup(t)
	b.want(t, 1, "")
	b.clock.Advance(59 * time.Second)
	b.want(t, 1, "")
	b.clock.Advance(time.Second)
	b.want(t, 2, "")
}

// What no admission follows is asked for again after a second, so that a revoked
// key is refused although the notice of it was lost.
func TestAKeyIsAskedForAfreshWhereNoAdmissionFollows(t *testing.T) {
	b := setup(t)
	b.want(t, 1, "")
	afresh := func(asked int, reason fault.Reason) {
		t.Helper()
		if _, err := b.AuthenticateAfresh(t.Context(), b.key, netip.Addr{}); reason == "" && err != nil || reason != "" &&
			!fault.Is(err, reason) {
			t.Errorf("got %v, want %q", err, reason)
		}
		if b.ledger.asked != asked {
			t.Errorf("billing-ledger was asked: got %d times, want %d", b.ledger.asked, asked)
		}
	}
	b.clock.Advance(freshFor - time.Millisecond)
	afresh(1, "")
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return nil, fault.New(fault.Unauthenticated, fault.KeyRevoked, "revoked")
	}
	b.clock.Advance(time.Millisecond)
	afresh(2, fault.KeyRevoked)
	b.want(t, 2, fault.KeyRevoked)
}

func TestARefusalIsRememberedForFiveSeconds(t *testing.T) {
	for _, reason := range []fault.Reason{fault.InvalidAPIKey, fault.KeyRevoked, fault.KeyExpired} {
		b := setup(t)
		b.ledger.answer = refusal(reason)
		b.want(t, 1, reason)
		b.want(t, 1, reason)
		b.clock.Advance(5 * time.Second)
		b.ledger.answer = setup(t).ledger.answer
		b.want(t, 2, "")
	}
}

func TestAnOutageIsNotRemembered(t *testing.T) {
	b := setup(t)
	working := b.ledger.answer
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return nil, fault.New(fault.Unavailable, fault.ServiceUnavailable, "down")
	}
	b.want(t, 1, fault.ServiceUnavailable)
	b.ledger.answer = working
	b.want(t, 2, "")
}

func TestAKeyExpiresWhileItIsRemembered(t *testing.T) {
	b := setup(t)
	end := b.clock.Now().Add(10 * time.Second)
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		return &billingv1.AuthenticateKeyResponse{KeyId: "k", AccountId: "a", AllowedModelIds: []string{"m"},
			ExpiresAt: timestamppb.New(end)}, nil
	}
	b.want(t, 1, "")
	b.clock.Advance(10 * time.Second)
	b.want(t, 1, fault.KeyExpired)
}

func TestAChangeIsHeardOverNATS(t *testing.T) {
	b := setup(t)
	conn := bustest.New(t)
	stop, err := b.Listen(conn, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	b.want(t, 1, "")
	b.ledger.answer = refusal(fault.KeyRevoked)
	before := b.cache.generation()
	for _, data := range [][]byte{[]byte("\xffnonsense"), changed(t, "another"), changed(t, "k")} {
		if err := conn.Publish(t.Context(), bus.SubjectKeyChanged, data, nil); err != nil {
			t.Fatal(err)
		}
	}
	for b.cache.generation() < before+2 {
		if err := conn.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.want(t, 2, fault.KeyRevoked)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func changed(t *testing.T, keyID string) []byte {
	t.Helper()
	data, err := proto.Marshal(&eventsv1.KeyChanged{KeyId: keyID})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A look-up that was under way when its key changed may have read the old
// state, and must not be remembered.
func TestAnAnswerFromBeforeAChangeIsNotRemembered(t *testing.T) {
	for name, answer := range map[string]func([]byte) (*billingv1.AuthenticateKeyResponse, error){
		"known": setup(t).ledger.answer, "refused": refusal(fault.InvalidAPIKey),
	} {
		b := setup(t)
		b.ledger.answer = func(d []byte) (*billingv1.AuthenticateKeyResponse, error) {
			b.Forget("k")
			return answer(d)
		}
		_, first := b.Authenticate(t.Context(), b.key, netip.Addr{})
		_, second := b.Authenticate(t.Context(), b.key, netip.Addr{})
		if b.ledger.asked != 2 {
			t.Errorf("%s: asked: got %d, want 2", name, b.ledger.asked)
		} else if (first == nil) != (second == nil) {
			t.Errorf("%s: second == nil: got %t, want %t", name, second == nil, first == nil)
		}
	}
}

func TestTheCacheIsBoundedOnBothSides(t *testing.T) {
	b := setup(t)
	n := 0
	b.ledger.answer = func([]byte) (*billingv1.AuthenticateKeyResponse, error) {
		n++
		return &billingv1.AuthenticateKeyResponse{KeyId: strconv.Itoa(n), AccountId: "a"}, nil
	}
	all := make([]http.Header, 10)
	for i := range all {
		all[i] = header(t)
		if _, err := b.Authenticate(t.Context(), all[i], netip.Addr{}); err != nil {
			t.Fatal(err)
		}
	}
	b.ledger.answer = refusal(fault.InvalidAPIKey)
	for range 10 {
		if _, err := b.Authenticate(t.Context(), header(t), netip.Addr{}); err == nil {
			t.Fatal("no refusal")
		}
	}
	c := b.cache
	if got, want := [3]int{c.known.Len(), c.refused.Len(), len(c.byKey)}, [3]int{4, 4, 4}; got != want {
		t.Errorf("got %d known, refused and by key, want %d", got, want)
	}
	// The last four are still known, whatever was refused since.
	asked := b.ledger.asked
	for _, h := range all[6:] {
		if _, err := b.Authenticate(t.Context(), h, netip.Addr{}); err != nil {
			t.Error(err)
		}
	}
	if b.ledger.asked != asked {
		t.Errorf("look-ups after refusals: got %d, want %d", b.ledger.asked, asked)
	}
	for _, e := range c.known.Values() {
		b.Forget(e.who.KeyID)
	}
	for _, d := range c.known.Keys() {
		if _, found := c.get(d, b.clock.Now(), 0); found {
			t.Error("what was forgotten is believed")
		}
	}
	if got, want := [2]int{c.known.Len(), len(c.byKey)}, [2]int{4, 4}; got != want {
		t.Errorf("got %d known and by key after all were forgotten, want %d", got, want)
	}
}

func TestAKeyThatTurnsBadIsForgottenAsKnown(t *testing.T) {
	b := setup(t)
	b.want(t, 1, "")
	b.clock.Advance(time.Minute)
	b.ledger.answer = refusal(fault.KeyRevoked)
	b.want(t, 2, fault.KeyRevoked)
	if b.cache.known.Len()+len(b.cache.byKey) != 0 {
		t.Errorf("what is known of it: got %d, want 0", b.cache.known.Len()+len(b.cache.byKey))
	}
}

func FuzzCredential(f *testing.F) {
	f.Add("Bearer sk-svc-x", "")
	f.Add("bearer", "k")
	f.Add("", "  k ")
	f.Add("Basic x", "k")
	f.Fuzz(func(t *testing.T, authorization, apiKey string) {
		h := http.Header{}
		if authorization != "" {
			h.Set("Authorization", authorization)
		}
		if apiKey != "" {
			h.Set("X-Api-Key", apiKey)
		}
		key, err := Credential(h)
		var refused *fault.Fault
		switch {
		case err == nil && key == "":
			t.Error(`key: got "", want some text`)
		case err == nil && len(key) > maxKeyBytes:
			t.Errorf("len(key): got %d, want at most %d, in %q", len(key), maxKeyBytes, key)
		case err != nil && !errors.As(err, &refused):
			t.Errorf("got the error %v, want a %T", err, refused)
		}
		if refused != nil && refused.Kind != fault.Unauthenticated {
			t.Errorf("kind %v", refused.Kind)
		}
	})
}

// Two texts of a rotated key work at a time, and what ends the key ends both.
func TestAChangeOfAKeyForgetsBothOfItsTexts(t *testing.T) {
	b := setup(t)
	second := bundle{b.Authenticator, b.ledger, b.clock, header(t)}
	b.want(t, 1, "")
	second.want(t, 2, "")
	b.want(t, 2, "")
	b.Forget("k")
	b.ledger.answer = refusal(fault.KeyRevoked)
	b.want(t, 3, fault.KeyRevoked)
	second.want(t, 4, fault.KeyRevoked)
	if len(b.cache.byKey) != 0 {
		t.Errorf("texts that are remembered: got %d keys, want 0", len(b.cache.byKey))
	}
}
