package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/standing"
)

// Row is what was found of one piece.
type Row struct {
	ID   ID
	At   time.Time
	Kind string
	// Said are the observations of a probe, by the letters of families: "B0 U1".
	Said          string
	Before, After float64 // M
	From, To      ladder.Level
	Verdicts      []string
	// Wrong is what differs, "" if nothing does.
	Wrong string
}

// Report is what was found of all pieces.
type Report struct {
	Rows []Row
	// Found reports whether the verdict that was looked for is among them.
	Found bool
	// Whole reports whether the pieces begin where M was 0, so that all evidence for the
	// verdict is there.
	Whole bool
	// Wrong counts rows with a difference.
	Wrong int
}

// OK reports whether the verdict was found and nothing differs.
func (r Report) OK() bool { return r.Found && r.Wrong == 0 }

// Checker checks the pieces of one offer in their order. The zero value looks for no
// verdict.
type Checker struct {
	// Verdict is what is looked for.
	Verdict probe.VerdictID

	report Report
	last   []byte // the state after the last piece
	link   Hash   // behind the last piece
	offer  probe.Offer
}

// Add checks the next piece.
func (c *Checker) Add(s Sealed) {
	row := Row{ID: s.ID}
	p, err := s.open()
	if err != nil {
		row.Wrong = err.Error()
		c.last = nil
	} else {
		c.check(p, &row)
		c.last = p.After
	}
	if row.Wrong == "" && len(c.report.Rows) > 0 && s.Previous != c.link {
		row.Wrong = "the link before is not the one behind the last piece"
	}
	c.link = s.Link
	if row.Wrong != "" {
		c.report.Wrong++
	}
	c.report.Rows = append(c.report.Rows, row)
}

// Report returns what was found so far.
func (c *Checker) Report() Report { return c.report }

// check computes a piece again.
func (c *Checker) check(p Piece, row *Row) {
	row.At, row.Kind = p.At, p.Event.Name()
	var before, after standing.State
	if err := before.UnmarshalBinary(p.Before); err != nil {
		row.Wrong = fmt.Sprintf("the state before: %v", err)
		return
	}
	row.Before, row.From = before.Process.M(), before.Level
	if len(c.report.Rows) == 0 {
		c.offer, c.report.Whole = p.World.Offer, row.Before == 0
	}
	after, outcome, err := before.Apply(p.Event, p.At, p.World)
	if err != nil {
		row.Wrong = fmt.Sprintf("computed again: %v", err)
		return
	}
	row.After, row.To, row.Said = after.Process.M(), after.Level, said(outcome)
	for _, v := range outcome.Verdicts {
		row.Verdicts = append(row.Verdicts, v.Trigger)
		c.report.Found = c.report.Found || v.ID == c.Verdict
	}
	row.Wrong = c.differs(p, after, outcome)
}

// differs says what of a piece is not what was computed again, "" if nothing.
func (c *Checker) differs(p Piece, after standing.State, o standing.Outcome) string {
	bits, err := after.MarshalBinary()
	switch {
	case err != nil:
		return fmt.Sprintf("computed again: %v", err)
	case p.World.Offer != c.offer:
		return "another offer"
	case len(c.report.Rows) > 0 && !bytes.Equal(c.last, p.Before):
		return "the state before is not the one after the last piece"
	case !bytes.Equal(bits, p.After):
		return "the state after"
	case !same(outcomeOf(o), p.Outcome):
		return "the outcome"
	}
	return ""
}

// same reports whether two outcomes are the same in evidence.
func same(a, b Outcome) bool {
	one, errA := json.Marshal(a)
	other, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(one, other)
}

// said writes the observations of a probe.
func said(o standing.Outcome) string {
	if o.Judgement == nil {
		return ""
	}
	var out []string
	for _, one := range o.Judgement.Observations {
		b := "0"
		if one.Exceeded() {
			b = "1"
		}
		out = append(out, one.Family().Letter()+b)
	}
	switch {
	case o.Judgement.FilesWrong:
		out = append(out, evidence.Files.Letter()+" wrong")
	case o.Judgement.FilesRight:
		out = append(out, evidence.Files.Letter()+" right")
	}
	return strings.Join(out, " ")
}

// Verify checks the pieces of an offer for a verdict. The error is ErrDiffers with what was
// found first, and the report has everything.
func Verify(pieces []Sealed, verdict probe.VerdictID) (Report, error) {
	c := Checker{Verdict: verdict}
	for _, s := range pieces {
		c.Add(s)
	}
	return c.report, c.report.Err()
}

// ErrDiffers is the error for evidence from which a verdict does not follow.
var ErrDiffers = errors.New("the verdict does not follow from the evidence")

// Err returns nil for a report that is OK, and else ErrDiffers with what was found first.
func (r Report) Err() error {
	for _, row := range r.Rows {
		if row.Wrong != "" {
			return fmt.Errorf("%w: piece %v: %s", ErrDiffers, row.ID, row.Wrong)
		}
	}
	if !r.Found {
		return fmt.Errorf("%w: it is not among %d pieces", ErrDiffers, len(r.Rows))
	}
	return nil
}

// Print writes the report as a table.
func (r Report) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "piece\ttime\tevent\tsaid\tM before\tM after\tlevel\tverdict\t") // Flush says what failed
	for _, row := range r.Rows {
		end := "ok"
		if row.Wrong != "" {
			end = "DIFFERS: " + row.Wrong
		}
		_, _ = fmt.Fprintf(w, "%v\t%s\t%s\t%s\t%.6g\t%.6g\t%s → %s\t%s\t%s\n", row.ID, row.At.Format(time.RFC3339),
			row.Kind, row.Said, row.Before, row.After, row.From, row.To, strings.Join(row.Verdicts, ", "), end)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print a replay: %w", err)
	}
	_, err := fmt.Fprintf(to, "%d pieces, %d differ; verdict found: %t; begins at M = 0: %t\n", len(r.Rows), r.Wrong,
		r.Found, r.Whole)
	if err != nil {
		return fmt.Errorf("print a replay: %w", err)
	}
	return nil
}
