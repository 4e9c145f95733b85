package session_test

import (
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/quota"
	. "svc.internal/services/provider-hub/internal/sessionnext"
	"svc.internal/services/provider-hub/internal/sessionnext/sessiontest"
)

// budget is what a hub of tests may hold.
const budget = 1 << 30

// withDefaults fills in what is zero, as the gate does.
func withDefaults(c Config) Config {
	fill(&c.RegisterTimeout, 10*time.Second)
	fill(&c.RefuseHold, 2*time.Second)
	fill(&c.HeartbeatInterval, 10*time.Second)
	fill(&c.CancelGrace, 10*time.Second)
	fill(&c.StreamWindow, 256<<10)
	fill(&c.ConnWindow, 8<<20)
	return c
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// environment is what the sessions of one hub share.
func environment(c Config, desk *sessiontest.Registrar) *Env {
	return &Env{
		Config: withDefaults(c), Registrar: desk, Clock: clock.System, Counts: &Counts{}, Held: quota.NewBudget(budget),
	}
}
