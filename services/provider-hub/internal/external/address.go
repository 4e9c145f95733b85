package external

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/fault"
)

// maxURL bounds a base URL in bytes.
const maxURL = 512

// Rules say which addresses may be endpoints.
type Rules struct {
	// Development admits http, and hosts and ports of this machine. It is for development
	// alone.
	Development bool
}

// parseBase checks a base URL as it was given and returns it in its one form: scheme and host
// in lower case, an IPv6 address in its shortest form, no slash at its end, and no port that is the
// scheme's default.
func (r Rules) parseBase(text string) (string, error) {
	refuse := func(why string) error {
		return fault.New(fault.Invalid, fault.InvalidValue, "base_url %s", why).On("base_url")
	}
	form := "must be https://host/path, with no user name, query, fragment or control characters, in at most 512 bytes"
	if len(text) > maxURL || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }) {
		return "", refuse(form)
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		strings.ContainsAny(text, "?#@") || u.Host == "" {
		return "", refuse(form)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !r.Development) {
		return "", refuse("must begin with https://")
	}
	host := strings.ToLower(u.Host)
	name, port := host, ""
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		name, port = host[:colon], host[colon+1:]
	}
	if !r.Development {
		if _, err := dialguard.Host(name); err != nil {
			return "", refuse(err.Error())
		}
		if !portAllowed(port) {
			return "", refuse("must name port 443, or a port from 1024 on that is not known for another kind of service")
		}
	}
	if name, err = oneForm(name); err != nil {
		return "", refuse(form)
	}
	if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" || port == "" {
		host = strings.TrimSuffix(name, ".")
	} else {
		host = strings.TrimSuffix(name, ".") + ":" + port
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	for segment := range strings.SplitSeq(path, "/") {
		if plain, err := url.PathUnescape(segment); err != nil || plain == "." || plain == ".." {
			return "", refuse(form)
		}
	}
	return u.Scheme + "://" + host + path, nil
}

// oneForm is a host with an IPv6 address in its shortest form. Otherwise one server
// would be several origins.
func oneForm(host string) (string, error) {
	inner, ok := strings.CutPrefix(host, "[")
	if !ok {
		return host, nil
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
	if err != nil || a.Zone() != "" {
		return "", dialguard.ErrSpelt
	}
	return "[" + a.String() + "]", nil
}

// portAllowed reports whether a port, as it is written, may be an endpoint's. An empty port is
// the port of https.
func portAllowed(text string) bool {
	if text == "" {
		return true
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(port, 10) == text && dialguard.ServerPort(uint16(port))
}

// originOf is the scheme, host and port of a base URL, to which a key is bound.
func originOf(base string) string {
	scheme, rest, _ := strings.Cut(base, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}
