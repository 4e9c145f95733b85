package openapi

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// direction tells what is read from what is written: an answer has all its
// members, as package publicjson writes them, and a question those it likes.
type direction string

const (
	answers   direction = ""
	questions direction = "Input"
)

// message gives the reference to a message's schema, which it makes once.
func (g *generator) message(m protoreflect.MessageDescriptor, d direction) object {
	if m.FullName() == "google.protobuf.Timestamp" {
		return object{"type": "string", "format": "date-time"}
	}
	name := string(m.Name()) + string(d)
	ref := object{"$ref": "#/components/schemas/" + name}
	source := string(m.FullName()) + string(d)
	if known, ok := g.schemas[name].(object); ok {
		if known["x-proto"] != source {
			g.t.Fatalf("two schemas are called %s: got %v, want %v", name, known["x-proto"], source)
		}
		return ref
	}
	properties, required := object{}, []string{}
	schema := object{"type": "object", "properties": properties, "x-proto": source}
	if said := g.comments[string(m.FullName())]; said != "" {
		schema["description"] = said
	}
	g.schemas[name] = schema
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		properties[string(field.Name())] = g.field(field, d)
		required = append(required, string(field.Name()))
	}
	if d == answers {
		schema["required"] = required
	} else {
		schema["additionalProperties"] = false
	}
	return ref
}

// field is the schema of a field, with what is said of it.
func (g *generator) field(field protoreflect.FieldDescriptor, d direction) object {
	var schema object
	switch {
	case field.IsList():
		schema = object{"type": "array", "items": g.value(field, d)}
	case field.HasPresence():
		schema = object{"anyOf": []object{g.value(field, d), {"type": "null"}}}
	default:
		schema = g.value(field, d)
	}
	if said := g.comments[string(field.FullName())]; said != "" {
		schema["description"] = said
	}
	return schema
}

func (g *generator) value(field protoreflect.FieldDescriptor, d direction) object {
	if field.Kind() == protoreflect.MessageKind {
		return g.message(field.Message(), d)
	}
	return g.scalar(field)
}

// scalar is the schema of a value as publicjson writes it.
func (g *generator) scalar(field protoreflect.FieldDescriptor) object {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.Int32Kind, protoreflect.Uint32Kind:
		return object{"type": "integer", "format": "int32"}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		return object{"type": "string", "format": "int64"}
	case protoreflect.DoubleKind:
		return object{"type": "number", "format": "double"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.EnumKind:
		return object{"type": "string", "enum": names(field.Enum())}
	default:
		g.t.Fatalf("%s: nothing public is of kind %s", field.FullName(), field.Kind())
		return nil
	}
}

func names(enum protoreflect.EnumDescriptor) []string {
	var out []string
	for i := range enum.Values().Len() {
		if name := string(enum.Values().Get(i).Name()); !strings.HasSuffix(name, "_UNSPECIFIED") {
			out = append(out, name)
		}
	}
	return out
}
