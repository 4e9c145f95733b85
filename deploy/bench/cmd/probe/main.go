// probe records single numbers beside the results of loads:
//
//	probe ready -name ready_cold_ms -target standalone -url URL...   time until every URL answers 200, from -since
//	probe gobench -target ledger < text                              the metrics that go test -bench printed
//	probe machine                                                    what it runs on
//
// and puts the models of a benchmark into a product's catalog:
//
//	probe seed -url ADMIN-URL -models FILE     as the operator whose token is SVC_ADMIN_TOKEN
//
// with -accounts also that many accounts with credit, and writes their keys, two
// of each, to -keys as a JSON array.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"inference-bench/internal/admin"
	"inference-bench/internal/gobench"
	"inference-bench/internal/record"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want ready, gobench, machine or seed")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := flags.String("out", "results.jsonl", "records are appended here")
	target := flags.String("target", record.Machine, "what is measured")
	name := flags.String("name", "", "ready: name of the measure")
	since := flags.Int64("since", 0, "ready: when it was started, in nanoseconds of Unix time (default: now)")
	limit := flags.Duration("timeout", 2*time.Minute, "ready: how long to wait")
	pid := flags.Int("pid", 0, "ready: the process that is waited for; its end ends the waiting")
	has := flags.String("has", "", "ready: what the last answer must hold")
	models := flags.String("models", "", "seed: file of models, as agents read it")
	accounts := flags.Int("accounts", 0, "seed: accounts with two keys each")
	keys := flags.String("keys", "", "seed: file for the keys of the accounts")
	postgres := flags.String("postgres", "", "machine: what postgres --version printed")
	var urls list
	flags.Var(&urls, "url", "ready: what must answer 200; may be repeated. seed: root of the operators' API")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var recs []record.Record
	var err error
	switch args[0] {
	case "ready":
		start := time.Now()
		if *since > 0 {
			start = time.Unix(0, *since)
		}
		ctx, cancel := context.WithTimeout(ctx, *limit)
		defer cancel()
		if err := ready(ctx, urls, *has, *pid); err != nil {
			return err
		}
		took := time.Since(start)
		if *name == "" {
			return nil
		}
		fmt.Fprintf(os.Stdout, "    ready after %v\n", took.Round(time.Millisecond))
		recs = []record.Record{{Target: *target, Measure: *name, Value: float64(took) / float64(time.Millisecond)}}
	case "gobench":
		recs, err = benchmarks(os.Stdin, *target)
	case "machine":
		recs = machine(time.Now(), *postgres)
	case "seed":
		for _, base := range urls {
			operator := admin.Client{Base: base, Token: os.Getenv("SVC_ADMIN_TOKEN")}
			if err := seed(ctx, operator, *models); err != nil {
				return err
			}
			if *accounts > 0 {
				if err := seedAccounts(ctx, operator, *accounts, *keys); err != nil {
					return err
				}
			}
		}
	default:
		err = fmt.Errorf("want ready, gobench, machine or seed, not %q", args[0])
	}
	if err != nil {
		return err
	}
	return save(*out, recs)
}

// ready waits until each URL has answered 200, one after the other, the last
// of them with has in its first 16 KiB. The end of the process pid, unless that is
// 0, ends the waiting.
func ready(ctx context.Context, urls []string, has string, pid int) error {
	client := &http.Client{Timeout: 2 * time.Second}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i, url := range urls {
		want := ""
		if i == len(urls)-1 {
			want = has
		}
		for last := "no answer"; ; {
			ok, said := answers(ctx, client, url, want)
			if ok {
				break
			}
			if said != "" {
				last = said
			}
			if pid != 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
				return fmt.Errorf("%s is not ready, and process %d has ended: %s", url, pid, last)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not ready: %s", url, last)
			case <-tick.C:
			}
		}
	}
	return nil
}

func answers(ctx context.Context, client *http.Client, url, want string) (ok bool, said string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err.Error()
	}
	res, err := client.Do(req)
	if err != nil {
		return false, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<10))
	if err != nil {
		return false, err.Error()
	}
	text := strings.TrimSpace(string(body))
	return res.StatusCode == http.StatusOK && strings.Contains(text, want), fmt.Sprintf("%s: %s", res.Status,
		text[:min(len(text), 400)])
}

// benchmarks makes a record of each metric but those by operation. A server
// that does not flush measures nothing that counts, so the part of a name that
// says that it does is taken away, and any other stays.
func benchmarks(r io.Reader, target string) ([]record.Record, error) {
	lines, err := gobench.Parse(r)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("no benchmark ran for %s", target)
	}
	var recs []record.Record
	for _, l := range lines {
		name := strings.ReplaceAll(l.Name, "/fsync=on", "")
		for unit, v := range l.Metrics {
			if strings.HasSuffix(unit, "/s") {
				fmt.Fprintf(os.Stdout, "    %s: %.0f %s\n", name, v, unit)
				recs = append(recs, record.Record{Target: target, Measure: name + " " + unit, Value: v})
			}
		}
	}
	return recs, nil
}

// seed puts the models of a file into the catalog.
func seed(ctx context.Context, operator admin.Client, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var offered struct {
		Models []admin.Model `json:"models"`
	}
	if err := json.Unmarshal(text, &offered); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, m := range offered.Models {
		if err := operator.PutModel(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// What each account of a benchmark has: its credit in US dollars, and its keys.
const (
	accountCredit = "1000"
	accountKeys   = 2
)

// seedAccounts makes accounts and writes their keys to a file that only its owner
// reads. The keys of an account are not neighbours in it.
func seedAccounts(ctx context.Context, operator admin.Client, n int, file string) error {
	keys := make([]string, accountKeys*n)
	for i := range n {
		of, err := operator.ConsumerKeys(ctx, fmt.Sprintf("many-%d", i), accountCredit, accountKeys)
		if err != nil {
			return fmt.Errorf("make an account: %w", err)
		}
		for k, key := range of {
			keys[k*n+i] = key
		}
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func save(file string, recs []record.Record) error {
	w, err := record.Append(file)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, r := range recs {
		if err := w.Write(r); err != nil {
			return err
		}
	}
	return nil
}
