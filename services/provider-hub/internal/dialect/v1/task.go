package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"svc.internal/services/provider-hub/internal/session"
)

// verify is the payload of verify.
type verify struct {
	ChallengeID   string `json:"challenge_id"`
	ChallengeType string `json:"challenge_type"`
	ModelID       string `json:"model_id"`
	Challenge     any    `json:"challenge"`
}

type fingerprint struct {
	Files []file `json:"files"`
}

type file struct {
	Filename     string `json:"filename"`
	ExpectedHash string `json:"expected_hash"`
}

type deterministic struct {
	Prompt    string `json:"prompt"`
	Seed      int64  `json:"seed"`
	MaxTokens int32  `json:"max_tokens"`
}

// benchmark is the payload of benchmark. Its prompts name no expected answer, so that an
// agent cannot read it there.
type benchmark struct {
	BenchmarkID string   `json:"benchmark_id"`
	TestType    string   `json:"test_type"`
	ModelID     string   `json:"model_id"`
	Prompts     []prompt `json:"prompts"`
	TimeoutMS   int64    `json:"timeout_ms"`
}

type prompt struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
}

// taskOf is the message of a task, by its type and payload.
func taskOf(r *session.Request) (kind string, payload []byte, err error) {
	kind, fields := fieldsOf(r)
	if fields == nil {
		return "", nil, fmt.Errorf("dialect v1 has no task %T", r.Challenge.Task)
	}
	payload, err = json.Marshal(fields)
	return kind, payload, err
}

// fieldsOf is the payload of a task; nil for a task that there is not.
func fieldsOf(r *session.Request) (kind string, fields any) {
	asked := verify{ChallengeID: r.Challenge.ID, ModelID: r.Model}
	switch task := r.Challenge.Task.(type) {
	case *session.Fingerprint:
		asked.ChallengeType, asked.Challenge = "fingerprint", fingerprint{Files: files(task)}
	case *session.Deterministic:
		asked.ChallengeType = "deterministic"
		asked.Challenge = deterministic{Prompt: task.Prompt, Seed: task.Seed, MaxTokens: task.MaxTokens}
	case *session.Benchmark:
		b := benchmark{
			BenchmarkID: r.Challenge.ID, TestType: task.Test, ModelID: r.Model, TimeoutMS: r.Timeout.Milliseconds(),
			Prompts: make([]prompt, 0, len(task.Prompts)),
		}
		for i, text := range task.Prompts {
			b.Prompts = append(b.Prompts, prompt{ID: "p" + strconv.Itoa(i+1), Prompt: text})
		}
		return "benchmark", b
	default:
		return "", nil
	}
	return "verify", asked
}

// files are the files that a fingerprint names, each once. Agents compare the hash of a
// manifest with the hash that they are told, so they are told a decoy. An agent that
// repeats the decoy has read nothing.
func files(task *session.Fingerprint) []file {
	all := make([]file, 0, len(task.Ranges)+len(task.ChainFiles))
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			decoy := sha256.Sum256(append(append([]byte{}, task.Nonce...), name...))
			all = append(all, file{Filename: name, ExpectedHash: hex.EncodeToString(decoy[:])})
		}
	}
	for _, r := range task.Ranges {
		add(r.File)
	}
	for _, c := range task.ChainFiles {
		add(c.File)
	}
	return all
}
