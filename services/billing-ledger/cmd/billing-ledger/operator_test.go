package main

import (
	"bytes"
	"strings"
	"testing"

	"svc.internal/pkg/pgtest"
	billingledger "svc.internal/services/billing-ledger"
)

func TestWhoeverHasTheDatabaseInvitesAnOperator(t *testing.T) {
	url := pgtest.URL(t)
	if err := billingledger.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	try := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := runOperator(t.Context(), streams{&out, &errs, false}, []string{"DATABASE_URL=" + url}, args)
		return code, out.String() + errs.String()
	}
	code, text := try("-by", "carol", "invite", "alice", "admin")
	if code != exitSound {
		t.Errorf("inviting: got %d and %q, want %d", code, text, exitSound)
	}
	if !strings.HasPrefix(text, "alice\tadmin\topi_") {
		t.Errorf("inviting: got %q, want the name, the role and an invitation", text)
	}
	for name, args := range map[string][]string{
		"the same name": {"invite", "alice", "viewer"}, "no such role": {"invite", "bob", "king"},
		"no role": {"invite", "bob"}, "no such word": {"end", "alice", "admin"},
	} {
		if code, text := try(args...); code != exitUnknown {
			t.Errorf("%s: got %d and %q, want %d", name, code, text, exitUnknown)
		}
	}
}
