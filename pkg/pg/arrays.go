package pg

import (
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Statements that write a batch take each column as one array. The driver encodes an array
// element by element and allocates for each element, up to twice. The plans below write the
// elements of the slices that the stores pass straight into the statement, and allocate
// nothing. The bytes are the driver's own. All other slices, and all scans, stay the driver's.

// arrayCodec is the driver's codec of an array with plans for some slices.
type arrayCodec struct {
	*pgtype.ArrayCodec
	plan func(value any) pgtype.EncodePlan // nil for any other value
}

// PlanEncode implements pgtype.Codec.
func (c arrayCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		if plan := c.plan(value); plan != nil {
			return plan
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// registerArrays gives a connection the plans.
func registerArrays(m *pgtype.Map) {
	register := func(array uint32, name string, element uint32, plan func(any) pgtype.EncodePlan) {
		of, ok := m.TypeForOID(element)
		if !ok {
			return
		}
		codec := arrayCodec{ArrayCodec: &pgtype.ArrayCodec{ElementType: of}, plan: plan}
		m.RegisterType(&pgtype.Type{Name: name, OID: array, Codec: codec})
	}
	register(pgtype.UUIDArrayOID, "_uuid", pgtype.UUIDOID, plans(pgtype.UUIDOID, appendUUID))
	register(pgtype.Int8ArrayOID, "_int8", pgtype.Int8OID, plans(pgtype.Int8OID, appendInt8))
	register(pgtype.Int4ArrayOID, "_int4", pgtype.Int4OID, plans(pgtype.Int4OID, appendInt4))
	register(pgtype.BoolArrayOID, "_bool", pgtype.BoolOID, plans(pgtype.BoolOID, appendBool))
	register(pgtype.TextArrayOID, "_text", pgtype.TextOID, plans(pgtype.TextOID, appendText))
	register(pgtype.TimestamptzArrayOID, "_timestamptz", pgtype.TimestamptzOID, plans(pgtype.TimestamptzOID, appendTime))
	register(pgtype.DateArrayOID, "_date", pgtype.DateOID, plans(pgtype.DateOID, appendDate))
}

// plans returns the plans for slices of T and of pointers to T. put appends an element without
// its length.
func plans[T any](element uint32, put func([]byte, *T) []byte) func(any) pgtype.EncodePlan {
	return func(value any) pgtype.EncodePlan {
		switch value.(type) {
		case []T:
			return valuesPlan[T]{element: element, put: put}
		case []*T:
			return pointersPlan[T]{element: element, put: put}
		}
		return nil
	}
}

// valuesPlan encodes a slice. A nil slice is NULL.
type valuesPlan[T any] struct {
	element uint32
	put     func([]byte, *T) []byte
}

// Encode implements pgtype.EncodePlan.
func (p valuesPlan[T]) Encode(value any, buf []byte) ([]byte, error) {
	values := value.([]T)
	if values == nil {
		return nil, nil
	}
	buf = appendArrayHead(buf, p.element, len(values))
	for i := range values {
		buf = appendElement(buf, &values[i], p.put)
	}
	return buf, nil
}

// pointersPlan encodes a slice of pointers. A nil pointer is a NULL element.
type pointersPlan[T any] struct {
	element uint32
	put     func([]byte, *T) []byte
}

// Encode implements pgtype.EncodePlan.
func (p pointersPlan[T]) Encode(value any, buf []byte) ([]byte, error) {
	values := value.([]*T)
	if values == nil {
		return nil, nil
	}
	nulls := len(buf) + 4 // the second word of the head is 1 where an element is NULL
	buf = appendArrayHead(buf, p.element, len(values))
	for _, v := range values {
		if v == nil {
			buf = binary.BigEndian.AppendUint32(buf, ^uint32(0))
			binary.BigEndian.PutUint32(buf[nulls:], 1)
			continue
		}
		buf = appendElement(buf, v, p.put)
	}
	return buf, nil
}

// appendArrayHead appends the head of an array of one dimension that begins at 1.
func appendArrayHead(buf []byte, element uint32, n int) []byte {
	buf = binary.BigEndian.AppendUint32(buf, 1)
	buf = binary.BigEndian.AppendUint32(buf, 0)
	buf = binary.BigEndian.AppendUint32(buf, element)
	buf = binary.BigEndian.AppendUint32(buf, uint32(n))
	return binary.BigEndian.AppendUint32(buf, 1)
}

func appendElement[T any](buf []byte, v *T, put func([]byte, *T) []byte) []byte {
	at := len(buf)
	buf = put(append(buf, 0, 0, 0, 0), v)
	binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-4))
	return buf
}

func appendUUID(buf []byte, v *[16]byte) []byte { return append(buf, v[:]...) }

func appendInt8(buf []byte, v *int64) []byte { return binary.BigEndian.AppendUint64(buf, uint64(*v)) }

func appendInt4(buf []byte, v *int32) []byte { return binary.BigEndian.AppendUint32(buf, uint32(*v)) }

func appendBool(buf []byte, v *bool) []byte {
	if *v {
		return append(buf, 1)
	}
	return append(buf, 0)
}

func appendText(buf []byte, v *string) []byte { return append(buf, *v...) }

// epoch is where PostgreSQL's times begin.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// appendTime appends microseconds. What is below one is cut off towards the past.
func appendTime(buf []byte, v *time.Time) []byte {
	us := (v.Unix()-epoch)*1_000_000 + int64(v.Nanosecond())/1000
	return binary.BigEndian.AppendUint64(buf, uint64(us))
}

// appendDate appends the date that the time shows in its own zone.
func appendDate(buf []byte, v *time.Time) []byte {
	days := (time.Date(v.Year(), v.Month(), v.Day(), 0, 0, 0, 0, time.UTC).Unix() - epoch) / (24 * 60 * 60)
	return binary.BigEndian.AppendUint32(buf, uint32(int32(days)))
}
