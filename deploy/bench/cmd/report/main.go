// report shows what was measured beside the gates: for a terminal, as JSON, as the
// table of a document, or as a plot.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"inference-bench/internal/figures"
	"inference-bench/internal/gates"
	"inference-bench/internal/record"
	"inference-bench/internal/summary"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run() error {
	in := flag.String("in", "results.jsonl", "raw results")
	reference := flag.String("reference", "nginx", "target that CPU is compared with")
	asJSON := flag.Bool("json", false, "print one JSON object")
	document := flag.String("document", "", "rewrite the table between the marks of this file, too")
	plot := flag.String("plot", "", "write the plot to this file, too, which the document shows")
	flag.Parse()
	set, err := record.Load(*in)
	if err != nil {
		return err
	}
	table := figures.Work(set, "direct", *reference)
	s := summary.Summary{Table: table, Verdicts: gates.Judge(table, gates.All()), Machine: machine(set, table.Load)}
	if *plot != "" {
		if s.Picture, err = draw(*plot, *document, s.Plot()); err != nil {
			return err
		}
	}
	if *document != "" {
		if err := rewrite(*document, s.Markdown()); err != nil {
			return err
		}
	}
	if *asJSON {
		return s.JSON(os.Stdout)
	}
	return s.Terminal(os.Stdout, terminal(os.Stdout))
}

// draw writes the plot, and returns where it stands from the document.
func draw(file, document string, plot []byte) (string, error) {
	if plot == nil {
		return "", nil
	}
	if err := os.WriteFile(file, plot, 0o644); err != nil {
		return "", err
	}
	from, err := filepath.Rel(filepath.Dir(document), file)
	return filepath.ToSlash(from), err
}

// machine says when, where and how often it was measured, and what load others made.
func machine(set record.Set, load float64) string {
	rounds := 0
	for _, r := range set {
		rounds = max(rounds, r.Round+1)
	}
	parts := []string{fmt.Sprintf("Median of %d rounds", rounds)}
	if rounds == 1 {
		parts[0] = "One round"
	}
	for _, name := range []string{"date", "cpu", "go", "postgres"} {
		if text := set.Text(name); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(append(parts, fmt.Sprintf("load of others %.1f", load)), ", ")
}

func rewrite(file, table string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := summary.Replace(string(old), table)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if text == string(old) {
		return nil
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// terminal says whether a person reads f and has not asked for plain text.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
