package frame

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of Frame and Data.
const (
	fieldStream = 1
	fieldSeq    = 2
	fieldData   = 8
	fieldBytes  = 1
	fieldFin    = 2
)

// Data is a Frame that holds DATA.
type Data struct {
	Stream, Seq uint32
	// Bytes aliases the message that was read.
	Bytes []byte
	// Fin ends a body.
	Fin bool
}

// ReadData reads a message that holds DATA in the plain encoding, without
// allocating. It reports false for every other frame, and for DATA whose fields are
// repeated or unknown; Read reads those. Where it reports true, both agree.
func ReadData(msg []byte) (d Data, ok bool) {
	found := false
	for len(msg) > 0 {
		number, kind, n := protowire.ConsumeTag(msg)
		if n < 0 {
			return Data{}, false
		}
		msg = msg[n:]
		switch {
		case (number == fieldStream || number == fieldSeq) && kind == protowire.VarintType:
			v, n := protowire.ConsumeVarint(msg)
			if n < 0 {
				return Data{}, false
			}
			if number == fieldStream {
				d.Stream = uint32(v)
			} else {
				d.Seq = uint32(v)
			}
			msg = msg[n:]
		case number == fieldData && kind == protowire.BytesType && !found:
			body, n := protowire.ConsumeBytes(msg)
			if n < 0 || !d.readBody(body) {
				return Data{}, false
			}
			found = true
			msg = msg[n:]
		default:
			return Data{}, false
		}
	}
	return d, found
}

// readBody reads a Data message.
func (d *Data) readBody(body []byte) bool {
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return false
		}
		body = body[n:]
		switch {
		case number == fieldBytes && kind == protowire.BytesType:
			if d.Bytes, n = protowire.ConsumeBytes(body); n < 0 {
				return false
			}
		case number == fieldFin && kind == protowire.VarintType:
			var fin uint64
			if fin, n = protowire.ConsumeVarint(body); n < 0 {
				return false
			}
			d.Fin = fin != 0
		default:
			return false
		}
		body = body[n:]
	}
	return true
}

// AppendData appends the message of a DATA frame to dst, without allocating but for
// dst itself.
func AppendData(dst []byte, d Data) []byte {
	inner := 0
	if len(d.Bytes) > 0 {
		inner += protowire.SizeTag(fieldBytes) + protowire.SizeBytes(len(d.Bytes))
	}
	if d.Fin {
		inner += protowire.SizeTag(fieldFin) + protowire.SizeVarint(1)
	}
	dst = appendNumber(dst, fieldStream, d.Stream)
	dst = appendNumber(dst, fieldSeq, d.Seq)
	dst = protowire.AppendTag(dst, fieldData, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(inner))
	if len(d.Bytes) > 0 {
		dst = protowire.AppendTag(dst, fieldBytes, protowire.BytesType)
		dst = protowire.AppendBytes(dst, d.Bytes)
	}
	if d.Fin {
		dst = appendNumber(dst, fieldFin, 1)
	}
	return dst
}

// appendNumber leaves out a number that is 0, as protobuf does.
func appendNumber(dst []byte, field protowire.Number, n uint32) []byte {
	if n == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, field, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(n))
}
