package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pgtest"
	billingledger "svc.internal/services/billing-ledger"
)

func TestAnAlarmIsListedUntilSomebodyClosesIt(t *testing.T) {
	url := pgtest.URL(t)
	if err := billingledger.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	try := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := runAlarms(t.Context(), streams{&out, &errs, false}, []string{"DATABASE_URL=" + url}, args)
		return code, out.String() + errs.String()
	}
	if code, text := try(); fmt.Sprint(code, text) != fmt.Sprint(exitSound, "") {
		t.Errorf("without alarms: got %d and %q, want %d and nothing", code, text, exitSound)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `INSERT INTO billing.card_alarm (reason, object, detail)
		VALUES ('foreign', 'cs_1', 'of nobody')`); err != nil {
		t.Fatal(err)
	}
	if code, text := try(); fmt.Sprint(code, text) != fmt.Sprint(exitDrift, "foreign\tcs_1\tof nobody\n") {
		t.Errorf("with one: got %d and %q, want %d and the alarm", code, text, exitDrift)
	}
	for _, args := range [][]string{{"-close", "foreign"}, {"-by", "alice"}, {"more"}} {
		code, text := try(args...)
		if code != exitUnknown {
			t.Errorf("%v: exit: got %d, want %d", args, code, exitUnknown)
		}
		if !strings.Contains(text, "usage") {
			t.Errorf("%v: got %q, want the usage", args, text)
		}
	}
	closing := []string{"-close", "foreign", "-object", "cs_1", "-by", "alice"}
	if code, text := try(closing...); code != exitSound {
		t.Errorf("closing it: got %d and %q, want %d", code, text, exitSound)
	}
	if code, _ := try(closing...); code != exitUnknown {
		t.Errorf("closing it again: got %d, want %d", code, exitUnknown)
	}
	if code, text := try(); code != exitSound {
		t.Errorf("at the end: got %d and %q, want %d", code, text, exitSound)
	}
}
