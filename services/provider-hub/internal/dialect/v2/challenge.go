package v2

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"

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

// maxResultError bounds the error of a result, in characters.
const maxResultError = 1024

// decodeResult reads a result. The caller of the challenge gets it as JSON with the names
// of agent.v2. It has at most one digest more than a fingerprint may have, which shows
// that there are too many. The agent could not where it says why and gives no digest.
func decodeResult(r *agentv2.ChallengeResult, in *session.Inbound) error {
	in.Kind = session.KindDigests
	d := &session.Digests{ID: r.GetChallengeId(), Chain: len(r.GetChainDigest())}
	some := d.Chain > 0
	r.Digests = r.Digests[:min(len(r.Digests), session.MaxRanges+1)]
	for _, digest := range r.Digests {
		d.Sizes = append(d.Sizes, len(digest))
		some = some || len(digest) > 0
	}
	in.Digests = d
	r.Error = session.Clean(r.GetError(), maxResultError)
	in.End = &session.End{Complete: some || r.GetError() == "", Error: r.GetError()}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r)
	if err != nil {
		return &session.Malformed{Text: "a result cannot be read"}
	}
	in.Data = text
	return nil
}
