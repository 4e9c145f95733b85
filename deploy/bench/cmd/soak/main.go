// soak holds a steady load on a product for an hour or more, reads what it holds meanwhile, and
// prints how fast each of that grows, with its interval.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"inference-bench/internal/loadgen"
	"inference-bench/internal/proc"
	"inference-bench/internal/soak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// options say what is read and how it is loaded.
type options struct {
	product  soak.Product
	base     string
	rate     float64
	streams  int
	lasts    time.Duration
	interval time.Duration
	json     bool
}

func parse() (options, error) {
	var o options
	flag.StringVar(&o.base, "base", os.Getenv("SVC_BASE_URL")+"/v1", "the public API with /v1; the key is SVC_API_KEY")
	flag.StringVar(&o.product.Database, "database", os.Getenv("SVC_DATABASE_URL"), "the product's PostgreSQL")
	flag.IntVar(&o.product.Program.Pid, "pid", 0, "the program")
	flag.StringVar(&o.product.Program.Admin, "admin", "", "its metrics and profiles, as http://host:port")
	folders := flag.String("folders", "", "further folders to measure: name=folder,name=folder")
	flag.Float64Var(&o.rate, "rate", 50, "whole answers a second")
	flag.IntVar(&o.streams, "streams", 32, "streams that are open all the time, each with an event each 20 ms")
	flag.DurationVar(&o.lasts, "for", time.Hour, "how long it lasts; the first tenth warms up")
	flag.DurationVar(&o.interval, "interval", 10*time.Second, "the pause between two readings")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	flag.Parse()
	o.product.Folders = map[string]string{}
	for pair := range strings.SplitSeq(*folders, ",") {
		if name, folder, ok := strings.Cut(pair, "="); ok {
			o.product.Folders[name] = folder
		}
	}
	if o.product.Program.Pid == 0 || o.product.Program.Admin == "" || o.product.Database == "" {
		return o, errors.New("-pid, -admin and -database are needed")
	}
	if o.lasts < 24*o.interval {
		return o, errors.New("-for is too short for two readings in each block")
	}
	o.product.Group = proc.Group{Roots: []int{o.product.Program.Pid}, Except: []string{"svc-agent", "tinylm"}}
	return o, nil
}

// result is what is printed as JSON.
type result struct {
	Hours    float64        `json:"hours"`
	Requests uint64         `json:"requests"`
	Events   uint64         `json:"events"`
	Failed   uint64         `json:"failed"`
	Series   []*soak.Series `json:"series"`
}

func run(ctx context.Context) error {
	o, err := parse()
	if err != nil {
		return err
	}
	warm := o.lasts / 10
	fmt.Fprintf(os.Stderr, "  %.0f requests a second and %d streams for %v; read each %v\n", o.rate, o.streams, o.lasts,
		o.interval)
	var chat, stream loadgen.Result
	var all []*soak.Series
	reading, stop := context.WithTimeout(ctx, o.lasts)
	defer stop()
	var wait sync.WaitGroup
	errs := make([]error, 2)
	load := func(n int, into *loadgen.Result, s loadgen.Spec) {
		s.Base, s.Key, s.Warm, s.Dur = o.base, os.Getenv("SVC_API_KEY"), warm, o.lasts-warm
		wait.Go(func() { *into, errs[n] = loadgen.Run(ctx, s) })
	}
	load(0, &chat, loadgen.Spec{Mode: "chat", Model: "mock-t16", PromptBytes: 512, Conns: 64, Rate: o.rate})
	load(1, &stream, loadgen.Spec{Mode: "stream", Model: "mock-t256-f0-d20-c1", PromptBytes: 512, Conns: o.streams,
		Events: 256, Gap: 20 * time.Millisecond})
	all, err = o.product.Read(reading, o.interval, progress(o))
	if err := errors.Join(err, ctx.Err()); err != nil {
		return err // the loads end with the process
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r := result{Hours: (o.lasts - warm).Hours(), Requests: chat.Requests + stream.Requests, Events: stream.Chunks,
		Failed: chat.Errors + chat.NoUsage + stream.Errors + stream.Short + stream.NoUsage,
		Series: soak.Fit(all, warm.Hours())}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("  %d requests, %d events, %d failed\n", r.Requests, r.Events, r.Failed)
	return soak.Print(os.Stdout, r.Series, r.Requests, r.Hours)
}

// progress tells each tenth of the time that has passed.
func progress(o options) func(int) {
	tenth := max(1, int(o.lasts/o.interval/10))
	return func(n int) {
		if n%tenth == 0 {
			fmt.Fprintf(os.Stderr, "  %v of %v\n", (time.Duration(n) * o.interval).Round(time.Second), o.lasts)
		}
	}
}
