// hub measures one provider-hub with many agents, on a product that is running:
// what a session takes of the hub's and the router's memory, how soon all agents
// are back when they are cut off and what others feel of it, what one stream
// and one large body cost the other streams of their socket, and how soon
// connections are found out that are half open. deploy/dev/bench-hub.sh starts
// it all.
//
// Figures are shown beside their gates; a gate that is missed is no error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"

	"inference-bench/internal/admin"
	"inference-bench/internal/proc"
	"inference-bench/internal/sheet"
	"inference-bench/internal/vitals"
	"inference-bench/internal/wide"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "hub:", err)
		os.Exit(1)
	}
}

// bench is the run.
type bench struct {
	agents, v1      int
	base, ws        string
	hub, router     vitals.Process
	floor           vitals.Process // its Admin is where its sockets connect
	crowd, dir      string
	profiles        string
	only            string
	operator        admin.Client
	client          wide.Client
	http            *http.Client
	keys            []string // of the crowd
	own             []string // of the few agents that are not of the crowd
	sheet           sheet.Sheet
	progress        io.Writer
	steadyProviders int
}

func run(ctx context.Context) error {
	b := &bench{progress: os.Stderr, steadyProviders: 4}
	var operators, hub, router, floor string
	flag.IntVar(&b.agents, "agents", 10_000, "agents; half of them speak dialect v1")
	flag.StringVar(&b.base, "base", "http://127.0.0.1:8080", "public API, without /v1")
	flag.StringVar(&operators, "admin", "http://127.0.0.1:8082", "root of the operators' API")
	flag.StringVar(&b.ws, "ws", "ws://127.0.0.1:8081", "where agents connect, without /ws")
	flag.StringVar(&b.crowd, "crowd", "crowd", "the program that is the agents")
	flag.StringVar(&b.dir, "dir", ".", "folder for what is written")
	flag.StringVar(&hub, "hub", "", "the hub: `pid,admin URL`")
	flag.StringVar(&router, "router", "", "the router: `pid,admin URL`")
	flag.StringVar(&floor, "floor", "", "wsfloor's hub: `pid,WebSocket URL`")
	flag.StringVar(&b.profiles, "profiles", "", "folder for profiles of hub and router; none without it")
	flag.StringVar(&b.only, "only", "", "these parts alone: crowd,streams,silent")
	agent := flag.String("agent", "", "be an agent that offers these `models`, and measure nothing")
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	flag.Parse()
	if *agent != "" {
		return serveWide(ctx, b.ws, *agent)
	}
	b.v1 = b.agents / 2
	for text, to := range map[string]*vitals.Process{hub: &b.hub, router: &b.router, floor: &b.floor} {
		if err := parseProcess(text, to); err != nil {
			return err
		}
	}
	b.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: 2 * time.Minute}
	b.operator = admin.Client{Base: operators, Token: os.Getenv("SVC_ADMIN_TOKEN"), HTTP: b.http}
	before := proc.LoadAverage()
	if err := b.measure(ctx); err != nil {
		return err
	}
	b.sheet.Machine = map[string]string{
		"cpu": fmt.Sprintf("%d cores", runtime.NumCPU()), "go": runtime.Version(),
		"agents":              fmt.Sprintf("%d, %d of them v1", b.agents, b.v1),
		"load_average_before": before, "load_average_after": proc.LoadAverage(),
	}
	if *asJSON {
		return b.sheet.JSON(os.Stdout)
	}
	fmt.Fprintf(os.Stdout,
		"\n  %d agents, %d of them v1, each of a provider of its own; %d cores; load average %s before, %s after\n\n",
		b.agents, b.v1, runtime.NumCPU(), before, proc.LoadAverage())
	return b.sheet.Text(os.Stdout)
}

// parseProcess reads pid,URL.
func parseProcess(text string, to *vitals.Process) error {
	pid, at, ok := strings.Cut(text, ",")
	n, err := strconv.Atoi(pid)
	if !ok || err != nil {
		return fmt.Errorf("%q is not a pid and a URL", text)
	}
	*to = vitals.Process{Pid: n, Admin: at}
	return nil
}

// longest bounds all parts together.
const longest = 10 * time.Minute

// measure runs the parts. One that fails, or for which there is no time left,
// leaves its figures unmeasured, and the others go on.
func (b *bench) measure(interrupted context.Context) error {
	ctx, cancel := context.WithTimeout(interrupted, longest)
	defer cancel()
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"crowd", b.measureCrowd}, {"streams", b.measureStreams}, {"silent", b.measureSilent}} {
		if b.only != "" && !strings.Contains(","+b.only+",", ","+part.name+",") {
			continue
		}
		if err := part.run(ctx); err != nil {
			if interrupted.Err() != nil {
				return errors.Join(err, interrupted.Err())
			}
			b.say("this part failed: %v", err)
		}
	}
	return nil
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "  "+format+"\n", args...)
}
