package settlement

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/fill"
)

const otherProvider = "0192f0c0-0000-7000-8000-000000000009"

// fillAnew makes a pass of a filler that has never made one, which sees all that
// the ledger has settled.
func (b *bundle) fillAnew(t *testing.T) {
	t.Helper()
	b.service.filler = &fill.Filler{Ledger: b.service.filler.Ledger, Store: b.service.store,
		After: b.service.cfg.FillAfter}
	b.service.fill(t.Context())
}

// settles has the ledger settle these, and nothing else.
func (b *bundle) settles(settled ...*billingv1.SettledRequest) {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	b.ledger.settled = settled
	b.ledger.accruals = nil
	sums := map[string]*billingv1.Accrual{}
	for _, s := range settled {
		if sums[s.GetProviderId()] == nil {
			sums[s.GetProviderId()] = &billingv1.Accrual{Day: b.now.Format("2006-01-02"), ProviderId: s.GetProviderId()}
			b.ledger.accruals = append(b.ledger.accruals, sums[s.GetProviderId()])
		}
		sums[s.GetProviderId()].PayoutNanoUsd += s.GetPayoutNanoUsd()
		sums[s.GetProviderId()].Requests++
	}
	slices.SortFunc(b.ledger.accruals, func(x, y *billingv1.Accrual) int {
		return strings.Compare(x.GetProviderId(),
			y.GetProviderId())
	})
}

// agrees fails unless lines and accruals are equal, with so many lines resting on
// the ledger's word alone.
func (b *bundle) agrees(t *testing.T, when string, filled int32) {
	t.Helper()
	report, err := b.client.Reconcile(t.Context(), &settlementv1.ReconcileRequest{})
	if err != nil {
		t.Errorf("%s: got the error %v, want none", when, err)
	} else if !report.GetEqual() {
		t.Errorf("%s: got %v, want both sides equal", when, report)
	} else if report.GetFilled() != filled {
		t.Errorf("%s: got %v, want %d lines filled", when, report, filled)
	}
}

// rows are how many corrections and rulings there are.
func (b *bundle) rows(t *testing.T) [2]int {
	t.Helper()
	return [2]int{b.count(t, "SELECT count(*) FROM earning_correction"), b.count(t, "SELECT count(*) FROM earning_ruling")}
}

// changed is an event with something changed.
func changed(e *eventsv1.UsageEvent, change func(*eventsv1.UsageEvent)) *eventsv1.UsageEvent {
	e = proto.CloneOf(e)
	change(e)
	return e
}

var byHub, byGateway = eventsv1.EvidenceSource_EVIDENCE_SOURCE_HUB, eventsv1.EvidenceSource_EVIDENCE_SOURCE_GATEWAY

// A hub that was given the request first reports more than the hold covers, which
// the ledger refuses, and then the truth. Or a hub that was not given the request
// reports it first, for its own provider.
func TestTheLedgerOverrulesTheFirstStoryOfAHub(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var settled []*billingv1.SettledRequest
	want := map[string]*eventsv1.UsageEvent{}
	for name, change := range map[string]func(*eventsv1.UsageEvent){
		"inflated":         func(e *eventsv1.UsageEvent) { e.BillableCompletionTokens = 300 },
		"another provider": func(e *eventsv1.UsageEvent) { e.ProviderId = otherProvider },
		"same payout, other counts": func(e *eventsv1.UsageEvent) {
			e.BillablePromptTokens, e.BillableCompletionTokens = 2, 6
		},
		"another price":   func(e *eventsv1.UsageEvent) { e.PriceVersionId = otherProvider },
		"another model":   func(e *eventsv1.UsageEvent) { e.ModelId = "other" },
		"another attempt": func(e *eventsv1.UsageEvent) { e.Attempt = 2 },
		"nothing":         func(*eventsv1.UsageEvent) {},
	} {
		honest := b.usage(t)
		b.publish(t, name, encode(t, changed(honest, change)))
		b.publish(t, name+", honest", encode(t, honest))
		settled, want[name] = append(settled, asSettled(honest, 10, byHub)), honest
	}
	b.settled(t)
	for range 3 { // also when the usage comes once more
		b.settles(settled...)
		b.fillAnew(t)
		for name, e := range want {
			b.publish(t, name+", again", encode(t, e))
			if n := b.count(t,
				`SELECT count(*) FROM earning WHERE settled AND model_id = 'm' AND attempt = 1 AND prompt_tokens = 7
				AND completion_tokens = 3 AND payout_nano_usd = 10 AND provider_id = '`+e.GetProviderId()+`'
				AND price_version_id = '`+e.GetPriceVersionId()+`' AND request_id = '`+e.GetRequestId()+`'`); n != 1 {
				t.Errorf("%s: lines as the ledger settled them: got %d, want 1", name, n)
			}
		}
	}
	if got := b.rows(t); got != [2]int{6, 0} {
		t.Errorf("got %v corrections and rulings, want one for each line that differed", got)
	}
}

func TestLinesAndAccrualsAgreeAfterCorrections(t *testing.T) {
	t.Parallel()
	b := setup(t)
	inflated, taken, honest := b.usage(t), b.usage(t), b.usage(t)
	b.publish(t, "1", encode(t, changed(inflated, func(e *eventsv1.UsageEvent) { e.BillableCompletionTokens = 300 })))
	b.publish(t, "2", encode(t, changed(taken, func(e *eventsv1.UsageEvent) { e.ProviderId = otherProvider })))
	b.recorded(t, honest)
	b.settles(asSettled(inflated, 10, byHub), asSettled(taken, 10, byHub), asSettled(honest, 10, byHub))
	b.fillAnew(t)
	// What was overruled by the same evidence source rests on the ledger's word alone.
	b.agrees(t, "corrected", 2)
}

