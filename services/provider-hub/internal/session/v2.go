package session

import (
	"time"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

// Sizes of dialect v2, in bytes.
const (
	v2Message = 64 << 10
	maxData   = 16 << 10

	// What an agent takes that does not say, and the most that is ever sent.
	defaultRequestBytes = 10 << 20
	maxRequestBytes     = 26 << 20
)

// v2Streams bounds the streams of a v2 session.
const v2Streams = 4096

// What an agent may send that is no DATA, in frames: each OPEN earns as many as an
// answer has that asks for nothing more, and each so many bytes of a body one, as
// agents grant credit again in larger steps. Every other frame counts with
// heartbeats and pings. Of what was earned so much is kept, which is more than
// v2Streams answers need.
const (
	earnedByOpen  = 4
	earnedByBytes = 8 << 10
	maxEarned     = 32_768
)

// v2 is dialect v2: protobuf frames that are counted, and credit in both
// directions.
type v2 struct {
	s *Session

	seqIn, seqOut uint32 // of stream 0
	recvCredit    int64  // what the agent may still send
	recvOwed      int64  // taken and not yet granted again
	sendCredit    int64  // what may still be sent
	// earned is how many frames that are no DATA the agent may send for what it
	// was sent, and unpaid the bytes of bodies that have not earned one yet.
	earned int
	unpaid int

	control     []*agentv2.Frame
	interactive []*v2Stream // OPEN is due
	bulk        []*v2Stream // body is due and the stream has credit
}

// v2Stream is a stream with its accounts.
type v2Stream struct {
	Stream
	queued bool // the stream stands in the bulk ring
	sent   int  // body bytes that were sent
	seqIn  uint32
	seqOut uint32
	credit int64 // what may still be sent
	recv   int64 // what the agent may still send
	owed   int64 // taken and not yet granted again
}

// speakV2 begins dialect v2 on a session.
func speakV2(s *Session) (dialect, terms) {
	d := &v2{s: s, recvCredit: s.cfg.ConnWindow, sendCredit: s.cfg.ConnWindow}
	return d, terms{
		name: "v2", opcode: opBinary, anonymous: v2Message, registered: v2Message, news: v2Message, streams: v2Streams,
		silence: s.cfg.SessionTimeout,
	}
}

// v2Frame is a frame for the writer.
type v2Frame struct{ *agentv2.Frame }

func (f v2Frame) parts(scratch []byte) (head, body []byte, tail string, err error) {
	head, err = proto.MarshalOptions{}.MarshalAppend(scratch, f.Frame)
	return head, nil, "", err
}

// earn adds frames that the agent may send. Needs the mutex.
func (d *v2) earn(frames int) { d.earned = min(d.earned+frames, maxEarned) }

// sends notes that n bytes of bodies go out. Needs the mutex.
func (d *v2) sends(n int) {
	d.unpaid += n
	d.earn(d.unpaid / earnedByBytes)
	d.unpaid %= earnedByBytes
}

// spend takes a frame off what was earned, or else off what an agent may send
// without having been asked. Needs the mutex.
func (d *v2) spend() *Closing {
	if d.earned == 0 {
		return d.s.chat()
	}
	d.earned--
	return nil
}

// at gives a stream its accounts.
func (d *v2) at(st *Stream) *v2Stream { return st.wire.(*v2Stream) }

// check implements dialect: bodies are cut into frames, so that all fit.
func (d *v2) check(*Request) error { return nil }

// open implements dialect.
func (d *v2) open(id uint32, r Request) *Stream {
	st := &v2Stream{Stream: d.s.newStream(id, r), credit: d.s.cfg.StreamWindow, recv: d.s.cfg.StreamWindow}
	st.wire = st
	d.interactive = append(d.interactive, st)
	return &st.Stream
}

// cancel implements dialect.
func (d *v2) cancel(st *Stream) {
	d.push(&agentv2.Frame{Stream: st.id, Body: &agentv2.Frame_Cancel{Cancel: &agentv2.Cancel{}}})
}

// slot implements dialect.
func (d *v2) slot(*Stream) time.Duration { return d.s.cfg.CancelGrace }

// forget implements dialect: queues pass over streams that are not open.
func (d *v2) forget(*Stream) {}

// passed implements dialect: it grants n bytes again, in steps of a quarter
// window.
func (d *v2) passed(st *Stream, n int64) {
	s := d.s
	if s.phase != phaseLive {
		return
	}
	d.takenFromConn(n)
	flow := d.at(st)
	flow.owed += n
	if flow.owed >= s.cfg.StreamWindow/4 && st.ended == nil && !st.released {
		flow.recv += flow.owed
		d.push(window(st.id, flow.owed))
		flow.owed = 0
	}
}

func (d *v2) takenFromConn(n int64) {
	d.recvOwed += n
	if d.recvOwed >= d.s.cfg.ConnWindow/4 {
		d.recvCredit += d.recvOwed
		d.push(window(0, d.recvOwed))
		d.recvOwed = 0
	}
}

func window(stream uint32, bytes int64) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: uint32(bytes)}}}
}

// registered implements dialect.
func (d *v2) registered(g Grant, refused map[string]string) {
	d.push(&agentv2.Frame{Body: &agentv2.Frame_RegisterAck{RegisterAck: &agentv2.RegisterAck{
		ProviderId: g.ProviderID.String(), ProviderName: g.ProviderName, Epoch: g.Epoch,
		Status: g.Status, HeartbeatIntervalMs: d.s.cfg.HeartbeatInterval.Milliseconds(), RefusedModels: refused,
		Warning: g.Warning,
	}}})
}

// drain implements dialect. An agent that is not registered yet is better off
// with another hub.
func (d *v2) drain(reconnectAfter time.Duration) {
	if d.s.phase != phaseLive {
		why := shuttingDown()
		why.ReconnectAfter = reconnectAfter
		d.s.shut(why)
		return
	}
	d.push(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{ReconnectAfterMs: reconnectAfter.Milliseconds()}}})
}

// warmUp implements dialect.
func (d *v2) warmUp(model string) {
	d.push(&agentv2.Frame{Body: &agentv2.Frame_Warmup{Warmup: &agentv2.Warmup{ModelId: model}}})
}

// acknowledge tells which receipts are done with.
func (d *v2) acknowledge(ack *agentv2.ReceiptAck) {
	d.push(&agentv2.Frame{Body: &agentv2.Frame_ReceiptAck{ReceiptAck: ack}})
}
