package bench

import (
	"time"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/probe"
)

// Basis is why a run was made.
type Basis string

// The bases.
const (
	// First is an offer's first run, Asked one that its provider asked for, Renewal one
	// before 30 days end, and Again one after a void one.
	First   Basis = "first"
	Asked   Basis = "asked"
	Renewal Basis = "renewal"
	Again   Basis = "again"
	// Traffic is a renewal by consumers' requests (ByTraffic). Nothing is asked.
	Traffic Basis = "traffic"
)

// Bases returns every basis.
func Bases() []Basis { return []Basis{First, Asked, Renewal, Again, Traffic} }

// The bounds of a run.
const (
	// MaxTries bounds how often a question is put that does not reach the provider.
	MaxTries = 3
	// MaxCapacity bounds how many questions are asked at once.
	MaxCapacity = 8
	// maxQuestions bounds the questions of B and C with those that take the place of void
	// ones.
	maxQuestions = battery.Questions * 3 / 2
	// maxUnanswered is how many questions may be unanswered of the most that a run asks, 186,
	// of which battery wants 98%.
	maxUnanswered = 3
	// maxReports bounds the reports of a run, and maxRun its form in bytes.
	maxReports = 512
	maxRun     = 1 << 20
)

// Setup is what a run depends on. It is fixed when the run begins.
type Setup struct {
	Offer   probe.Offer         `json:"offer"`
	Basis   Basis               `json:"basis"`
	Stratum calibration.Stratum `json:"stratum"`
	// StatedTokens is the context window as the provider states it.
	StatedTokens int `json:"stated_tokens"`
	// Capacity is how many requests the offer takes at once.
	Capacity int `json:"capacity"`
	// ClassMedian is the median speed of the GPU class in tokens per second, 0 if unknown.
	ClassMedian   float64 `json:"class_median"`
	BytesPerToken float64 `json:"bytes_per_token"`
	// Logprobs and Fingerprint are declared. Embeddings is a model that makes vectors.
	Logprobs    bool `json:"logprobs,omitempty"`
	Fingerprint bool `json:"fingerprint,omitempty"`
	Embeddings  bool `json:"embeddings,omitempty"`
	// Unjudged reports whether no reference serves the model, so that nobody can judge what the
	// answers say.
	Unjudged bool `json:"unjudged,omitempty"`
	// Calibrated reports whether B, and C where it is declared, have a usable calibration.
	Calibrated bool `json:"calibrated,omitempty"`
	// Quick is a development's run (battery.Facts).
	Quick bool `json:"quick,omitempty"`
}

// Run is a benchmark run.
type Run struct {
	ID    probe.RunID `json:"id"`
	Setup Setup       `json:"setup"`
	Began time.Time   `json:"began"`
	// Stage is what is asked now, from StageAt on.
	Stage   Stage     `json:"stage"`
	StageAt time.Time `json:"stage_at"`
	// Reports are the answers, in the order in which they came.
	Reports []Report `json:"reports,omitempty"`
	// Tries counts how often questions did not reach the provider, by their name.
	Tries map[string]int `json:"tries,omitempty"`
	// Disturbed reports whether one did not MaxTries times.
	Disturbed bool `json:"disturbed,omitempty"`
	// Traffic is what a renewal by traffic rests on.
	Traffic *battery.Traffic `json:"traffic,omitempty"`
}

// report returns the report of a question by its id.
func (r Run) report(id probe.ID) (Report, bool) {
	for _, p := range r.Reports {
		if p.Plan == id {
			return p, true
		}
	}
	return Report{}, false
}
