package webhook

import (
	"errors"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
)

// refusals are addresses that no webhook may have.
var refusals = map[string]string{
	"http":                       "http://example.org/hook",
	"another scheme":             "gopher://example.org/",
	"data":                       "data:,hello",
	"no scheme":                  "example.org/hook",
	"no host":                    "https:///hook",
	"opaque":                     "https:example.org",
	"a user name":                "https://user@example.org/",
	"a user name that is a host": "https://example.org@127.0.0.1/",
	"a backslash":                `https://example.org\@127.0.0.1/`,
	"a fragment":                 "https://example.org/#a",
	"loopback":                   "https://127.0.0.1/",
	"loopback by name":           "https://localhost/",
	"loopback in IPv6":           "https://[::1]/",
	"IPv4 in IPv6":               "https://[::ffff:127.0.0.1]/",
	"IPv4 in IPv6, hexadecimal":  "https://[::ffff:7f00:1]/",
	"NAT64":                      "https://[64:ff9b::a00:1]/",
	"unspecified":                "https://0.0.0.0/",
	"private":                    "https://10.1.2.3/",
	"link-local":                 "https://169.254.10.1/",
	"metadata":                   "https://169.254.169.254/latest/meta-data/",
	"metadata in IPv6":           "https://[fd00:ec2::254]/",
	"metadata by name":           "https://metadata.google.internal/",
	"Alibaba's metadata":         "https://100.100.100.200/",
	"a decimal host":             "https://2130706433/",
	"a hexadecimal host":         "https://0x7f000001/",
	"an octal host":              "https://0177.0.0.1/",
	"a short host":               "https://127.1/",
	"a cluster's name":           "https://postgres.default.svc.cluster.local/",
	"one label":                  "https://intranet/",
	"port 0":                     "https://example.org:0/",
	"port 80":                    "https://example.org:80/",
	"PostgreSQL's port":          "https://example.org:5432/",
	"a port behind a port":       "https://example.org:443:25/",
	"a full-width digit":         "https://１27.0.0.1/",
	"a line break":               "https://example.org/\r\nHost: a",
	"a space":                    "https://example.org/a b",
	"nothing":                    "",
	"too long":                   "https://example.org/" + strings.Repeat("a", MaxURL),
}

func TestAWebhookHasAPublicAddressThatAllReadersReadAlike(t *testing.T) {
	t.Parallel()
	for name, text := range refusals {
		for _, development := range []bool{false, true} {
			if development && (name == "loopback" || name == "loopback in IPv6" || strings.HasPrefix(name, "IPv4 in IPv6")) {
				continue
			}
			if err := CheckURL(text, development); !fault.Is(err, fault.InvalidValue) {
				t.Errorf("%s, development %t: got %v, want the reason %s", name, development, err, fault.InvalidValue)
			}
		}
	}
	for _, text := range []string{"https://example.org", "https://hooks.example.org:8443/a?b=c%20d", "https://8.8.8.8/x",
		"https://[2606:4700::1111]:443/"} {
		if err := CheckURL(text, false); err != nil {
			t.Errorf("%s: got %v, want none", text, err)
		}
	}
	for _, text := range []string{"http://127.0.0.1:9/", "http://[::1]:9/hook"} {
		if err := CheckURL(text, true); err != nil {
			t.Errorf("%s in development: got %v, want none", text, err)
		}
		if err := CheckURL(text, false); err == nil {
			t.Errorf("%s: got no error, want one", text)
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	for _, text := range refusals {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := CheckURL(text, false)
		if err == nil && !strings.HasPrefix(text, "https://") && !strings.HasPrefix(strings.ToLower(text), "https://") {
			t.Errorf("%q: got no error, want one", text)
		}
		if f := new(fault.Fault); err != nil && !errors.As(err, &f) {
			t.Errorf("%q: got %v, want a fault", text, err)
		}
	})
}
