package dispatch

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// A provider that lets consumers wait for whole answers and gives none is not paid
// their prompts for ever; who leaves sooner than a stream may be left owes it still.
func TestAProviderThatGivesNoWholeAnswerIsPaidForThreeInARow(t *testing.T) {
	synctest.Test(t, paidForThreeInARow)
}

func paidForThreeInARow(t *testing.T) {
	var agent *deafAgent
	var report Report
	journal := &ledger{}
	d := New(Config{}, Env{
		Find:  func(*Order) (Session, bool) { return agent, true },
		After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
	}, journal, func(r Report) { report = r }, clock.System, slog.New(slog.DiscardHandler))
	d.Open()
	serve := func(o *Order, a *deafAgent, caller func(*listener) Caller) int64 {
		t.Helper()
		agent, journal.usage = a, nil
		if err := d.Serve(t.Context(), o, caller(&listener{commits: make(chan struct{})})); err != nil {
			t.Error(err)
		}
		if journal.usage == nil {
			return 0
		}
		return journal.usage.Bill.Prompt
	}
	order := func() *Order {
		o := orderOf(meter.Chat, false, false)
		o.MaxOutput = 100 // which is 5 s at answerRate
		return o
	}
	leave := func(o *Order, after time.Duration, prompt int64, outcome Outcome) {
		t.Helper()
		got := serve(o, &deafAgent{}, desert(after, true))
		switch {
		case got != prompt:
			t.Errorf("after %v: a prompt: got %d, want %d", after, got, prompt)
		case report.Outcome != outcome:
			t.Errorf("after %v: report.Outcome: got %v, want %v", after, report.Outcome, outcome)
		case report.Excused != (outcome == Failed):
			t.Errorf("after %v: report.Excused: got %t, want %t", after, report.Excused, outcome == Failed)
		}
	}
	give := func() {
		t.Helper()
		answer := &deafAgent{
			piece: `{"choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}]}`,
			end:   &session.End{Status: 200, Complete: true},
		}
		if serve(order(), answer, plainCaller); report.Outcome != Served {
			t.Fatalf("an answer: got %v, want %v", report.Outcome, Served)
		}
	}
	const silent = leastPatience + 1
	for range 10 {
		leave(order(), leastPatience, 1000, Cancelled) // too soon to say anything
	}
	for range 2 {
		for range maxSilences {
			leave(order(), silent, 1000, Cancelled)
		}
		leave(order(), silent, 0, Failed)
		leave(order(), silent, 0, Failed)
		leave(order(), leastPatience, 1000, Cancelled)
		other := order()
		other.Provider = ids.ProviderID{9}
		leave(other, silent, 1000, Cancelled)
		other = order()
		other.Model = "acme/other"
		leave(other, silent, 1000, Cancelled)
		give()
		d.silences.answered(other.pair())
		d.silences.answered(pair{ids.ProviderID{9}, order().Model})
	}
}

func TestSilencesAreBounded(t *testing.T) {
	var s unansweredLeavers
	for i := range 2 * maxSilent {
		s.another(pair{provider: ids.ProviderID{byte(i), byte(i >> 8), byte(i >> 16)}, model: "m"})
	}
	if got := len(s.left); got != maxSilent {
		t.Errorf("got %d remembered, want %d", got, maxSilent)
	}
}
