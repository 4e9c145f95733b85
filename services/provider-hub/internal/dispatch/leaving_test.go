package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/services/provider-hub/internal/meter"
)

// deserter hangs up after a time and commits in leaving, as a gateway does whose
// client left.
type deserter struct {
	*listener
	gone chan struct{}
}

func (d deserter) Gone() <-chan struct{} { return d.gone }

// desert is a caller that hangs up after a time, behind a commit or without one.
func desert(after time.Duration, commits bool) func(*listener) Caller {
	return func(l *listener) Caller {
		d := deserter{l, make(chan struct{})}
		time.AfterFunc(after, func() {
			if commits {
				close(l.commits)
			}
			close(d.gone)
		})
		return d
	}
}

// leaving is a consumer who leaves before content, and what comes of it.
type leaving struct {
	after   time.Duration
	quiet   bool // it leaves without a commit
	whole   bool
	vendor  bool
	kind    meter.Kind
	said    string
	change  func(*Order)
	prompt  int64
	outcome Outcome
	excused bool
}

func TestAConsumerWhoLeavesBeforeContentPaysThePromptUnlessTheProviderHung(t *testing.T) {
	const role = `data: {"choices":[{"index":0,"delta":{"role":"assistant"}}]}` + "\n\n"
	usual := func(d time.Duration) func(*Order) { return func(o *Order) { o.UsualFirstContent = d } }
	media := func(o *Order) { o.NamesMedia = true }
	claimed := role + `data: {"choices":[],"usage":{"prompt_tokens":1400,"completion_tokens":0,"total_tokens":1400}}` +
		"\n\n"
	for name, c := range map[string]leaving{
		"in the free time":                            {after: freeTime - 1, outcome: Cancelled},
		"of a vendor, at once":                        {after: 1, vendor: true, prompt: 1000, outcome: Cancelled},
		"of a vendor, of a gateway that does not ask": {after: 1, vendor: true, quiet: true, outcome: Cancelled},
		"of a vendor, vectors": {after: 1, vendor: true, whole: true, kind: meter.Embeddings, prompt: 1000,
			outcome: Cancelled},
		"of a vendor, images": {after: 1, vendor: true, whole: true, kind: meter.Images,
			outcome: Cancelled},
		"later":                                 {after: freeTime, prompt: 1000, outcome: Cancelled},
		"later, of a gateway that does not ask": {after: freeTime, quiet: true, outcome: Cancelled},
		"behind a role and a claim of a prompt": {after: freeTime, said: claimed, prompt: 1000, outcome: Cancelled},
		"of a provider that is slow as usual": {after: 8 * time.Second, change: usual(4 * time.Second), prompt: 1000,
			outcome: Cancelled},
		"of a provider that hangs": {after: 8*time.Second + 1, change: usual(4 * time.Second),
			outcome: Failed},
		"of a provider that sends only a role": {after: 8*time.Second + 1, said: role, change: usual(4 * time.Second),
			outcome: Failed},
		"within what any provider has": {after: leastPatience, change: usual(time.Millisecond), prompt: 1000,
			outcome: Cancelled},
		"after what any provider has": {after: leastPatience + 1, change: usual(time.Millisecond),
			outcome: Failed},
		"a prompt that takes long, usual unknown": {
			after:  20 * time.Second,
			change: func(o *Order) { o.EstimatedPrompt, o.FirstContent = 10_000, time.Minute },
			prompt: 10_000, outcome: Cancelled,
		},
		"a whole answer, later": {after: 10 * time.Second, whole: true,
			change: func(o *Order) { o.MaxOutput = 100 }, prompt: 1000, outcome: Cancelled},
		"a whole answer of which nothing comes": {after: 26 * time.Second, whole: true,
			change: func(o *Order) { o.MaxOutput = 1 << 40 }, outcome: Failed, excused: true},
		"while its media may be fetched": {after: leastPatience + fetchTime, change: media, prompt: 1000,
			outcome: Cancelled},
		"behind media that may be fetched": {after: leastPatience + fetchTime + 1, change: media, outcome: Failed,
			excused: true},
		"vectors": {after: 2 * time.Second, whole: true, kind: meter.Embeddings, prompt: 1000,
			outcome: Cancelled},
		"audio": {after: 2 * time.Second, whole: true, kind: meter.Transcriptions,
			prompt: 1000, outcome: Cancelled},
		"images, which have no prompt": {after: 50 * time.Second, whole: true, kind: meter.Images,
			outcome: Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, c.leave)
		})
	}
}

func (c leaving) leave(t *testing.T) {
	o := orderOf(c.kind, !c.whole, false)
	if c.change != nil {
		c.change(o)
	}
	o.Vendor = c.vendor
	agent := &deafAgent{piece: c.said}
	l, usage, report := agent.serve(t, 0, o, desert(c.after, !c.quiet))
	billed := int64(0)
	if usage != nil {
		billed = usage.Bill.Prompt
		if usage.Served.Ending != meter.ClientGone || usage.Bill.Completion != 0 {
			t.Errorf("got %v for %+v, want a client that left", usage.Served.Ending, usage.Bill)
		}
	}
	if billed != c.prompt || (usage != nil) != (c.prompt > 0) {
		t.Errorf("got a prompt of %d billed, want %d", billed, c.prompt)
	}
	if owes := l.failed == nil; owes != (c.prompt > 0 || c.quiet && c.outcome == Cancelled && c.after >= o.freeTime()) {
		t.Errorf("got told %+v, want to hear of a failure where nothing is owed", l.failed)
	}
	if report.Outcome != c.outcome || report.Excused != c.excused || !agent.closed {
		t.Errorf("got %v (excused %v, closed %v), want %v (excused %v)", report.Outcome, report.Excused, agent.closed,
			c.outcome, c.excused)
	}
}
