package fakeagent

import (
	"encoding/json"
	"strings"
)

// What the agent's engine says to everything that it is asked in a challenge,
// a benchmark or a warm-up.
const (
	v1Says       = "Hello"
	v1SaysPrompt = 7
	v1SaysOutput = 2
)

// task takes a challenge or a benchmark to what replies to it.
func (c *v1Conn) task(f V1Frame) {
	switch {
	case c.agent.opts.Tasks != nil:
		c.agent.opts.Tasks(f)
	case f.Type == "verify":
		c.verify(f)
	default:
		c.benchmark(f)
	}
}

type v1Verify struct {
	ChallengeID string `json:"challenge_id"`
	Success     bool   `json:"success"`
	Response    any    `json:"response"`
	Error       string `json:"error,omitempty"`
}

type v1FileResult struct {
	Filename string `json:"filename"`
	Hash     string `json:"hash"`
	Status   string `json:"status"`
}

// verify answers a challenge. A fingerprint is read from the manifest: the
// files themselves are never looked at again.
func (c *v1Conn) verify(f V1Frame) {
	var p struct {
		ChallengeID   string          `json:"challenge_id"`
		ChallengeType string          `json:"challenge_type"`
		Challenge     json.RawMessage `json:"challenge"`
	}
	if json.Unmarshal(f.Payload, &p) != nil {
		return
	}
	answer := v1Verify{ChallengeID: p.ChallengeID}
	switch p.ChallengeType {
	case "fingerprint":
		answer.Response, answer.Success = c.agent.fingerprint(p.Challenge)
	case "deterministic":
		answer.Response, answer.Success = map[string]any{"tokens": []string{"Hel", "lo"}, "text": v1Says}, true
	default:
		answer.Error = "unsupported challenge type: " + p.ChallengeType
	}
	_ = c.send("verify", f.RequestID, answer, c.agent.opts.Timing.Patience) // the connection may be gone
}

func (a *V1) fingerprint(challenge json.RawMessage) (any, bool) {
	var asked struct {
		Files []struct {
			Filename string `json:"filename"`
			Expected string `json:"expected_hash"`
		} `json:"files"`
	}
	if json.Unmarshal(challenge, &asked) != nil {
		return nil, false
	}
	results, pass := []v1FileResult{}, len(asked.Files) > 0
	for _, file := range asked.Files {
		hash, known := a.opts.Manifest[file.Filename]
		status := "pass"
		switch {
		case !known:
			status = "missing"
		case hash != file.Expected:
			status = "fail"
		}
		pass = pass && status == "pass"
		results = append(results, v1FileResult{Filename: file.Filename, Hash: hash, Status: status})
	}
	return map[string]any{"files": results}, pass
}

type v1BenchmarkResult struct {
	PromptID  string `json:"prompt_id"`
	Answer    string `json:"answer"`
	Correct   bool   `json:"correct"`
	LatencyMS int64  `json:"latency_ms"`
	TokensIn  int    `json:"tokens_in,omitempty"`
	TokensOut int    `json:"tokens_out,omitempty"`
}

// benchmark grades itself, with the answers that it is sent.
func (c *v1Conn) benchmark(f V1Frame) {
	var p struct {
		BenchmarkID string `json:"benchmark_id"`
		Prompts     []struct {
			ID       string `json:"id"`
			Expected string `json:"expected_answer"`
		} `json:"prompts"`
	}
	if json.Unmarshal(f.Payload, &p) != nil {
		return
	}
	results := []v1BenchmarkResult{}
	for _, prompt := range p.Prompts {
		results = append(results, v1BenchmarkResult{
			PromptID: prompt.ID, Answer: v1Says, TokensIn: v1SaysPrompt, TokensOut: v1SaysOutput,
			Correct: strings.Contains(strings.ToLower(v1Says), strings.ToLower(prompt.Expected)),
		})
	}
	_ = c.send("benchmark_response", f.RequestID, map[string]any{
		"request_id": f.RequestID, "benchmark_id": p.BenchmarkID, "results": results, "total_latency_ms": 0,
	}, c.agent.opts.Timing.Patience) // the connection may be gone
}

type v1Warm struct {
	RequestID  string `json:"request_id"`
	ModelID    string `json:"model_id"`
	Success    bool   `json:"success"`
	LoadTimeMS int64  `json:"load_time_ms,omitempty"`
	Error      string `json:"error,omitempty"`
}

// warmUp answers as if it had asked the engine for one token.
func (c *v1Conn) warmUp(f V1Frame) {
	var p struct {
		ModelID string `json:"model_id"`
	}
	if json.Unmarshal(f.Payload, &p) != nil {
		return
	}
	answer := v1Warm{RequestID: f.RequestID, ModelID: p.ModelID, Success: c.agent.serves(p.ModelID)}
	if !answer.Success {
		answer.Error = "model " + p.ModelID + " not deployed on this provider"
	}
	_ = c.send("ack", f.RequestID, answer, c.agent.opts.Timing.Patience) // the connection may be gone
}
