// Package multipartform takes a multipart/form-data body apart and builds the body that
// is sent on.
//
// The provider's engine reads the form with a parser of its own and must find what was
// admitted here. So this parser is strict where parsers differ: lines end in CRLF,
// headers stand once and are not folded, a name is plain text without escapes, and there
// is nothing before the first boundary or behind the last. A form that it accepts means
// the same to every parser; it is tested against mime/multipart. Parts are ranges of the
// body, so they are sent on byte for byte.
//
// Limits: 64 parts, 8 KiB of headers each, names of 256 bytes. The caller bounds the body
// itself. Only Build copies any of it.
package multipartform

import (
	"bytes"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"

	"svc.internal/pkg/fault"
)

// Reasons of the public error table that this package gives.
const (
	DuplicateField           fault.Reason = "duplicate_field"
	MissingRequiredParameter fault.Reason = "missing_required_parameter"
)

const (
	// MaxParts is how many parts a form may have.
	MaxParts = 64
	// MaxHead bounds the headers of a part, in bytes.
	MaxHead = 8 << 10
	// maxName bounds the name of a field, in bytes. maxBoundary follows RFC 2046.
	maxName     = 256
	maxBoundary = 70
)

// Part is one part of a form.
type Part struct {
	Name string
	// File reports whether the part has a file name.
	File bool
	// FileName and ContentType are as the client wrote them.
	FileName, ContentType string
	// Body is the value, a range of the form.
	Body []byte
	// raw is the part with its headers.
	raw []byte
}

// Form is the parts of a form in their order.
type Form []Part

// Boundary reads the boundary from the value of a Content-Type header. It fails for any
// other media type.
func Boundary(contentType string) (string, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, "The body must be multipart/form-data.").On("Content-Type")
	}
	boundary := params["boundary"]
	if !validBoundary(boundary) {
		return "", fault.New(fault.Invalid, fault.InvalidRequest, "The boundary of the form is missing or not valid.").On(
			"Content-Type")
	}
	return boundary, nil
}

func validBoundary(boundary string) bool {
	if boundary == "" || len(boundary) > maxBoundary || strings.HasSuffix(boundary, " ") {
		return false
	}
	for i := range len(boundary) {
		c := boundary[i]
		if !isAlphanumeric(c) && !strings.ContainsRune("'()+_,-./:=? ", rune(c)) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func malformed(what string) error {
	return fault.New(fault.Invalid, fault.InvalidRequest, "The form cannot be read: %s.", what)
}

// Parse takes a form apart.
func Parse(body []byte, boundary string) (Form, error) {
	delimiter := []byte("\r\n--" + boundary)
	rest, ok := bytes.CutPrefix(bytes.TrimPrefix(body, delimiter[:2]), delimiter[2:])
	if !ok {
		return nil, malformed("it does not begin with its boundary")
	}
	var form Form
	for {
		after, last, ok := endOfDelimiter(rest)
		switch {
		case !ok:
			return nil, malformed("something follows a boundary on its line")
		case last:
			return form, nil
		case len(form) == MaxParts:
			return nil, malformed("it has more than 64 parts")
		}
		raw, behind, ok := bytes.Cut(after, delimiter)
		if !ok {
			return nil, malformed("its last boundary is missing")
		}
		if bytes.Contains(raw, delimiter[2:]) {
			// Some parsers accept a boundary that does not begin a line.
			return nil, malformed("a part holds its boundary")
		}
		part, err := parsePart(raw)
		if err != nil {
			return nil, err
		}
		form, rest = append(form, part), behind
	}
}

// endOfDelimiter reads what follows a boundary: the end of the line, or the end of the
// form. Some clients write more than one line end behind that.
func endOfDelimiter(b []byte) (after []byte, last, ok bool) {
	if end, found := bytes.CutPrefix(b, []byte("--")); found {
		return nil, true, len(bytes.Trim(end, "\r\n")) == 0
	}
	after, ok = bytes.CutPrefix(b, []byte("\r\n"))
	return after, false, ok
}

// parsePart reads the headers of a part.
func parsePart(raw []byte) (Part, error) {
	p := Part{raw: raw}
	head := raw[:min(len(raw), MaxHead)]
	end := bytes.Index(head, []byte("\r\n\r\n"))
	if end < 0 {
		return p, malformed("the headers of a part do not end, or are too long")
	}
	p.Body = raw[end+4:]
	seen := make(map[string]bool, 4)
	for line := range bytes.SplitSeq(head[:end], []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		key := strings.ToLower(string(name))
		text := strings.Trim(string(value), " \t")
		if !ok || !isToken(key) || !isText(text) || seen[key] {
			return p, malformed("a header of a part is not valid or stands twice")
		}
		seen[key] = true
		if err := p.header(key, text); err != nil {
			return p, err
		}
	}
	if !seen["content-disposition"] {
		return p, malformed("a part has no name")
	}
	return p, nil
}

// header takes one header of a part.
func (p *Part) header(key, value string) error {
	switch key {
	case "content-disposition":
		return p.disposition(value)
	case "content-type":
		p.ContentType = value
	case "content-length":
		if value != strconv.Itoa(len(p.Body)) {
			return malformed("a part has another length than it says")
		}
	case "content-transfer-encoding":
		switch strings.ToLower(value) {
		case "7bit", "8bit", "binary":
		default:
			return malformed("a part is encoded")
		}
	}
	return nil
}

// disposition reads the names from `form-data; name="…"; filename="…"`.
func (p *Part) disposition(value string) error {
	kind, rest, _ := strings.Cut(value, ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "form-data") {
		return malformed("a part is not of a form")
	}
	named, filed, filedToo := false, false, false
	for strings.TrimSpace(rest) != "" {
		key, text, more, ok := parameter(rest)
		if !ok {
			return malformed("the name of a part is not valid")
		}
		rest = more
		twice := false
		switch key {
		case "name":
			twice, named, p.Name = named, true, text
		case "filename":
			twice, filed, p.FileName = filed, true, text
		case "filename*":
			twice, filedToo = filedToo, true // the same parameter in another notation
		default:
			ok = false
		}
		if twice || !ok {
			return malformed("the name of a part is not valid")
		}
	}
	p.File = filed || filedToo
	if !named || p.Name == "" || len(p.Name) > maxName || p.Name != strings.TrimSpace(p.Name) {
		return malformed("the name of a part is not valid")
	}
	return nil
}

// parameter reads one parameter and what follows its semicolon.
func parameter(s string) (key, value, rest string, ok bool) {
	key, value, ok = strings.Cut(strings.TrimLeft(s, " \t"), "=")
	if key = strings.ToLower(key); !ok || !isToken(key) {
		return "", "", "", false
	}
	if quoted, found := strings.CutPrefix(value, `"`); found {
		value, rest, ok = strings.Cut(quoted, `"`)
		// Parsers differ most over what a backslash means.
		if !ok || strings.Contains(value, `\`) {
			return "", "", "", false
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest != "" && rest[0] != ';' {
			return "", "", "", false
		}
		return key, value, strings.TrimPrefix(rest, ";"), true
	}
	value, rest, _ = strings.Cut(value, ";")
	value = strings.TrimRight(value, " \t")
	return key, value, rest, isToken(value)
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	for i := range len(s) {
		if !isAlphanumeric(s[i]) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(s[i])) {
			return false
		}
	}
	return s != ""
}

// isText reports whether s is text without control characters.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}