// The ledger loses its last commits with its primary, and settles by another
// evidence source when usage comes again.
func TestTheLedgersBooksOverruleWhatTheySaidBefore(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hub, gateway := b.sources(t)
	b.recorded(t, hub)
	cut := asSettled(gateway, 3, byGateway)
	for i, step := range []struct {
		says *billingv1.SettledRequest
		want int
		rows [2]int
	}{
		{asSettled(hub, 10, byHub), 10, [2]int{0, 0}},
		{cut, 3, [2]int{1, 0}},
		{cut, 3, [2]int{1, 0}},
		{asSettled(hub, 10, byHub), 10, [2]int{1, 1}},
		{cut, 3, [2]int{1, 2}},
		{cut, 3, [2]int{1, 2}},
	} {
		b.settles(step.says)
		b.fillAnew(t)
		if got, rows := b.paid(t, hub), b.rows(t); got != step.want {
			t.Errorf("step %d: got %d nano-USD, want %d", i, got, step.want)
		} else if rows != step.rows {
			t.Errorf("step %d: got %v corrections and rulings, want %v", i, rows, step.rows)
		}
		b.agrees(t, "after each", 0)
	}
	// The stream may bring an older word again, which the books outrank.
	b.publish(t, "again", encode(t, settledAs(hub)))
	b.settled(t)
	if got, rows := b.paid(t, hub), b.rows(t); got != 3 {
		t.Errorf("after the stream's word: got %d, want 3", got)
	} else if rows != [2]int{1, 2} {
		t.Errorf("rows: got %v, want %v", rows, [2]int{1, 2})
	}
}

// Anybody with a hub's key can make up requests; none of them is in the ledger.
func TestALineOfNoRequestIsHeldOutUntilTheLedgerSettlesIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	invented, late, honest, gone := b.usage(t), b.usage(t), b.usage(t), b.usage(t)
	b.publish(t, "invented", encode(t, changed(invented, func(e *eventsv1.UsageEvent) { e.ProviderId = otherProvider })))
	b.publish(t, "late", encode(t, late))
	b.recorded(t, honest)
	b.settles(asSettled(honest, 10, byHub), asSettled(gone, 10, byHub))
	bad := asSettled(late, 9, byHub) // settled, though nobody knows how
	b.fillAnew(t)
	tomorrow := b.now.AddDate(0, 0, 1)
	search := func() {
		t.Helper()
		report, err := b.service.comparer.Compare(t.Context(), tomorrow.AddDate(0, 0, -7))
		if err != nil {
			t.Fatal(err)
		}
		b.service.filler = &fill.Filler{Ledger: b.service.filler.Ledger, Store: b.service.store}
		b.service.filler.Differ(report.Differences, tomorrow)
		if _, err := b.service.filler.Pass(t.Context(), tomorrow); err != nil {
			t.Fatal(err)
		}
	}
	b.ledger.settled = append(b.ledger.settled, bad)
	search()
	if b.paid(t, invented) != 0 {
		t.Errorf("got %d nano-USD, want the invented one held out", b.paid(t, invented))
	} else if b.paid(t, late) != 10 {
		t.Errorf("got %d nano-USD, want 10 of what is settled", b.paid(t, late))
	}
	b.ledger.settled = b.ledger.settled[:2]
	search()
	search()
	b.agrees(t, "held out", 1)
	if got := b.rows(t); b.paid(t, late) != 0 {
		t.Errorf("got %d nano-USD, want it held out", b.paid(t, late))
	} else if got != [2]int{0, 2} {
		t.Errorf("got %v corrections and rulings, want both held out once", got)
	}
	// Usage that comes again changes nothing, and neither does the stream's word
	// of what the books do not have.
	b.publish(t, "late again", encode(t, late))
	b.publish(t, "late, settled", encode(t, settledAs(late)))
	behind := b.usage(t)
	b.recorded(t, behind)
	if got := b.paid(t, late); got != 0 {
		t.Errorf("got %d nano-USD by the stream's word, want none", got)
	}
	b.settles(asSettled(honest, 10, byHub), asSettled(gone, 10, byHub), asSettled(late, 10, byHub),
		asSettled(behind, 10, byHub))
	for range 2 {
		b.fillAnew(t)
		b.agrees(t, "settled late", 1)
	}
	if got := b.rows(t); got != [2]int{0, 3} {
		t.Errorf("got %v corrections and rulings, want one that lets the late line count again", got)
	}
}

// Two processes may exclude and overrule a line at the same time.
func TestWhatTheLedgerHasOverruledIsNotHeldOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hub, gateway := b.sources(t)
	b.recorded(t, hub)
	b.settles(asSettled(gateway, 3, byGateway))
	b.fillAnew(t)
	id, err := ids.ParseRequest(hub.GetRequestId())
	if err != nil {
		t.Fatal(err)
	}
	held, err := b.service.store.Exclude(t.Context(), []ids.RequestID{id})
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(held) != 0 {
		t.Errorf("got %v held out, want none", held)
	} else if b.paid(t, hub) != 3 {
		t.Errorf("got %d nano-USD, want 3 as the correction says", b.paid(t, hub))
	}
}
