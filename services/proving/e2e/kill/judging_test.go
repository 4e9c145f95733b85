package kill

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// sound is a cell without a fault.
func sound() (cell, told, books) {
	c := cell{point: point{"gateway.relaying", relaying, streamed}, victim: settlementVictim,
		stream: true, prompt: 7, answer: 5, emitted: 3}
	l := line{source: "payg", ending: "completed", hub: "hub-1", prompt: 7, completion: 5, charged: 22_000, payout: 19_800}
	return c, told{status: 200, whole: true, tokens: 5}, books{
		holds: []string{"settled"}, lines: []line{l}, earnings: []int64{19_800}, posted: credit - 22_000,
	}
}

// charge puts another charge into the books.
func (b *books) charge(prompt, completion int64) {
	l := &b.lines[0]
	l.prompt, l.completion = prompt, completion
	l.charged, l.payout = prompt*promptPrice+completion*completionPrice, prompt*promptPayout+completion*completionPayout
	b.earnings, b.posted = []int64{l.payout}, credit-l.charged
}

// release removes the settlement from the books.
func (b *books) release() {
	b.holds, b.lines, b.earnings, b.posted = []string{"released"}, nil, nil, credit
}

func TestTheJudgeAcceptsWhatTheTableOfEndingsAllows(t *testing.T) {
	for name, change := range map[string]func(*cell, *told, *books){
		"served": func(*cell, *told, *books) {},
		"the provider died in the stream": func(c *cell, t *told, b *books) {
			c.victim = agent
			*t = told{status: 200, code: "upstream_error", tokens: 3}
			b.charge(0, 3)
		},
		"the gateway died in the stream": func(c *cell, t *told, b *books) {
			c.victim = gateway
			*t = told{status: 200, tokens: 1, err: errors.New("reset")}
			b.charge(0, 3)
		},
		"the gateway died when usage was on disk": func(c *cell, t *told, _ *books) {
			c.victim, c.point.stage = gateway, finished
			*t = told{err: errors.New("reset")}
		},
		"the hub died when usage was published, and the gateway's report came late": func(c *cell, t *told, b *books) {
			c.victim, c.point.stage, c.point.name = hub, finished, "hub.usage.published"
			*t = told{status: 200, code: "upstream_error", tokens: 5}
			b.returned, b.posted = 7000, b.posted+7000
		},
		"nothing was served": func(c *cell, t *told, b *books) {
			c.victim = hub
			*t = told{status: 502, code: "upstream_error"}
			b.release()
		},
		"nothing was admitted": func(c *cell, t *told, b *books) {
			c.victim, c.point.stage = postgres, admission
			*t = told{status: 503, code: "admission_unavailable"}
			b.release()
			b.holds = nil
		},
	} {
		c, heard, b := sound()
		change(&c, &heard, &b)
		if wrong := judge(c, heard, b); len(wrong) > 0 {
			t.Errorf("%s: len(wrong): got %d, want 0, in %v", name, len(wrong), wrong)
		}
	}
}

func TestTheJudgeFindsEveryWrong(t *testing.T) {
	for want, change := range map[string]func(*cell, *told, *books){
		"waited":               func(_ *cell, t *told, _ *books) { t.took = tellBound + time.Second },
		"has 4 of 5 tokens":    func(_ *cell, t *told, _ *books) { t.tokens = 4 },
		"was not served":       func(_ *cell, t *told, _ *books) { t.whole, t.code = false, "upstream_error" },
		"the connection broke": func(c *cell, t *told, _ *books) { c.victim = hub; *t = told{err: errors.New("reset")} },
		"is blamed": func(c *cell, t *told, b *books) {
			c.victim = hub
			*t = told{status: 429, code: "x"}
			b.release()
		},
		"has no error":           func(c *cell, t *told, b *books) { c.victim = hub; *t = told{status: 200}; b.charge(0, 0) },
		"2 holds":                func(_ *cell, _ *told, b *books) { b.holds = []string{"settled", "settled"} },
		"2 settlements":          func(_ *cell, _ *told, b *books) { b.lines = append(b.lines, b.lines[0]) },
		"still open":             func(_ *cell, _ *told, b *books) { b.release(); b.holds[0] = "open" },
		"still held":             func(_ *cell, _ *told, b *books) { b.held = 1 },
		"in quarantine":          func(_ *cell, _ *told, b *books) { b.quarantined = 1 },
		"the platform pays":      func(_ *cell, _ *told, b *books) { b.lines[0].source = "orphan" },
		"for what costs 22000":   func(_ *cell, _ *told, b *books) { b.lines[0].charged-- },
		"for what pays 19800":    func(_ *cell, _ *told, b *books) { b.earnings[0]++ },
		"recorded []":            func(_ *cell, _ *told, b *books) { b.earnings = nil; b.lines[0].payout = 1 },
		"are left":               func(_ *cell, _ *told, b *books) { b.posted++ },
		"hold is expired":        func(_ *cell, _ *told, b *books) { b.holds[0] = "expired" },
		"is not charged as such": func(_ *cell, _ *told, b *books) { b.charge(7, 4) },
		"at most 0 + 2 may be": func(c *cell, t *told, b *books) {
			c.victim = agent
			*t = told{status: 200, code: "x", tokens: 2}
			b.charge(0, 3)
		},
		"at most 0 + 3 may be": func(c *cell, t *told, b *books) {
			c.victim = gateway
			*t = told{err: errors.New("reset")}
			b.charge(7, 3)
		},
		"there are 0 settlements": func(_ *cell, _ *told, b *books) { b.lines, b.earnings, b.posted = nil, nil, credit },
		"7000 were given back":    func(_ *cell, _ *told, b *books) { b.returned = 7000 },
		"7000 of 22000 are given back for 5": func(_ *cell, _ *told, b *books) {
			b.returned, b.posted = 7000, b.posted+7000
		},
		"8 + 5 tokens are charged": func(_ *cell, _ *told, b *books) { b.charge(8, 5) },
	} {
		c, heard, b := sound()
		change(&c, &heard, &b)
		if wrong := strings.Join(judge(c, heard, b), "; "); !strings.Contains(wrong, want) {
			t.Errorf("want %q, found %q", want, wrong)
		}
	}
}
