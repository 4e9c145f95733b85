// Package dialguard decides which addresses a stranger may make this platform,
// or an engine behind it, connect to.
//
// Blocked judges an IP address: only global unicast addresses that are assigned
// to the public internet pass. Host judges a host as it is written in a URL,
// without any look-up: a literal address must be public and written in its
// plain form, and a name must look like one of the public DNS. URL judges a
// whole address: its scheme, its host and its port.
//
// The rules are stricter than RFC 3986, because the program that fetches the
// address in the end may be written in Python, JavaScript, Go or C, and each of
// them reads a doubtful address differently: 127.1, 0x7f.1, 2130706433 and
// 0177.0.0.1 are all loopback to some of them, `http://a\@b/` has two hosts, and
// a full-width digit is a digit. What could be read in two ways is refused.
//
// A public name may still resolve to a private address. So whoever dials must
// call Blocked for the address that it connects to, after the look-up.
package dialguard

import "net/netip"

// public are the networks out of which unicast addresses are assigned.
var public = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/0"),
	netip.MustParsePrefix("2000::/3"),
}

// reserved are the networks within the public ones that no stranger may name.
var reserved = prefixes(
	"0.0.0.0/8",       // this host
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // carrier-grade NAT; Alibaba's metadata are at 100.100.100.200
	"127.0.0.0/8",     // loopback
	"168.63.129.16",   // Azure's metadata and DNS, at a public address
	"169.254.0.0/16",  // link-local; the metadata of most clouds are at 169.254.169.254
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocol assignments; Oracle's metadata are at 192.0.0.192
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays of 6to4
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, and the broadcast address

	// Outside 2000::/3 no IPv6 address passes: not the unspecified one, nor
	// loopback, IPv4-mapped, NAT64 (64:ff9b::/96), unique local, link-local and
	// multicast ones.
	"2001::/23",     // protocol assignments, Teredo among them
	"2001:db8::/32", // documentation
	"2002::/16",     // 6to4, which carries an IPv4 address
	"3fff::/20",     // documentation
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// Blocked reports whether nobody may be made to connect to an address, because
// it is not one of the public internet. An IPv4 address that is written as IPv6
// (::ffff:192.0.2.1), as resolvers give it, is judged as IPv4. The zero Addr and
// an address with a zone are blocked.
func Blocked(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return true
	}
	a = a.Unmap()
	return !within(public, a) || within(reserved, a)
}

func within(networks []netip.Prefix, a netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}
