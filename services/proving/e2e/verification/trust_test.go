package verification

import (
	"net/http"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// high is the trust from which on the catalog shows a provider's as high, and passedForHigh
// how many passed observations it takes.
const (
	high          = .95
	passedForHigh = 80
)

// hidden is how many hidden observations an offer has.
func (l *laboratory) hidden(t testing.TB, provider, model string) int {
	t.Helper()
	return count(t, l.db, `SELECT count(DISTINCT probe_id) FROM verifier.observation o
		JOIN verifier.probe p USING (probe_id)
		WHERE p.provider_id = $1 AND p.model_id = $2 AND p.flow = 'hidden'`, provider, model)
}

// checkTrust follows the honest provider to its 80th observation and a passed recall.
func (s *stage) checkTrust(t *testing.T, model string) {
	t.Helper()
	// Consumers see no trust while a probation lasts. The hub ends it within a minute.
	exec(t, s.db, `UPDATE hub.provider SET probation_ends_at = now() WHERE provider_id = $1`, s.good.ID)
	seen := -1
	s.until(t, "the honest provider has its observations", func() bool {
		n, o := s.hidden(t, s.good.ID, model), s.offering(t, s.good.ID, model)
		if n/20 > seen {
			seen = n / 20
			s.mark(t, "honest: %d observations, trust %v, factors %+v", n, o.Offering.Trust, o.Factors)
		}
		return n >= passedForHigh+2 && o.Factors.Context == 1
	})
	o := s.offering(t, s.good.ID, model)
	s.mark(t, "trust of the honest provider: %+v", o)
	if o.Offering.Trust < high {
		t.Errorf("trust after %d observations: got %v, want at least %v", s.hidden(t, s.good.ID, model), o.Offering.Trust,
			high)
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
