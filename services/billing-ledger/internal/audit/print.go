package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the report as aligned tables with every named drift below.
func (r Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "account\tdebit USD\tcredit USD\t\n")
	for _, l := range r.TrialBalance {
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", l.Account, l.Debit, l.Credit)
	}
	if len(r.Tokens) > 0 {
		fmt.Fprint(w, "\t\t\t\n")
		fmt.Fprint(w, "tokens\tdebit units\tcredit units\t\n")
	}
	for _, l := range r.Tokens {
		fmt.Fprintf(w, "%s %s\t%d\t%d\t\n", l.Account, l.Token, l.Debit, l.Credit)
	}
	fmt.Fprint(w, "\t\t\t\n")
	fmt.Fprint(w, "invariant\tchecked\tdrift\t\n")
	for _, i := range r.Invariants {
		fmt.Fprintf(w, "%s\t%d\t%d\t\n", i.Name, i.Checked, i.Drift)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	for _, i := range r.Invariants {
		for _, example := range i.Examples {
			fmt.Fprintf(out, "DRIFT %s: %s\n", i.Name, example)
		}
	}
	if r.Seal != "" {
		fmt.Fprintf(out, "\nlast seal: %s\n", r.Seal)
	}
	if _, err := fmt.Fprintf(out, "\ndrift: %d\n", r.Drift); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// PrintJSON writes the report for programs.
func (r Report) PrintJSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
