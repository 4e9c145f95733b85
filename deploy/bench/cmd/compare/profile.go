package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// minProfile is the shortest load, in milliseconds, that is worth a
	// profile.
	minProfile = 3000
	// maxProfile bounds the bytes of one.
	maxProfile = 64 << 20
	// lastCollection is how long before its end garbage is collected.
	lastCollection = 300 * time.Millisecond
)

// saveProfile waits for the load to be warm and saves one kind of profile of
// base's process: what it spends its CPU on, where goroutines wait for locks
// (mutex) or for anything (block), or what it allocates.
func saveProfile(ctx context.Context, base, kind, file string, warm, dur time.Duration) error {
	if kind == "cpu" {
		kind = "profile"
	}
	ctx, cancel := context.WithTimeout(ctx, warm+dur+30*time.Second)
	defer cancel()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(warm):
	}
	if kind == "allocs" {
		// What was allocated is known after a garbage collection alone, and under a light
		// load none may come by itself.
		collect(ctx, base)
		last := time.AfterFunc(dur-lastCollection, func() { collect(ctx, base) })
		defer last.Stop()
	}
	url := fmt.Sprintf("%s/debug/pprof/%s?seconds=%d", base, kind, max(1, int(dur.Seconds())))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, io.LimitReader(res.Body, maxProfile)); err != nil {
		_ = f.Close()
		return fmt.Errorf("save %s: %w", file, err)
	}
	fmt.Fprintf(os.Stderr, "    saved %s\n", file)
	return f.Close()
}

// collect has base's process collect its garbage. A profile without it is worse and
// no fault.
func collect(ctx context.Context, base string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/debug/pprof/heap?gc=1", nil)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxProfile))
	_ = res.Body.Close()
}
