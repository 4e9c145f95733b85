package gguf

import (
	"encoding/binary"
	"io"
	"math"
)

// encoder writes the format's primitives and keeps the first error.
type encoder struct {
	to      io.Writer
	written uint64
	scratch [8]byte
	err     error
}

func (e *encoder) bytes(b []byte) {
	if e.err != nil {
		return
	}
	n, err := e.to.Write(b)
	e.written += uint64(n)
	e.err = err
}

func (e *encoder) u8(v uint8) { e.bytes(append(e.scratch[:0], v)) }

func (e *encoder) u16(v uint16) { e.bytes(binary.LittleEndian.AppendUint16(e.scratch[:0], v)) }

func (e *encoder) u32(v uint32) { e.bytes(binary.LittleEndian.AppendUint32(e.scratch[:0], v)) }

func (e *encoder) u64(v uint64) { e.bytes(binary.LittleEndian.AppendUint64(e.scratch[:0], v)) }

func (e *encoder) f32(v float32) { e.u32(math.Float32bits(v)) }

// text is preceded by its length in bytes.
func (e *encoder) text(s string) {
	e.u64(uint64(len(s)))
	e.bytes([]byte(s))
}

// align fills with zeros up to the next multiple of the alignment.
func (e *encoder) align() {
	e.bytes(make([]byte, aligned(e.written)-e.written))
}
