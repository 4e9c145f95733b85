// Command lab measures what verification sees of cheats and does to honest providers, and
// holds it against the design. It prints a table, and exits 1 where a gate is missed without
// a known reason.
//
//	lab [-full] [-json] [-out folder] [-auc file]
//
// With -out it writes report.md, report.json and the charts there. -auc names a file with
// what a classifier of probes reached (lab.ReadAUC).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"svc.internal/services/verifier/internal/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// errMissed is the error of a run whose gates are not all met.
var errMissed = errors.New("a gate is missed")

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	full := flags.Bool("full", false, "measure with the numbers of the design")
	asJSON := flags.Bool("json", false, "print JSON instead of a table")
	folder := flags.String("out", "", "folder for report.md, report.json and the charts")
	auc := flags.String("auc", "", "file with the figures of a classifier of probes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	began := time.Now()
	report, err := lab.Run(ctx, lab.Options{Full: *full, Progress: func(what string) {
		fmt.Fprintf(progress, "%4.0f s  %s\n", time.Since(began).Seconds(), what)
	}})
	if err != nil {
		return err
	}
	if *auc != "" {
		if err := addAUC(&report, *auc); err != nil {
			return err
		}
	}
	report.Took, report.CPU = time.Since(began), processorTime()
	if *folder != "" {
		if err := write(*folder, report, began); err != nil {
			return err
		}
	}
	if err := show(out, report, *asJSON); err != nil {
		return err
	}
	if report.Failed() {
		return errMissed
	}
	return nil
}

func addAUC(report *lab.Report, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the figures of a classifier: %w", err)
	}
	return report.AddAUC(text)
}

// processorTime is that of this process so far.
func processorTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func show(out io.Writer, report lab.Report, asJSON bool) error {
	if !asJSON {
		return report.WriteTable(out)
	}
	return encode(out, report)
}

func encode(out io.Writer, report lab.Report) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	if err := e.Encode(report); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// write writes the report's files.
func write(folder string, report lab.Report, day time.Time) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("make the report's folder: %w", err)
	}
	files := map[string]func(io.Writer) error{
		"report.md":   func(to io.Writer) error { return report.WriteMarkdown(to, day) },
		"report.json": func(to io.Writer) error { return encode(to, report) },
	}
	for name, chart := range report.Charts {
		files[name] = chart.WriteSVG
	}
	for name, content := range files {
		if err := create(filepath.Join(folder, name), content); err != nil {
			return err
		}
	}
	return nil
}

func create(path string, content func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return content(f)
}
