package attack

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"svc.internal/services/proving/internal/trial"
)

func TestMain(m *testing.M) {
	defer func() { report.print(os.Stdout) }()
	trial.AtOnce(4)
	trial.Main(m)
}

// report is the result of all attacks of the test binary.
var report table

type line struct {
	form, hole, name, verdict string
	outcome                   Outcome
}

type table struct {
	mu    sync.Mutex
	lines []line
}

func (r *table) add(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, l)
}

// take returns the results of attacks on one form, and forgets them.
func (r *table) take(form string) []line {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken []line
	r.lines = slices.DeleteFunc(r.lines, func(l line) bool {
		if l.form != form {
			return false
		}
		taken = append(taken, l)
		return true
	})
	return taken
}

// print writes the rest of the table.
func (r *table) print(w io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) > 0 {
		fmt.Fprint(w, render(r.lines))
	}
}

// render aligns the lines of a table, in the order of the holes.
func render(lines []line) string {
	slices.SortStableFunc(lines, func(a, b line) int {
		return strings.Compare(order(a.hole)+a.name,
			order(b.hole)+b.name)
	})
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nhole\tattack\ton\tgot\tpaid\tharm to others\tverdict")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.hole, l.name, l.form, l.outcome.Got, l.outcome.Paid, l.outcome.Harm,
			l.verdict)
	}
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return text.String()
}

// order sorts F2 before F10, and puts problems met in use last.
func order(hole string) string {
	if len(hole) == 2 {
		return hole[:1] + "0" + hole[1:]
	}
	return hole
}
