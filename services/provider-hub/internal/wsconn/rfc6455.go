package wsconn

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// Opcodes of RFC 6455.
const (
	opContinuation byte = 0x0
	opText         byte = 0x1
	opBinary       byte = 0x2
	opClose        byte = 0x8
	opPing         byte = 0x9
	opPong         byte = 0xA
)

// Status codes of close frames.
const (
	StatusNormal         uint16 = 1000
	StatusProtocolError  uint16 = 1002
	StatusUnsupported    uint16 = 1003
	StatusNone           uint16 = 1005 // is never on the wire
	StatusInvalidPayload uint16 = 1007
	StatusPolicy         uint16 = 1008
	StatusTooBig         uint16 = 1009
	StatusServiceRestart uint16 = 1012
	StatusTryLater       uint16 = 1013
)

const (
	finBit     = 0x80
	rsvBits    = 0x70
	opcodeBits = 0x0f
	maskBit    = 0x80
	// maxControlPayload is in bytes.
	maxControlPayload = 125
	// maxReason is what the payload of a close frame has for a reason.
	maxReason = maxControlPayload - 2
)

// Violation is a breach of RFC 6455, or of a bound of messages. Status is that of
// the close frame that answers it.
type Violation struct {
	Status uint16
	Text   string
}

// Error says what is wrong.
func (v *Violation) Error() string { return v.Text }

func breach(text string) error { return &Violation{StatusProtocolError, text} }

// errPeerClosed means that the peer has closed the connection in good order.
var errPeerClosed = errors.New("the peer has closed the connection")

// frameHead is the beginning of a frame from a client.
type frameHead struct {
	final  bool
	opcode byte
	length int64
	mask   [4]byte
}

// readHead reads and checks the beginning of a frame. No extension is ever
// agreed on, so that every reserved bit is a breach.
func readHead(r *input) (frameHead, error) {
	b, err := r.Peek(2)
	if err != nil {
		return frameHead{}, err
	}
	h := frameHead{final: b[0]&finBit != 0, opcode: b[0] & opcodeBits, length: int64(b[1] &^ maskBit)}
	switch {
	case b[0]&rsvBits != 0:
		return h, breach("a reserved bit is set")
	case b[1]&maskBit == 0:
		return h, breach("a frame is not masked")
	}
	switch h.opcode {
	case opContinuation, opText, opBinary:
	case opClose, opPing, opPong:
		if !h.final || h.length > maxControlPayload {
			return h, breach("a control frame is fragmented or too long")
		}
	default:
		return h, breach("an opcode is reserved")
	}
	_, _ = r.Discard(2)
	if err := readLength(r, &h); err != nil {
		return h, err
	}
	key, err := r.Peek(len(h.mask))
	if err != nil {
		return h, err
	}
	copy(h.mask[:], key)
	_, _ = r.Discard(len(h.mask))
	return h, nil
}

// readLength reads a length that does not fit into the first two bytes.
func readLength(r *input, h *frameHead) error {
	size, least := 0, uint64(0)
	switch h.length {
	case 126:
		size, least = 2, 126
	case 127:
		size, least = 8, 1<<16
	default:
		return nil
	}
	b, err := r.Peek(size)
	if err != nil {
		return err
	}
	n := uint64(0)
	for _, digit := range b {
		n = n<<8 | uint64(digit)
	}
	_, _ = r.Discard(size)
	if n < least || n > 1<<63-1 {
		return breach("a length is not encoded as it must be")
	}
	h.length = int64(n)
	return nil
}

// unmask applies the mask to a part of a payload that begins at offset.
func unmask(mask [4]byte, offset int, b []byte) {
	for ; offset&3 != 0 && len(b) > 0; offset++ {
		b[0] ^= mask[offset&3]
		b = b[1:]
	}
	word := binary.LittleEndian.Uint32(mask[:])
	wide := uint64(word)<<32 | uint64(word)
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
	}
	for i := range b {
		b[i] ^= mask[i&3]
	}
}

// closeStatus reads the payload of a close frame.
func closeStatus(payload []byte) (uint16, error) {
	switch len(payload) {
	case 0:
		return StatusNone, nil
	case 1:
		return 0, breach("a close frame has half a status")
	}
	status := binary.BigEndian.Uint16(payload)
	switch {
	case !mayClose(status):
		return 0, breach("a close frame has a status that is none")
	case !utf8.Valid(payload[2:]):
		return 0, &Violation{StatusInvalidPayload, "the reason of a close frame is not UTF-8"}
	}
	return status, nil
}

// mayClose reports whether a status may be on the wire. The statuses that the standard
// and its registry define may be, and so may the statuses left to libraries and
// applications.
func mayClose(status uint16) bool {
	switch {
	case status >= 1000 && status <= 1003, status >= 1007 && status <= 1014, status >= 3000 && status <= 4999:
		return true
	default:
		return false
	}
}

// appendFrame appends a whole frame as a server sends it.
func appendFrame(dst []byte, opcode byte, payload []byte) []byte {
	return append(appendHead(dst, opcode, len(payload)), payload...)
}

func appendHead(dst []byte, opcode byte, n int) []byte {
	dst = append(dst, finBit|opcode)
	switch {
	case n < 126:
		return append(dst, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
	}
}

// closePayload is the payload of a close frame. The reason is ASCII and is cut.
func closePayload(status uint16, reason string) []byte {
	if status == StatusNone {
		return nil
	}
	return append(binary.BigEndian.AppendUint16(nil, status), reason[:min(len(reason), maxReason)]...)
}
