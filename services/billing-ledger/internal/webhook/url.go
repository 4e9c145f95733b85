package webhook

import (
	"net/netip"
	"net/url"
	"strings"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/fault"
)

// CheckURL refuses an address that no webhook may have: anything but https, a host that is
// not public or that two readers read differently, another port than those of the web, a user
// name, a fragment. In development http to loopback passes, too.
func CheckURL(text string, development bool) error {
	if text == "" || len(text) > MaxURL {
		return refused("must have 1 to %d bytes", MaxURL)
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return refused("must be written in ASCII without spaces")
		}
	}
	to, err := url.Parse(text)
	if err != nil || to.Opaque != "" || to.User != nil || to.Host == "" || strings.ContainsAny(text, `\#`) {
		return refused("must be of the form https://host/path, without a user name and a fragment")
	}
	if development && onLoopback(to) {
		return nil
	}
	if to.Scheme != "https" {
		return refused("must begin with https://")
	}
	if err := dialguard.URL(text); err != nil {
		return refused("%s", err)
	}
	if port := to.Port(); port == "80" || port == "8080" {
		return refused("must name no other port than 443 and 8443")
	}
	return nil
}

// onLoopback reports whether a literal address of loopback is named.
func onLoopback(to *url.URL) bool {
	a, err := netip.ParseAddr(to.Hostname())
	return err == nil && a.IsLoopback() && (to.Scheme == "http" || to.Scheme == "https")
}

func refused(format string, args ...any) error {
	return fault.New(fault.Invalid, fault.InvalidValue, "url "+format, args...).On("url")
}
