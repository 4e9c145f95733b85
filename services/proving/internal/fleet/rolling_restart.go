package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// returnTimeout is how long agents may take to come back to a hub.
const returnTimeout = 2 * time.Minute

// Roll restarts a process as part of a rolling restart. It returns when the next process
// may follow. For a hub that means that as many agents are connected as before, or that
// they stay away.
func (f *Fleet) Roll(ctx context.Context, name string) error {
	before := 0
	if Program(name) == Hub {
		var err error
		if before, err = f.sessions(ctx, name); err != nil {
			return err
		}
	}
	if err := f.Restart(ctx, name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for before > 0 {
		now, err := f.sessions(ctx, name)
		if err == nil && now >= before {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			f.cfg.Log.Warn("agents have not come back to a hub", "hub", name, "before", before, "now", now)
			return nil
		}
	}
	return nil
}

var sessionsMetric = regexp.MustCompile(`(?m)^svc_provider_hub_sessions(?:\{[^}]*\})? (\d+)$`)

// sessions is the number of agents of a hub.
func (f *Fleet) sessions(ctx context.Context, name string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.AdminURL(name)+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("count the agents of %s: %w", name, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("count the agents of %s: %w", name, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return 0, fmt.Errorf("count the agents of %s: %w", name, err)
	}
	match := sessionsMetric.FindSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("count the agents of %s: it does not report them", name)
	}
	return strconv.Atoi(string(match[1]))
}
