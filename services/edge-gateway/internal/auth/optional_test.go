package auth

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

var somewhere = netip.MustParseAddr("203.0.113.5")

func TestAsideFindsAKeysOwnerAndRemembersIt(t *testing.T) {
	b := setup(t)
	for range 3 {
		if who := b.OptionalPrincipal(t.Context(), b.key, somewhere); who == nil {
			t.Error("who: got nil, want a value")
		} else if who.KeyID != "k" {
			t.Errorf(`who.KeyID: got %q, want "k"`, who.KeyID)
		}
	}
	b.want(t, 1, "")
	b.ledger.answer = refusal(fault.InvalidAPIKey)
	for range 3 {
		if who := b.OptionalPrincipal(t.Context(), b.key, somewhere); who == nil {
			t.Error("a key that is remembered is nobody's")
		}
	}
	b.clock.Advance(time.Minute)
	for range 3 {
		if who := b.OptionalPrincipal(t.Context(), b.key, somewhere); who != nil {
			t.Errorf("a key of nobody: got %+v, want nil", who)
		}
	}
	b.want(t, 2, fault.InvalidAPIKey)
}

// What nobody depends on must shut nobody out, and is no way around the bound either.
func TestAsideCountsNoGuessesAndIsBoundedByItsOwn(t *testing.T) {
	b := guessing(t)
	before := b.ledger.asked
	for range 50 {
		b.OptionalPrincipal(t.Context(), header(t), somewhere)
	}
	if asked := b.ledger.asked - before; asked != 5 {
		t.Errorf("keys looked up in a minute: got %d, want 5", asked)
	}
	b.guess(t, somewhere.String(), fault.InvalidAPIKey)
	if who := b.OptionalPrincipal(t.Context(), b.key, somewhere); who == nil {
		t.Error("a known key is nobody's")
	}
}

// hanging is a ledger that answers when its caller has given up.
type hanging struct {
	billingv1.KeyServiceClient
	asked int
}

func (h *hanging) AuthenticateKey(
	ctx context.Context, _ *billingv1.AuthenticateKeyRequest, _ ...grpc.CallOption,
) (*billingv1.AuthenticateKeyResponse, error) {
	h.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAsideDoesNotFloodALedgerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{}
		const patience, pause, most = 250 * time.Millisecond, time.Second, 4
		a := New(h, clock.System, Config{
			Known: 4, Refused: 4, Timeout: time.Minute, WrongKeys: 1000, WrongKeyNetworks: 4, MaxOptionalLookups: most,
			OptionalLookupPause: pause,
		})
		ask := func(n int, one bool) (took time.Duration) {
			key := header(t)
			began := time.Now()
			for range n {
				mine := key
				if !one {
					mine = header(t)
				}
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if a.OptionalPrincipal(ctx, mine, somewhere) != nil {
						t.Error("somebody's")
					}
				}()
				synctest.Wait()
			}
			time.Sleep(patience) //nolint:forbidigo // the bubble's time
			synctest.Wait()
			return time.Since(began)
		}
		if took := ask(100, true); h.asked != 1 {
			t.Errorf("one key was looked up: got %d, want 1", h.asked)
		} else if took != patience {
			t.Errorf("took: got %v, want %v", took, patience)
		}
		if ask(100, false); h.asked != 1 {
			t.Errorf("right after a failure %d were looked up: got %d, want 1", h.asked-1, h.asked)
		}
		time.Sleep(pause) //nolint:forbidigo // the bubble's time
		if ask(100, false); h.asked != 1+most {
			t.Errorf("looked up at a time: got %d, want %d", h.asked, 1+most)
		}
		if len(a.optional.under) != 0 {
			t.Errorf("under way for ever: got %d, want 0", len(a.optional.under))
		}
	})
}
