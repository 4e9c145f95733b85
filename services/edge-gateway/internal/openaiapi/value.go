package openaiapi

import (
	"errors"

	"svc.internal/pkg/jsonscan"
)

// kind consumes a value that must be of one kind.
func (p *parser) kind(want jsonscan.Kind) []byte {
	if got := p.cur.Kind(); got != want {
		p.wrongKind(want.String())
		return nil
	}
	return p.cur.Skip().Of(p.data)
}

// either consumes a value that must be of one of two kinds.
func (p *parser) either(a, b jsonscan.Kind) {
	if got := p.cur.Kind(); got != a && got != b {
		p.wrongKind(a.String() + " or " + b.String())
		return
	}
	p.cur.Skip()
}

// wrongKind refuses a value by its kind, unless it is no JSON at all, which the cursor
// reports better.
func (p *parser) wrongKind(want string) {
	if p.cur.Kind() == jsonscan.Invalid {
		p.cur.Skip()
		return
	}
	p.refuse("must be of type %s", want)
}

func (p *parser) boolean() bool {
	raw := p.kind(jsonscan.Bool)
	return len(raw) > 0 && raw[0] == 't'
}

// optionalBoolean reads a boolean or null, which is false.
func (p *parser) optionalBoolean() bool {
	if p.cur.Kind() == jsonscan.Null {
		p.cur.Skip()
		return false
	}
	return p.boolean()
}

// integer reads a whole number within [low, high], however it is written.
func (p *parser) integer(low, high int64) int64 {
	raw := p.kind(jsonscan.Number)
	if p.stopped() {
		return 0
	}
	n, err := jsonscan.Integral(raw)
	switch {
	case err != nil && notInteger(err):
		p.refuse("must be an integer")
	case err != nil || n < low || n > high:
		p.refuse("must be between %d and %d", low, high)
	default:
		return n
	}
	return 0
}

func notInteger(err error) bool {
	var bad *jsonscan.Error
	return errors.As(err, &bad) && bad.Reason == jsonscan.ReasonNotInteger
}

// number reads a number in a range.
func (p *parser) number(low, high float64) float64 {
	raw := p.kind(jsonscan.Number)
	if p.stopped() {
		return 0
	}
	x, err := jsonscan.Float(raw, low, high)
	if err != nil {
		p.refuse("must be between %v and %v", low, high)
	}
	return x
}

// text reads a string of at most limit bytes as they are written.
func (p *parser) text(limit int) string {
	raw := p.kind(jsonscan.String)
	if p.stopped() {
		return ""
	}
	if len(raw)-2 > limit {
		p.refuse("must have at most %d bytes", limit)
		return ""
	}
	s, err := jsonscan.DecodeString(raw)
	if err != nil {
		p.refuse("must be of type string")
	}
	return s
}

// label reads a name or id that may not be empty.
func (p *parser) label() {
	if p.text(MaxNameBytes) == "" {
		p.refuse("must not be empty")
	}
}

// members walks the object that begins here; each consumes the value of the
// member whose decoded name it is given.
func (p *parser) members(each func(name []byte)) {
	if p.cur.Kind() != jsonscan.Object {
		p.wrongKind("object")
		return
	}
	p.cur.Enter()
	for !p.stopped() {
		key, ok := p.cur.NextMember()
		if !ok {
			return
		}
		p.cur.Kind() // moves to the value
		each(key.Name(p.data))
	}
}

// elements walks the array that begins here, of at most limit elements.
func (p *parser) elements(limit int, each func(i int)) (n int) {
	if p.cur.Kind() != jsonscan.Array {
		p.wrongKind("array")
		return 0
	}
	p.cur.Enter()
	for ; p.cur.NextElement(); n++ {
		if n == limit {
			p.refuse("must have at most %d elements", limit)
			return n
		}
		p.pushIndex(n)
		each(n)
		if p.stopped() {
			return n
		}
		p.pop()
	}
	return n
}

func (p *parser) stop() {
	p.req.Stop = true
	switch p.cur.Kind() {
	case jsonscan.String:
		p.text(MaxStopBytes)
		return
	case jsonscan.Array, jsonscan.Invalid:
	default:
		p.refuse("must be a string, or an array of at most %d strings", MaxStops)
		return
	}
	p.elements(MaxStops, func(int) { p.text(MaxStopBytes) })
}

func (p *parser) logitBias() {
	n := 0
	p.members(func([]byte) {
		if n++; n > MaxLogitBias {
			p.refuse("must have at most %d entries", MaxLogitBias)
			return
		}
		p.number(-100, 100)
	})
}
