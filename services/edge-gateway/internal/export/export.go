// Package export passes a CSV on that a service writes in pieces.
package export

import (
	"errors"
	"io"
	"strconv"

	"google.golang.org/grpc"
)

// RowsTrailer is the trailer with the rows of an export. A client that has it has the whole of it.
const RowsTrailer = "X-Svc-Rows"

// Piece is a message with a piece of a CSV, and how many rows the pieces have had.
type Piece interface {
	GetCsv() []byte
	GetRows() int64
}

// Export is a CSV that comes in pieces.
type Export struct {
	// Name is the name of the file.
	Name  string
	recv  func() (Piece, error)
	first Piece
	rows  int64
}

// New begins an export of a stream. What is wrong with the call is found before the first
// piece. translate makes the client's error of the service's.
func New[M any, P interface {
	*M
	Piece
}](name string, stream grpc.ServerStreamingClient[M], translate func(error) error) (*Export, error) {
	e := &Export{Name: name, recv: func() (Piece, error) {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			return nil, translate(err)
		}
		return P(m), nil
	}}
	var err error
	if e.first, err = e.recv(); err != nil {
		return nil, err
	}
	return e, nil
}

// Next returns the next piece, or io.EOF.
func (e *Export) Next() ([]byte, error) {
	piece := e.first
	if e.first = nil; piece == nil {
		var err error
		if piece, err = e.recv(); err != nil {
			return nil, err
		}
	}
	e.rows = piece.GetRows()
	return piece.GetCsv(), nil
}

// Rows returns how many rows the pieces have had, without the header.
func (e *Export) Rows() string { return strconv.FormatInt(e.rows, 10) }
