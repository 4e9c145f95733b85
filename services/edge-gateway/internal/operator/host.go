package operator

import (
	"net"
	"net/netip"
	"strings"

	"svc.internal/pkg/fault"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// NotHere returns the answer to a route that does not exist for the caller.
func NotHere() error {
	return fault.New(fault.NotFound, apierror.UnknownRoute, "There is no such route.")
}

// Hosts are the host names that the operators' listener answers to. A page in an
// operator's browser can have its own name resolve to a loopback address. Its requests
// name the page's host and are refused.
type Hosts struct{ names map[string]bool }

// NewHosts allows the names of a list separated by commas, beside localhost and literal
// IP addresses, because no foreign name server can hand those out.
func NewHosts(list string) Hosts {
	h := Hosts{names: map[string]bool{"localhost": true}}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			h.names[name] = true
		}
	}
	return h
}

// Check fails with unknown_route unless the Host of a request, with or without
// its port, is allowed.
func (h Hosts) Check(host string) error {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil || h.names[strings.ToLower(host)] {
		return nil
	}
	return NotHere()
}
