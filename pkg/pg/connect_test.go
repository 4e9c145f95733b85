package pg_test

import (
	"testing"
	"time"

	"svc.internal/pkg/pg"
)

func TestTheMakingOfAConnectionIsBoundedByTheURLOrAt20Seconds(t *testing.T) {
	for url, want := range map[string]time.Duration{
		"postgres://svc@127.0.0.1:1/x":                   20 * time.Second,
		"postgres://svc@127.0.0.1:1/x?connect_timeout=3": 3 * time.Second,
	} {
		if got := pg.ConnectTimeout(t, url); got != want {
			t.Errorf("%s: got a bound of %v, want %v", url, got, want)
		}
	}
}
