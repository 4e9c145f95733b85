package v2

import (
	"fmt"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/session"
)

// challengeOf is the frame of a fingerprint, which is the only task in v2.
func challengeOf(out *session.Outbound) (*agentv2.Frame, error) {
	challenge := out.Open.Challenge
	task, ok := challenge.Task.(*session.Fingerprint)
	if !ok {
		return nil, fmt.Errorf("dialect v2 has no task %T", challenge.Task)
	}
	m := &agentv2.Challenge{
		ChallengeId: challenge.ID, ModelId: out.Model, Nonce: task.Nonce, ChainLength: task.ChainLength,
		Ranges:     make([]*agentv2.FileRange, 0, len(task.Ranges)),
		ChainFiles: make([]*agentv2.ChainFile, 0, len(task.ChainFiles)),
	}
	for _, r := range task.Ranges {
		m.Ranges = append(m.Ranges, &agentv2.FileRange{File: r.File, Offset: r.Offset, Length: r.Length})
	}
	for _, c := range task.ChainFiles {
		m.ChainFiles = append(m.ChainFiles, &agentv2.ChainFile{File: c.File, Size: c.Size})
	}
	return &agentv2.Frame{Body: &agentv2.Frame_Challenge{Challenge: m}}, nil
}

// decodeDigests reads at most one digest more than a fingerprint may have, which shows
// that there are too many.
func decodeDigests(r *agentv2.ChallengeResult) *session.Digests {
	digests := r.GetDigests()
	return &session.Digests{
		ID: r.GetChallengeId(), Digests: digests[:min(len(digests), session.MaxRanges+1)], Chain: r.GetChainDigest(),
		Error: r.GetError(),
	}
}
