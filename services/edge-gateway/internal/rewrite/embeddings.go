package rewrite

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// embeddings is the form of embeddings, which are never streamed. A vector has the form
// that the client asked for, whichever form the engine knows: numbers, or base64 of
// 32-bit floats, little end first. A vector that needs no conversion is not changed.
type embeddings struct {
	fitsAlways
	base64 bool
	model  string
}

// Accept converts the vectors.
func (e *embeddings) Accept(body []byte) ([]byte, bool) {
	f := newFiller(body)
	ok := true
	body = f.run(func() {
		wanted := []member{{"object", `"list"`}, {"model", string(jsonscan.AppendString(nil, e.model))}}
		f.object(wanted, func(name string) {
			if name != "data" || f.cur.Kind() != jsonscan.Array {
				f.skip(wanted, name)
				return
			}
			f.elements(func(i int) { ok = f.embedding(i, e.base64) && ok })
		})
	})
	return body, ok
}

func (*embeddings) Whole(body []byte, billed Usage) (contentType string, out []byte) {
	billed.promptOnly = true
	f := newFiller(body)
	f.usageOnly = true
	return TypeJSON, f.run(func() { f.top(billed) })
}

func (*embeddings) Event(dst []Event, e Event) []Event { return append(dst, e) }
func (*embeddings) Cut(dst []Event) []Event            { return dst }
func (*embeddings) End(dst []Event, _ Usage) []Event   { return dst }

// embedding reads one entry of data; it reports false when its vector is none.
func (f *filler) embedding(i int, want64 bool) (ok bool) {
	if f.cur.Kind() != jsonscan.Object {
		f.cur.Skip()
		return false
	}
	wanted := []member{{"object", `"embedding"`}, {"index", strconv.Itoa(i)}}
	f.object(wanted, func(name string) {
		if name != "embedding" {
			f.skip(wanted, name)
			return
		}
		switch kind := f.cur.Kind(); {
		case kind == jsonscan.Array && want64:
			ok = f.toBase64()
		case kind == jsonscan.String && !want64:
			ok = f.toNumbers()
		default:
			ok = kind == jsonscan.Array || kind == jsonscan.String
			f.cur.Skip()
		}
	})
	return ok
}

// toBase64 replaces an array of numbers.
func (f *filler) toBase64() bool {
	start := f.cur.Pos()
	var vector []byte
	for f.cur.Enter(); f.cur.NextElement(); {
		if f.cur.Kind() != jsonscan.Number {
			f.cur.Skip()
			return f.abandon()
		}
		raw := f.cur.Skip()
		if f.cur.Failed() {
			return false
		}
		x, err := strconv.ParseFloat(string(raw.Of(f.data)), 32)
		if err != nil {
			return f.abandon() // more than a 32-bit float can hold
		}
		vector = binary.LittleEndian.AppendUint32(vector, math.Float32bits(float32(x)))
	}
	text := make([]byte, 0, base64.StdEncoding.EncodedLen(len(vector))+2)
	text = append(base64.StdEncoding.AppendEncode(append(text, '"'), vector), '"')
	f.replace(jsonscan.Span{Start: start, End: f.cur.Pos()}, string(text))
	return true
}

// toNumbers replaces a string of base64.
func (f *filler) toNumbers() bool {
	span := f.cur.Skip()
	if f.cur.Failed() {
		return false
	}
	text, err := jsonscan.AppendDecoded(nil, span.Of(f.data))
	if err != nil {
		return false
	}
	vector, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(vector)%4 != 0 {
		return false
	}
	numbers := make([]byte, 0, 3*len(vector)+2)
	numbers = append(numbers, '[')
	for ; len(vector) > 0; vector = vector[4:] {
		x := float64(math.Float32frombits(binary.LittleEndian.Uint32(vector)))
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false // no JSON number says that
		}
		numbers = append(strconv.AppendFloat(numbers, x, 'g', -1, 32), ',')
	}
	if last := len(numbers) - 1; last > 0 {
		numbers = numbers[:last]
	}
	f.replace(span, string(append(numbers, ']')))
	return true
}
