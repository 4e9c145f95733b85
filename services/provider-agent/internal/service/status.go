package service

import (
	"encoding/json"
	"errors"
	"time"
)

// Status is the status of an account, as far as it is shown.
type Status struct {
	ProviderID         string     `json:"provider_id"`
	Name               string     `json:"name"`
	Status             string     `json:"status"`
	Label              string     `json:"label"`
	CanConnect         bool       `json:"can_connect"`
	Message            string     `json:"message"`
	Warning            string     `json:"warning"`
	NextSteps          []string   `json:"next_steps"`
	Step               int        `json:"step"`
	TotalSteps         int        `json:"total_steps"`
	StepLabel          string     `json:"step_label"`
	EarningsEnabled    bool       `json:"earnings_enabled"`
	Online             bool       `json:"online"`
	Uptime24h          float64    `json:"uptime_24h"` // 0 to 1
	Uptime30d          float64    `json:"uptime_30d"`
	ProbationEndsAt    *time.Time `json:"probation_ends_at"`
	BenchmarkExpiresAt *time.Time `json:"benchmark_expires_at"`
	Nodes              []Node     `json:"nodes"`
	// AnsweredAs are the other names that the provider's engines gave models.
	AnsweredAs []AnsweredAs `json:"answered_as"`
	// Traffic is nil when no router could be asked.
	Traffic *Traffic `json:"traffic"`
}

// Node is one machine.
type Node struct {
	NodeID            string     `json:"node_id"`
	NodeName          string     `json:"node_name"`
	AgentVersion      string     `json:"agent_version"`
	Online            bool       `json:"online"`
	LastSeenAt        *time.Time `json:"last_seen_at"`
	GPUModel          string     `json:"gpu_model"`
	GPUCount          int        `json:"gpu_count"`
	VRAMGB            int        `json:"vram_gb"`
	ComputeCapability string     `json:"compute_capability"`
	Engine            string     `json:"engine"`
	GPUEligible       bool       `json:"gpu_eligible"`
}

// AnsweredAs is the name that an engine gave a model that it was asked for by another
// name. Meaning says how often and since when, and what to do.
type AnsweredAs struct {
	ModelID    string     `json:"model_id"`
	AnsweredAs string     `json:"answered_as"`
	FirstAt    *time.Time `json:"first_at"`
	LastAt     *time.Time `json:"last_at"`
	Answers    int        `json:"answers"`
	Meaning    string     `json:"meaning"`
}

// Traffic says why requests come or do not.
type Traffic struct {
	Since   *time.Time    `json:"since"`
	Rejects []Reject      `json:"rejects"`
	Models  []ModelHealth `json:"models"`
}

// Reject is how often the provider was passed over for one reason.
type Reject struct {
	Reason  string `json:"reason"`
	Count   int64  `json:"count"`
	Meaning string `json:"meaning"`
}

// ModelHealth is the state of one model for routers.
type ModelHealth struct {
	ModelID        string `json:"model_id"`
	Nodes          int    `json:"nodes"`
	AvailableNodes int    `json:"available_nodes"`
	InFlight       int    `json:"in_flight"`
	Capacity       int    `json:"capacity"`
	Breaker        string `json:"breaker"`
	Chosen         int64  `json:"chosen"`
	// Lane is main, probe or shut; empty from a service that knows of no lanes. Verification
	// says in plain words what the verifier makes of the model; empty where it changes
	// nothing.
	Lane         string `json:"lane"`
	Verification string `json:"verification"`
}

// ParseStatus reads the answer of Client.Status. Unknown members are skipped, because
// later services may send more.
func ParseStatus(answer []byte) (Status, error) {
	var s Status
	if err := json.Unmarshal(answer, &s); err != nil || s.Status == "" {
		return Status{}, errors.New("the service's answer is no status")
	}
	return s, nil
}
