// Package service asks the marketplace's service over HTTP for what a provider needs
// beside the connection to the hub: a challenge for a wallet's sign-in, the status of the
// account, the catalog and its demand, and the calls that open an account.
//
// Redirects are not followed, because the provider key would follow them. Every text that
// people see is cut to a bounded length of printable characters first.
//
// Limits: a call takes 10 s, an answer has 1 MiB.
package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
)

const (
	patience  = 10 * time.Second
	maxAnswer = 1 << 20
	// maxReason bounds the part of a refusal that is repeated, in characters.
	maxReason = 300
)

// Client asks one service. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
}

// New makes a client for the service at base, http://… or https://….
func New(base string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, errors.New("the service's address must be http://host or https://host")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return &Client{base: u, http: &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// BaseOf is the address of a hub's service by custom: the hub's address by HTTP, without
// /ws at its end, and without the "-ws" at the end of the host's first label. Any other
// host stays as its owner named it, because the provider key is sent there. It is empty
// for what is no hub's address.
func BaseOf(hub string) string {
	u, err := url.Parse(hub)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return ""
	}
	label := u.Host
	if end := strings.IndexAny(label, ".:"); end >= 0 {
		label = label[:end]
	}
	if name, ok := strings.CutSuffix(label, "-ws"); ok && name != "" {
		u.Host = name + u.Host[len(label):]
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/ws")
	return strings.Replace(u.Scheme, "ws", "http", 1) + "://" + u.Host + path
}

// Exposed reports whether what is sent travels in the clear to another machine.
func (c *Client) Exposed() bool {
	addr, err := netip.ParseAddr(c.base.Hostname())
	local := c.base.Hostname() == "localhost" || err == nil && addr.Unmap().IsLoopback()
	return c.base.Scheme == "http" && !local
}

// Domains are the names under which the service may ask for a signature: its host
// with the port, and without.
func (c *Client) Domains() []string { return []string{c.base.Host, c.base.Hostname()} }

// Challenge is what a wallet signs to register.
type Challenge struct {
	Nonce   string `json:"nonce"`
	Message string `json:"message"`
}

// Challenge asks for a challenge that is good for the next registration.
func (c *Client) Challenge(ctx context.Context, address string) (Challenge, error) {
	body, err := json.Marshal(struct {
		Address string `json:"address"`
	}{address})
	if err != nil {
		return Challenge{}, fmt.Errorf("encode the request: %w", err)
	}
	answer, err := c.ask(ctx, http.MethodPost, "/api/v1/provider/ws-challenge", body, config.Secret{})
	if err != nil {
		return Challenge{}, fmt.Errorf("ask for a challenge: %w", err)
	}
	var got Challenge
	if err := json.Unmarshal(answer, &got); err != nil || got.Nonce == "" || got.Message == "" {
		return Challenge{}, errors.New("ask for a challenge: the service's answer is no challenge")
	}
	return got, nil
}

// ErrKey means that the provider key is wrong or revoked.
var ErrKey = errors.New("the service refuses the provider key")

// Status asks for the status of the account. It returns the answer's JSON.
func (c *Client) Status(ctx context.Context, key config.Secret) ([]byte, error) {
	answer, err := c.ask(ctx, http.MethodGet, "/api/v1/provider/status", nil, key)
	if err != nil {
		return nil, fmt.Errorf("ask for the status: %w", err)
	}
	return answer, nil
}

// ask returns the body of an answer with status 200 or 201.
func (c *Client) ask(ctx context.Context, method, path string, body []byte, key config.Secret) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("User-Agent", "svc-agent")
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key.IsSet() {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s does not answer: %w", c.base.Host, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of %s was cut off: %w", c.base.Host, err)
	case resp.StatusCode == http.StatusUnauthorized && strings.HasPrefix(key.Reveal(), string(apikey.Provider)):
		return nil, fmt.Errorf("%w: %s", ErrKey, reasonOf(answer))
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		return nil, fmt.Errorf("%s answers %d: %s", c.base.Host, resp.StatusCode, reasonOf(answer))
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("the answer of %s is too large", c.base.Host)
	}
	return answer, nil
}

// reasonOf is the reason in an answer with another status than 200, in either form of the
// API or as plain text.
func reasonOf(answer []byte) string {
	var told struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(answer, &told) != nil {
		return Clean(string(answer), maxReason)
	}
	var nested struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(told.Error, &nested) == nil && nested.Message != "" {
		return Clean(nested.Message, maxReason)
	}
	var flat string
	if told.Message == "" && json.Unmarshal(told.Error, &flat) == nil {
		return Clean(flat, maxReason)
	}
	return Clean(told.Message, maxReason)
}

// Printable keeps the characters that a terminal can show, and line breaks.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, text)
}

// Clean keeps the characters that a terminal can show in one line, at most so many.
func Clean(text string, maxRunes int) string {
	out := make([]rune, 0, min(len(text), maxRunes))
	for _, r := range strings.TrimSpace(text) {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar && len(out) < maxRunes {
			out = append(out, r)
		}
	}
	return string(out)
}
