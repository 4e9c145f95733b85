package sessiontest

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv2 "svc.internal/proto/svc/agent/v2"
)

// RegisterText is the registration of an agent of v1, under the request_id "r-1". Without
// models the agent serves "m".
func RegisterText(key, node string, models ...string) string {
	if models == nil {
		models = []string{"m"}
	}
	list, _ := json.Marshal(models) // texts always are JSON
	return `{"type":"register","request_id":"r-1","payload":{"node_id":"` + node + `","token":"` + key +
		`","models":` + string(list) + `,"capabilities":["inference","verification"]}}`
}

// Chunk is a piece of a stream in v1.
func Chunk(id, chunk string, done bool) string {
	return `{"type":"stream_chunk","request_id":"` + id + `","payload":{"request_id":"` + id + `","chunk":` + chunk +
		`,"done":` + strconv.FormatBool(done) + `}}`
}

// StreamEnd is the end of a stream in v1, with further members.
func StreamEnd(id, more string) string {
	return `{"type":"stream_end","request_id":"` + id + `","payload":{"request_id":"` + id + `","latency_ms":1` + more +
		`}}`
}

// Answer is a whole answer in v1, with its members.
func Answer(id, more string) string {
	return `{"type":"ack","request_id":"` + id + `","payload":{"request_id":"` + id + `"` + more + `}}`
}

// Encode is a frame of v2 as a message.
func Encode(t testing.TB, f *agentv2.Frame) []byte {
	t.Helper()
	b, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Data is DATA of n bytes in v2.
func Data(stream, seq uint32, n int) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_Data{
		Data: &agentv2.Data{Data: bytes.Repeat([]byte("x"), n)},
	}}
}

// End is the good END of a request in v2.
func End(stream, seq uint32) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_End{
		End: &agentv2.End{EngineStatus: 200, Complete: true},
	}}
}
