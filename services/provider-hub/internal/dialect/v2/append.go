package v2

import (
	"fmt"

	"svc.internal/pkg/agentwire/frame"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// Append implements dialect.Codec. DATA is copied into the head, because pieces are
// small, and one system call sends a batch of them.
func (codec) Append(dst []byte, out *session.Outbound) (head, body []byte, tail string, err error) {
	if out.Kind == session.OutData {
		d := frame.Data{Stream: out.Stream, Seq: out.Seq, Bytes: out.Data, Fin: out.Fin}
		return frame.AppendData(dst, d), nil, "", nil
	}
	f, err := frameOf(out)
	if err != nil {
		return dst, nil, "", err
	}
	f.Stream, f.Seq = out.Stream, out.Seq
	head, err = frame.Append(dst, f)
	return head, nil, "", err
}

// frameOf is the frame of a message without its numbers.
func frameOf(out *session.Outbound) (*agentv2.Frame, error) {
	switch out.Kind {
	case session.OutRegistered:
		return &agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: registerAck(out.Ack)}}, nil
	case session.OutHeartbeat:
		return &agentv2.Frame{Body: &agentv2.Frame_HeartbeatAck{HeartbeatAck: heartbeatAck(out.Ack)}}, nil
	case session.OutOpen:
		return &agentv2.Frame{Body: &agentv2.Frame_Open{Open: openOf(out)}}, nil
	case session.OutCredit:
		return frame.Window(out.Stream, out.Seq, out.Credit), nil
	case session.OutCancel:
		return &agentv2.Frame{Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}}, nil
	case session.OutReset, session.OutFarewell:
		return &agentv2.Frame{Body: &agentv2.Frame_Error{Error: errorOf(out.Why)}}, nil
	case session.OutDrain:
		drain := &agentv2.Drain{ReconnectAfterMs: out.After.Milliseconds()}
		return &agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: drain}}, nil
	case session.OutWarmUp:
		return &agentv2.Frame{Body: &agentv2.Frame_Warmup{Warmup: &agentv2.Warmup{ModelId: out.Model}}}, nil
	case session.OutChallenge:
		return challengeOf(out)
	case session.OutReceipts:
		return &agentv2.Frame{Body: &agentv2.Frame_ReceiptAck{ReceiptAck: receiptAck(out.Receipts)}}, nil
	default:
		return nil, fmt.Errorf("dialect v2 has no message of kind %d", out.Kind)
	}
}

// heartbeatAck is empty where nothing is told.
func heartbeatAck(a *session.Ack) *agentv2.HeartbeatAck {
	if a == nil {
		return &agentv2.HeartbeatAck{}
	}
	return &agentv2.HeartbeatAck{Status: a.Grant.Status, Machines: int32(a.Machines)}
}

func registerAck(a *session.Ack) *agentv2.RegisterAck {
	g := &a.Grant
	return &agentv2.RegisterAck{
		ProviderId: g.ProviderID.String(), ProviderName: g.ProviderName, Epoch: g.Epoch, Status: g.Status,
		HeartbeatIntervalMs: a.HeartbeatInterval.Milliseconds(), RefusedModels: a.Refused, Warning: g.Warning,
	}
}

func openOf(out *session.Outbound) *agentv2.Open {
	r := out.Open
	return &agentv2.Open{
		RequestId: r.RequestID, Attempt: r.Attempt, ModelId: r.Model, Stream: r.Stream,
		ModelOffset: r.ModelOffset, ModelLength: r.ModelLength, BodyLength: out.Length,
		Traceparent: r.Traceparent, TimeoutMs: r.Timeout.Milliseconds(), Proof: r.Proof,
		Endpoint: endpointOf(r.Kind), ContentType: r.ContentType,
	}
}

// endpointOf leaves chat unnamed, because older agents know no other endpoint.
func endpointOf(k meter.Kind) agentv2.Endpoint {
	switch k {
	case meter.Embeddings:
		return agentv2.Endpoint_ENDPOINT_EMBEDDINGS
	case meter.Images:
		return agentv2.Endpoint_ENDPOINT_IMAGES
	case meter.Transcriptions:
		return agentv2.Endpoint_ENDPOINT_TRANSCRIPTIONS
	case meter.Chat:
	}
	return agentv2.Endpoint_ENDPOINT_UNSPECIFIED
}

func errorOf(why *session.CloseReason) *agentv2.Error {
	return &agentv2.Error{Code: why.Code, Message: why.Message, ReconnectAfterMs: why.ReconnectAfter.Milliseconds()}
}

func receiptAck(all []session.Acknowledged) *agentv2.ReceiptAck {
	ack := &agentv2.ReceiptAck{Receipts: make([]*agentv2.AckedReceipt, 0, len(all))}
	for _, a := range all {
		ack.Receipts = append(ack.Receipts, &agentv2.AckedReceipt{
			RequestId: a.Key.Request[:], Attempt: a.Key.Attempt, Refused: a.Refused,
		})
	}
	return ack
}
