package verification

import (
	"context"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/proving/internal/trial"
)

// high is the trust from which on the catalog shows a provider's as high.
const high = .95

// passedForHigh is how many passed observations make a provider's trust high. Each counts with
// its weight by age, which halves in halfLife.
const (
	passedForHigh = 80
	halfLife      = 30 * 24 * time.Hour
)

// tolerance is for the time between two reads, in which weights fall, and for the last digits
// of the database's arithmetic.
const tolerance = 1e-4

// verified is the factor of trust that n passed observations make.
func verified(n float64) float64 { return .8 + .2*(1-math.Exp2(-n/40)) }

// observed are the hidden observations of an offer, as they are stored.
type observed struct {
	// Probes is how many probes they are of. A probe may feed several families.
	Probes int
	// Passed is how many passed, and Weight is what they weigh by their age now.
	Passed int
	Weight float64
	// Exceeded is how many did not pass, and Unobserved is how many probes ended without one.
	Exceeded, Unobserved int
	// Days is the time since the first.
	Days float64
}

// hidden reads the hidden observations of an offer.
func (l *laboratory) hidden(t testing.TB, provider, model string) observed {
	t.Helper()
	rows, err := l.db.Query(context.Background(), `SELECT count(DISTINCT p.probe_id) FILTER (WHERE o.at IS NOT NULL)
			AS probes, count(*) FILTER (WHERE NOT o.exceeded) AS passed,
			coalesce(sum(power(2::float8, -extract(epoch FROM $3 - o.at)::float8 / $4)) FILTER (WHERE NOT o.exceeded), 0)
			AS weight, count(*) FILTER (WHERE o.exceeded) AS exceeded,
			count(*) FILTER (WHERE o.at IS NULL AND p.state IN ('done', 'void')) AS unobserved,
			coalesce(extract(epoch FROM $3 - min(o.at))::float8 / 86400, 0) AS days
		FROM verifier.probe p LEFT JOIN verifier.observation o USING (probe_id)
		WHERE p.provider_id = $1 AND p.model_id = $2 AND p.flow = 'hidden'`, provider, model, l.now(t), halfLife.Seconds())
	if err != nil {
		t.Fatal(err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[observed])
	if err != nil {
		t.Fatalf("read the observations of %s: %v", provider, err)
	}
	return o
}

// checkTrust follows the honest provider until its passed observations weigh as much as 80 new
// ones, and to a passed recall. Its trust is high from then on, and not before.
func (s *stage) checkTrust(t *testing.T, model string) {
	t.Helper()
	// Consumers see no trust while a probation lasts. The hub ends it within a minute.
	exec(t, s.db, `UPDATE hub.provider SET probation_ends_at = now() WHERE provider_id = $1`, s.good.ID)
	seen := -1
	var before observed
	var o offering
	s.hours(t, "the honest provider has its observations", nil, func() bool {
		before = s.hidden(t, s.good.ID, model)
		o = s.offering(t, s.good.ID, model)
		after := s.hidden(t, s.good.ID, model)
		if after.Passed/20 > seen {
			seen = after.Passed / 20
			s.mark(t, "honest: %+v, trust %v, factors %+v", after, o.Offering.Trust, o.Factors)
		}
		// A probe that ends between the reads makes the later weight the larger one.
		if after.Weight < passedForHigh-tolerance && o.Factors.Verified >= high {
			t.Fatalf("verified with %+v: got %v, want less than %v", after, o.Factors.Verified, high)
		}
		return before.Weight >= passedForHigh && before.Passed == after.Passed && o.Factors.Context == 1
	})
	s.mark(t, "trust of the honest provider: %+v, %+v", before, o)
	if got, want := o.Factors.Verified, verified(before.Weight); math.Abs(got-want) > tolerance {
		t.Errorf("verified with %+v: got %v, want %v", before, got, want)
	}
	if o.Offering.Trust < high {
		t.Errorf("trust with %+v: got %v, want at least %v", before, o.Offering.Trust, high)
	}
	if o.Factors.Integrity != 1 {
		t.Errorf("integrity: got %v, want 1: no evidence against it", o.Factors.Integrity)
	}
	if o.Offering.Level != "normal" {
		t.Errorf("level: got %q, want normal", o.Offering.Level)
	}
	trial.Until(t, "consumers see the trust of the offer", func() bool { return s.shownTrust(t, model) == "high" })
}

// shownTrust is what consumers see of the honest provider's trust.
func (s *stage) shownTrust(t *testing.T, model string) string {
	t.Helper()
	_, _, body := s.m.Call(t, http.MethodGet, "/api/v1/models/"+model+"/providers", "", "")
	list, _ := trial.At(trial.Decode(t, body), "data", "list").([]any)
	for _, one := range list {
		if trial.At(one, "provider_id") == s.good.ID {
			shown, _ := trial.At(one, "trust").(string)
			return shown
		}
	}
	return ""
}

// cost logs what probes cost.
func (s *stage) cost(t *testing.T) {
	t.Helper()
	n := count(t, s.db, `SELECT count(*) FROM verifier.probe WHERE flow = 'hidden' AND state = 'done'`)
	void := count(t, s.db, `SELECT count(*) FROM verifier.probe WHERE flow = 'hidden' AND state = 'void'`)
	nano := count(t, s.db, `SELECT coalesce(sum(cost_nano_usd), 0) FROM verifier.probe
		WHERE flow = 'hidden' AND state = 'done'`)
	s.mark(t, "%d hidden probes and %d void ones, $%.6f each, %.0f ms of CPU each with engines and market", n, void,
		float64(nano)/1e9/float64(max(n, 1)), 1000*cpu()/float64(max(n, 1)))
}
