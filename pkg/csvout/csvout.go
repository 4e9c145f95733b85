// Package csvout writes CSV files (RFC 4180) in pieces of bounded size, so that a file of any
// length takes the memory of one piece. A cell of text that a spreadsheet would take for a
// formula begins with an apostrophe.
package csvout

import "strings"

// MaxPiece bounds a piece in bytes, and so a row.
const MaxPiece = 64 << 10

// EndRow ends a row.
const EndRow = "\r\n"

// AppendCell appends a cell of text. Numbers, ids and times are appended as they are.
func AppendCell(dst []byte, text string) []byte {
	guarded := text != "" && strings.IndexByte("=+-@\t\r", text[0]) >= 0
	quoted := strings.ContainsAny(text, ",\"\r\n")
	if quoted {
		dst = append(dst, '"')
	}
	if guarded {
		dst = append(dst, '\'')
	}
	if quoted {
		return append(append(dst, strings.ReplaceAll(text, `"`, `""`)...), '"')
	}
	return append(dst, text...)
}

// Writer collects rows into pieces.
type Writer struct {
	write func(piece []byte, rows int64) error
	piece []byte
	rows  int64
}

// NewWriter writes the header, with its end, as the first piece, so that a reader has it at
// once. write gets each piece with the number of rows so far; the piece is written anew after
// it returns.
func NewWriter(header string, write func(piece []byte, rows int64) error) (*Writer, error) {
	if err := write([]byte(header), 0); err != nil {
		return nil, err
	}
	return &Writer{write: write, piece: make([]byte, 0, MaxPiece)}, nil
}

// Add adds a row with its end.
func (w *Writer) Add(row []byte) error {
	if len(w.piece)+len(row) > MaxPiece {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	w.piece = append(w.piece, row...)
	w.rows++
	return nil
}

// Flush writes the piece that is collected, if there is one.
func (w *Writer) Flush() error {
	if len(w.piece) == 0 {
		return nil
	}
	err := w.write(w.piece, w.rows)
	w.piece = w.piece[:0]
	return err
}
