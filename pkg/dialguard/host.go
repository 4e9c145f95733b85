package dialguard

import (
	"errors"
	"net/netip"
	"strings"
)

// Why a host or an address is refused. The texts continue a sentence that begins
// with the name of the parameter.
var (
	ErrPrivate = errors.New("must not name a private, loopback or reserved host")
	ErrSpelt   = errors.New(
		"must name its host plainly: an IPv4 address of four decimal numbers, an IPv6 address in brackets, " +
			"or a name in ASCII letters, digits, '-' and '_'")
	ErrName   = errors.New("must name a public host, which has a domain")
	ErrScheme = errors.New("must be an http, https or data address")
	ErrForm   = errors.New("must be an address of the form https://host/path, without a user name and control characters")
	ErrPort   = errors.New("must name no other port than 80, 443, 8080 and 8443")
)

const (
	maxName  = 253 // bytes of a DNS name
	maxLabel = 63  // bytes of one label of it
)

// local are the last labels of names that the public DNS does not have, and that
// resolvers of a host, a cluster or a cloud answer themselves: for example
// metadata.google.internal and postgres.default.svc.cluster.local. Names that no
// resolver knows (invalid, example) lead nowhere and pass.
var local = map[string]bool{
	"localhost": true, "localdomain": true, "local": true, "internal": true, "intranet": true, "private": true,
	"corp": true, "home": true, "lan": true, "svc": true, "test": true, "onion": true, "alt": true, "arpa": true,
}

// Host checks the host of a URL as it is written there, with IPv6 in brackets and without
// a port. The address is valid if the host is a literal one. Nothing is looked up.
func Host(host string) (netip.Addr, error) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		a, err := netip.ParseAddr(inner)
		switch {
		case !ok || err != nil || !a.Is6():
			return netip.Addr{}, ErrSpelt
		case a.Is4In6() || Blocked(a):
			return netip.Addr{}, ErrPrivate
		}
		return a, nil
	}
	name := strings.TrimSuffix(host, ".")
	last, labels, err := lastLabel(name)
	switch {
	case err != nil:
		return netip.Addr{}, err
	case isNumber(last):
		return literal(name)
	case local[strings.ToLower(last)]:
		return netip.Addr{}, ErrPrivate
	case labels == 1:
		return netip.Addr{}, ErrName
	}
	return netip.Addr{}, nil
}

// literal checks a host that ends in a number, which every reader takes for an IPv4
// address or refuses.
func literal(host string) (netip.Addr, error) {
	a, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return netip.Addr{}, ErrSpelt
	case Blocked(a):
		return netip.Addr{}, ErrPrivate
	}
	return a, nil
}

// lastLabel checks the letters of a name and returns its last label.
func lastLabel(name string) (last string, labels int, err error) {
	if name == "" || len(name) > maxName {
		return "", 0, ErrSpelt
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel || !isLabel(label) {
			return "", 0, ErrSpelt
		}
		last = label
		labels++
	}
	return last, labels, nil
}

func isLabel(label string) bool {
	for i := range len(label) {
		switch b := label[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9', b == '-', b == '_':
		default:
			return false
		}
	}
	return true
}

// isNumber reports whether a label makes readers take its host for an IPv4
// address: all digits, or hexadecimal digits behind 0x.
func isNumber(label string) bool {
	digits, hex := label, false
	if len(label) >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X') {
		digits, hex = label[2:], true
	}
	for i := range len(digits) {
		switch b := digits[i]; {
		case '0' <= b && b <= '9':
		case hex && ('a' <= b && b <= 'f' || 'A' <= b && b <= 'F'):
		default:
			return false
		}
	}
	return true
}

// URL judges the address of a picture or another file: http or https, a host
// that Host lets pass, and one of the ports that the public web uses; others
// would let a stranger probe what listens on a machine. A data address passes,
// whatever it holds. The text is the address as it is, with no escapes of JSON.
func URL(text string) error {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case !ok:
		return ErrScheme
	case strings.EqualFold(scheme, "data"):
		return nil
	case !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		return ErrScheme
	}
	rest, ok = strings.CutPrefix(rest, "//")
	if !ok || strings.ContainsFunc(rest, isControl) {
		return ErrForm
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if strings.Contains(authority, "@") {
		return ErrForm
	}
	host, port := splitPort(authority)
	if _, err := Host(host); err != nil {
		return err
	}
	switch port {
	case "", "80", "443", "8080", "8443":
		return nil
	}
	return ErrPort
}

// splitPort separates a host from its port, if there is one.
func splitPort(authority string) (host, port string) {
	colon := strings.LastIndexByte(authority, ':')
	if colon < strings.LastIndexByte(authority, ']') || colon < 0 {
		return authority, ""
	}
	return authority[:colon], authority[colon+1:]
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
