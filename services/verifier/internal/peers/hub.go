// Package peers asks the services that the verifier depends on: hubs for challenges and
// verdicts, billing-ledger for house accounts, settlement for penalties, and the catalog
// for models and their files. It implements the interfaces that its users declare, and
// decides nothing.
package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/fingerprint"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/verifier/internal/flow"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/offers"
)

// The bounds of a challenge.
const (
	// margin is how much longer than its timeout a challenge is waited for.
	margin = 15 * time.Second
	// maxChunks bounds the chunks of an answer.
	maxChunks = 8_192
	// dialectV1 is the dialect whose streams are JSON objects.
	dialectV1 = "v1"
)

// errEnd is the error for a stream that a hub ends in a way that the contract does not
// have.
var errEnd = errors.New("the hub ended a challenge without its end")

// Hubs put challenges to sessions. It implements flow.Hubs.
type Hubs struct {
	// Dial returns the client of the hub at a dispatch address. It neither blocks nor
	// dials.
	Dial func(dispatchAddress string) (hubv1.ChallengeServiceClient, error)
}

// Challenge puts a challenge to a session. Its errors hold the hub's fault. An answer beyond
// c.MaxBytes ends as flow.Invalid.
func (h Hubs) Challenge(ctx context.Context, on offers.Seat, c flow.Challenge) (flow.Reply, error) {
	client, err := h.Dial(on.Address)
	if err != nil {
		return flow.Reply{}, fmt.Errorf("find the hub of a challenge: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout+margin)
	defer cancel() // ends a stream that is not read to its end
	stream, err := client.Run(ctx, challengeToProto(on, c))
	if err != nil {
		return flow.Reply{}, fmt.Errorf("put a challenge to a session: %w", fault.FromError(err))
	}
	var r flow.Reply
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return flow.Reply{}, errEnd
		case err != nil:
			return flow.Reply{}, fmt.Errorf("hear a challenge: %w", fault.FromError(err))
		}
		if chunk := m.GetChunk(); chunk != nil {
			if !take(&r, chunk, c.MaxBytes) {
				r.End, r.Error = flow.Invalid, "the answer is larger than what was asked for"
				return r, nil
			}
			continue
		}
		if m.GetFinished() == nil {
			return flow.Reply{}, errEnd
		}
		return finished(r, m.GetFinished(), stream)
	}
}

// take adds a chunk, and reports whether there was room.
func take(r *flow.Reply, chunk *hubv1.ChallengeChunk, maxBytes int) bool {
	if len(r.Data)+len(chunk.GetData()) > maxBytes {
		return false
	}
	r.Data = append(r.Data, chunk.GetData()...)
	at := max(chunk.GetAtUs(), 0)
	if n := len(r.Chunks); n > 0 {
		at = max(at, r.Chunks[n-1].AtMicros)
	}
	if n := len(r.Chunks); n >= maxChunks {
		r.Chunks[n-1] = judge.Chunk{AtMicros: at, Bytes: r.Chunks[n-1].Bytes + len(chunk.GetData())}
		return true
	}
	if len(chunk.GetData()) > 0 {
		r.Chunks = append(r.Chunks, judge.Chunk{AtMicros: at, Bytes: len(chunk.GetData())})
	}
	return true
}

// finished is the reply once the hub has said how it ended. Nothing may follow that.
func finished(
	r flow.Reply, m *hubv1.ChallengeFinished, stream grpc.ServerStreamingClient[hubv1.RunResponse],
) (flow.Reply, error) {
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return flow.Reply{}, errEnd
	}
	end, ok := ends[m.GetEnd()]
	if !ok {
		return flow.Reply{}, errEnd
	}
	r.End, r.Status, r.Error = end, int(m.GetEngineStatus()), m.GetError()
	r.Objects = m.GetDialect() == dialectV1
	r.RoundTrip, r.Took = micros(m.GetRoundTripUs()), micros(m.GetDurationUs())
	return r, nil
}

func micros(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(time.Hour/time.Microsecond))) * time.Microsecond
}

var ends = map[hubv1.ChallengeEnd]flow.End{
	hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED:    flow.Answered,
	hubv1.ChallengeEnd_CHALLENGE_END_REFUSED:     flow.Declined,
	hubv1.ChallengeEnd_CHALLENGE_END_TIMED_OUT:   flow.Late,
	hubv1.ChallengeEnd_CHALLENGE_END_LOST:        flow.Lost,
	hubv1.ChallengeEnd_CHALLENGE_END_INVALID:     flow.Invalid,
	hubv1.ChallengeEnd_CHALLENGE_END_HUB_STOPPED: flow.HubStopped,
}

func challengeToProto(on offers.Seat, c flow.Challenge) *hubv1.RunRequest {
	m := &hubv1.RunRequest{
		ChallengeId: c.ID, ProviderId: on.Provider.String(), NodeId: on.Node, Epoch: on.Epoch, ModelId: c.Model,
		TimeoutMs: c.Timeout.Milliseconds(),
	}
	if c.Fingerprint != nil {
		m.Challenge = &hubv1.RunRequest_Fingerprint{Fingerprint: fingerprintToProto(c.Fingerprint)}
		return m
	}
	endpoint := hubv1.Endpoint_ENDPOINT_CHAT
	if c.Embeddings {
		endpoint = hubv1.Endpoint_ENDPOINT_EMBEDDINGS
	}
	m.Challenge = &hubv1.RunRequest_Inference{Inference: &hubv1.InferenceChallenge{
		Body: c.Body, Stream: c.Stream, Endpoint: endpoint,
	}}
	return m
}

func fingerprintToProto(c *fingerprint.Challenge) *hubv1.FingerprintChallenge {
	m := &hubv1.FingerprintChallenge{Nonce: c.Nonce, ChainLength: uint32(c.Blocks)}
	for _, r := range c.Ranges {
		m.Ranges = append(m.Ranges, &hubv1.FileRange{File: r.File, Offset: r.Offset, Length: int32(r.Length)})
	}
	for _, f := range c.Files {
		m.ChainFiles = append(m.ChainFiles, &hubv1.ChainFile{File: f.Name, Size: f.Size})
	}
	return m
}
