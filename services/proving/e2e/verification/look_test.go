package verification

import (
	"encoding/json"
	"net/http"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// offering is what operators see of an offer.
type offering struct {
	Offering struct {
		Level     string  `json:"level"`
		Evidence  float64 `json:"evidence"`
		Trust     float64 `json:"trust"`
		Lane      string  `json:"lane"`
		CapTokens int     `json:"cap_tokens"`
		Benchmark string  `json:"benchmark"`
	} `json:"offering"`
	Families []struct {
		Family   string  `json:"family"`
		Evidence float64 `json:"evidence"`
	} `json:"families"`
	Factors struct {
		Verified  float64 `json:"verified"`
		Integrity float64 `json:"integrity"`
		Context   float64 `json:"context"`
		Fairness  float64 `json:"fairness"`
	} `json:"factors"`
	MeasuredTokens int      `json:"measured_tokens"`
	Hours          int      `json:"exceeding_hours"`
	Confirmed      float64  `json:"confirmation_evidence"`
	Held           string   `json:"held"`
	Led            string   `json:"led"`
	Observations   int      `json:"observations"`
	OpenVerdicts   []string `json:"open_verdict_ids"`
}

// offering reads what operators see of an offer; the zero value before there is one.
func (l *laboratory) offering(t testing.TB, provider, model string) offering {
	t.Helper()
	return look[offering](t, l, "/api/v1/admin/verification/offerings/"+provider+"/"+model)
}

// verdict is a decision about an offer.
type verdict struct {
	ID      string `json:"verdict_id"`
	Kind    string `json:"kind"`
	Trigger string `json:"trigger"`
	Family  string `json:"family"`
	Summary string `json:"summary"`
	Share   int    `json:"share_basis_points"`
	End     string `json:"end"`
}

// verdicts are those about an offer, newest first.
func (l *laboratory) verdicts(t testing.TB, provider, model string) []verdict {
	t.Helper()
	return look[struct {
		List []verdict `json:"list"`
	}](t, l, "/api/v1/admin/verification/verdicts?provider_id="+provider+"&model_id="+model).List
}

// own reads a page that a provider has of itself.
func own[T any](t testing.TB, l *laboratory, key, path string) (v T, body []byte) {
	t.Helper()
	var status int
	trial.Until(t, "GET "+path+" is answered", func() bool {
		status, _, body = l.m.Call(t, http.MethodGet, "/api/v1/provider/"+path, key, "")
		return !l.away(status)
	})
	if status != http.StatusOK {
		t.Fatalf("GET %s: got %d, want 200 (body is %.300s)", path, status, body)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("read %s: %v: %.300s", path, err, body)
	}
	return v, body
}

// away reports whether an answer says that the verifier does not run, which is so for a while
// where it is killed.
func (l *laboratory) away(status int) bool {
	return l.killed && status == http.StatusServiceUnavailable
}

// standings are where a provider is with its models.
type standings struct {
	List []struct {
		ModelID   string `json:"model_id"`
		Lane      string `json:"lane"`
		CapTokens int    `json:"cap_tokens"`
		Standing  string `json:"standing"`
		Kind      string `json:"kind"`
		Since     string `json:"since"`
		NextStep  string `json:"next_step"`
		PenaltyID string `json:"penalty_id"`
	} `json:"list"`
}

// challenges are what a provider was asked.
type challenges struct {
	List []struct {
		ModelID string `json:"model_id"`
		Kind    string `json:"kind"`
		At      string `json:"at"`
		Result  string `json:"result"`
	} `json:"list"`
}

// penalties are those of a provider at settlement.
type penalties struct {
	List []struct {
		ID    string `json:"penalty_id"`
		State string `json:"state"`
		// Share is a part of the collateral.
		Share float64 `json:"share"`
	} `json:"list"`
}

// look reads an operators' page; the zero value where there is none yet.
func look[T any](t testing.TB, l *laboratory, path string) (v T) {
	t.Helper()
	var status int
	var body []byte
	trial.Until(t, "GET "+path+" is answered", func() bool {
		status, _, body = trial.CallAt(t, l.m.AdminURL(), http.MethodGet, path, l.m.Env["SVC_ADMIN_TOKEN"], "")
		return !l.away(status)
	})
	switch {
	case status == http.StatusNotFound:
		return v
	case status != http.StatusOK:
		t.Fatalf("GET %s: got %d, want 200 (body is %.300s)", path, status, body)
	}
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("read %s: %v: %.300s", path, err, body)
	}
	return v
}
