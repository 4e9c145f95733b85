package auditor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of an input, in bytes.
const maxLine = 4 << 20

// lineError is a fault of a line.
type lineError struct {
	line int
	err  error
}

// Error names the line and the fault.
func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

// Unwrap returns the fault.
func (e *lineError) Unwrap() error { return e.err }

// The faults of a file as a whole.
var (
	errTooLong   = fmt.Errorf("is longer than %d bytes", maxLine)
	errNoNewline = errors.New("has no end: the file is truncated")
	errNoEnd     = errors.New("the last line is missing: the file is truncated")
	errAfterEnd  = errors.New("stands after the last line")
	errRows      = errors.New("the last line tells another number of rows")
	errHeader    = errors.New("is not the first line of an export of version 1")
)

// lines reads a file line by line. A line is valid until the next is read.
type lines struct {
	from   *bufio.Reader
	buf    []byte
	number int
	rows   int64
	ended  bool
	keys   map[string]string
	// outer and inner are the members of the line's object and of the object within it.
	outer, inner []member
}

func newLines(from io.Reader) *lines {
	return &lines{from: bufio.NewReaderSize(from, 64<<10), keys: map[string]string{}}
}

// next is the next line's record; io.EOF when there is none. It handles the last line of
// a file itself, if the file has one.
func (l *lines) next() (record, error) {
	text, err := l.read()
	if err != nil {
		return record{}, err
	}
	rec, err := l.parse(text, l.outer)
	if err != nil {
		return record{}, l.fault(err)
	}
	l.outer = rec.members
	if l.ended {
		return record{}, l.fault(errAfterEnd)
	}
	if _, ok := rec.find("end"); ok {
		end, rows := rec.flag("end"), rec.integer("rows")
		if rec.err == nil && (!end || rows != l.rows) {
			rec.err = fmt.Errorf("%w: %d, of which %d were read", errRows, rows, l.rows)
		}
		if rec.err != nil {
			return record{}, l.fault(rec.err)
		}
		l.ended = true
		return l.next()
	}
	l.rows++
	return rec, nil
}

// read returns the next line without its end.
func (l *lines) read() ([]byte, error) {
	l.buf = l.buf[:0]
	for {
		part, err := l.from.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		switch {
		case len(l.buf) > maxLine:
			l.number++
			return nil, l.fault(errTooLong)
		case err == nil:
			l.number++
			return l.buf[:len(l.buf)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(l.buf) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			l.number++
			return nil, l.fault(errNoNewline)
		default:
			return nil, fmt.Errorf("read after line %d: %w", l.number, err)
		}
	}
}

// fault adds the number of the line to a fault.
func (l *lines) fault(err error) error { return &lineError{l.number, err} }

// each calls take for every line but the last. needEnd refuses a file without that last
// line.
func (l *lines) each(needEnd bool, take func(rec *record) error) error {
	for {
		rec, err := l.next()
		if errors.Is(err, io.EOF) {
			if needEnd && !l.ended {
				return errNoEnd
			}
			return nil
		}
		if err != nil {
			return err
		}
		if err := errors.Join(take(&rec), rec.err); err != nil {
			return l.fault(err)
		}
	}
}
