package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/provider-agent/internal/earnings"
	"svc.internal/services/provider-agent/internal/service"
	"svc.internal/services/provider-agent/internal/worklog"
)

const (
	// maxEarningDays bounds the days that are compared: one page lists that many statements.
	maxEarningDays = 31
	// statementsAtOnce bounds the statements that are asked for at a time.
	statementsAtOnce = 4
)

// earned compares what this machine has served with the service's signed daily statements. The exit
// code is 1 where something differs.
func earned(ctx context.Context, c invocation) error {
	cfg, err := c.settings()
	if err != nil {
		return err
	}
	flags := c.flags("earnings")
	flags.StringVar(&cfg.ServiceURL, "service", cfg.ServiceURL,
		"`URL` of the marketplace's API, https:// (SVC_SERVICE_URL; default: from the hub's)")
	flags.StringVar(&cfg.WSURL, "ws", cfg.WSURL, "`URL` of the hub, ws:// or wss:// (SVC_WS_URL)")
	keyFile := flags.String("key-file", "", "`file` that holds the provider key (instead of SVC_PROVIDER_KEY)")
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir, "`folder` of the agent's state (SVC_STATE_DIR)")
	days := flags.Int("days", 7, "how many `days` are compared, today with them, 1 to 31")
	asJSON := flags.Bool("json", false, "print the days as JSON")
	if err := c.parse(flags); err != nil {
		return err
	}
	if *days < 1 || *days > maxEarningDays {
		return fmt.Errorf("-days must be from 1 to %d", maxEarningDays)
	}
	if *keyFile != "" {
		if err := cfg.Key.UnmarshalText([]byte("file:" + *keyFile)); err != nil {
			return err
		}
	}
	told, err := compared(ctx, cfg, time.Now().UTC(), *days)
	if err != nil {
		return err
	}
	if *asJSON {
		text, err := json.MarshalIndent(told, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the days: %w", err)
		}
		err = c.say("%s\n", text)
		if err != nil {
			return err
		}
	} else if err := writeEarnings(c.out, told, paintFor(c.out, c.environ)); err != nil {
		return err
	}
	if told.Differs {
		return errUnfit
	}
	return nil
}

// comparison is what earnings prints.
type comparison struct {
	Differs bool `json:"differs"`
	// KeyFault says that the service signs by another key than those that are kept; empty otherwise.
	KeyFault string              `json:"key_fault,omitempty"`
	Days     []earnings.Compared `json:"days"`
}

