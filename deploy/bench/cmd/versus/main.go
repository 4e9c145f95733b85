// versus compares two targets of one run of compare round by round, and prints
// the median of their ratios with its interval.
package main

import (
	"flag"
	"fmt"
	"os"

	"inference-bench/internal/record"
	"inference-bench/internal/versus"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "versus:", err)
		os.Exit(1)
	}
}

func run() error {
	in := flag.String("in", "results.jsonl", "raw results")
	base := flag.String("base", "base", "target that is compared with")
	head := flag.String("head", "head", "target that is compared")
	limit := flag.Float64("limit", 1.03, "ratio above which an interval is marked")
	asJSON := flag.Bool("json", false, "print a JSON array")
	flag.Parse()
	set, err := record.Load(*in)
	if err != nil {
		return err
	}
	lines, failed := versus.Compare(set, *base, *head)
	if len(lines) == 0 {
		return fmt.Errorf("%s holds no round of both %s and %s", *in, *base, *head)
	}
	if text := versus.Failures(failed); text != "" {
		fmt.Fprintln(os.Stderr, text)
	}
	if *asJSON {
		return versus.JSON(os.Stdout, lines)
	}
	return versus.Table(os.Stdout, lines, *base, *head, *limit)
}
