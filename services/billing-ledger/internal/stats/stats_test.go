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
		RecordedAt: noon, Model: "m", ByTokens: true, Paid: true, Outcome: "completed", Committed: 1, Stream: true,
		Attempts:       []hold.Attempt{attempt(1, provider, "served")},
		FirstContentMS: 1000, TotalMS: 2000, Prompt: 7, Completion: 100,
	}
}

func attempt(n int32, provider ids.ProviderID, result string) hold.Attempt {
	return hold.Attempt{Attempt: n, ProviderID: provider.String(), Result: result, LatencyMS: 300}
}

// failure is a request that providers were tried for in vain.
func failure(result string, providers ...ids.ProviderID) stats.Report {
	r := stats.Report{RecordedAt: noon, Model: "m", Outcome: "failed", Paid: true}
	for i, p := range providers {
		r.Attempts = append(r.Attempts, attempt(int32(i)+1, p, result))
	}
	return r
}

func sumUp(reports ...stats.Report) map[stats.Key]*stats.Sum {
	return stats.SumUp(reports, stats.UsesOf(reports)).Sums
}

// of returns the sum of a subject in the hour of the reports, of the service in their day.
func of(sums map[stats.Key]*stats.Sum, subject stats.Subject) stats.Sum {
	span := stats.Hour
	if subject == (stats.Subject{}) {
		span = stats.Day
	}
	if s := sums[stats.Key{Span: span, At: span.Start(noon), Subject: subject}]; s != nil {
		return *s
	}
	return stats.Sum{}
}

var (
	service = stats.Subject{}
	model   = stats.Subject{Model: "m"}
)

func at(p ids.ProviderID) stats.Subject { return stats.Subject{Provider: p} }

func TestAReportIsOfTheServiceItsModelAndItsProvider(t *testing.T) {
	p := newProvider(t)
	sums := sumUp(report(p))
	if len(sums) != 4 {
		t.Errorf("sums: got %d, want 4", len(sums))
	}
	want := stats.Sum{Requests: 1, Judged: 1, Succeeded: 1, Tokens: 107}
	want.FirstContent.Count(1000)
	want.Speed.Count(100 * 100)
	for _, k := range []stats.Key{
		{Span: stats.FiveMinutes, At: time.Date(2026, 7, 30, 12, 30, 0, 0, time.UTC)},
		{Span: stats.Day, At: time.Date(2026, 7, 30, 0, 0, 0, 0, time.UTC)},
		{Span: stats.Hour, At: time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC), Subject: model},
		{Span: stats.Hour, At: time.Date(2026, 7, 30, 12, 0, 0, 0, time.UTC), Subject: at(p)},
	} {
		if s := sums[k]; s == nil {
			t.Errorf("%+v: got no sum, want one", k)
		} else if *s != want {
			t.Errorf("%+v: got %+v, want %+v", k, *s, want)
		}
	}
}

// wantJudged checks a rate.
func wantJudged(t *testing.T, name string, s stats.Sum, judged, succeeded int64) {
	t.Helper()
	if s.Judged != judged {
		t.Errorf("%s: judged: got %d, want %d", name, s.Judged, judged)
	}
	if s.Succeeded != succeeded {
		t.Errorf("%s: succeeded: got %d, want %d", name, s.Succeeded, succeeded)
	}
}

func TestWhatCostsNothingJudgesNobody(t *testing.T) {
	p := newProvider(t)
	refused := failure("refused", p)
	refused.Outcome = "refused"
	left := failure("client_gone", p)
	left.Outcome = "client_gone"
	for name, free := range map[string]stats.Report{
		"a price that nobody meets": failure("failed"), "busy": failure("busy", p), "offline": failure("unavailable", p),
		"an engine's refusal": refused, "left": left,
	} {
		sums := sumUp(report(p), free, free)
		for who, subject := range map[string]stats.Subject{"service": service, "model": model, "provider": at(p)} {
			wantJudged(t, name+", "+who, of(sums, subject), 1, 1)
		}
		if got := of(sums, model).Requests; got != 3 {
			t.Errorf("%s: requests: got %d, want 3", name, got)
		}
	}
}

func TestFailuresCountAsFarAsTheirAccountWasServed(t *testing.T) {
	p := newProvider(t)
	poison, slow, good := failure("failed", p), failure("timeout", p), report(p)
	slow.Outcome = "timeout"
	stranger := poison
	stranger.Account = ids.AccountID{1}
	for name, c := range map[string]struct {
		reports           []stats.Report
		judged, succeeded int64
	}{
		"nothing served":      {[]stats.Report{poison, poison, poison}, 0, 0},
		"one served":          {[]stats.Report{poison, poison, good, poison}, 2, 1},
		"half served":         {[]stats.Report{good, poison, slow, good}, 4, 2},
		"served for somebody": {[]stats.Report{good, good, stranger, stranger}, 2, 2},
	} {
		sums := sumUp(c.reports...)
		for who, subject := range map[string]stats.Subject{"service": service, "model": model, "provider": at(p)} {
			wantJudged(t, name+", "+who, of(sums, subject), c.judged, c.succeeded)
		}
	}
}

func TestWhatNobodyPaidForJudgesNobody(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	free, failed, retried := report(p), failure("failed", p), timed(p, other)
	free.Paid, failed.Paid, retried.Paid = false, false, false
	tally := stats.SumUp([]stats.Report{free, failed, retried}, map[stats.UseKey]*stats.Use{})
	for who, subject := range map[string]stats.Subject{
		"service": service, "model": model, "provider": at(p), "another provider": at(other),
	} {
		wantJudged(t, who, of(tally.Sums, subject), 0, 0)
	}
	for k, u := range tally.Uses {
		if *u != (stats.Use{}) {
			t.Errorf("%+v: got %+v, want nothing", k, *u)
		}
	}
	if got := of(tally.Sums, model).Requests; got != 3 {
		t.Errorf("requests: got %d, want 3", got)
	}
}

