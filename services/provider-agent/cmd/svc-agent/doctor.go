package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/provider-agent/internal/doctor"
	"svc.internal/services/provider-agent/internal/hardware"
	"svc.internal/services/provider-agent/internal/service"
)

// examine looks for what keeps this machine from earning.
func examine(ctx context.Context, c invocation) error {
	cfg, err := c.settings()
	flags := c.flags("doctor")
	flags.StringVar(&cfg.Models, "models", cfg.Models, "`file` that lists the models (SVC_MODELS)")
	flags.StringVar(&cfg.WSURL, "ws", cfg.WSURL, "`URL` of the hub, ws:// or wss:// (SVC_WS_URL)")
	flags.StringVar(&cfg.ServiceURL, "service", cfg.ServiceURL,
		"`URL` of the marketplace's API, https:// (SVC_SERVICE_URL; default: from the hub's)")
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir, "`folder` of the agent's state (SVC_STATE_DIR)")
	keyFile := flags.String("key-file", "", "`file` that holds the provider key (instead of SVC_PROVIDER_KEY)")
	asJSON := flags.Bool("json", false, "print the findings as JSON")
	if parsed := c.parse(flags); parsed != nil {
		return parsed
	}
	if *keyFile != "" {
		err = errors.Join(err, cfg.Key.UnmarshalText([]byte("file:"+*keyFile)))
	}
	found := doctor.Examine(ctx, subjectOf(ctx, cfg, err))
	if *asJSON {
		text, err := json.MarshalIndent(struct {
			Blocked  bool             `json:"blocked"`
			Findings []doctor.Finding `json:"findings"`
		}{doctor.Blocked(found), found}, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the findings: %w", err)
		}
		err = c.say("%s\n", text)
		if err != nil {
			return err
		}
	} else if err := writeFindings(c.out, found, paintFor(c.out, c.environ)); err != nil {
		return err
	}
	if doctor.Blocked(found) {
		return errUnfit
	}
	return nil
}

// subjectOf gathers what is examined. fault is the fault of the settings; nil for none.
func subjectOf(ctx context.Context, cfg environment, fault error) doctor.Subject {
	s := doctor.Subject{
		Key: cfg.Key, ByWallet: cfg.WalletKeyFile != "", StateDir: cfg.StateDir, Now: time.Now, Free: freeIn,
		Machine: hardware.Detect, NodeID: provideragent.NodeIDIn(cfg.StateDir),
	}
	if hub, err := provideragent.HubAddress(cfg.WSURL, cfg.AllowPlaintext); err == nil {
		s.Hub = hub
	} else if cfg.WSURL != "" {
		fault = errors.Join(fault, err)
	}
	if client, err := apiOf(cfg); err == nil {
		s.Service = client
	} else if errors.Is(err, errExposed) {
		fault = errors.Join(fault, err)
	}
	models, err := provideragent.LoadModels(cfg.Models)
	s.SettingsFault = errors.Join(fault, err)
	if err != nil {
		return s
	}
	declared := map[string]int64{}
	for i, m := range models {
		declared[m.ModelID] = m.ContextLength
		models[i].ContextLength = 0 // so that the engine's own window is found
	}
	findings, err := provideragent.Check(ctx, models, provideragent.Deps{})
	s.SettingsFault = errors.Join(s.SettingsFault, err)
	for _, f := range findings {
		s.Models = append(s.Models, doctor.Model{
			ModelID: f.Model.ModelID, EngineURL: f.Model.EngineURL, LocalModel: f.Model.LocalModel,
			Declared: declared[f.Model.ModelID], Fault: f.Fault, Window: f.ContextLength,
		})
	}
	return s
}

// freeIn is how many bytes a user without rights may still write in a folder.
func freeIn(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, fmt.Errorf("ask for the free space: %w", err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:unconvert // the types differ by system
}

// writeFindings prints one finding a line, and below a fault its fix.
func writeFindings(out io.Writer, found []doctor.Finding, paint paint) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range found {
		c := green
		switch f.Level {
		case doctor.Blocks, doctor.Fails:
			c = red
		case doctor.Warns, doctor.Skipped:
			c = yellow
		case doctor.OK:
		}
		fmt.Fprintf(table, "%s\t%s\n", f.Check, paint(string(f.Level), c)+"  "+service.Clean(f.Text, maxSentences))
		if f.Fix != "" {
			fmt.Fprintf(table, "\tfix: %s\n", service.Clean(f.Fix, maxSentences))
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the findings: %w", err)
	}
	return nil
}
