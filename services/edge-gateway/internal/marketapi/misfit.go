package marketapi

import (
	"regexp"
	"strings"
	"unicode"

	"svc.internal/pkg/fault"
)

// What protojson says of a body that is no message: a value of another kind than its field, and a
// field that the message has not, or has twice.
var (
	ofValue   = regexp.MustCompile(`invalid value for (\w+) field (\w+): `)
	ofUnknown = regexp.MustCompile(`(unknown|duplicate) field "(\w{1,64})"`)
)

// fits says what a field of a kind takes.
var fits = map[string]string{
	"string": "a string in quotation marks", "bytes": "a string in base64", "bool": "true or false",
	"int32": "a whole number", "uint32": "a whole number from 0 on", "int64": "a whole number",
	"uint64": "a whole number from 0 on", "double": "a number", "float": "a number", "enum": "one of its names",
}

// misfit says which field of a body does not fit and what it takes, without the library's words;
// nil where the text names no field.
func misfit(text string) error {
	if of := ofValue.FindStringSubmatch(text); of != nil {
		name, takes := snake(of[2]), fits[of[1]]
		if takes == "" {
			takes = "a value of its kind"
		}
		return fault.New(fault.Invalid, fault.InvalidRequest, "%s must be %s", name, takes).On(name)
	}
	if of := ofUnknown.FindStringSubmatch(text); of != nil {
		if of[1] == "duplicate" {
			return fault.New(fault.Invalid, fault.InvalidRequest, "%s must be given once", of[2]).On(of[2])
		}
		return fault.New(fault.Invalid, fault.InvalidRequest, "%s is not a field of this request", of[2]).On(of[2])
	}
	return nil
}

// snake is a field's name as the API writes it.
func snake(camel string) string {
	var b strings.Builder
	for _, c := range camel {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
