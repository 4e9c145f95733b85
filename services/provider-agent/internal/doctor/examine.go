package doctor

import (
	"context"
	"slices"
	"sync"
	"time"
)

// patience bounds all checks together.
const patience = 15 * time.Second

// Examine makes all checks, in a fixed order.
func Examine(ctx context.Context, s Subject) []Finding {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	checks := []func(context.Context) []Finding{
		s.settings, s.gpu, s.disk, s.engines, s.catalog, s.windows, s.clock, s.socket, s.account,
	}
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() { found[i] = check(ctx) })
	}
	all.Wait()
	return judged(slices.Concat(found...), s.Models)
}
