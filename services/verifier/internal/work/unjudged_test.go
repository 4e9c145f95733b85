package work

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/store/storetest"
)

// alone is a provider of a model that no reference serves: what only a reference could judge
// is not asked.
type alone struct{ answering }

func (a *alone) Run(ctx context.Context, p probe.Plan) (judge.Record, error) {
	if p.Feeds != evidence.NoFamily || p.Kind == probe.Fingerprint {
		return judge.Record{}, &flow.Void{Reason: flow.NoReference}
	}
	record, err := a.answering.Run(ctx, p)
	record.Answer.Chunks = []judge.Chunk{{AtMicros: 1_000, Bytes: 10}, {AtMicros: 2_000, Bytes: 10}}
	return record, err
}

// Else nobody could offer a model of which the platform has no reference.
func TestAModelWithoutAReferenceIsBenchmarkedWithoutItsHonesty(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	s.benchmarks.Runner, s.benchmarks.Quick = &alone{answering{t: t, status: http.StatusOK}}, false
	if err := s.benchmarks.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.end()
	run := s.runs(1)[0]
	if got, want := run.State, store.RunPassed; got != want {
		t.Errorf("state: got %s, want %s", got, want)
	}
	if got, want := run.Findings, []battery.Finding{battery.Uncalibrated}; !slices.Equal(got, want) {
		t.Errorf("findings: got %v, want %v", got, want)
	}
}

// A provider must not pass without its questions of honesty because the reference is away,
// or connects a little later than the provider.
func TestABenchmarkWaitsForAReferenceThatMayCome(t *testing.T) {
	t.Parallel()
	s := newSpoilt(t)
	other := s.See(t, storetest.Provider(t)) // it has only just been seen
	s.benchmarks.Offers.Apply(offers.Report{Hub: "h", Incarnation: 1, Address: "h:1", Revision: 2,
		Sessions: []offers.Session{{Provider: other.Provider, Node: "n", Epoch: 2, Models: []offers.Model{{ID: other.Model,
			Healthy: true, Window: 1024, Class: quant.Bits16}}}}}, time.Now())
	for _, c := range []struct {
		what string
		seen bool          // a reference is
		pass time.Duration // until the next look
		want bool
	}{
		{"just connected", false, 0, true},
		{"a minute later", false, referenceDue, false},
		{"a reference has left", true, 0, true},
		{"within the day", false, referenceAway - time.Minute, true},
		{"after a day", false, time.Minute, false},
	} {
		if c.seen {
			err := s.Stores[0].SeeReferences(t.Context(), []store.Reference{{Model: other.Model, Host: "h",
				Provider: storetest.Provider(t), Class: quant.Bits16}})
			if err != nil {
				t.Fatal(err)
			}
			s.Exec(t, `UPDATE verifier.reference SET seen_at = $1`, s.at.Now())
		}
		s.pass(c.pass)
		now, err := s.Stores[0].Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := awaitsReference(t.Context(), s.Stores[0], s.benchmarks.Offers, other, now)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%s: waits: got %t, want %t", c.what, got, c.want)
		}
		if !c.want {
			continue
		}
		if _, err := s.benchmarks.Ask(t.Context(), other); !fault.Is(err, NoReference) {
			t.Errorf("%s: asked for: got the error %v, want the reason %v", c.what, err, NoReference)
		}
	}
}
