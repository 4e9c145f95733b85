package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/service"
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
	quick := flags.Bool("quick", false, "ask no model for a chat, so that no engine has to load a model")
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
	entries, err := catalogOf(ctx, cfg)
	switch {
	case errors.Is(err, errNoService):
		fmt.Fprintln(c.diagnostics, "The catalog was not asked: set SVC_SERVICE_URL.")
	case err != nil:
		fmt.Fprintln(c.diagnostics, "The catalog was not asked:", err)
	default:
		refused := refusedOf(entries, models)
		for i := range findings {
			if why := refused[findings[i].Model.ModelID]; why != "" {
				findings[i].Fault = why
			}
		}
	}
	if provideragent.ExposedKeys(cfg.Models, models) {
		fmt.Fprintf(c.diagnostics, "Others may read the keys of engines in %s: run chmod 600 on it.\n", cfg.Models)
	}
	chats := map[string]string{}
	if !*quick {
		chats = c.chat(ctx, cfg, findings, entries)
	}
	return writeTable(c.out, findings, chats, cfg.FindFiles)
}

// chat asks each model that has no fault, and that answers chats, for a chat of one token. It asks one
// model after the other, because engines may have to load them. It notes faults in the findings, and
// returns how long the answer of each model took.
func (c invocation) chat(ctx context.Context, cfg environment, findings []provideragent.Finding,
	entries map[string]service.CatalogModel) map[string]string {
	chats := map[string]string{}
	if cfg.Capabilities != nil && !slices.Contains(cfg.Capabilities, "chat") {
		return chats
	}
	for i := range findings {
		f := &findings[i]
		if f.Fault != "" || !entries[f.Model.ModelID].Chats() {
			continue
		}
		fmt.Fprintf(c.diagnostics, "asking %s for a chat of one token ...\n", service.Clean(f.Model.ModelID, maxCell))
		began := time.Now()
		if err := provideragent.Chat(ctx, f.Model); err != nil {
			f.Fault, chats[f.Model.ModelID] = service.Clean(err.Error(), maxSentences), "no"
			continue
		}
		chats[f.Model.ModelID] = "in " + time.Since(began).Round(time.Millisecond).String()
	}
	return chats
}

// files reports whether a model's files can be proven to the platform, where sought reports whether an
// agent looks for those of models without a folder. A fault of the files is no fault of the model,
// which is served all the same.
func files(f provideragent.Finding, sought bool) string {
	switch {
	case f.Model.WithoutFiles:
		return "not proven"
	case f.Model.WeightsDir == "" && sought:
		return "looked for in the engines' stores"
	case f.Model.WeightsDir == "":
		return "no weights_dir"
	case f.FilesFault != "":
		return f.FilesFault
	}
	return "readable"
}

// writeTable writes the findings, and how long the chats of models took. Faults have words of
// engines, which must not drive the terminal.
func writeTable(out io.Writer, findings []provideragent.Finding, chats map[string]string, sought bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MODEL\tENGINE\tLOCAL MODEL\tCONTEXT\tCAPACITY\tSTATE\tCHAT\tFILES")
	unfit := false
	for _, f := range findings {
		window, state := "unknown", "ok"
		if f.ContextLength > 0 {
			window = strconv.FormatInt(f.ContextLength, 10)
		}
		if f.Fault != "" {
			unfit, state = true, service.Clean(f.Fault, maxSentences)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", f.Model.ModelID, f.Model.EngineURL, f.Model.LocalModel, window,
			f.Model.Capacity, state, cmp.Or(chats[f.Model.ModelID], "not asked"),
			service.Clean(files(f, sought), maxSentences))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	if unfit {
		return errUnfit
	}
	return nil
}
