package control

import "time"

// State is what a running agent knows. A later agent may tell more.
type State struct {
	Version   string    `json:"version"`
	NodeID    string    `json:"node_id"`
	NodeName  string    `json:"node_name"`
	Hub       string    `json:"hub"`
	StartedAt time.Time `json:"started_at"`
	// Connection is connected, connecting or draining.
	Connection string `json:"connection"`
	// ConnectedSince is nil while the agent is not connected, and Fault says why it is not.
	ConnectedSince *time.Time `json:"connected_since"`
	Fault          string     `json:"fault,omitempty"`
	// Uptime is the part of the time since the start in which the agent was connected, 0 to 1.
	Uptime float64 `json:"uptime"`
	Paused bool    `json:"paused"`
	// Account is what the hub says of the account; its members are empty before the hub has
	// said anything.
	Account Account `json:"account"`
	Models  []Model `json:"models"`
	// ModelsFault says why the agent does not offer models.json as it is now; empty where it
	// does.
	ModelsFault string `json:"models_fault,omitempty"`
	// Requests are of all models, since the start.
	Requests Counts `json:"requests"`
	// Failures are the last failures, the newest first, at most MaxFailures.
	Failures []Failure `json:"failures"`
	Receipts Receipts  `json:"receipts"`
}

// The states of the connection.
const (
	Connected  = "connected"
	Connecting = "connecting"
	Draining   = "draining"
)

// Account is what the hub says of the provider's account.
type Account struct {
	ProviderID string `json:"provider_id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Warning    string `json:"warning,omitempty"`
	// Machines is how many machines of the account are connected; 0 is not known.
	Machines int `json:"machines"`
}

// Model is one model that the agent offers.
type Model struct {
	ModelID string `json:"model_id"`
	Healthy bool   `json:"healthy"`
	// Reason says why the model is not healthy, and Refused why the hub refuses it.
	Reason  string `json:"reason,omitempty"`
	Refused string `json:"refused,omitempty"`
	// ContextLength is in tokens; 0 is not known.
	ContextLength int64  `json:"context_length"`
	Engine        string `json:"engine,omitempty"`
	Counts
}

// Counts count requests.
type Counts struct {
	UnderWay  int   `json:"under_way"`
	Served    int64 `json:"served"`
	Failed    int64 `json:"failed"`
	Cancelled int64 `json:"cancelled"`
}

// Failure is a request that failed.
type Failure struct {
	At        time.Time `json:"at"`
	ModelID   string    `json:"model_id"`
	RequestID string    `json:"request_id"`
	// Status is the engine's, 0 where it did not answer.
	Status int    `json:"status"`
	Reason string `json:"reason"`
}

// Receipts counts the work receipts of this machine.
type Receipts struct {
	// Waiting receipts are not acknowledged yet. Dropped receipts found no room or were too
	// old. Refused receipts count for nothing.
	Waiting int   `json:"waiting"`
	Dropped int64 `json:"dropped"`
	Refused int64 `json:"refused"`
}
