package session

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of Frame and Data that parseData knows.
const (
	fieldStream = 1
	fieldSeq    = 2
	fieldData   = 8
	fieldBytes  = 1
	fieldFin    = 2
)

// dataFrame is a Frame that holds DATA. Bytes aliases the message.
type dataFrame struct {
	stream, seq uint32
	bytes       []byte
}

// parseData reads the frame that makes up nearly all traffic without
// allocating. It is false for every other frame and for every encoding that is
// not the plain one (fields repeated or unknown), which the caller reads with
// the full decoder; where it is true both agree.
func parseData(msg []byte) (f dataFrame, ok bool) {
	found := false
	for len(msg) > 0 {
		number, kind, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return dataFrame{}, false
		}
		msg = msg[n:]
		switch {
		case (number == fieldStream || number == fieldSeq) && kind == protowire.VarintType:
			v, n := protowire.ConsumeVarint(msg)
			if n < 0 {
				return dataFrame{}, false
			}
			if number == fieldStream {
				f.stream = uint32(v)
			} else {
				f.seq = uint32(v)
			}
			msg = msg[n:]
		case number == fieldData && kind == protowire.BytesType && !found:
			body, n := protowire.ConsumeBytes(msg)
			if n < 0 {
				return dataFrame{}, false
			}
			if f.bytes, ok = parseBody(body); !ok {
				return dataFrame{}, false
			}
			found = true
			msg = msg[n:]
		default:
			return dataFrame{}, false
		}
	}
	return f, found
}

// parseBody reads a Data message.
func parseBody(body []byte) (data []byte, ok bool) {
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, false
		}
		body = body[n:]
		switch {
		case number == fieldBytes && kind == protowire.BytesType:
			if data, n = protowire.ConsumeBytes(body); n < 0 {
				return nil, false
			}
		case number == fieldFin && kind == protowire.VarintType:
			if _, n = protowire.ConsumeVarint(body); n < 0 {
				return nil, false
			}
		default:
			return nil, false
		}
		body = body[n:]
	}
	return data, true
}
