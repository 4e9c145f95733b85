package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The README's table is what operators read, so it has each rule once and no other.
func TestTheReadmeHasTheRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[target]string{
		toToken: "a listed token", toCollateral: "the collateral", toTreasury: "the treasury", toAnyone: "anybody",
	}
	for _, r := range rules {
		function := "coins"
		if r.function != "" {
			function = "`" + string(r.function) + "`"
		}
		row := fmt.Sprintf("\n| `%s` | %s | %s |", r.key, targets[r.target], function)
		if got := strings.Count(string(text), row); got != 1 {
			t.Errorf("rows %q: got %d, want 1", strings.TrimSpace(row), got)
		}
	}
	if got := strings.Count(string(text), "\n| `"); got != len(rules) {
		t.Errorf("rows of the table: got %d, want %d", got, len(rules))
	}
}
