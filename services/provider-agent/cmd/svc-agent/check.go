package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	provideragent "svc.internal/services/provider-agent"
)

// errUnfit means that a command has printed what is wrong, so the exit code is all that is
// left to say.
var errUnfit = errors.New("a model is not served")

func check(ctx context.Context, c invocation) error {
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	flags := c.flags("check")
	flags.StringVar(&cfg.Models, "models", cfg.Models, "`file` that lists the models (SVC_MODELS)")
	if err := c.parse(flags); err != nil {
		return err
	}
	models, err := provideragent.LoadModels(cfg.Models)
	if err != nil {
		return err
	}
	findings, err := provideragent.Check(ctx, models, provideragent.Deps{})
	if err != nil {
		return err
	}
	refused, err := strangers(ctx, cfg, models)
	switch {
	case errors.Is(err, errNoService):
		fmt.Fprintln(c.diagnostics, "The catalog was not asked: set SVC_SERVICE_URL.")
	case err != nil:
		fmt.Fprintln(c.diagnostics, "The catalog was not asked:", err)
	}
	for i := range findings {
		if why := refused[findings[i].Model.ModelID]; why != "" {
			findings[i].Fault = why
		}
	}
	if provideragent.ExposedKeys(cfg.Models, models) {
		fmt.Fprintf(c.diagnostics, "Others may read the keys of engines in %s: run chmod 600 on it.\n", cfg.Models)
	}
	return writeTable(c.out, findings)
}

// files reports whether a model's files can be proven to the platform. A fault of the files is no
// fault of the model, which is served all the same.
func files(f provideragent.Finding) string {
	switch {
	case f.Model.WeightsDir == "":
		return "no weights_dir"
	case f.FilesFault != "":
		return f.FilesFault
	}
	return "readable"
}

// writeTable writes the findings.
func writeTable(out io.Writer, findings []provideragent.Finding) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tENGINE\tLOCAL MODEL\tCONTEXT\tCAPACITY\tSTATE\tFILES")
	unfit := false
	for _, f := range findings {
		window, state := "unknown", "ok"
		if f.ContextLength > 0 {
			window = strconv.FormatInt(f.ContextLength, 10)
		}
		if f.Fault != "" {
			unfit, state = true, f.Fault
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", f.Model.ModelID, f.Model.EngineURL, f.Model.LocalModel, window,
			f.Model.Capacity, state, files(f))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if unfit {
		return errUnfit
	}
	return nil
}
