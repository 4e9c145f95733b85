package playground

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/edge-gateway/internal/quota"
)

// visits notes what is asked and answers so.
type visits struct {
	billingv1.VisitorServiceClient
	asked []*billingv1.TakeVisitRequest
	err   error
	old   bool // it does not say who pays
}

func (v *visits) TakeVisit(
	_ context.Context, req *billingv1.TakeVisitRequest, _ ...grpc.CallOption,
) (*billingv1.TakeVisitResponse, error) {
	v.asked = append(v.asked, req)
	if v.old {
		return &billingv1.TakeVisitResponse{Remaining: 3, ResetMs: 1500}, nil
	}
	return &billingv1.TakeVisitResponse{Remaining: 3, ResetMs: 1500, KeyId: "key", AccountId: "account"}, v.err
}

// inSession has the cookie of a session.
func inSession() http.Header {
	return http.Header{"Cookie": {cookie(make([]byte, secretBytes), time.Hour).String()}}
}

func config() Config {
	return Config{Models: []string{"a/b"}, Secret: "a secret of gateways", PerHour: 5,
		Lists: quota.Rate{Calls: 2, Span: time.Minute}, Networks: 10, CallTimeout: time.Second}
}

func TestAVisitIsCountedByNetworkUnderTheSecret(t *testing.T) {
	v := &visits{}
	hash := func(addr, secret string) []byte {
		cfg := config()
		cfg.Secret = secret
		client, _ := netip.ParseAddr(addr)
		payer, left, err := New(v, rand.Reader, clock.System, cfg).Visit(t.Context(), client, inSession())
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if left != (Left{5, 3, 1500 * time.Millisecond}) {
			t.Fatalf("left: got %+v, want %+v", left, Left{5, 3, 1500 * time.Millisecond})
		}
		if payer.KeyID != "key" {
			t.Fatalf(`payer.KeyID: got %q, want "key"`, payer.KeyID)
		}
		last := v.asked[len(v.asked)-1]
		switch {
		case len(last.GetAddress()) != 32:
			t.Fatalf("asked: len(last.GetAddress()): got %d, want 32, in %v", len(last.GetAddress()), last)
		case last.GetLimit() != 5:
			t.Fatalf("asked: last.GetLimit(): got %d, want 5", last.GetLimit())
		case last.GetWindowMs() != 3_600_000:
			t.Fatalf("asked: last.GetWindowMs(): got %d, want 3_600_000", last.GetWindowMs())
		}
		return last.GetAddress()
	}
	const secret = "one secret"
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"203.0.113.9", "203.0.113.9", true},
		{"203.0.113.9", "203.0.113.10", false},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"", "", true},
		{"", "0.0.0.0", false},
	} {
		if got := bytes.Equal(hash(tc.a, secret), hash(tc.b, secret)); got != tc.same {
			t.Errorf("%q and %q are counted together: got %t, want %t", tc.a, tc.b, got, tc.same)
		}
	}
	if bytes.Equal(hash("203.0.113.9", secret), hash("203.0.113.9", "another secret")) {
		t.Error("the secret does not count")
	}
}

// One holder of IPv6 has many networks, which are counted together, too.
func TestAVisitIsCountedForTheWiderNetworkOfIPv6(t *testing.T) {
	v := &visits{}
	wider := func(addr string) []byte {
		client, _ := netip.ParseAddr(addr)
		if _, _, err := New(v, rand.Reader, clock.System, config()).Visit(t.Context(), client, inSession()); err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		return v.asked[len(v.asked)-1].GetWiderAddress()
	}
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"2001:db8:1:1::1", "2001:db8:1:ffff::1", true},
		{"2001:db8:1::1", "2001:db8:2::1", false},
	} {
		if got := bytes.Equal(wider(tc.a), wider(tc.b)); got != tc.same {
			t.Errorf("%q and %q are of one wider network: got %t, want %t", tc.a, tc.b, got, tc.same)
		}
	}
	if n := len(wider("2001:db8::1")); n != 32 {
		t.Errorf("the wider network of 2001:db8::1: got %d bytes, want 32", n)
	}
	for _, addr := range []string{"203.0.113.9", "::ffff:203.0.113.9", ""} {
		if got := wider(addr); got != nil {
			t.Errorf("the wider network of %q: got %x, want none", addr, got)
		}
	}
}

func TestAWiderNetworkWithoutVisitsIsToldSo(t *testing.T) {
	v := &visits{err: fault.New(fault.Exhausted, fault.RateLimitExceeded, "x").After(7*time.Hour).
		With(widerName, "true")}
	_, _, err := New(v, rand.Reader, clock.System, config()).Visit(t.Context(), netip.Addr{}, inSession())
	f, _ := fault.As(err)
	switch {
	case f == nil:
		t.Error("f: got no error, want one")
	case !strings.Contains(f.Message, "networks around"):
		t.Errorf(`f.Message: got %q, want "networks around" in it`, f.Message)
	case f.RetryAfter != 7*time.Hour:
		t.Errorf("f.RetryAfter: got %v, want %v", f.RetryAfter, 7*time.Hour)
	}
}

func TestAVisitThatIsNotGivenSaysWhy(t *testing.T) {
	v := &visits{err: fault.New(fault.Exhausted, fault.RateLimitExceeded, "x").After(7 * time.Minute)}
	_, left, err := New(v, rand.Reader, clock.System, config()).Visit(t.Context(), netip.Addr{}, inSession())
	f, _ := fault.As(err)
	switch {
	case f == nil:
		t.Error("f: got no error, want one")
	case f.Reason != fault.RateLimitExceeded:
		t.Errorf("f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	case f.RetryAfter != 7*time.Minute:
		t.Errorf("f.RetryAfter: got %v, want %v", f.RetryAfter, 7*time.Minute)
	case left != (Left{5, 0, 7 * time.Minute}):
		t.Errorf("left: got %+v, want %+v", left, Left{5, 0, 7 * time.Minute})
	}
	for _, away := range []error{
		fault.New(fault.Unavailable, fault.ServiceUnavailable, "x"), fault.New(fault.Timeout, fault.DeadlineExceeded, "x"),
	} {
		v.err = away
		_, _, err := New(v, rand.Reader, clock.System, config()).Visit(t.Context(), netip.Addr{}, inSession())
		if f, _ := fault.As(err); f == nil {
			t.Errorf("%v: f: got no error, want one", away)
		} else if f.Kind != fault.Unavailable {
			t.Errorf("%v: f.Kind: got %d, want %d", away, f.Kind, fault.Unavailable)
		}
	}
}

func TestAVisitWithoutAPayerIsRefusedAsClosed(t *testing.T) {
	_, _, err := New(&visits{old: true}, rand.Reader, clock.System, config()).
		Visit(t.Context(), netip.Addr{}, inSession())
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("beside a ledger that names no payer: got the error %v, want a fault", err)
	}
	if f.Kind != fault.Unavailable {
		t.Errorf("beside a ledger that names no payer: got the kind %d, want %d", f.Kind, fault.Unavailable)
	}
}
