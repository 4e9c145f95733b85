// Package address finds out where a request comes from, for limits by address.
//
// It is the address at the other end of the connection, unless that is a trusted
// proxy's. Then it is the last address in X-Forwarded-For that is no trusted
// proxy's, read from the right: what stands further left was written by whoever
// sent the request and is not believed. Forwarded, X-Real-Ip and the like are not
// looked at. An entry that is no address ends the search: the hop that sent it is
// the client then.
//
// An IPv6 client has a whole /64 to choose from, so that limits count networks:
// see Network.
package address

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// maxHops bounds the entries of X-Forwarded-For that are looked at.
const maxHops = 32

// Finder knows the proxies that are trusted. The zero value, and a nil one, trust
// none.
type Finder struct{ trusted []netip.Prefix }

// New makes a finder that trusts the proxies of some networks.
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

// plainNetwork gives a network the form in which clients are compared with it:
// an IPv4 network that is written as IPv6 is one of IPv4.
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

// Of is the client's address; the zero value when the connection has none.
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

// plain gives an address its one form.
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

// Network is what a client's address is counted as: the address itself, or its
// /64.
func Network(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	network, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // of an address that is none
	}
	return network
}
