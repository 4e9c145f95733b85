package console

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestAFileGetsPlainAlignedLines(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	c := New(&out, func() time.Time { return now })
	done := c.Step("database")
	c.Note("making a new cluster")
	now = now.Add(1234 * time.Millisecond)
	done("PostgreSQL 15")
	c.Ready([]Row{{"Base URL", "http://x/v1"}, {"Key", "sk"}}, "  curl x")
	got := out.String()
	if strings.ContainsAny(got, "\033\r") {
		t.Errorf("control characters in a file:\n%q", got)
	}
	for _, want := range []string{"PostgreSQL 15 (1.23s)", "  Base URL  http://x/v1\n  Key       sk\n", "Ready in 1.2s",
		"  curl x\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
