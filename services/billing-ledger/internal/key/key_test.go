package key

import (
	"bytes"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/ids"
)

func TestAnAccountTagIsTheAccountsAloneAndHidesIt(t *testing.T) {
	a, b := ids.AccountID{1}, ids.AccountID{2}
	one, replica := &Keys{Peppers: apikey.Only(apikey.Pepper{1})}, &Keys{Peppers: apikey.Only(apikey.Pepper{1})}
	other := &Keys{Peppers: apikey.Only(apikey.Pepper{2})}
	tag := one.AccountTag(a)
	if len(tag) != 8 || !bytes.Equal(tag, replica.AccountTag(a)) {
		t.Errorf("got %x and %x, want the same 8 bytes from every replica", tag, replica.AccountTag(a))
	}
	if bytes.Equal(tag, one.AccountTag(b)) {
		t.Error("got one tag for two accounts, want two")
	}
	if bytes.Equal(tag, other.AccountTag(a)) {
		t.Error("got a tag that does not depend on the pepper, want one that nobody can make from the account's id")
	}
}
