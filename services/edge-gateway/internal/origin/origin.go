// Package origin tells calls that a page of this site makes from all others.
package origin

import (
	"net/http"
	"net/url"
	"strings"
)

// Same reports whether a request was made by a page of the site that the request is made to. Browsers say
// so in headers that no page can set: Sec-Fetch-Site, or Origin, whose host is the request's host. Where
// a browser sends Sec-Fetch-Site, that header decides alone. A page of another port of the same host is
// same-site, and not of this site. The scheme is not compared, because a proxy in front may have ended TLS.
//
// Any program can send both headers. What they prove is that no page of another site made the call.
func Same(r *http.Request) bool {
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 0 {
		return len(sites) == 1 && sites[0] == "same-origin"
	}
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || r.Host == "" {
		return false
	}
	origin, err := url.Parse(origins[0])
	if err != nil || origin.User != nil || origin.Path != "" || origin.RawQuery != "" || origin.Fragment != "" {
		return false
	}
	switch origin.Scheme {
	case "https", "http":
		return strings.EqualFold(plainHost(origin.Host), plainHost(r.Host))
	}
	return false
}

// plainHost leaves out the default ports, 80 and 443.
func plainHost(host string) string {
	for _, port := range []string{":443", ":80"} {
		if rest, ok := strings.CutSuffix(host, port); ok && !strings.HasSuffix(rest, ":") {
			return rest
		}
	}
	return host
}
