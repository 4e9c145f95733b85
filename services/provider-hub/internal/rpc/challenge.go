package rpc

import (
	"bytes"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/telemetry"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/challenge"
	"svc.internal/services/provider-hub/internal/session"
)

// Challenge answers hub.v1.ChallengeService.
type Challenge struct {
	hubv1.UnimplementedChallengeServiceServer
	runner *challenge.Runner
}

// NewChallenge runs challenges with runner.
func NewChallenge(runner *challenge.Runner) *Challenge { return &Challenge{runner: runner} }

type challengeStream = grpc.ServerStreamingServer[hubv1.RunResponse]

// Run puts one challenge to one session and passes on what comes back.
func (c *Challenge) Run(m *hubv1.RunRequest, stream challengeStream) error {
	order, err := challengeFromProto(m)
	if err != nil {
		return err
	}
	order.Traceparent = telemetry.Traceparent(stream.Context())
	finish, err := c.runner.Run(stream.Context(), order, chunks{stream})
	if err != nil {
		return err
	}
	return stream.Send(&hubv1.RunResponse{Message: &hubv1.RunResponse_Finished{Finished: finishToProto(finish)}})
}

// chunks is the caller's end of a challenge. It implements challenge.Caller.
type chunks struct{ stream challengeStream }

// Chunk implements challenge.Caller. The bytes are copied, because a caller in this process keeps
// the message, and the runner uses them again.
func (c chunks) Chunk(data []byte, after time.Duration) error {
	return c.stream.Send(&hubv1.RunResponse{Message: &hubv1.RunResponse_Chunk{
		Chunk: &hubv1.ChallengeChunk{Data: bytes.Clone(data), AtUs: after.Microseconds()},
	}})
}

func challengeFromProto(m *hubv1.RunRequest) (*challenge.Order, error) {
	provider, err := ids.ParseProvider(m.GetProviderId())
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "provider_id").On("provider_id")
	}
	o := &challenge.Order{
		ID: m.GetChallengeId(), Provider: provider, Node: m.GetNodeId(), Epoch: m.GetEpoch(), Model: m.GetModelId(),
		Timeout: milliseconds(m.GetTimeoutMs()),
	}
	switch asked := m.GetChallenge().(type) {
	case *hubv1.RunRequest_Inference:
		kind, ok := kindFromProto(asked.Inference.GetEndpoint())
		if !ok {
			return nil, fault.New(fault.Invalid, fault.InvalidRequest, "inference.endpoint").On("inference.endpoint")
		}
		o.Kind, o.Stream, o.Body = kind, asked.Inference.GetStream(), asked.Inference.GetBody()
	case *hubv1.RunRequest_Fingerprint:
		o.Task = fingerprintFromProto(asked.Fingerprint)
	case *hubv1.RunRequest_Deterministic:
		d := asked.Deterministic
		o.Task = &session.Deterministic{Prompt: d.GetPrompt(), Seed: d.GetSeed(), MaxTokens: d.GetMaxTokens()}
	case *hubv1.RunRequest_Benchmark:
		o.Task = &session.Benchmark{Test: asked.Benchmark.GetTestType(), Prompts: asked.Benchmark.GetPrompts()}
	default:
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "challenge").On("challenge")
	}
	return o, nil
}

func fingerprintFromProto(m *hubv1.FingerprintChallenge) *session.Fingerprint {
	f := &session.Fingerprint{
		Nonce: m.GetNonce(), ChainLength: m.GetChainLength(),
		Ranges:     make([]session.FileRange, 0, len(m.GetRanges())),
		ChainFiles: make([]session.ChainFile, 0, len(m.GetChainFiles())),
	}
	for _, r := range m.GetRanges() {
		f.Ranges = append(f.Ranges, session.FileRange{File: r.GetFile(), Offset: r.GetOffset(), Length: r.GetLength()})
	}
	for _, c := range m.GetChainFiles() {
		f.ChainFiles = append(f.ChainFiles, session.ChainFile{File: c.GetFile(), Size: c.GetSize()})
	}
	return f
}

// challengeEnds maps the domain's ends to the protocol's ends.
var challengeEnds = map[challenge.End]hubv1.ChallengeEnd{
	challenge.Answered:   hubv1.ChallengeEnd_CHALLENGE_END_ANSWERED,
	challenge.Refused:    hubv1.ChallengeEnd_CHALLENGE_END_REFUSED,
	challenge.TimedOut:   hubv1.ChallengeEnd_CHALLENGE_END_TIMED_OUT,
	challenge.Lost:       hubv1.ChallengeEnd_CHALLENGE_END_LOST,
	challenge.Invalid:    hubv1.ChallengeEnd_CHALLENGE_END_INVALID,
	challenge.HubStopped: hubv1.ChallengeEnd_CHALLENGE_END_HUB_STOPPED,
}

func finishToProto(f *challenge.Finish) *hubv1.ChallengeFinished {
	m := &hubv1.ChallengeFinished{
		End: challengeEnds[f.End], EngineStatus: int32(f.Status), Error: f.Error,
		DurationUs: f.Took.Microseconds(), WrittenUs: f.Written.Microseconds(), Dialect: f.Dialect,
		RoundTripUs: f.RoundTrip.Microseconds(),
	}
	if !f.SentAt.IsZero() {
		m.SentAt = timestamppb.New(f.SentAt)
	}
	return m
}
