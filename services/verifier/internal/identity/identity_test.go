package identity_test

import (
	"slices"
	"testing"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/identity"
)

func of(kind identity.Kind, n byte) identity.Identity { return identity.Identity{byte(kind), n} }

func TestOnlyIdentitiesOfKnownKindAndLengthAreRead(t *testing.T) {
	whole := of(identity.Payout, 7)
	for name, c := range map[string]struct {
		bytes []byte
		want  bool
	}{
		"whole": {whole[:], true}, "short": {whole[:16], false}, "long": {append(whole[:], 1), false},
		"empty": {nil, false}, "kind 0": {make([]byte, identity.Size), false},
		"kind 5": {append([]byte{5}, whole[1:]...), false},
	} {
		if _, got := identity.Parse(c.bytes); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestASetIsSortedAndBounded(t *testing.T) {
	all := []identity.Identity{of(3, 1), of(1, 2), of(3, 1), of(2, 9)}
	if got, want := identity.Set(all, 8), []identity.Identity{of(1, 2), of(2, 9), of(3, 1)}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := len(identity.Set(all, 2)), 2; got != want {
		t.Errorf("with a limit: got %d, want %d", got, want)
	}
}

func TestAccountsThatShareAnIdentityHaveOneOwner(t *testing.T) {
	accounts := []ids.ProviderID{{1}, {2}, {3}, {4}, {5}}
	known := [][]identity.Identity{
		{of(identity.Wallet, 1)}, {of(identity.Payout, 1), of(identity.User, 2)},
		// It joins the first two.
		{of(identity.Payout, 1), of(identity.Wallet, 1)},
		// A key that two nodes show proves nothing.
		{of(identity.ReceiptKey, 4)}, {of(identity.ReceiptKey, 4)},
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {2, 0, 4, 1, 3, 2}} {
		var o identity.Owners
		for _, i := range order {
			o.Add(accounts[i], known[i]...)
		}
		if got, want := o.Len(), 3; got != want {
			t.Errorf("owners in the order %v: got %d, want %d", order, got, want)
		}
		for i, want := range []ids.ProviderID{{1}, {1}, {1}, {4}, {5}} {
			if got := o.Of(accounts[i]); got != want {
				t.Errorf("owner of account %d in the order %v: got %v, want %v", i+1, order, got, want)
			}
		}
	}
	var o identity.Owners
	if got := o.Of(accounts[1]); got != accounts[1] {
		t.Errorf("of an account that nobody added: got %v, want itself", got)
	}
}
