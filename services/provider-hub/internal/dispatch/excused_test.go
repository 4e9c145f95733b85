package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

func TestAProviderHasItsTimeBeforeItsSilenceIsItsFault(t *testing.T) {
	for name, c := range map[string]struct {
		kind    meter.Kind
		attempt uint32
		prompt  int64
		given   time.Duration
		hurried bool
		media   bool
	}{
		"all of its time":                      {meter.Chat, 1, 100, 20 * time.Second, false, false},
		"a shorter time that an operator sets": {meter.Chat, 1, 100, 5 * time.Second, false, false},
		"a long prompt and time for it":        {meter.Chat, 1, 10_000, 40 * time.Second, false, false},
		"a long prompt and no time for it":     {meter.Chat, 1, 10_000, 39 * time.Second, true, false},
		"a huge prompt in all that is left":    {meter.Chat, 1, 100_000, 60 * time.Second, true, false},
		"what an earlier attempt left":         {meter.Chat, 2, 100, 19 * time.Second, true, false},
		"all of its time in a second attempt":  {meter.Chat, 2, 100, 20 * time.Second, false, false},
		"an absurd estimate":                   {meter.Chat, 1, 1 << 62, time.Hour, true, false},
		"milliseconds of audio":                {meter.Transcriptions, 1, 3_600_000, 20 * time.Second, false, false},
		"media and time to fetch them":         {meter.Chat, 1, 100, 30 * time.Second, false, true},
		"media and no time to fetch them":      {meter.Chat, 1, 100, 29 * time.Second, true, true},
	} {
		o := Order{Kind: c.kind, Attempt: c.attempt, EstimatedPrompt: c.prompt, FirstContent: c.given, NamesMedia: c.media}
		if got := o.hurriedContent(); got != c.hurried {
			t.Errorf("%s: got hurried %v, want %v", name, got, c.hurried)
		}
	}
}

func TestAWholeAnswerThatNobodyCanGiveInTimeIsNotItsProvidersFault(t *testing.T) {
	for name, c := range map[string]struct {
		prompt, output int64
		given          time.Duration
		hurried        bool
	}{
		"an ordinary one":              {100, 4_096, 600 * time.Second, false},
		"a shorter time":               {100, 4_096, time.Second, false},
		"a longer one than can be had": {100, 32_000, 600 * time.Second, true},
		"a prompt that takes it all":   {300_000, 16, 600 * time.Second, true},
	} {
		o := Order{Kind: meter.Chat, Attempt: 1, EstimatedPrompt: c.prompt, MaxOutput: c.output, Total: c.given}
		if got := o.hurriedAnswer(); got != c.hurried {
			t.Errorf("%s: got hurried %v, want %v", name, got, c.hurried)
		}
	}
}

func TestWhatRoutersHearOfAnAttemptSaysWhoseItWasAndWhatItIsWorth(t *testing.T) {
	failed := &deafAgent{end: &session.End{Status: 500, Error: "CUDA error"}}
	for elsewhere, want := range map[bool]bool{false: false, true: true} {
		synctest.Test(t, func(t *testing.T) {
			_, _, report := failed.putOrder(t, func(o *Order) {
				o.AccountTag, o.FailedElsewhere, o.EstimatedPrompt = []byte("8 bytes!"), elsewhere, 1_234
			})
			if report.Outcome != Failed || report.Excused != want || string(report.AccountTag) != "8 bytes!" || !report.Chat ||
				report.Prompt != 1_234 {
				t.Errorf("failed elsewhere %v: got %+v, want it excused %v and the account's", elsewhere, report, want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		silent := &deafAgent{}
		_, _, report := silent.putOrder(t, func(o *Order) { o.EstimatedPrompt, o.FirstContent = 100_000, time.Minute })
		if report.Outcome != Failed || !report.Excused {
			t.Errorf("a huge prompt in a minute: got %+v, want an excused failure", report)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		silent := &deafAgent{}
		_, _, report := silent.putOrder(t, func(*Order) {})
		if report.Outcome != Failed || report.Excused {
			t.Errorf("a short prompt in 20 s: got %+v, want a failure that counts", report)
		}
	})
}

func TestAWholeAnswerTellsNoTimeToFirstContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &deafAgent{
			piece: `{"choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}]}`,
			end:   &session.End{Status: 200, Complete: true},
		}
		_, usage, report := s.put(t, 0, false, plainCaller)
		if usage == nil || report.Outcome != Served || report.FirstContent != 0 {
			t.Errorf("got %+v, want a served answer without a time to first content", report)
		}
	})
}

// slowReader takes its time over each event, as a consumer who does not read.
type slowReader struct {
	*listener
	pause time.Duration
}

func (r slowReader) Event(e Event) error {
	<-time.After(r.pause) // by the clock of the bubble that the test runs in
	return r.listener.Event(e)
}

func TestTheTimeThatAConsumerDoesNotReadIsNotItsProviders(t *testing.T) {
	const pause = 5 * time.Minute // longer than content may be away
	synctest.Test(t, func(t *testing.T) {
		s := &deafAgent{piece: hello}
		var began time.Time
		l, usage, report := s.put(t, 0, true, func(l *listener) Caller {
			began = time.Now()
			return slowReader{l, pause}
		})
		// The agent falls silent behind its first piece, and is lost after as long a
		// silence as any other, counted from when the consumer had read.
		if took := time.Since(began); took < pause+120*time.Second || report.Blocked < pause {
			t.Errorf("got lost after %v with %v blocked, want %v and more (failed %+v, usage %v)", took, report.Blocked,
				pause+120*time.Second, l.failed, usage != nil)
		}
	})
}
