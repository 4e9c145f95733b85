package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"svc.internal/services/proving/internal/fleet"
)

// status shows the processes.
func status(ctx context.Context, o options, out io.Writer) error {
	all, err := statusOf(ctx, o)
	if errors.Is(err, errNotRunning) && !o.json {
		fmt.Fprintln(out, "  The fleet is not running.")
		return nil
	}
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(out).Encode(all)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  PROCESS\tPID\tSTATE\tADDRESS\tMETRICS AND HEALTH")
	for _, s := range all {
		fmt.Fprintf(table, "  %s\t%d\t%s\t%s\t%s\n", s.Name, s.Pid, s.State, s.Address, s.Admin)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	for _, s := range all {
		if s.Reason != "" {
			fmt.Fprintf(out, "  %s\n", s.Reason)
		}
	}
	return nil
}

func statusOf(ctx context.Context, o options) ([]fleet.Status, error) {
	s, err := locate(o.dir)
	if err != nil {
		return nil, err
	}
	text, err := s.ask(ctx, http.MethodGet, "/status")
	if err != nil {
		return nil, err
	}
	var all []fleet.Status
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read the supervisor's answer: %w", err)
	}
	return all, nil
}

// restart restarts processes one after the other: the named processes, or all of a named
// service.
func restart(ctx context.Context, o options, out io.Writer) error {
	s, err := locate(o.dir)
	if err != nil {
		return err
	}
	all, err := statusOf(ctx, o)
	if err != nil {
		return err
	}
	for _, name := range o.names {
		found := false
		for _, process := range all {
			if process.Name != name && process.Program != name {
				continue
			}
			found = true
			if _, err := s.ask(ctx, http.MethodPost, "/restart?name="+url.QueryEscape(process.Name)); err != nil {
				return err
			}
			fmt.Fprintf(out, "  %s was restarted and is ready.\n", process.Name)
		}
		if !found {
			return fmt.Errorf("there is no process or service %q; fleet status lists them", name)
		}
	}
	return nil
}
