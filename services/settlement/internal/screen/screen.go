// Package screen says with which addresses of chains the platform does not deal: sanctioned ones, and others that an
// operator denies.
//
// An address on the allow list is allowed, and then one on the deny list denied. An address on neither is the
// business of an HTTP service, if there is one; else it is allowed. Each verdict has the version of what it rests on,
// which is kept beside the payment. Where no verdict can be had, there is an error, and the payment waits.
package screen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/chain"
)

const (
	// maxFile bounds a list.
	maxFile = 64 << 20
	// maxAnswer bounds the answer of a service.
	maxAnswer = 64 << 10
	// maxVersion bounds a version.
	maxVersion = 100
	// timeout bounds a question to a service.
	timeout = 10 * time.Second
	// reloadAfter is how long a list is believed before its file is looked at again.
	reloadAfter = 10 * time.Second
)

// Config says where verdicts come from. All of it may be empty: then every address is allowed.
type Config struct {
	// DenyFile and AllowFile have an address in each line. What follows # is a comment. They are read again when they
	// change.
	DenyFile  string `yaml:"deny_file" env:"SVC_SETTLEMENT_SCREEN_DENY_FILE"`
	AllowFile string `yaml:"allow_file" env:"SVC_SETTLEMENT_SCREEN_ALLOW_FILE"`
	// URL is a service that answers GET with the address as the last part of the path by {"denied": bool, "version":
	// text}. It may hold a key, so it is a secret.
	URL config.Secret `yaml:"url" env:"SVC_SETTLEMENT_SCREEN_URL"`
}

// Validate returns every fault.
func (c Config) Validate() error {
	if !c.URL.IsSet() {
		return nil
	}
	at, err := url.Parse(c.URL.Reveal())
	if err != nil || (at.Scheme != "https" && at.Scheme != "http") || at.Host == "" {
		return errors.New("url must be an http or https address") // it may hold a key, so it is not shown
	}
	return nil
}

// Verdict is what was said of an address.
type Verdict struct {
	Denied bool
	// Version names the list or the service's data, for example "deny:1f2e…".
	Version string
}

// Screener gives verdicts. It is safe for concurrent use.
type Screener struct {
	deny, allow list
	url         config.Secret
	client      *http.Client
	now         func() time.Time
}

// New returns a screener whose lists can be read.
func New(cfg Config, now func() time.Time) (*Screener, error) {
	s := &Screener{deny: list{path: cfg.DenyFile}, allow: list{path: cfg.AllowFile}, url: cfg.URL, now: now,
		client: &http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}
	for _, l := range []*list{&s.deny, &s.allow} {
		if _, _, err := l.has(chain.Address{}, now()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Check returns the verdict on an address.
func (s *Screener) Check(ctx context.Context, address chain.Address) (Verdict, error) {
	allowed, version, err := s.allow.has(address, s.now())
	if err != nil || allowed {
		return Verdict{Version: "allow:" + version}, err
	}
	denied, version, err := s.deny.has(address, s.now())
	switch {
	case err != nil || denied || !s.url.IsSet():
		return Verdict{Denied: denied, Version: "deny:" + version}, err
	default:
		return s.ask(ctx, address)
	}
}

// ask asks the service.
func (s *Screener) ask(ctx context.Context, address chain.Address) (Verdict, error) {
	at := strings.TrimSuffix(s.url.Reveal(), "/") + "/" + address.String()
	if base, query, ok := strings.Cut(s.url.Reveal(), "?"); ok {
		at = strings.TrimSuffix(base, "/") + "/" + address.String() + "?" + query
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return Verdict{}, errors.New("ask the screening service: its address cannot be used")
	}
	response, err := s.client.Do(req)
	if err != nil {
		return Verdict{}, errors.New("ask the screening service: it does not answer") // the error shows the address
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	var said struct {
		Denied  *bool  `json:"denied"`
		Version string `json:"version"`
	}
	switch {
	case err != nil, response.StatusCode != http.StatusOK:
		return Verdict{}, fmt.Errorf("ask the screening service: status %d", response.StatusCode)
	case json.Unmarshal(body, &said) != nil, said.Denied == nil, said.Version == "", len(said.Version) > maxVersion:
		return Verdict{}, errors.New("ask the screening service: its answer has no verdict with a version")
	}
	return Verdict{Denied: *said.Denied, Version: "service:" + said.Version}, nil
}

// list is the addresses of a file.
type list struct {
	path string

	mu        sync.Mutex
	looked    time.Time
	modified  time.Time
	size      int64
	version   string
	addresses map[chain.Address]bool
}

// has reports whether the list has an address, and the list's version.
func (l *list) has(address chain.Address, now time.Time) (on bool, version string, err error) {
	if l.path == "" {
		return false, "none", nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.addresses == nil || now.Sub(l.looked) >= reloadAfter || now.Before(l.looked) {
		if err := l.loadLocked(); err != nil {
			return false, "", err
		}
		l.looked = now
	}
	return l.addresses[address], l.version, nil
}

// loadLocked reads the file if it has changed.
func (l *list) loadLocked() error {
	info, err := os.Stat(l.path)
	if err != nil {
		return fmt.Errorf("read a list of addresses: %w", err)
	}
	if l.addresses != nil && info.ModTime().Equal(l.modified) && info.Size() == l.size {
		return nil
	}
	if info.Size() > maxFile {
		return fmt.Errorf("read a list of addresses: %s has more than %d bytes", l.path, maxFile)
	}
	text, err := os.ReadFile(l.path)
	if err != nil {
		return fmt.Errorf("read a list of addresses: %w", err)
	}
	addresses, err := Parse(string(text))
	if err != nil {
		return fmt.Errorf("read %s: %w", l.path, err)
	}
	sum := sha256.Sum256(text)
	l.addresses, l.version = addresses, hex.EncodeToString(sum[:8])
	l.modified, l.size = info.ModTime(), info.Size()
	return nil
}

// Parse reads a list of addresses.
func Parse(text string) (map[chain.Address]bool, error) {
	addresses := map[chain.Address]bool{}
	for number, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		address, err := chain.ParseAddress(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
		addresses[address] = true
	}
	return addresses, nil
}
