package v2

import (
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/agentwire/frame"
	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/session"
)

// Decode implements dialect.Codec.
func (codec) Decode(msg []byte, in *session.Inbound) error {
	if d, ok := frame.ReadData(msg); ok {
		*in = session.Inbound{
			Kind: session.KindData, Stream: d.Stream, Seq: d.Seq, Data: d.Bytes, Size: int64(len(msg)),
		}
		return nil
	}
	*in = session.Inbound{Size: int64(len(msg))}
	f, err := frame.Read(msg)
	if err != nil {
		return &session.Malformed{Text: err.Error()}
	}
	in.Stream, in.Seq = f.GetStream(), f.GetSeq()
	if r := f.GetChallengeResult(); r != nil {
		return decodeResult(r, in)
	}
	decodeBody(f, in)
	return nil
}

// decodeBody reads the body of a frame. The frames of hubs are alien, and a frame without
// a known body is of a later version.
func decodeBody(f *agentv2.Frame, in *session.Inbound) {
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_Register:
		in.Kind, in.Register = session.KindRegister, decodeRegister(body.Register)
	case *agentv2.Frame_Heartbeat:
		in.Kind, in.Heartbeat = session.KindHeartbeat, decodeHeartbeat(body.Heartbeat)
	case *agentv2.Frame_Data:
		in.Kind, in.Data = session.KindData, body.Data.GetData()
	case *agentv2.Frame_End:
		in.Kind, in.End = session.KindEnd, &session.End{
			Status: int(body.End.GetEngineStatus()), Complete: body.End.GetComplete(),
			Error: body.End.GetError(), Busy: body.End.GetBusy(),
		}
	case *agentv2.Frame_Error:
		in.Kind = session.KindReset
	case *agentv2.Frame_Window:
		in.Kind, in.Credit = session.KindCredit, body.Window.GetBytes()
	case *agentv2.Frame_Drain:
		in.Kind = session.KindDrain
	case *agentv2.Frame_WarmupResult:
		in.Kind, in.WarmUp = session.KindWarmUp, decodeWarmUp(body.WarmupResult)
	case *agentv2.Frame_Receipts:
		in.Kind, in.Receipts = session.KindReceipts, decodeReceipts(body.Receipts.GetReceipts())
	case nil:
		in.Kind = session.KindLater
	default:
		in.Kind = session.KindAlien
	}
}

func decodeWarmUp(r *agentv2.WarmupResult) *session.Warmed {
	return &session.Warmed{
		Model: r.GetModelId(), Success: r.GetSuccess(), Error: r.GetError(), NotTried: r.GetNotTried(),
		LoadTime: time.Duration(min(max(r.GetLoadTimeMs(), 0), time.Hour.Milliseconds())) * time.Millisecond,
	}
}

// decodeReceipts reads at most one receipt more than a frame may have, which shows that
// there are too many.
func decodeReceipts(all []*agentv2.Receipt) []session.Receipt {
	all = all[:min(len(all), agentwire.MaxReceipts+1)]
	read := make([]session.Receipt, 0, len(all))
	for _, m := range all {
		read = append(read, decodeReceipt(m))
	}
	return read
}

func decodeReceipt(m *agentv2.Receipt) session.Receipt {
	signed, err := frame.ReadReceipt(m)
	if err == nil {
		return session.Receipt{Signed: signed}
	}
	r := session.Receipt{Malformed: true}
	if id := m.GetRequestId(); len(id) == len(ids.RequestID{}) {
		r.Named, r.Request, r.Attempt = true, ids.RequestID(id), m.GetAttempt()
	}
	return r
}
