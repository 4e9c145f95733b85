package oidc

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"svc.internal/pkg/config"
)

// MaxIssuers bounds the issuers of an installation.
const MaxIssuers = 8

// Issuer is an OpenID provider at which users may sign in.
type Issuer struct {
	// Name is what the installation's routes call it.
	Name string
	// URL is the issuer's own name of itself, an https address.
	URL      string
	ClientID string
	Secret   config.Secret
	// RedirectURL is where the provider sends browsers back, as it is registered there.
	RedirectURL string
}

// brands are the names of well-known issuers as they write them themselves.
var brands = map[string]string{"github": "GitHub", "gitlab": "GitLab", "linkedin": "LinkedIn", "paypal": "PayPal"}

// Label returns what people call the issuer with a name: its words with capitals.
func Label(name string) string {
	if brand, ok := brands[name]; ok {
		return brand
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '-' })
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, " ")
}

// OnLoopback reports whether the URL's host is localhost or a loopback address.
func (i Issuer) OnLoopback() bool {
	at, err := url.Parse(i.URL)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(at.Hostname())
	return at.Hostname() == "localhost" || err == nil && address.IsLoopback()
}

// CallbackPath is the path of the route to which a provider sends browsers back.
func CallbackPath(name string) string { return "/api/v1/user/oidc/" + name + "/callback" }

var (
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	// urlForm is what has neither spaces nor a query nor a fragment.
	urlForm = regexp.MustCompile(`^[!-"$->@-~]+$`)
	// loopback are the hosts at which a browser may be sent back without TLS, to a machine of one's own.
	loopback = map[string]bool{"localhost": true, "127.0.0.1": true}
)

const (
	fieldsOfIssuer = 5
	// maxURL bounds the address of an issuer, in bytes, as the table of identities does.
	maxURL = 255
)

// ParseIssuers reads one issuer a line: name, URL, client id, client secret and the address of its
// callback, with spaces between. It names no secret.
func ParseIssuers(text string) ([]Issuer, error) {
	var all []Issuer
	var faults []error
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != fieldsOfIssuer {
			faults = append(faults, fmt.Errorf("line %d is not name, URL, client id, client secret and callback", i+1))
			continue
		}
		one := Issuer{fields[0], fields[1], fields[2], config.NewSecret(fields[3]), fields[4]}
		if err := one.check(); err != nil || seen[one.Name] {
			faults = append(faults, fmt.Errorf("line %d: %w", i+1, errors.Join(err, twice(seen[one.Name]))))
		}
		seen[one.Name] = true
		all = append(all, one)
	}
	if len(all) > MaxIssuers {
		faults = append(faults, fmt.Errorf("there are %d issuers; there may be %d", len(all), MaxIssuers))
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return all, nil
}

func twice(yes bool) error {
	if yes {
		return errors.New("its name is taken")
	}
	return nil
}

func (i Issuer) check() error {
	issuer, err := url.Parse(i.URL)
	switch {
	case !nameForm.MatchString(i.Name):
		return errors.New("its name is not 1 to 32 of a-z, 0-9 and -, beginning with a letter or a digit")
	case err != nil || issuer.Scheme != "https" || issuer.Host == "" || issuer.User != nil:
		return errors.New("its URL is not https")
	case len(i.URL) > maxURL || !urlForm.MatchString(i.URL):
		return fmt.Errorf("its URL has a query, a fragment or more than %d bytes", maxURL)
	}
	callback, err := url.Parse(i.RedirectURL)
	switch {
	case err != nil || callback.Host == "" || callback.Scheme != "https" && !loopback[callback.Hostname()]:
		return errors.New("its callback is not https")
	case callback.Path != CallbackPath(i.Name) || !urlForm.MatchString(i.RedirectURL):
		return fmt.Errorf("its callback must have the path %s, without a query or a fragment", CallbackPath(i.Name))
	}
	return nil
}
