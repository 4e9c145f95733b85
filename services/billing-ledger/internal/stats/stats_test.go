package stats_test

import (
	"crypto/rand"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/stats"
)

var noon = time.Date(2026, 7, 30, 12, 34, 56, 0, time.UTC)

func newProvider(t *testing.T) ids.ProviderID {
	t.Helper()
	id, err := ids.NewProvider(noon, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// report is a streamed answer of 100 tokens in 2 s, the first of them after 1 s.
func report(provider ids.ProviderID) stats.Report {
	return stats.Report{
		RecordedAt: noon, Model: "m", ByTokens: true, Mode: 2, Outcome: "completed", Committed: 1, Stream: true,
		Attempts:       []hold.Attempt{{Attempt: 1, ProviderID: provider.String(), Result: "served"}},
		FirstContentMS: 1000, TotalMS: 2000, Prompt: 7, Completion: 100,
	}
}

// of returns the sum of a provider in the hour of the reports.
func of(sums map[stats.Key]*stats.Sum, provider ids.ProviderID) (total stats.Sum) {
	for k, s := range sums {
		if k.Span == stats.Hour && k.Provider == provider {
			total.Add(s)
		}
	}
	return total
}

func TestAReportIsOnceInEachSpan(t *testing.T) {
	p := newProvider(t)
	sums := stats.SumUp([]stats.Report{report(p)})
	if len(sums) != 3 {
		t.Errorf("sums: got %d, want 3", len(sums))
	}
	for span, at := range map[stats.Span]time.Time{
		stats.FiveMinutes: time.Date(2026, 7, 30, 12, 30, 0, 0, time.UTC),
		stats.Hour:        time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC),
		stats.Day:         time.Date(2026, 7, 30, 0, 0, 0, 0, time.UTC),
	} {
		s := sums[stats.Key{Span: span, At: at, Model: "m", Provider: p, Mode: 2}]
		if s == nil {
			t.Errorf("%d minutes: got no sum, want one", span)
			continue
		}
		want := stats.Sum{Requests: 1, Judged: 1, Succeeded: 1, Tokens: 107}
		want.FirstContent.Count(1000)
		want.Speed.Count(100 * 100)
		if *s != want {
			t.Errorf("%d minutes: got %+v, want %+v", span, *s, want)
		}
	}
}

func TestWhoCallersLeftAndWhatWasRefusedJudgesNobody(t *testing.T) {
	p := newProvider(t)
	for outcome, want := range map[string][2]int64{
		"completed": {1, 1}, "failed": {1, 0}, "timeout": {1, 0}, "client_gone": {0, 0}, "refused": {0, 0},
	} {
		r := report(p)
		r.Outcome = outcome
		s := of(stats.SumUp([]stats.Report{r}), p)
		if s.Judged != want[0] {
			t.Errorf("%s: judged: got %d, want %d", outcome, s.Judged, want[0])
		}
		if s.Succeeded != want[1] {
			t.Errorf("%s: succeeded: got %d, want %d", outcome, s.Succeeded, want[1])
		}
	}
}

func TestAFailedAttemptCountsAgainstItsOwnProvider(t *testing.T) {
	bad, good := newProvider(t), newProvider(t)
	r := report(good)
	r.Committed = 2
	r.Attempts = []hold.Attempt{
		{Attempt: 1, ProviderID: bad.String(), Result: "timeout"}, {Attempt: 2, ProviderID: good.String(), Result: "served"},
	}
	sums := stats.SumUp([]stats.Report{r})
	first, second := of(sums, bad), of(sums, good)
	if first.FailedOver != 1 {
		t.Errorf("failed attempts of the first: got %d, want 1", first.FailedOver)
	}
	if first.Requests != 0 {
		t.Errorf("requests of the first: got %d, want 0", first.Requests)
	}
	if second.Requests != 1 {
		t.Errorf("requests of the second: got %d, want 1", second.Requests)
	}
	if second.Retried != 1 {
		t.Errorf("retried requests of the second: got %d, want 1", second.Retried)
	}
}

func TestARequestThatNobodyWorkedOnIsOfNoProvider(t *testing.T) {
	p := newProvider(t)
	r := report(p)
	r.Committed, r.Outcome, r.Attempts[0].Result = 0, "failed", "busy"
	sums := stats.SumUp([]stats.Report{r})
	if got := of(sums, p).Requests; got != 0 {
		t.Errorf("of the provider: got %d requests, want 0", got)
	}
	if got := of(sums, ids.ProviderID{}).Requests; got != 1 {
		t.Errorf("of no provider: got %d requests, want 1", got)
	}
}

func TestOnlyStreamsOfSomeTokensTellASpeed(t *testing.T) {
	p := newProvider(t)
	for name, change := range map[string]func(*stats.Report){
		"whole answer": func(r *stats.Report) { r.Stream = false },
		"images":       func(r *stats.Report) { r.ByTokens = false },
		"few tokens":   func(r *stats.Report) { r.Completion = 15 },
		"at once":      func(r *stats.Report) { r.TotalMS = r.FirstContentMS },
		"nothing sent": func(r *stats.Report) { r.Committed = 0 },
	} {
		r := report(p)
		change(&r)
		s := of(stats.SumUp([]stats.Report{r}), p)
		if got := s.Speed.Total(); got != 0 {
			t.Errorf("%s: speeds: got %d, want 0", name, got)
		}
	}
}
