// Package rpc answers the gRPC services of provider-hub. It checks the shape of each
// message, calls the domain, and encodes the result.
package rpc

import (
	"bytes"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money/moneypb"
	"svc.internal/pkg/telemetry"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/meter"
)

// Dispatch answers hub.v1.DispatchService.
type Dispatch struct {
	hubv1.UnimplementedDispatchServiceServer
	dispatcher *dispatch.Dispatcher
}

// NewDispatch serves attempts with dispatcher.
func NewDispatch(dispatcher *dispatch.Dispatcher) *Dispatch { return &Dispatch{dispatcher: dispatcher} }

type dispatchStream = grpc.BidiStreamingServer[hubv1.DispatchRequest, hubv1.DispatchResponse]

// Dispatch sends one request to one provider and relays its answer.
func (d *Dispatch) Dispatch(stream dispatchStream) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	order, err := orderFromProto(first.GetOpen())
	if err != nil {
		return err
	}
	order.Traceparent = telemetry.Traceparent(stream.Context())
	c := newCall(stream)
	go c.listen() // ends with the call, at the latest when this handler returns
	return d.dispatcher.Serve(stream.Context(), order, c)
}

// call is the caller's end of a dispatch. It implements dispatch.Caller.
type call struct {
	stream    dispatchStream
	committed chan struct{}
	gone      chan struct{}
}

func newCall(stream dispatchStream) *call {
	return &call{stream: stream, committed: make(chan struct{}), gone: make(chan struct{})}
}

// eventMessage is the message of an event in one allocation.
type eventMessage struct {
	message hubv1.DispatchResponse
	oneof   hubv1.DispatchResponse_Event
	event   hubv1.DispatchEvent
}

// listen waits for the commit, and for the caller to close its side, which is how it
// hangs up in good order. Every other message of a caller is ignored.
func (c *call) listen() {
	committed := false
	for {
		m, err := c.stream.Recv()
		if errors.Is(err, io.EOF) {
			close(c.gone)
		}
		if err != nil {
			return
		}
		if m.GetCommit() != nil && !committed {
			committed = true
			close(c.committed)
		}
	}
}

// Gone implements dispatch.Caller.
func (c *call) Gone() <-chan struct{} { return c.gone }

// Committed implements dispatch.Caller.
func (c *call) Committed() <-chan struct{} { return c.committed }

// Event implements dispatch.Caller. The bytes are copied, because a caller in this process keeps
// the message, and the dispatcher uses them again.
func (c *call) Event(e dispatch.Event) error {
	m := new(eventMessage)
	m.message.Message, m.oneof.Event = &m.oneof, &m.event
	m.event.Json, m.event.FirstContent, m.event.CompletionTokens, m.event.More, m.event.Name = bytes.Clone(e.JSON),
		e.FirstContent, e.Tokens, e.More, e.Name
	m.event.ProviderUs = e.ProviderTime.Microseconds()
	return c.stream.Send(&m.message)
}

// Finished implements dispatch.Caller.
func (c *call) Finished(prompt, completion int64) error {
	return c.stream.Send(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Finished{
		Finished: &hubv1.DispatchFinished{BillablePromptTokens: prompt, BillableCompletionTokens: completion},
	}})
}

// Failed implements dispatch.Caller.
func (c *call) Failed(f dispatch.Failure) error {
	return c.stream.Send(&hubv1.DispatchResponse{Message: &hubv1.DispatchResponse_Failed{
		Failed: &hubv1.DispatchFailed{
			Retryable: f.Retryable, Code: f.Code, EngineStatus: int32(f.EngineStatus), Message: f.Message,
			Busy: f.Busy, EngineType: f.EngineType, EngineParam: f.EngineParam, EngineCode: f.EngineCode,
		},
	}})
}

func orderFromProto(m *hubv1.DispatchOpen) (*dispatch.Order, error) {
	if m == nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "the first message must be open")
	}
	request, err := ids.ParseRequest(m.GetRequestId())
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "request_id").On("request_id")
	}
	providerID, err := ids.ParseProvider(m.GetProviderId())
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "provider_id").On("provider_id")
	}
	kind, ok := kindFromProto(m.GetEndpoint())
	if !ok {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "endpoint").On("endpoint")
	}
	return &dispatch.Order{
		Request: request, Attempt: m.GetAttempt(), Provider: providerID, Node: m.GetNodeId(), Epoch: m.GetEpoch(),
		Kind: kind, Model: m.GetModelId(), Stream: m.GetStream(), Body: m.GetBody(), ContentType: m.GetContentType(),
		Text: m.GetAnswerForm() == hubv1.AnswerForm_ANSWER_FORM_TEXT, Inputs: int64(m.GetInputs()),
		ModelOffset: m.GetModelOffset(), ModelLength: m.GetModelLength(), IncludeUsage: m.GetIncludeUsage(),
		EstimatedPrompt: m.GetEstimatedPromptTokens(), HeldPrompt: m.GetHeldPromptTokens(), MaxOutput: m.GetMaxOutputTokens(),
		Choices:   int64(m.GetChoices()),
		StopAsked: m.GetStopAsked(), HiddenReasoning: m.GetHiddenReasoning(),
		NamesMedia: m.GetNamesMedia(), EngineMembers: m.GetEngineMembers(),
		PriceVersion: m.GetPriceVersionId(), Rates: moneypb.ToRates(m.GetRates()),
		Route: dispatch.Route{
			Mode:              dispatch.RouteMode(m.GetRoute().GetMode()),
			RequestedProvider: m.GetRoute().GetRequestedProviderId(),
			Fallback:          dispatch.FallbackReason(m.GetRoute().GetFallbackReason()),
		},
		AccountTag: m.GetAccountTag(), FailedElsewhere: m.GetFailedElsewhere(),
		UsualFirstContent: milliseconds(m.GetUsualFirstContentMs()),

		LedgerMAC:    m.GetLedgerMac(),
		Ticket:       m.GetTicket(),
		FirstContent: milliseconds(m.GetFirstContentTimeoutMs()),
		Total:        milliseconds(m.GetTotalTimeoutMs()),
	}, nil
}

// kindFromProto returns false for a kind that only later gateways know.
func kindFromProto(e hubv1.Endpoint) (meter.Kind, bool) {
	switch e {
	case hubv1.Endpoint_ENDPOINT_UNSPECIFIED, hubv1.Endpoint_ENDPOINT_CHAT:
		return meter.Chat, true
	case hubv1.Endpoint_ENDPOINT_EMBEDDINGS:
		return meter.Embeddings, true
	case hubv1.Endpoint_ENDPOINT_IMAGES:
		return meter.Images, true
	case hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS:
		return meter.Transcriptions, true
	}
	return 0, false
}

// milliseconds saturates instead of wrapping around. The domain refuses both ends.
func milliseconds(ms int64) time.Duration {
	const most = int64(1 << 40)
	return time.Duration(max(-1, min(ms, most))) * time.Millisecond
}
