// Package address finds the address that a request comes from, for limits by address.
//
// It is the address at the other end of the connection, unless that is a trusted proxy's.
// Then it is the last address in X-Forwarded-For that is not a trusted proxy's, read from
// the right, because the sender of the request may have written anything further left.
// Forwarded, X-Real-Ip and the like are ignored. An entry that is no address ends the
// search, and the hop that sent it is the client.
//
// An IPv6 client has a whole /64 to choose from, so limits count networks: see Network.
package address

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// maxHops bounds the entries of X-Forwarded-For that are read.
const maxHops = 32

// Finder has the trusted proxies. The zero value and a nil Finder trust none.
type Finder struct{ trusted []netip.Prefix }

// New makes a finder that trusts the proxies in some networks.
func New(trusted []netip.Prefix) *Finder { return &Finder{trusted: trusted} }

// ParseProxies reads a list of addresses and networks, separated by commas.
func ParseProxies(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		network, err := netip.ParsePrefix(entry)
		if addr, addrErr := netip.ParseAddr(entry); addrErr == nil {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network", entry)
		}
		if network, err = plainNetwork(network); err != nil {
			return nil, fmt.Errorf("%q: %w", entry, err)
		}
		out = append(out, network.Masked())
	}
	return out, nil
}

// plainNetwork returns a network in the form in which clients are compared with it: an
// IPv4 network that is written as IPv6 becomes one of IPv4.
func plainNetwork(n netip.Prefix) (netip.Prefix, error) {
	const mapped = 96 // bits ahead of an IPv4 address
	if !n.Addr().Is4In6() {
		return n, nil
	}
	if n.Bits() < mapped {
		return netip.Prefix{}, errors.New("the network is wider than all of IPv4")
	}
	return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mapped), nil
}

// Of returns the client's address; the zero value when the connection has none.
func (f *Finder) Of(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := plain(from.Addr())
	if !f.trusts(client) {
		return client
	}
	hops := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	for range maxHops {
		if hops == "" {
			break
		}
		var entry string
		if comma := strings.LastIndexByte(hops, ','); comma >= 0 {
			entry, hops = hops[comma+1:], hops[:comma]
		} else {
			entry, hops = hops, ""
		}
		hop, ok := parse(strings.TrimSpace(entry))
		if !ok {
			break
		}
		client = hop
		if !f.trusts(client) {
			break
		}
	}
	return client
}

// parse reads an address as proxies write it: with or without a port.
func parse(entry string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]")); err == nil {
		return plain(addr), true
	}
	if from, err := netip.ParseAddrPort(entry); err == nil {
		return plain(from.Addr()), true
	}
	return netip.Addr{}, false
}

// plain returns an address in its one form.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func (f *Finder) trusts(a netip.Addr) bool {
	if f == nil {
		return false
	}
	for _, network := range f.trusted {
		if network.Contains(a) {
			return true
		}
	}
	return false
}

// Network returns what a client's address is counted as: the address itself, or its /64.
func Network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	network, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // the zero address has no network
	}
	return network
}
