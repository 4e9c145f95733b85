// Package frame reads and writes the frames of dialect v2 as bytes. Each WebSocket
// message is one Frame of proto/svc/agent/v2.
//
// DATA makes up nearly all traffic, so it is read and written without allocating
// (ReadData, AppendData). AppendData writes the bytes that protobuf itself would write.
package frame

import (
	"errors"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

// ErrNotFrame is returned for a message that cannot be read.
var ErrNotFrame = errors.New("a message is not a Frame")

// Read reads a message.
func Read(msg []byte) (*agentv2.Frame, error) {
	f := &agentv2.Frame{}
	if proto.Unmarshal(msg, f) != nil {
		return nil, ErrNotFrame
	}
	return f, nil
}

// Append appends the message of a frame to dst. It fails for a text that is not
// UTF-8; dst is as it was then.
func Append(dst []byte, f *agentv2.Frame) ([]byte, error) {
	out, err := proto.MarshalOptions{}.MarshalAppend(dst, f)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Window is a frame that grants credit: on the connection for stream 0.
func Window(stream, seq, bytes uint32) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: bytes}}}
}
