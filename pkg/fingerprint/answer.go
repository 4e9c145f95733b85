package fingerprint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"unicode/utf8"
)

// piece is how much is read at once, in bytes.
const piece = 64 << 10

var (
	errTime    = errors.New("the time was over before all was read")
	errAbsent  = errors.New("there is no such file")
	errKind    = errors.New("is not a regular file")
	errRead    = errors.New("cannot be read")
	errShort   = errors.New("the file ends before the range does")
	errSize    = errors.New("the file has not the size that the challenge states")
	errNoPlace = errors.New("cannot be read from any place")
)

// Answer reads the files of a model in fsys and digests them. Files must be readable from
// any place (io.ReaderAt), as files of Dir and of os.DirFS are. A challenge that is not
// valid has an answer without digests. Answer returns within one read of a piece after ctx
// has ended.
func Answer(ctx context.Context, fsys fs.FS, c Challenge) Result {
	if err := c.Validate(); err != nil {
		return Failed(err.Error())
	}
	a := answering{ctx: ctx, fsys: fsys, digester: newDigester(c.Nonce), open: map[string]opened{}}
	defer a.close()
	r := Result{Digests: make([][]byte, len(c.Ranges))}
	var first error
	for i, asked := range c.Ranges {
		a.beginRange(asked)
		if err := a.read(asked, -1); err != nil {
			first = earliest(first, err)
			continue
		}
		r.Digests[i] = a.mac.Sum(nil)
	}
	if c.Blocks > 0 {
		chain, err := a.chain(c)
		r.Chain, first = chain, earliest(first, err)
	}
	if first != nil {
		r.Error = cut(first.Error())
	}
	return r
}

// Failed is the answer to a challenge of which nothing could be read.
func Failed(why string) Result { return Result{Error: cut(why)} }

// earliest is the reason that came first.
func earliest(first, next error) error {
	if first != nil {
		return first
	}
	return next
}

// answering answers one challenge.
type answering struct {
	*digester
	ctx  context.Context
	fsys fs.FS
	open map[string]opened
	buf  []byte
}

// opened is a file that is open, or the reason why it is not.
type opened struct {
	file fs.File
	from io.ReaderAt
	size int64
	err  error
}

func (a *answering) close() {
	for _, o := range a.open {
		if o.file != nil {
			_ = o.file.Close()
		}
	}
}

// chain reads the chain of blocks.
func (a *answering) chain(c Challenge) ([]byte, error) {
	n := numbering(c.Files)
	digest := a.start(c)
	for range c.Blocks {
		file, block := blockAt(c.Files, chosen(digest, n))
		a.beginBlock(digest, block)
		if err := a.read(block, file.Size); err != nil {
			return nil, err
		}
		digest = a.mac.Sum(nil)
	}
	return digest, nil
}

// read digests a piece of a file, which must have the size unless that is negative.
func (a *answering) read(r Range, size int64) error {
	if a.ctx.Err() != nil {
		return errTime
	}
	o := a.file(r.File)
	switch {
	case o.err != nil:
		return named(r.File, o.err)
	case size >= 0 && o.size != size:
		return named(r.File, errSize)
	case r.Offset+int64(r.Length) > o.size:
		return named(r.File, errShort)
	}
	for done := 0; done < r.Length; {
		if a.ctx.Err() != nil {
			return errTime
		}
		part := a.buf[:min(piece, r.Length-done)]
		n, err := o.from.ReadAt(part, r.Offset+int64(done))
		switch {
		case n == len(part):
		case err == nil || errors.Is(err, io.EOF):
			return named(r.File, errShort) // the file was cut meanwhile
		default:
			return named(r.File, errRead)
		}
		a.mac.Write(part)
		done += n
	}
	return nil
}

// file opens a file the first time that it is read.
func (a *answering) file(name string) opened {
	o, known := a.open[name]
	if !known {
		o = openFile(a.fsys, name)
		a.open[name] = o
	}
	if a.buf == nil {
		a.buf = make([]byte, piece)
	}
	return o
}

func openFile(fsys fs.FS, name string) opened {
	file, err := fsys.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return opened{err: errAbsent}
	case errors.Is(err, errKind):
		return opened{err: errKind}
	case err != nil:
		return opened{err: errRead}
	}
	o := opened{file: file}
	info, err := file.Stat()
	switch {
	case err != nil:
		o.err = errRead
		return o
	case !info.Mode().IsRegular():
		o.err = errKind
		return o
	}
	o.size = info.Size()
	from, ok := file.(io.ReaderAt)
	if !ok {
		o.err = errNoPlace
	}
	o.from = from
	return o
}

// named says which file a reason is about. It leaves out what the system says, because
// that may hold a path of the machine.
func named(name string, why error) error { return fmt.Errorf("%q: %w", name, why) }

// cut shortens a reason to MaxError bytes of whole UTF-8.
func cut(text string) string {
	if len(text) <= MaxError {
		return text
	}
	n := MaxError
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
