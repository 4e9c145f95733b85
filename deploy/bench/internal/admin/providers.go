package admin

import (
	"context"
	"fmt"
	"sync"
)

// callers is how many calls are made at a time where many are made.
const callers = 24

// shownEach is after how many providers progress is shown.
const shownEach = 2000

// Providers makes the providers named prefix-from to prefix-(to-1), as Provider does, and returns a key of each.
// shown is called now and then with how many are under way.
func (c Client) Providers(ctx context.Context, prefix string, from, to int, shown func(n int)) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keys := make([]string, to-from)
	next := make(chan int)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for i := range next {
				key, err := c.Provider(ctx, fmt.Sprintf("%s-%d", prefix, from+i))
				if err != nil {
					cancel(fmt.Errorf("make provider %d: %w", from+i, err))
					return
				}
				keys[i] = key
			}
		})
	}
	for i := 0; i < len(keys) && ctx.Err() == nil; i++ {
		if i > 0 && i%shownEach == 0 {
			shown(i)
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return keys, context.Cause(ctx)
}
