package replay_test

import (
	"fmt"
	"testing"
	"time"

	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/standing"
)

var start = time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)

// career makes evidence as the store does.
type career struct {
	t       testing.TB
	state   standing.State
	world   standing.World
	now     time.Time
	sealed  []replay.Sealed
	verdict probe.VerdictID
}

func begin(t testing.TB) *career {
	t.Helper()
	return &career{
		t: t, state: standing.New(start), now: start,
		world: standing.World{
			Offer: judgetest.Offer, Limits: ladder.DemoThresholds(), Rank: 1, ActiveSince: start, StatedTokens: 8_192,
		},
	}
}

func (c *career) apply(e standing.Event) {
	c.t.Helper()
	n := len(c.sealed)
	c.world.Key = fmt.Sprintf("event-%d", n)
	after, out, err := c.state.Apply(e, c.now, c.world)
	if err != nil {
		c.t.Fatalf("event %d: %v", n, err)
	}
	id := replay.ID{0: 1, 14: byte(n >> 8), 15: byte(n)}
	p, err := replay.New(id, c.now, e, c.world, c.state, after, out)
	if err != nil {
		c.t.Fatalf("make piece %d: %v", n, err)
	}
	plain, err := p.Encode()
	if err != nil {
		c.t.Fatalf("write piece %d: %v", n, err)
	}
	var previous replay.Hash
	if n > 0 {
		previous = c.sealed[n-1].Link
	}
	c.sealed, c.state = append(c.sealed, replay.Seal(id, plain, previous)), after
	for _, v := range out.Verdicts {
		c.verdict = v.ID
	}
}

func (c *career) judged(r judge.Record) {
	c.t.Helper()
	c.apply(standing.Event{Judged: &r})
}

// noticed brings an offer to a notice.
func noticed(t testing.TB) *career {
	t.Helper()
	c := begin(t)
	for n := 0; c.state.Level != ladder.Notice; n++ {
		c.judged(judgetest.Greedy(t, judgetest.Say{N: n, Exceeded: true}))
		c.now = c.now.Add(time.Hour)
	}
	return c
}