func TestUsesOfEarlierReportsCount(t *testing.T) {
	p := newProvider(t)
	all := []stats.Report{failure("failed", p), failure("failed", p), report(p), report(p), failure("failed", p)}
	whole := stats.SumUp(all, stats.UsesOf(all))
	uses, pieces := map[stats.UseKey]*stats.Use{}, map[stats.Key]*stats.Sum{}
	for i := range all {
		more := stats.UsesOf(all[i : i+1])
		for k := range more {
			if before := uses[k]; before != nil {
				more[k] = before
			}
		}
		tally := stats.SumUp(all[i:i+1], more)
		for k, u := range tally.Uses {
			uses[k] = u
		}
		for k, s := range tally.Sums {
			if pieces[k] == nil {
				pieces[k] = &stats.Sum{}
			}
			pieces[k].Add(s)
		}
	}
	for k, want := range whole.Sums {
		got := pieces[k]
		if got == nil {
			t.Fatalf("%+v: in steps: got no sum, want %+v", k, *want)
		}
		if *got != *want {
			t.Errorf("%+v: in steps: got %+v, want %+v", k, *got, *want)
		}
	}
}

func TestAFailedAttemptOfAServedRequestCountsAgainstItsOwnProvider(t *testing.T) {
	bad, good := newProvider(t), newProvider(t)
	r := report(good)
	r.Committed = 2
	r.Attempts = []hold.Attempt{attempt(1, bad, "timeout"), attempt(2, good, "served")}
	sums := sumUp(r)
	wantJudged(t, "the first", of(sums, at(bad)), 1, 0)
	wantJudged(t, "the second", of(sums, at(good)), 1, 1)
	wantJudged(t, "the model", of(sums, model), 1, 1)
	if got := of(sums, at(bad)).Requests; got != 0 {
		t.Errorf("requests of the first: got %d, want 0", got)
	}
	if got := of(sums, at(good)).Requests; got != 1 {
		t.Errorf("requests of the second: got %d, want 1", got)
	}
	if got := of(sums, model).Retried; got != 1 {
		t.Errorf("retried requests of the model: got %d, want 1", got)
	}
}

func TestARequestThatWentOnWithAnotherModelWasRetried(t *testing.T) {
	p := newProvider(t)
	r := failure("failed", p)
	r.NextModel = true
	sums := sumUp(r, report(p))
	if got := of(sums, model).Retried; got != 1 {
		t.Errorf("retried requests: got %d, want 1", got)
	}
}

func TestARequestThatNobodyWorkedOnIsOfNoProvider(t *testing.T) {
	p := newProvider(t)
	sums := sumUp(failure("busy", p))
	if got := of(sums, at(p)).Requests; got != 0 {
		t.Errorf("of the provider: got %d requests, want 0", got)
	}
	if got := of(sums, model).Requests; got != 1 {
		t.Errorf("of the model: got %d requests, want 1", got)
	}
}

// timed is an answer of the second attempt, which showed its first content after 200 ms of its
// own, and ended 1 s later. The first attempt took 300 ms.
func timed(p ids.ProviderID, other ids.ProviderID) stats.Report {
	r := report(p)
	r.Committed = 2
	r.Attempts = []hold.Attempt{attempt(1, other, "failed"), attempt(2, p, "served")}
	r.Attempts[1].FirstContentMS, r.Attempts[1].ContentMS = 200, 1000
	return r
}

func TestAProvidersFirstContentIsOfItsOwnAttempt(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	sums := sumUp(timed(p, other))
	for name, c := range map[string]struct {
		of   stats.Subject
		want float64
	}{"provider": {at(p), 200}, "model": {model, 500}, "service": {service, 1000}} {
		s := of(sums, c.of)
		var want stats.Histogram
		want.Count(c.want)
		if s.FirstContent != want {
			t.Errorf("%s: got %v ms, want %v", name, s.FirstContent.Percentile(0.5), c.want)
		}
	}
	old := timed(p, other)
	old.Attempts[1].FirstContentMS = 0
	if s := of(sumUp(old), at(p)); s.FirstContent.Total() != 0 {
		t.Error("a report that does not say it of the second attempt: got a time of its provider, want none")
	}
}

func TestASpeedIsWithoutTheTimeThatTheClientTook(t *testing.T) {
	p := newProvider(t)
	for name, c := range map[string]struct {
		client int64
		want   []float64
	}{"quick": {50, []float64{100.0 / 0.95}}, "slow": {101, nil}, "old": {-1, []float64{100}}} {
		r := report(p)
		if c.client >= 0 {
			r.Attempts[0].ContentMS, r.Attempts[0].ClientMS = 1000, c.client
		}
		var want stats.Histogram
		for _, speed := range c.want {
			want.Count(speed * 100)
		}
		if s := of(sumUp(r), at(p)); s.Speed != want {
			t.Errorf("%s: got %d speeds of %v, want %v", name, s.Speed.Total(), s.Speed.Percentile(0.5)/100, c.want)
		}
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
		s := of(sumUp(r), at(p))
		if got := s.Speed.Total(); got != 0 {
			t.Errorf("%s: speeds: got %d, want 0", name, got)
		}
	}
}
