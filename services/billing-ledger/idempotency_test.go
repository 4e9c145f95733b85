package billingledger_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/idempotency"
)

func newRequestID(t *testing.T) string {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func TestAnAnswerOfTheLargestSizeIsKeptAndGivenBack(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "")
	token, content := sha256.Sum256([]byte("token")), sha256.Sum256([]byte("content"))
	claim := func(request string) *billingv1.ClaimKeyResponse {
		t.Helper()
		resp, err := f.claims.ClaimKey(t.Context(), &billingv1.ClaimKeyRequest{
			KeyId: c.key, TokenSha256: token[:], RequestSha256: content[:], RequestId: request,
		})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first, second := newRequestID(t), newRequestID(t)
	if got := claim(first); got.GetState() != billingv1.KeyClaim_KEY_CLAIM_GRANTED {
		t.Fatalf("the first: got.GetState(): got %v, want %v", got.GetState(), billingv1.KeyClaim_KEY_CLAIM_GRANTED)
	} else if got.GetRequestId() != first {
		t.Fatalf("the first: got.GetRequestId(): got %q, want %q", got.GetRequestId(), first)
	}
	if got := claim(second); got.GetState() != billingv1.KeyClaim_KEY_CLAIM_RUNNING {
		t.Fatalf("the second: got.GetState(): got %v, want %v", got.GetState(), billingv1.KeyClaim_KEY_CLAIM_RUNNING)
	} else if got.GetRequestId() != first {
		t.Fatalf("the second: got.GetRequestId(): got %q, want %q", got.GetRequestId(), first)
	}
	sealed := make([]byte, idempotency.MaxSealed)
	if _, err := rand.Read(sealed); err != nil {
		t.Fatal(err)
	}
	end := &billingv1.FinishKeyRequest{KeyId: c.key, TokenSha256: token[:], RequestId: first,
		End:    billingv1.KeyEnd_KEY_END_ANSWERED,
		Answer: &billingv1.KeptAnswer{Sealed: append(sealed, 0)}}
	if _, err := f.claims.FinishKey(t.Context(), end); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("one byte too many: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	end.Answer.Sealed = sealed
	for range 2 {
		if _, err := f.claims.FinishKey(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	if got := claim(second); got.GetState() != billingv1.KeyClaim_KEY_CLAIM_ANSWERED {
		t.Errorf("the second: got %v, want %v", got.GetState(), billingv1.KeyClaim_KEY_CLAIM_ANSWERED)
	} else if !bytes.Equal(got.GetAnswer().GetSealed(), sealed) {
		t.Errorf("got.GetAnswer().GetSealed(): got %q, want %q", got.GetAnswer().GetSealed(), sealed)
	}
}

func TestMalformedClaimsAreRefusedByName(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "")
	sum := sha256.Sum256(nil)
	sound := func() *billingv1.ClaimKeyRequest {
		return &billingv1.ClaimKeyRequest{KeyId: c.key, TokenSha256: sum[:], RequestSha256: sum[:],
			RequestId: newRequestID(t)}
	}
	for param, spoil := range map[string]func(*billingv1.ClaimKeyRequest){
		"key_id":         func(r *billingv1.ClaimKeyRequest) { r.KeyId = "x" },
		"token_sha256":   func(r *billingv1.ClaimKeyRequest) { r.TokenSha256 = sum[:31] },
		"request_sha256": func(r *billingv1.ClaimKeyRequest) { r.RequestSha256 = append(sum[:], 0) },
		"request_id":     func(r *billingv1.ClaimKeyRequest) { r.RequestId = "" },
	} {
		req := sound()
		spoil(req)
		_, err := f.claims.ClaimKey(t.Context(), req)
		switch got, ok := fault.As(err); {
		case !ok:
			t.Errorf("%s: got the error %v, want a fault", param, err)
		case got.Kind != fault.Invalid:
			t.Errorf("%s: Kind: got %d, want %d", param, got.Kind, fault.Invalid)
		case got.Param != param:
			t.Errorf("%s: Param: got %q, want %q", param, got.Param, param)
		}
		if param == "request_sha256" {
			continue
		}
		_, err = f.claims.FinishKey(t.Context(), &billingv1.FinishKeyRequest{
			KeyId: req.GetKeyId(), TokenSha256: req.GetTokenSha256(), RequestId: req.GetRequestId(),
			End: billingv1.KeyEnd_KEY_END_NOT_KEPT,
		})
		switch got, ok := fault.As(err); {
		case !ok:
			t.Errorf("%s: got the error %v, want a fault", param, err)
		case got.Kind != fault.Invalid:
			t.Errorf("%s: Kind: got %d, want %d", param, got.Kind, fault.Invalid)
		case got.Param != param:
			t.Errorf("%s: Param: got %q, want %q", param, got.Param, param)
		}
	}
	r := sound()
	if _, err := f.claims.FinishKey(t.Context(), &billingv1.FinishKeyRequest{
		KeyId: r.GetKeyId(), TokenSha256: r.GetTokenSha256(), RequestId: r.GetRequestId(),
	}); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("an end that is not known: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
}

// All that a key asks for waits for its one row, and nobody else for it.
func TestAFloodOfOneKeyStandsInNobodysWay(t *testing.T) {
	f := start(t)
	flooded, another := f.consumer(t, ""), f.consumer(t, "")
	sum := sha256.Sum256(nil)
	ask := func(ctx context.Context, c consumer, n byte) (*billingv1.ClaimKeyResponse, error) {
		token := sha256.Sum256([]byte{n})
		return f.claims.ClaimKey(ctx, &billingv1.ClaimKeyRequest{
			KeyId: c.key, TokenSha256: token[:], RequestSha256: sum[:], RequestId: newRequestID(t),
		})
	}
	if _, err := ask(t.Context(), flooded, 0); err != nil {
		t.Fatal(err)
	}
	owner := pgtest.Owner(t, f.db)
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM idempotency_quota FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	const flood = 30
	answers := make(chan error, flood)
	for n := range byte(flood) {
		go func() {
			_, err := ask(t.Context(), flooded, n+1)
			answers <- err
		}()
	}
	locked := func() (n int) {
		if err := owner.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(
			&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	until(t, func() bool { return locked() >= 2 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, err := ask(ctx, another, 1)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if first.GetState() != billingv1.KeyClaim_KEY_CLAIM_GRANTED {
		t.Fatalf("another key: first.GetState(): got %v, want %v", first.GetState(), billingv1.KeyClaim_KEY_CLAIM_GRANTED)
	}
	token := sha256.Sum256([]byte{1})
	if _, err := f.claims.FinishKey(ctx, &billingv1.FinishKeyRequest{
		KeyId: another.key, TokenSha256: token[:], RequestId: first.GetRequestId(), End: billingv1.KeyEnd_KEY_END_NOT_KEPT,
	}); err != nil {
		t.Errorf("another key's claim cannot be ended: %v", err)
	}
	if n := locked(); n != 2 {
		t.Errorf("got %d calls of one key in flight, want 2", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range flood {
		if err := wait(t, answers); err != nil {
			t.Errorf("of the flood one is answered %v", err)
		}
	}
}
