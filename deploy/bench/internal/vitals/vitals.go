// Package vitals reads what one process of the product says of itself on its
// admin address, and what the kernel says of it: gauges, memory in use behind a
// garbage collection, resident memory.
package vitals

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"inference-bench/internal/proc"
)

// maxText bounds what is read of an answer, and timeout how long one may take;
// a garbage collection comes first in some.
const (
	maxText = 64 << 20
	timeout = 30 * time.Second
	// gaugeStep is the pause between two looks at a gauge that is waited for.
	gaugeStep = 100 * time.Millisecond
)

// Process is one process.
type Process struct {
	Pid int
	// Admin is where its metrics and profiles are, as http://host:port.
	Admin string
}

// Resident is its resident memory in bytes.
func (p Process) Resident() int64 { return proc.RSS([]int{p.Pid}) }

// Gauge is the sum of a metric over its labels; the name is as the metrics page
// writes it.
func (p Process) Gauge(ctx context.Context, name string) (float64, error) {
	text, err := p.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	return gauge(text, name)
}

// AwaitGauge waits until the sum of a metric is want, limit at most.
func (p Process) AwaitGauge(ctx context.Context, name string, want int, limit time.Duration) error {
	tick := time.NewTicker(gaugeStep)
	defer tick.Stop()
	for began := time.Now(); ; {
		is, err := p.Gauge(ctx, name)
		if err != nil || is == float64(want) {
			return err
		}
		if time.Since(began) > limit {
			return fmt.Errorf("%s is %.0f, not %d, after %v", name, is, want, limit)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func gauge(text []byte, name string) (sum float64, err error) {
	found := false
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(string(line), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		if end := strings.LastIndexByte(rest, '}'); end >= 0 {
			rest = rest[end+1:]
		}
		words := strings.Fields(rest)
		if len(words) == 0 {
			return 0, fmt.Errorf("metric %s has no value", name)
		}
		value, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum, found = sum+value, true
	}
	if !found {
		return 0, fmt.Errorf("there is no metric %s", name)
	}
	return sum, nil
}

// Live is what a process still uses behind a garbage collection, in bytes.
type Live struct{ Heap, Stacks int64 }

// Collect has the process collect its garbage and reads the memory still in use.
func (p Process) Collect(ctx context.Context) (Live, error) {
	text, err := p.get(ctx, "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return Live{}, err
	}
	return live(text)
}

// live reads the statistics at the end of a heap profile in text.
func live(text []byte) (Live, error) {
	var l Live
	for field, to := range map[string]*int64{"# HeapAlloc = ": &l.Heap, "# Stack = ": &l.Stacks} {
		_, rest, ok := strings.Cut(string(text), "\n"+field)
		if !ok {
			return Live{}, fmt.Errorf("the profile has no %q", field)
		}
		number := rest[:strings.IndexAny(rest+" ", " \n")]
		var err error
		if *to, err = strconv.ParseInt(number, 10, 64); err != nil {
			return Live{}, fmt.Errorf("the profile's %q: %w", field, err)
		}
	}
	return l, nil
}

// Profile saves a profile, such as heap or profile?seconds=20.
func (p Process) Profile(ctx context.Context, what, file string) error {
	text, err := p.get(ctx, "/debug/pprof/"+what)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func (p Process) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(bufio.NewReader(io.LimitReader(res.Body, maxText)))
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("get %s%s: %w", p.Admin, path, err)
	}
	return text, nil
}
