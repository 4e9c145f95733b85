package dialguard_test

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"svc.internal/pkg/dialguard"
)

func TestOnlyAddressesOfThePublicInternetPass(t *testing.T) {
	for text, want := range map[string]bool{
		"1.1.1.1": false, "8.8.8.8": false, "100.63.255.255": false, "100.128.0.0": false, "172.15.0.1": false,
		"172.32.0.1": false, "2606:4700::1111": false, "2a00:1450:4001::1": false, "::ffff:8.8.8.8": false,

		"0.0.0.0": true, "10.1.2.3": true, "100.64.0.1": true, "100.100.100.200": true, "127.0.0.1": true,
		"127.255.255.254": true, "168.63.129.16": true, "169.254.169.254": true, "172.16.0.1": true,
		"172.31.255.255": true, "192.0.0.192": true, "192.0.2.1": true, "192.88.99.1": true, "192.168.1.1": true,
		"198.18.0.1": true, "198.51.100.1": true, "203.0.113.1": true, "224.0.0.1": true, "239.255.255.255": true,
		"240.0.0.1": true, "255.255.255.255": true,
		"::": true, "::1": true, "::ffff:10.0.0.1": true, "::ffff:127.0.0.1": true, "::7f00:1": true,
		"64:ff9b::7f00:1": true, "64:ff9b::808:808": true, "64:ff9b:1::1": true, "100::1": true, "2001::1": true,
		"2001:db8::1": true, "2002:7f00:1::": true, "3fff::1": true, "5f00::1": true, "fc00::1": true,
		"fd00:ec2::254": true, "fe80::1": true, "fec0::1": true, "ff02::1": true, "2606:4700::1111%eth0": true,
	} {
		if got := dialguard.Blocked(netip.MustParseAddr(text)); got != want {
			t.Errorf("Blocked(%s): got %v, want %v", text, got, want)
		}
	}
	if !dialguard.Blocked(netip.Addr{}) {
		t.Error("the zero address is not blocked")
	}
}

