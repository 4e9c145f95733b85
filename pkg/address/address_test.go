package address

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func request(remote string, forwarded ...string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{
		"X-Forwarded-For": forwarded, "Forwarded": {"for=9.9.9.9"}, "X-Real-Ip": {"9.9.9.9"},
	}}
}

// Hostile test 57: only what a trusted proxy has written counts.
func TestTheAddressIsThatOfTheLastHopThatIsNotTrusted(t *testing.T) {
	trusted, err := ParseProxies("10.0.0.0/8, 192.0.2.7,fd00::/8")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"direct":                   {"203.0.113.9:1", nil, "203.0.113.9"},
		"direct, with a forgery":   {"203.0.113.9:1", []string{"1.2.3.4"}, "203.0.113.9"},
		"mapped":                   {"[::ffff:203.0.113.9]:1", nil, "203.0.113.9"},
		"behind one":               {"10.1.1.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		"behind two":               {"10.1.1.1:1", []string{"1.2.3.4, 198.51.100.1, 192.0.2.7"}, "198.51.100.1"},
		"in two headers":           {"10.1.1.1:1", []string{"1.2.3.4", "198.51.100.1"}, "198.51.100.1"},
		"a forged trusted address": {"10.1.1.1:1", []string{"10.9.9.9, 198.51.100.1"}, "198.51.100.1"},
		"all trusted":              {"10.1.1.1:1", []string{"10.9.9.9, 10.8.8.8"}, "10.9.9.9"},
		"none said":                {"10.1.1.1:1", nil, "10.1.1.1"},
		"nonsense":                 {"10.1.1.1:1", []string{"1.2.3.4, nonsense, 10.2.2.2"}, "10.2.2.2"},
		"empty entries":            {"10.1.1.1:1", []string{"1.2.3.4, , "}, "10.1.1.1"},
		"with a port":              {"10.1.1.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		"six":                      {"[fd00::1]:1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		"six without a port":       {"[fd00::1]:1", []string{"[2001:db8::1]"}, "2001:db8::1"},
		"a zone":                   {"[fd00::1%eth0]:1", []string{"2001:db8::1%a"}, "2001:db8::1"},
		"endless":                  {"10.1.1.1:1", []string{"1.2.3.4" + strings.Repeat(",10.0.0.1", 10_000)}, "10.0.0.1"},
		"no connection":            {"", []string{"1.2.3.4"}, "invalid IP"},
	}
	for name, c := range cases {
		if got := New(trusted).Of(request(c.remote, c.forwarded...)); got.String() != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	var none *Finder
	if got := none.Of(request("10.1.1.1:1", "1.2.3.4")); got.String() != "10.1.1.1" {
		t.Errorf(`who trusts nobody believes: got %q, want "10.1.1.1"`, got.String())
	}
}

func TestAProxyMayBeWrittenAsMappedIPv6(t *testing.T) {
	trusted, err := ParseProxies("::ffff:10.0.0.0/104, ::ffff:192.0.2.7, ::ffff:198.51.100.0/120")
	if err != nil {
		t.Fatal(err)
	}
	for remote, want := range map[string]string{
		"10.1.1.1:1": "203.0.113.9", "[::ffff:10.1.1.1]:1": "203.0.113.9", "192.0.2.7:1": "203.0.113.9",
		"198.51.100.255:1": "203.0.113.9", "11.0.0.1:1": "11.0.0.1", "192.0.2.8:1": "192.0.2.8",
	} {
		if got := New(trusted).Of(request(remote, "203.0.113.9")); got.String() != want {
			t.Errorf("from %s: %s, want %s", remote, got, want)
		}
	}
}

func TestProxiesThatAreNoneAreRefused(t *testing.T) {
	for _, list := range []string{"10.0.0.0/33", "proxy.internal", "10.0.0.1:80", "10.0.0.0/8;10.0.0.1",
		"::ffff:10.0.0.0/90"} {
		if _, err := ParseProxies(list); err == nil {
			t.Errorf("%q is taken", list)
		}
	}
}

func TestAWholeNetworkOfSixIsOneClient(t *testing.T) {
	for a, want := range map[string]string{
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "2001:db8:1:2:ffff::": "2001:db8:1:2::/64",
		"203.0.113.9": "203.0.113.9/32",
	} {
		if got := Network(netip.MustParseAddr(a)); got.String() != want {
			t.Errorf("%s is counted: got %q, want %q", a, got.String(), want)
		}
	}
	if Network(netip.Addr{}).IsValid() {
		t.Error("no address has a network")
	}
}

func FuzzOf(f *testing.F) {
	f.Add("10.1.1.1:1", "1.2.3.4, [::1]:5,,")
	f.Add("", "%%")
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		got := New(trusted).Of(request(remote, forwarded))
		if found := got.Zone(); found != "" {
			t.Errorf(`%q %q: the plain form of %s: got.Zone(): got %q, want ""`, remote, forwarded, got, found)
		} else if got.Is4In6() {
			t.Errorf("%q %q: the plain form of %s: got.Is4In6(): got true, want false", remote, forwarded, got)
		}
		if from, err := netip.ParseAddrPort(remote); err == nil && !trusted[0].Contains(from.Addr().Unmap()) &&
			got != from.Addr().Unmap().WithZone("") {
			t.Errorf("%q %q: %s, though the hop is not trusted", remote, forwarded, got)
		}
	})
}
