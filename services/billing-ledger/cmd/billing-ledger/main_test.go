package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/pgtest"
	billingledger "svc.internal/services/billing-ledger"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestExitCodeTellsSoundFromDriftFromUnknown(t *testing.T) {
	url := pgtest.URL(t)
	try := func(url string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := runVerify(t.Context(), streams{&out, &errs, false}, []string{"DATABASE_URL=" + url}, args)
		return code, out.String(), errs.String()
	}
	if code, _, errs := try(url); code != exitUnknown {
		t.Errorf("without a schema: exit: got %d, want %d", code, exitUnknown)
	} else if errs == "" {
		t.Error(`without a schema: errs: got "", want some text`)
	}
	if err := billingledger.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := try(url); code != exitSound {
		t.Errorf("sound: exit %d, %q %q: code: got %d, want %d", code, out, errs, code, exitSound)
	} else if !strings.HasSuffix(out, "drift: 0\n") {
		t.Errorf("sound: exit %d, %q %q: out: got %q, want the suffix %q", code, out, errs, out, "drift: 0\n")
	}

	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for _, sql := range []string{
		`INSERT INTO billing.account (id, name) VALUES ('018f0000-0000-7000-8000-000000000001', 'x')`,
		`INSERT INTO billing.wallet (account_id, posted) VALUES ('018f0000-0000-7000-8000-000000000001', 5)`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	switch code, out, _ := try(url); {
	case code != exitDrift:
		t.Errorf("drift: exit: got %d, want %d", code, exitDrift)
	case !strings.Contains(out, "DRIFT wallet.posted"):
		t.Errorf(`drift: out: got %q, want "DRIFT wallet.posted" in it`, out)
	case !strings.Contains(out, "drift: 1"):
		t.Errorf(`drift: out: got %q, want "drift: 1" in it`, out)
	}
	code, out, _ := try(url, "--json")
	var report struct{ Drift int64 }
	switch err := json.Unmarshal([]byte(out), &report); {
	case err != nil:
		t.Errorf("drift as JSON: got the error %v, want none", err)
	case code != exitDrift:
		t.Errorf("drift as JSON: exit: got %d, want %d, with %q", code, exitDrift, out)
	case report.Drift != 1:
		t.Errorf("drift as JSON: report.Drift: got %d, want 1, with %q", report.Drift, out)
	}

	for _, args := range [][]string{{"now"}, {"--xml"}} {
		if code, _, errs := try(url, args...); code != exitUnknown {
			t.Errorf("%v: exit: got %d, want %d", args, code, exitUnknown)
		} else if !strings.Contains(errs, "usage") {
			t.Errorf(`%v: errs: got %q, want "usage" in it`, args, errs)
		}
	}
	if code, _, errs := try(""); code != exitUnknown {
		t.Errorf("without a URL: exit: got %d, want %d", code, exitUnknown)
	} else if !strings.Contains(errs, "DATABASE_URL") {
		t.Errorf(`without a URL: errs: got %q, want "DATABASE_URL" in it`, errs)
	}
}

func TestSealAndExportExitCodes(t *testing.T) {
	url := pgtest.URL(t)
	if err := billingledger.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `INSERT INTO billing.account (id, name, created_at)
		VALUES ('018f0000-0000-7000-8000-000000000001', 'x', now() - interval '2 days')`); err != nil {
		t.Fatal(err)
	}
	try := func(run tool, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := run(t.Context(), streams{&out, &errs, true}, []string{"DATABASE_URL=" + url}, args)
		return code, out.String(), errs.String()
	}
	if code, out, errs := try(runSeal, "-after", "0s"); code != exitSound {
		t.Errorf("seal: exit %d, %q %q: code: got %d, want %d", code, out, errs, code, exitSound)
	} else if strings.Count(out, "0 requests, 0 entries, 0 postings") != 2 {
		t.Errorf("seal: exit %d, %q %q: strings.Count(…): got %d, want 2", code, out, errs,
			strings.Count(out, "0 requests, 0 entries, 0 postings"))
	}
	if code, out, _ := try(runSeal, "-after", "0s"); code != exitSound {
		t.Errorf("seal again: exit: got %d, want %d", code, exitSound)
	} else if out != "" {
		t.Errorf(`seal again: out: got %q, want ""`, out)
	}
	file := filepath.Join(t.TempDir(), "export.jsonl")
	if code, _, errs := try(runExport, "-out", file); code != exitSound {
		t.Errorf("export: exit: got %d, want %d", code, exitSound)
	} else if !strings.Contains(errs, "export: ") {
		t.Errorf(`export: errs: got %q, want "export: " in it`, errs)
	}
	written, err := os.ReadFile(file)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case !strings.HasSuffix(string(written), "}\n"):
		t.Errorf("export wrote: written: got %q, want the suffix %q", string(written), "}\n")
	case !strings.Contains(string(written), `{"end":true,`):
		t.Errorf("export wrote: written: got %q, want %q in it", string(written), `{"end":true,`)
	}
	if code, out, _ := try(runExport); code != exitSound {
		t.Errorf("export to the standard output: exit: got %d, want %d", code, exitSound)
	} else if strings.Count(out, "\n") != strings.Count(string(written), "\n") {
		t.Errorf("export to the standard output: strings.Count(…): got %d, want %d", strings.Count(out, "\n"),
			strings.Count(string(written), "\n"))
	}
	for name, args := range map[string][]string{"seal": {"-after", "x"}, "export": {"more"}} {
		if code, _, errs := try(tools()[name], args...); code != exitUnknown {
			t.Errorf("%s %v: exit: got %d, want %d", name, args, code, exitUnknown)
		} else if !strings.Contains(errs, "usage") {
			t.Errorf(`%s %v: errs: got %q, want "usage" in it`, name, args, errs)
		}
	}
	if code, _, errs := try(runExport, "-out", filepath.Join(file, "no", "folder")); code != exitUnknown {
		t.Errorf("export to nowhere: exit: got %d, want %d", code, exitUnknown)
	} else if errs == "" {
		t.Error(`export to nowhere: errs: got "", want some text`)
	}
}