func TestAURLIsReadAsTheMostCarelessReaderWouldReadIt(t *testing.T) {
	for text, want := range map[string]error{
		"https://pictures.org/cat.png":                    nil,
		"HTTPS://Pictures.Org:8443/cat.png?a=1#b":         nil,
		"http://pictures.org":                             nil,
		"http://pictures.org.:80/":                        nil,
		"http://8.8.8.8/cat.png":                          nil,
		"http://[2606:4700::1111]:443/cat.png":            nil,
		"https://a_b.xn--bcher-kva.de/ä b?q=\\@127.0.0.1": nil,
		"data:image/png;base64,AAAA":                      nil,
		"DATA:,hello":                                     nil,

		"http://127.0.0.1/":         dialguard.ErrPrivate,
		"http://127.0.0.1.:80/":     dialguard.ErrPrivate,
		"http://10.0.0.1":           dialguard.ErrPrivate,
		"http://169.254.169.254/x":  dialguard.ErrPrivate,
		"http://0.0.0.0/":           dialguard.ErrPrivate,
		"http://[::1]/":             dialguard.ErrPrivate,
		"http://[::]/":              dialguard.ErrPrivate,
		"http://[::ffff:8.8.8.8]/":  dialguard.ErrPrivate,
		"http://[::ffff:7f00:1]/":   dialguard.ErrPrivate,
		"http://[64:ff9b::a00:1]/":  dialguard.ErrPrivate,
		"http://[fd00:ec2::254]/":   dialguard.ErrPrivate,
		"http://[fe80::1]/":         dialguard.ErrPrivate,
		"http://localhost/":         dialguard.ErrPrivate,
		"http://LocalHost.:8080/":   dialguard.ErrPrivate,
		"http://a.localhost/":       dialguard.ErrPrivate,
		"http://printer.local/":     dialguard.ErrPrivate,
		"http://db.default.svc/":    dialguard.ErrPrivate,
		"http://1.0.0.127.in.arpa/": dialguard.ErrPrivate,

		"http://metadata.google.internal/computeMetadata/v1/": dialguard.ErrPrivate,

		"http://127.1/":                 dialguard.ErrSpelt,
		"http://0x7f.1/":                dialguard.ErrSpelt,
		"http://2130706433/":            dialguard.ErrSpelt,
		"http://0x7f000001/":            dialguard.ErrSpelt,
		"http://017700000001/":          dialguard.ErrSpelt,
		"http://0177.0.0.1/":            dialguard.ErrSpelt,
		"http://127.0.0.0x1/":           dialguard.ErrSpelt,
		"http://127.0.0.0x/":            dialguard.ErrSpelt,
		"http://8.8.8.08/":              dialguard.ErrSpelt,
		"http://1.2.3.4.5/":             dialguard.ErrSpelt,
		"http://256.1.1.1/":             dialguard.ErrSpelt,
		"http://a..b.org/":              dialguard.ErrSpelt,
		"http://./":                     dialguard.ErrSpelt,
		"http:///etc":                   dialguard.ErrSpelt,
		"http://":                       dialguard.ErrSpelt,
		"http://:80/":                   dialguard.ErrSpelt,
		"http://127%2e0.0.1/":           dialguard.ErrSpelt,
		"http://１２７.0.0.1/":             dialguard.ErrSpelt,
		"http://①②⑦.0.0.1/":             dialguard.ErrSpelt,
		"http://127。0。0。1/":             dialguard.ErrSpelt,
		`http://pictures.org\.evil.de/`: dialguard.ErrSpelt,
		"http://a b.org/":               dialguard.ErrSpelt,
		"http://[::1/":                  dialguard.ErrSpelt,
		"http://[fe80::1%25eth0]/":      dialguard.ErrPrivate,
		"http://[8.8.8.8]/":             dialguard.ErrSpelt,
		"http://[::1]x/":                dialguard.ErrSpelt,
		"http://::1/":                   dialguard.ErrSpelt,

		"http://metadata/":                     dialguard.ErrName,
		"http://postgres:443/":                 dialguard.ErrName,
		`http://pictures.org\@127.0.0.1/`:      dialguard.ErrForm,
		"http://pictures.org@127.0.0.1/":       dialguard.ErrForm,
		"http://127.0.0.1@pictures.org/":       dialguard.ErrForm,
		"http:127.0.0.1/":                      dialguard.ErrForm,
		"http:/127.0.0.1/":                     dialguard.ErrForm,
		"http://pictures.org/a\nb":             dialguard.ErrForm,
		"http://pictures\t.org/":               dialguard.ErrForm,
		"http://pictures.org:22/":              dialguard.ErrPort,
		"http://pictures.org:11434/api/delete": dialguard.ErrPort,
		"http://pictures.org:/":                nil,
		"http://pictures.org:080/":             dialguard.ErrPort,
		"http://pictures.org:65616/":           dialguard.ErrPort,

		"":                   dialguard.ErrScheme,
		"cat.png":            dialguard.ErrScheme,
		"//127.0.0.1/":       dialguard.ErrScheme,
		"file:///etc/passwd": dialguard.ErrScheme,
		"ftp://a.org/":       dialguard.ErrScheme,
		" http://a.org/":     dialguard.ErrScheme,
		"\thttp://a.org/":    dialguard.ErrScheme,
		"gopher://a.org:80/": dialguard.ErrScheme,
	} {
		if got := dialguard.URL(text); !errors.Is(got, want) {
			t.Errorf("URL(%q): got %v, want %v", text, got, want)
		}
	}
}

// FuzzURL compares the rule with net/url, as one reader of many: a host that
// net/url sees in an address that passed must pass by itself.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"http://127.0.0.1/", "https://a.org:8080/x", "http://[::1]/", `http://a.org\@127.0.0.1/`, "http://0x7f.1",
		"data:,x", "http://a.org?@127.0.0.1", "http://a.org#@127.0.0.1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if dialguard.URL(text) != nil || strings.EqualFold(text[:min(len(text), 5)], "data:") {
			return
		}
		u, err := url.Parse(text)
		if err != nil {
			return // nobody who reads as net/url does fetches it
		}
		if u.User != nil {
			t.Fatalf("net/url reads user: got %v, want nil, with %q", u.User, text)
		}
		if !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https") {
			t.Fatalf(`strings.EqualFold(u.Scheme, "https"): got false, want true, where !strings.EqualFold(u.Scheme, "http"), `+
				`with %q`, u.Scheme)
		}
		host := u.Hostname()
		if a, err := netip.ParseAddr(host); err == nil && dialguard.Blocked(a) {
			t.Fatalf("net/url reads the host %s in %q, which passed", host, text)
		}
	})
}
