package main

import (
	"bytes"
	"strings"
	"testing"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/pgtest"
	billingledger "svc.internal/services/billing-ledger"
)

func TestPeppersAreListedAndGivenUp(t *testing.T) {
	url := pgtest.URL(t)
	if err := billingledger.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	try := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := runPeppers(t.Context(), streams{&out, &errs, false}, []string{"DATABASE_URL=" + url}, args); got != want {
			t.Errorf("%v: exit: got %d, want %d: %s", args, got, want, errs.String())
		}
		return out.String() + errs.String()
	}
	db := pgtest.Open(t, url, billingledger.Schema, billingledger.Role)
	older, newer := apikey.Pepper{1}, apikey.Pepper{2}
	for _, step := range [][2]apikey.Pepper{{older}, {newer, older}} {
		if _, err := billingledger.Peppers.Enrol(t.Context(), db, step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(try(exitSound), "0 hashes"); got != 2 {
		t.Errorf("peppers in the list: got %d, want 2", got)
	}
	try(exitSound, "-give-up", "1")
	if text := try(exitSound); !strings.Contains(text, "given up") {
		t.Errorf("the list: got %q, want a pepper that is given up", text)
	}
	for _, args := range [][]string{{"-give-up", "1"}, {"-give-up", "2"}, {"-give-up", "-1"}, {"-give-up", "1001"},
		{"more"}} {
		try(exitUnknown, args...)
	}
}
