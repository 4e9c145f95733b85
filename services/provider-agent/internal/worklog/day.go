package worklog

// Bounds.
const (
	MaxDays   = 400
	MaxModels = 256
	maxFile   = 16 << 20
)

// Others stands for all models of a day beyond the first MaxModels.
const Others = "(others)"

// Day is what was served on one UTC day.
type Day struct {
	Day string `json:"day"`
	// Requests counts the requests of which content was sent. CutOff of them did not come to their
	// end, and Late of them ended in the last ten minutes before midnight.
	Requests int64           `json:"requests"`
	CutOff   int64           `json:"cut_off"`
	Late     int64           `json:"late"`
	Models   map[string]Work `json:"models"`
}

// Work is what was served of one model.
type Work struct {
	Requests int64 `json:"requests"`
	// The tokens are the engine's counts. Where the engine counts none, OutputTokens is the agent's own
	// count of what it sent. Only chats have tokens.
	PromptTokens int64 `json:"prompt_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}
