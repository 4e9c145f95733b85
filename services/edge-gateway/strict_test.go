package edgegateway

import (
	"bytes"
	"strconv"
	"strings"
)

// strictRequest is what a second parser takes for a request.
type strictRequest struct{ method, target string }

// strictRequests parses what a client has sent on one connection by RFC 9112
// alone, and shares no code with net/http. It gives the requests whose heads are
// well formed, up to the first after which nothing may be read as a request: a
// malformed head or body, an end of the connection that a request asks for, or the
// end of the bytes. faulty reports whether a malformed head was the reason.
//
// Where the RFC leaves the choice it is lenient in what cannot move a boundary: an
// LF alone ends a line of a head, empty lines before a request are skipped, an
// obs-fold is a space, equal lengths are one length.
func strictRequests(raw []byte) (list []strictRequest, faulty bool) {
	for {
		raw = bytes.TrimLeft(raw, "\r\n")
		if len(raw) == 0 {
			return list, false
		}
		line, rest, ok := headLine(raw)
		if !ok {
			return list, false
		}
		method, target, minor, ok := requestLine(line)
		if !ok {
			return list, true
		}
		fields, rest, state := fieldLines(rest)
		if state != whole {
			return list, state == malformed
		}
		b, ok := framing(fields, minor)
		if !ok {
			return list, true
		}
		list = append(list, strictRequest{method, target})
		if b.chunked {
			rest, ok = skipChunks(rest)
		} else if ok = b.length <= uint64(len(rest)); ok {
			rest = rest[b.length:]
		}
		if !ok || b.last {
			return list, false
		}
		raw = rest
	}
}

// headLine cuts a line at its LF, with the CR before it.
func headLine(raw []byte) (line string, rest []byte, ok bool) {
	before, after, ok := bytes.Cut(raw, []byte("\n"))
	return strings.TrimSuffix(string(before), "\r"), after, ok
}

const tokenBytes = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func isToken(s string) bool { return s != "" && strings.Trim(s, tokenBytes) == "" }

// requestLine is method SP target SP HTTP/1.digit, and nothing else.
func requestLine(line string) (method, target string, minor int, ok bool) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !isToken(parts[0]) || parts[1] == "" {
		return "", "", 0, false
	}
	version, found := strings.CutPrefix(parts[2], "HTTP/1.")
	if !found || len(version) != 1 || version[0] < '0' || version[0] > '9' {
		return "", "", 0, false
	}
	for _, c := range []byte(parts[1]) {
		if c <= ' ' || c == 0x7f {
			return "", "", 0, false
		}
	}
	return parts[0], parts[1], int(version[0] - '0'), true
}

type completeness int

const (
	whole completeness = iota
	cut
	malformed
)

// fieldLines reads the fields of a head up to the empty line, by their names in
// lower case.
func fieldLines(raw []byte) (fields map[string][]string, rest []byte, state completeness) {
	fields = map[string][]string{}
	last := ""
	for {
		line, after, ok := headLine(raw)
		if !ok {
			return nil, nil, cut
		}
		raw = after
		if line == "" {
			return fields, raw, whole
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, nil, malformed
		}
		if line[0] == ' ' || line[0] == '\t' {
			if last == "" {
				return nil, nil, malformed
			}
			values := fields[last]
			values[len(values)-1] = strings.Trim(values[len(values)-1]+" "+strings.Trim(line, " \t"), " \t")
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !isToken(name) {
			return nil, nil, malformed
		}
		last = strings.ToLower(name)
		fields[last] = append(fields[last], strings.Trim(value, " \t"))
	}
}

// body is how a request's body ends, and whether the request is the last.
type body struct {
	chunked bool
	length  uint64
	last    bool
}

// framing is section 6.3 for requests.
func framing(fields map[string][]string, minor int) (b body, ok bool) {
	b.last = minor == 0 && !listed(fields["connection"], "keep-alive") || listed(fields["connection"], "close")
	lengths := members(fields["content-length"])
	if _, stated := fields["content-length"]; stated {
		if len(lengths) == 0 {
			return b, false
		}
		for _, l := range lengths {
			n, err := strconv.ParseUint(l, 10, 63)
			if err != nil || l[0] == '+' || l != lengths[0] {
				return b, false
			}
			b.length = n
		}
	}
	codings, coded := members(fields["transfer-encoding"]), fields["transfer-encoding"] != nil
	if !coded {
		return b, true
	}
	// With both, or from a client of HTTP/1.0, the framing is in doubt: whoever
	// goes on processes the chunks and closes the connection.
	if len(codings) == 0 || !strings.EqualFold(codings[len(codings)-1], "chunked") {
		return b, false
	}
	b.last = b.last || len(lengths) > 0 || minor == 0
	b.chunked, b.length = true, 0
	return b, true
}

// members are the members of a list in all lines of a field.
func members(values []string) (list []string) {
	for _, v := range values {
		for m := range strings.SplitSeq(v, ",") {
			if m = strings.Trim(m, " \t"); m != "" {
				list = append(list, m)
			}
		}
	}
	return list
}

func listed(values []string, member string) bool {
	for _, m := range members(values) {
		if strings.EqualFold(m, member) {
			return true
		}
	}
	return false
}

// skipChunks steps over a body in chunks and its trailers. In a body every line
// ends with CR LF.
func skipChunks(raw []byte) (rest []byte, ok bool) {
	for {
		line, after, ok := bytes.Cut(raw, []byte("\r\n"))
		if !ok || bytes.ContainsAny(line, "\r\n") {
			return nil, false
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		digits = bytes.TrimRight(digits, " \t")
		size, err := strconv.ParseUint(string(digits), 16, 63)
		if err != nil || digits[0] == '+' || digits[0] == '_' {
			return nil, false
		}
		if size == 0 {
			_, rest, state := fieldLines(after)
			return rest, state == whole
		}
		if size > uint64(len(after)) || !bytes.HasPrefix(after[size:], []byte("\r\n")) {
			return nil, false
		}
		raw = after[size+2:]
	}
}
