package multipartform

import (
	"bytes"
	"strings"

	"svc.internal/pkg/fault"
)

// Find returns the part of a name; nil when there is none. The name must stand once, and
// no other name may equal it by case folding, because an engine may take either.
func (f Form) Find(name string) (*Part, error) {
	var found *Part
	for i := range f {
		p := &f[i]
		switch {
		case !strings.EqualFold(p.Name, name):
		case found != nil || p.Name != name:
			return nil, fault.New(fault.Invalid, DuplicateField,
				"%s may stand in the form once, and in no other writing.", name).On(name)
		default:
			found = p
		}
	}
	return found, nil
}

// Text returns the value of a field. ok reports whether the form has the field.
func (f Form) Text(name string) (value string, ok bool, err error) {
	p, err := f.Find(name)
	if p == nil || err != nil {
		return "", false, err
	}
	if p.File || !isText(string(p.Body[:min(len(p.Body), maxName+1)])) || len(p.Body) > maxName {
		return "", false, fault.New(fault.Invalid, fault.InvalidValue, "%s must be a short text.", name).On(name)
	}
	return string(p.Body), true, nil
}

// Span is a range of bytes.
type Span struct{ Start, Length int }

const modelHead = "Content-Disposition: form-data; name=\"model\"\r\n\r\n"

// Build makes the body of a form in which model comes first; all other parts follow as
// they came. It returns where the model's name stands. The boundary must be a text that
// nobody could have foreseen. Build checks all the same that no part holds the boundary.
func (f Form) Build(boundary, model string) (body []byte, at Span, err error) {
	open := "--" + boundary + "\r\n"
	size := len(open) + len(modelHead) + len(model) + len(open) + 4
	for i := range f {
		if bytes.Contains(f[i].raw, []byte(open[:len(open)-2])) {
			return nil, at, malformed("a part holds a boundary")
		}
		size += len(open) + len(f[i].raw) + 2
	}
	body = make([]byte, 0, size)
	body = append(append(body, open...), modelHead...)
	at = Span{len(body), len(model)}
	body = append(append(body, model...), "\r\n"...)
	for i := range f {
		if f[i].Name == "model" {
			continue
		}
		body = append(append(append(body, open...), f[i].raw...), "\r\n"...)
	}
	return append(append(append(body, "--"...), boundary...), "--\r\n"...), at, nil
}

// ContentType returns the media type of a form with a boundary.
func ContentType(boundary string) string { return "multipart/form-data; boundary=" + boundary }
