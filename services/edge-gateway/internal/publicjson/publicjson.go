// Package publicjson writes protocol buffer messages as the public JSON API shows them:
// field names as in the .proto files, zero values written, absent messages and absent
// optional fields as null, enums by name, 64-bit integers as strings, bytes in base64,
// times in RFC 3339.
//
// It differs from protojson in two things: an absent optional field is written as null
// instead of being left out, and the bytes are the same every time. Maps and oneofs are
// not supported; a test proves that no public message has them.
package publicjson

import (
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/jsonscan"
)

// Append appends a message.
func Append(dst []byte, m proto.Message) []byte { return appendMessage(dst, m.ProtoReflect()) }

func appendMessage(dst []byte, m protoreflect.Message) []byte {
	if t, ok := m.Interface().(*timestamppb.Timestamp); ok {
		return strconv.AppendQuote(dst, t.AsTime().Format(time.RFC3339Nano))
	}
	dst = append(dst, '{')
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonscan.AppendString(dst, field.TextName())
		dst = append(dst, ':')
		switch {
		case field.IsList():
			dst = appendList(dst, field, m.Get(field).List())
		case field.HasPresence() && !m.Has(field):
			dst = append(dst, "null"...)
		default:
			dst = appendValue(dst, field, m.Get(field))
		}
	}
	return append(dst, '}')
}

func appendList(dst []byte, field protoreflect.FieldDescriptor, list protoreflect.List) []byte {
	dst = append(dst, '[')
	for i := range list.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendValue(dst, field, list.Get(i))
	}
	return append(dst, ']')
}

// appendValue appends one value; null for a kind that is not supported.
func appendValue(dst []byte, field protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(dst, v.Int(), 10)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return strconv.AppendUint(dst, v.Uint(), 10)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return append(strconv.AppendInt(append(dst, '"'), v.Int(), 10), '"')
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return append(strconv.AppendUint(append(dst, '"'), v.Uint(), 10), '"')
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return appendFloat(dst, v.Float())
	case protoreflect.StringKind:
		return jsonscan.AppendString(dst, v.String())
	case protoreflect.BytesKind:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v.Bytes()), '"')
	case protoreflect.EnumKind:
		return appendEnum(dst, field.Enum(), v.Enum())
	case protoreflect.MessageKind:
		return appendMessage(dst, v.Message())
	default:
		return append(dst, "null"...)
	}
}

func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-9 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

// appendEnum appends the name of an enum's value, or the number of a value that only a
// newer service knows.
func appendEnum(dst []byte, enum protoreflect.EnumDescriptor, n protoreflect.EnumNumber) []byte {
	if value := enum.Values().ByNumber(n); value != nil {
		return jsonscan.AppendString(dst, string(value.Name()))
	}
	return strconv.AppendInt(dst, int64(n), 10)
}
