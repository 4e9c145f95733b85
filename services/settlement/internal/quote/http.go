package quote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/money"
)

const (
	maxAnswer  = 64 << 10
	maxSources = 20
	timeout    = 10 * time.Second
)

// Config says where prices come from: a list of sources in the file, or the same as JSON in the environment.
type Config struct {
	Sources []SourceConfig `yaml:"sources" json:"sources"`
	// Fixed are prices in dollars by token, for development alone.
	Fixed map[string]string `yaml:"fixed" json:"fixed"`
}

// SourceConfig is one source of one token.
type SourceConfig struct {
	// Token is the coin's name in the books, for example 254:native.
	Token string `yaml:"token" json:"token"`
	Name  string `yaml:"name" json:"name"`
	// URL is asked with GET. It may hold a key, so it is a secret.
	URL config.Secret `yaml:"url" json:"url"`
	// Path names the price in the answer's JSON: members with dots between them, for example data.price.
	Path string `yaml:"path" json:"path"`
}

var (
	tokens = []string{"1:eth", "8453:eth", "254:native"}
	names  = regexp.MustCompile(`^[a-z0-9_-]{1,20}$`)
)

// UnmarshalText reads JSON. An empty text is no source.
func (c *Config) UnmarshalText(text []byte) error {
	*c = Config{}
	if len(text) == 0 {
		return nil
	}
	type plain Config // without this method
	var read plain
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("read the sources of prices: %w", err)
	}
	*c = Config(read)
	return nil
}

// Validate returns every fault. Fixed prices are for development.
func (c Config) Validate(development bool) error {
	var faults []error
	if len(c.Sources) > maxSources {
		faults = append(faults, fmt.Errorf("there are at most %d sources", maxSources))
	}
	seen := map[string]bool{}
	for _, s := range c.Sources {
		at, err := url.Parse(s.URL.Reveal())
		switch {
		case !slices.Contains(tokens, s.Token):
			faults = append(faults, fmt.Errorf("a source's token is one of %s", strings.Join(tokens, ", ")))
		case !names.MatchString(s.Name) || seen[s.Token+s.Name]:
			faults = append(faults, fmt.Errorf("source %q: a name has 1 to 20 of a-z, 0-9, - and _, once for each token",
				s.Name))
		case err != nil || at.Host == "" || at.Scheme != "https" && (!development || at.Scheme != "http"):
			faults = append(faults, fmt.Errorf("source %s: url must be an https address", s.Name))
		case s.Path == "" || len(s.Path) > 200:
			faults = append(faults, fmt.Errorf("source %s: path must have 1 to 200 bytes", s.Name))
		}
		seen[s.Token+s.Name] = true
	}
	if len(c.Fixed) > 0 && !development {
		faults = append(faults, errors.New("fixed prices are for development (SVC_SETTLEMENT_DEVELOPMENT)"))
	}
	if _, err := c.fixed(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func (c Config) fixed() (map[string]money.NanoUSD, error) {
	out := map[string]money.NanoUSD{}
	for token, text := range c.Fixed {
		rate, err := parse(text)
		if err != nil || !slices.Contains(tokens, token) {
			return nil, fmt.Errorf("the fixed price of %.20q must be a number of dollars above zero", token)
		}
		out[token] = rate
	}
	return out, nil
}

// Keeper makes the keeper of a configuration.
func (c Config) Keeper(store Store) (*Keeper, error) {
	fixed, err := c.fixed()
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	sources := map[string][]Source{}
	for _, s := range c.Sources {
		sources[s.Token] = append(sources[s.Token], &web{s, client})
	}
	return NewKeeper(store, sources, fixed), nil
}

// web is a source on the web.
type web struct {
	cfg    SourceConfig
	client *http.Client
}

// Name implements Source.
func (w *web) Name() string { return w.cfg.Name }

// Rate implements Source. Errors do not show the address.
func (w *web) Rate(ctx context.Context) (money.NanoUSD, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.cfg.URL.Reveal(), nil)
	if err != nil {
		return 0, errors.New("its address cannot be used")
	}
	response, err := w.client.Do(req)
	if err != nil {
		return 0, errors.New("it does not answer")
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil || response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("status %d", response.StatusCode)
	}
	return Find(body, w.cfg.Path)
}

// Find reads the price at a path of JSON: a number, or a text with one.
func Find(body []byte, path string) (money.NanoUSD, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var at any
	if err := decoder.Decode(&at); err != nil {
		return 0, errors.New("its answer is not JSON")
	}
	for _, name := range strings.Split(path, ".") {
		members, ok := at.(map[string]any)
		if !ok {
			return 0, fmt.Errorf("its answer has nothing at %s", path)
		}
		at = members[name]
	}
	switch v := at.(type) {
	case json.Number:
		return parse(v.String())
	case string:
		return parse(v)
	default:
		return 0, fmt.Errorf("its answer has no number at %s", path)
	}
}

// maxRate is a billion dollars, which no coin costs.
const maxRate = 1_000_000_000

// parse reads dollars, rounded down to nano-USD.
func parse(text string) (money.NanoUSD, error) {
	if len(text) > 40 || strings.ContainsAny(text, "/xXpP_") {
		return 0, errors.New("a price is a decimal number")
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(text), "e"); ok && len(strings.TrimLeft(exponent, "+-")) > 2 {
		return 0, errors.New("a price is a decimal number")
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || r.Sign() <= 0 || r.Cmp(big.NewRat(maxRate, 1)) > 0 {
		return 0, errors.New("a price is a number of dollars above zero")
	}
	r.Mul(r, big.NewRat(1_000_000_000, 1))
	nano := new(big.Int).Quo(r.Num(), r.Denom())
	if nano.Sign() == 0 {
		return 0, errors.New("a price is at least a billionth of a dollar")
	}
	return money.NanoUSD(nano.Int64()), nil
}