// compared reads so many days until now, and the statements of these days.
func compared(ctx context.Context, cfg environment, now time.Time, days int) (*comparison, error) {
	first := now.AddDate(0, 0, 1-days).Format(time.DateOnly)
	served, err := worklog.Read(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	served = slices.DeleteFunc(served, func(d worklog.Day) bool { return d.Day < first })
	if !cfg.Key.IsSet() {
		return nil, errors.New("the statements need a provider key: set SVC_PROVIDER_KEY or give -key-file")
	}
	client, err := apiOf(cfg)
	if err != nil {
		return nil, err
	}
	answer, err := client.Status(ctx, cfg.Key)
	if err != nil {
		return nil, err
	}
	account, err := service.ParseStatus(answer)
	if err != nil {
		return nil, err
	}
	if answer, err = client.Statements(ctx, cfg.Key); err != nil {
		return nil, err
	}
	listed, err := service.ParseStatements(answer)
	if err != nil {
		return nil, err
	}
	through := ""
	if answer, err = client.Account(ctx, cfg.Key); err == nil {
		if told, err := service.ParseAccount(answer); err == nil && told.Earnings != nil {
			through = told.Earnings.BatchedThrough
		}
	}
	signers, fault, err := signersOf(ctx, client, cfg)
	if err != nil {
		return nil, err
	}
	statements, err := statementsOf(ctx, client, cfg, listed, first, account.ProviderID, signers)
	if err != nil {
		return nil, err
	}
	all := earnings.Compare(served, statements, through, now)
	return &comparison{Differs: fault != "" || earnings.Differs(all), KeyFault: fault, Days: all}, nil
}

// signersOf are the keys that are kept for statements. fault says that the service names another one.
func signersOf(ctx context.Context, client *service.Client, cfg environment) (kept []ethereum.Address, fault string,
	err error) {
	name, err := client.Signer(ctx)
	if err != nil {
		return nil, "", err
	}
	named, err := ethereum.ParseAddress(name)
	if err != nil {
		return nil, "", fmt.Errorf("the service's key: %w", err)
	}
	if named.IsZero() { // it would be kept for ever
		return nil, "", errors.New("the service names no key that signs statements")
	}
	if kept, err = earnings.Keep(cfg.StateDir, named); err != nil || slices.Contains(kept, named) {
		return kept, "", err
	}
	return kept, fmt.Sprintf("the service now signs statements by the key %v, and this machine has kept %v since it "+
		"first asked. What the new key has signed counts as not signed by the service. If you know from elsewhere that "+
		"the key was replaced, add the new one as a line to %s", named, kept[0],
		filepath.Join(cfg.StateDir, earnings.KeysFile)), nil
}

// statementsOf reads and verifies the listed statements, from the day first on.
func statementsOf(ctx context.Context, client *service.Client, cfg environment, listed []service.Statement,
	first, provider string, signers []ethereum.Address) (map[string]earnings.Checked, error) {
	var mu sync.Mutex
	var faults []error
	checked := map[string]earnings.Checked{}
	var all sync.WaitGroup
	room := make(chan struct{}, statementsAtOnce)
	for _, one := range listed[:min(len(listed), maxEarningDays)] {
		if one.Day < first {
			continue
		}
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			answer, err := client.Statement(ctx, cfg.Key, one.Day)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				faults = append(faults, err)
				return
			}
			checked[one.Day] = earnings.Check(one.Day, provider, answer, signers...)
		})
	}
	all.Wait()
	return checked, errors.Join(faults...)
}

// writeEarnings prints the days, and what was served of each model.
func writeEarnings(out io.Writer, told *comparison, paint paint) error {
	s := sheet{table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), paint: paint}
	if told.KeyFault != "" {
		text := service.Clean("DIFFERS: "+told.KeyFault, maxSentences)
		if _, err := fmt.Fprintln(out, s.paint(text, red)); err != nil {
			return fmt.Errorf("print the days: %w", err)
		}
	}
	s.row("DAY", "SERVED HERE", "STATED", "EARNED $", "OTHER $", "SIGNATURE", "RESULT")
	models := map[string]worklog.Work{}
	for _, c := range told.Days {
		served, stated, earned, other, signature := "-", "-", "-", "-", "-"
		if c.Served != nil {
			served = strconv.FormatInt(c.Served.Requests, 10)
			for id, w := range c.Served.Models {
				sum := models[id]
				sum.Requests += w.Requests
				sum.PromptTokens += w.PromptTokens
				sum.OutputTokens += w.OutputTokens
				models[id] = sum
			}
		}
		if c.Stated != nil {
			stated, signature = strconv.FormatInt(c.Stated.Requests, 10), c.Stated.Signature
			earned, other = c.Stated.EarnedUSD, c.Stated.OtherUSD
		}
		result := s.paint("agrees", green)
		switch {
		case len(c.Differences) > 0:
			result = s.paint(service.Clean("DIFFERS: "+strings.Join(append(c.Differences, c.Notes...), "; "), maxSentences), red)
		case len(c.Notes) > 0:
			result = s.paint(service.Clean(strings.Join(c.Notes, "; "), maxSentences), yellow)
		}
		s.row(dash(c.Day), served, stated, earned, other, signature, result)
	}
	if len(models) > 0 {
		s.title("Served here, by model")
		s.row("MODEL", "REQUESTS", "PROMPT TOKENS", "OUTPUT TOKENS")
	}
	for _, id := range slices.Sorted(maps.Keys(models)) {
		w := models[id]
		s.row(dash(id), strconv.FormatInt(w.Requests, 10), strconv.FormatInt(w.PromptTokens, 10),
			strconv.FormatInt(w.OutputTokens, 10))
	}
	if err := s.table.Flush(); err != nil {
		return fmt.Errorf("print the days: %w", err)
	}
	return nil
}
