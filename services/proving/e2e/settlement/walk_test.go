package settlement_test

import (
	"context"
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"svc.internal/pkg/money"
	"svc.internal/services/proving/internal/trial"
)

// walk runs the commands of the README by which a developer funds an account, spends and is refunded, from the
// account's first moment until nothing has drifted. The README's demo is this town.
func (c *town) walk(t *testing.T) {
	t.Helper()
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Logf("the README's commands are left out: %v", err)
			return
		}
	}
	script := strings.ReplaceAll(commandsOf(t, "walk"), ".run/", c.dir+"/")
	// The demo's model has no provider here.
	script = strings.Replace(script, "set +a\n", "set +a; SVC_MODEL="+dear+"\n", 1)
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	run := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	run.Dir = repository
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("the README's commands: %v\n%s", err, out)
	}
	for _, want := range []string{`"fee_usd_str":"0.91"`, "x-svc-billing-type: plan", "x-svc-billing-type: payg",
		`"freeze_causes":[]`, `"receipts":[{"number":"R-`, "drift: 0"} {
		if !strings.Contains(strings.ToLower(string(out)), strings.ToLower(want)) {
			t.Errorf("the README's commands: got\n%s\nwant %q in it", out, want)
		}
	}
	walkedLedger(t, filepath.Join(c.dir, "ledger.csv"))
}

// commandsOf returns the block of commands between two marks of the README.
func commandsOf(t *testing.T, mark string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- "+mark+" -->\n```sh\n")
	if !found {
		t.Fatalf("the README has no commands behind the mark %s", mark)
	}
	block, _, closed := strings.Cut(rest, "```\n<!-- /"+mark+" -->")
	if !closed {
		t.Fatalf("the README's commands behind the mark %s have no end", mark)
	}
	return block
}

// walkedLedger fails the test unless a CSV has what the walk did, each line with the balance after it.
func walkedLedger(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatalf("the ledger's CSV: %v:\n%s", err, text)
	}
	kind, amount, balance := slices.Index(rows[0], "kind"), slices.Index(rows[0], "amount_usd"),
		slices.Index(rows[0], "balance_usd")
	var kinds []string
	var sum money.NanoUSD
	for _, row := range rows[1:] {
		moved, err := money.ParseUSD(strings.TrimPrefix(row[amount], "-"))
		if err != nil {
			t.Fatalf("the amount %q: %v", row[amount], err)
		}
		if strings.HasPrefix(row[amount], "-") {
			moved = -moved
		}
		sum += moved
		if row[balance] != sum.String() {
			t.Errorf("balance after %v: got %s, want %s", row, row[balance], sum)
		}
		kinds = append(kinds, row[kind])
	}
	slices.Sort(kinds[1:4])
	want := []string{"card_topup", "deposit_native", "deposit_usdc", "deposit_usdc", "usage", "card_reversed",
		"goodwill_refund"}
	if !slices.Equal(kinds, want) {
		t.Errorf("lines: got %q, want %q", kinds, want)
	}
	if want := 31 * money.USD; sum != want {
		t.Errorf("in the end: got %s, want %s: what was charged is back, and $5 are on the card", sum, want)
	}
}
