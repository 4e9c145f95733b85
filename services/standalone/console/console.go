// Package console is what a person sees while the service starts and when it runs.
// Colours appear only on a terminal, and progress overwrites itself only there.
package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Console writes for a person.
type Console struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	now      func() time.Time
	start    time.Time
}

// New returns a console on out. now gives the time for durations.
func New(out io.Writer, now func() time.Time) *Console {
	return &Console{out: out, terminal: isTerminal(out), now: now, start: now()}
}

func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Step begins a piece of work and returns the function to call when it has ended. The
// detail given then follows the name.
func (c *Console) Step(name string) (done func(detail string)) {
	began := c.now()
	if c.terminal {
		c.print("  %s  %s", c.paint("33", "…"), name)
	}
	return func(detail string) {
		if c.terminal {
			c.print("\r\033[K")
		}
		took := c.now().Sub(began).Round(10 * time.Millisecond)
		c.print("  %s  %-28s %s %s\n", c.paint("32", "✓"), name, detail, c.paint("2", "("+took.String()+")"))
	}
}

// Note shows a line of progress within a long step.
func (c *Console) Note(text string) {
	if c.terminal {
		c.print("\r\033[K  %s  %s", c.paint("33", "…"), text)
		return
	}
	c.print("     %s\n", text)
}

// Row is one line of a summary.
type Row struct{ Name, Value string }

// Ready shows the summary of a service that runs in the foreground, and commands to try.
func (c *Console) Ready(rows []Row, commands ...string) {
	c.Summary("The marketplace is running.", "Ctrl-C lets requests finish and stops.", rows, commands...)
}

// Summary shows what runs: a title, rows, commands to try and a last word.
func (c *Console) Summary(title, last string, rows []Row, commands ...string) {
	width := 0
	for _, r := range rows {
		width = max(width, len(r.Name))
	}
	var b strings.Builder
	took := c.now().Sub(c.start).Round(100 * time.Millisecond)
	fmt.Fprintf(&b, "\n  %s %s\n\n", c.paint("1;32", title), c.paint("2", "Ready in "+took.String()+"."))
	for _, r := range rows {
		fmt.Fprintf(&b, "  %s  %s\n", c.paint("1", fmt.Sprintf("%-*s", width, r.Name)), r.Value)
	}
	for _, command := range commands {
		fmt.Fprintf(&b, "\n%s\n", command)
	}
	fmt.Fprintf(&b, "\n  %s\n\n", c.paint("2", last))
	c.print("%s", b.String())
}

// Say shows one plain line, in the place of a step that is under way.
func (c *Console) Say(format string, args ...any) {
	if c.terminal {
		c.print("\r\033[K")
	}
	c.print("  "+format+"\n", args...)
}

func (c *Console) print(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, format, args...)
}

func (c *Console) paint(code, text string) string {
	if !c.terminal {
		return text
	}
	return "\033[" + code + "m" + text + "\033[0m"
}
