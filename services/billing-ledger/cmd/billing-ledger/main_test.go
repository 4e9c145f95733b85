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
		code := runVerify(t.Context(), streams{&out, &errs, false}, url, args)
		return code, out.String(), errs.String()
	}
	if code, _, errs := try(url); code != exitUnknown || errs == "" {
		t.Errorf("without a schema: exit %d, %q", code, errs)
	}
	if err := billingledger.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := try(url); code != exitSound || !strings.HasSuffix(out, "drift: 0\n") {
		t.Errorf("sound: exit %d, %q %q", code, out, errs)
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
	if code, out, _ := try(url); code != exitDrift || !strings.Contains(out, "DRIFT wallet.posted") ||
		!strings.Contains(out, "drift: 1") {
		t.Errorf("drift: exit %d, %q", code, out)
	}
	code, out, _ := try(url, "--json")
	var report struct{ Drift int64 }
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitDrift || report.Drift != 1 {
		t.Errorf("drift as JSON: exit %d, %v, %q", code, err, out)
	}

	for _, args := range [][]string{{"now"}, {"--xml"}} {
		if code, _, errs := try(url, args...); code != exitUnknown || !strings.Contains(errs, "usage") {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
	if code, _, errs := try(""); code != exitUnknown || !strings.Contains(errs, "DATABASE_URL") {
		t.Errorf("without a URL: exit %d, %q", code, errs)
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
		code := run(t.Context(), streams{&out, &errs, true}, url, args)
		return code, out.String(), errs.String()
	}
	if code, out, errs := try(runSeal, "-after", "0s"); code != exitSound ||
		strings.Count(out, "0 requests, 0 entries, 0 postings") != 2 {
		t.Errorf("seal: exit %d, %q %q", code, out, errs)
	}
	if code, out, _ := try(runSeal, "-after", "0s"); code != exitSound || out != "" {
		t.Errorf("seal again: exit %d, %q", code, out)
	}
	file := filepath.Join(t.TempDir(), "export.jsonl")
	if code, _, errs := try(runExport, "-out", file); code != exitSound || !strings.Contains(errs, "export: ") {
		t.Errorf("export: exit %d, %q", code, errs)
	}
	written, err := os.ReadFile(file)
	if err != nil || !strings.HasSuffix(string(written), "}\n") || !strings.Contains(string(written), `{"end":true,`) {
		t.Errorf("export wrote %q, %v", written, err)
	}
	if code, out, _ := try(runExport); code != exitSound || strings.Count(out, "\n") != strings.Count(string(written),
		"\n") {
		t.Errorf("export to the standard output: exit %d, %d lines", code, strings.Count(out, "\n"))
	}
	for name, args := range map[string][]string{"seal": {"-after", "x"}, "export": {"more"}} {
		if code, _, errs := try(tools()[name], args...); code != exitUnknown || !strings.Contains(errs, "usage") {
			t.Errorf("%s %v: exit %d, %q", name, args, code, errs)
		}
	}
	if code, _, errs := try(runExport, "-out", filepath.Join(file, "no", "folder")); code != exitUnknown || errs == "" {
		t.Errorf("export to nowhere: exit %d, %q", code, errs)
	}
}
