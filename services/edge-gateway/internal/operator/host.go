package operator

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
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

// CheckPage refuses a call without a token if a page of another site may have made it. Such a
// page can post text or a form to any address, and wrong passwords would use up the tries of an
// operator. Before a page posts JSON, its browser asks the address, and this listener never
// consents. It fails with invalid_request and origin_not_allowed.
func CheckPage(h http.Header) error {
	if slices.Contains(h.Values("Sec-Fetch-Site"), "cross-site") {
		return fault.New(fault.Denied, apierror.OriginNotAllowed, "A page of another site may not do this.").On("Origin")
	}
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return fault.New(fault.Invalid, fault.InvalidRequest, "The call needs the header Content-Type: application/json.").On(
			"Content-Type")
	}
	return nil
}
