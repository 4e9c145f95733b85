package provideragent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fakeengine"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

// The wallet whose key is 1, and what an independent implementation makes of it.
const (
	walletKey     = "0000000000000000000000000000000000000000000000000000000000000001"
	walletAddress = "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf"
)

// challenges is a service that asks wallets to sign in, at a domain.
type challenges struct {
	mu     sync.Mutex
	domain string
	asked  []string
}

func (c *challenges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // a test sees what is missing
	c.asked = append(c.asked, r.Method+" "+r.URL.Path+" "+string(body)+r.Header.Get("Authorization"))
	nonce := fmt.Sprintf("nonce%04d", len(c.asked))
	domain := c.domain
	if domain == "" {
		domain = r.Host
	}
	_ = json.NewEncoder(w).Encode(map[string]string{ // the agent may have left
		"nonce": nonce,
		"message": domain + " wants you to sign in with your Ethereum account:\n" + walletAddress +
			"\n\nConnect.\n\nURI: https://x.invalid\nVersion: 1\nChain ID: 1\n" +
			"Nonce: " + nonce + "\nIssued At: 2026-11-21T20:00:00.000Z\nExpiration Time: 2026-11-21T20:05:00.000Z",
	})
}

func (c *challenges) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func keyFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wallet")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

// startWallet runs an agent that signs in at a service.
func startWallet(t *testing.T, service *challenges) *hubtest.Hub {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	_, hub, _ := startWith(t, func(c *Config) {
		c.Key, c.WalletKeyFile, c.ServiceURL = config.Secret{}, keyFile(t, walletKey+"\n", 0o600), server.URL
	}, Model{ModelID: "ok", EngineURL: fakeengine.New(t).URL + "/v1"})
	return hub
}

func TestWalletSignsInForEachConnection(t *testing.T) {
	service := &challenges{}
	hub := startWallet(t, service)
	var seen []*agentv2.Register
	for range 2 {
		s := hub.AcceptLive()
		seen = append(seen, s.Register)
		s.Kill()
	}
	for i, r := range seen {
		switch {
		case r.GetToken() != "":
			t.Errorf(`REGISTER: r.GetToken(): got %q, want ""`, r.GetToken())
		case r.GetOwnerAddress() != walletAddress:
			t.Errorf("REGISTER: r.GetOwnerAddress(): got %q, want %q", r.GetOwnerAddress(), walletAddress)
		case len(r.GetSignature()) != 65:
			t.Errorf("REGISTER: len(r.GetSignature()): got %d, want 65, in %v", len(r.GetSignature()), r)
		case r.GetAuthNonce() != fmt.Sprintf("nonce%04d", i+1):
			t.Errorf("REGISTER: r.GetAuthNonce(): got %q, want %q", r.GetAuthNonce(), fmt.Sprintf("nonce%04d", i+1))
		}
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	if want := `POST /api/v1/provider/ws-challenge {"address":"` + walletAddress + `"}`; service.asked[0] != want {
		t.Errorf("the service was asked: got %q, want %q", service.asked[0], want)
	}
}

func TestWalletSignsNothingOfAnotherSite(t *testing.T) {
	service := &challenges{domain: "bank.example"}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	cfg := DefaultConfig()
	cfg.WSURL, cfg.WalletKeyFile, cfg.ServiceURL = "wss://hub.invalid", keyFile(t, walletKey, 0o600), server.URL
	cfg.Models = []Model{{ModelID: "m", EngineURL: "http://h"}}
	var log bytes.Buffer
	sign, err := signingIn(cfg, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	switch got, err := sign(t.Context()); {
	case err == nil:
		t.Error("got no error, want one")
	case !strings.Contains(err.Error(), "is not a sign-in at"):
		t.Errorf(`got the error %q, want "is not a sign-in at" in it`, err)
	case got.Signature != nil:
		t.Errorf("Signature: got %q, want nil", got.Signature)
	}
	if text := log.String(); strings.Contains(text, walletKey) {
		t.Errorf("the log: got %q, want it without %q", text, walletKey)
	} else if !strings.Contains(text, walletAddress) {
		t.Errorf("the log: got %q, want %q in it", text, walletAddress)
	}
	cfg.WalletDomain = "bank.example" // its owner says that it is
	if sign, err = signingIn(cfg, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got, err := sign(t.Context()); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if len(got.Signature) != 65 {
		t.Errorf("len(got.Signature): got %d, want 65, in %+v", len(got.Signature), got)
	} else if found := service.count(); found != 2 {
		t.Errorf("service.count(): got %d, want 2", found)
	}
}

func TestFaultsOfTheWalletAreToldAtStart(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"chmod 600":              func(c *Config) { c.WalletKeyFile = keyFile(t, walletKey, 0o644) },
		"64 hexadecimal digits":  func(c *Config) { c.WalletKeyFile = keyFile(t, "secret-that-is-none", 0o600) },
		"read the wallet key":    func(c *Config) { c.WalletKeyFile = "/nowhere" },
		"the service's address":  func(c *Config) { c.ServiceURL = "ftp://x" },
		"anybody on the way":     func(c *Config) { c.ServiceURL = "http://192.0.2.1" },
		"without a wallet's key": func(c *Config) { c.WalletKeyFile, c.WalletDomain = "", "x" },
		"provider key is missing": func(c *Config) {
			c.WalletKeyFile = ""
		},
	} {
		cfg := DefaultConfig()
		cfg.WSURL, cfg.WalletKeyFile, cfg.Models = "wss://hub.invalid", keyFile(t, walletKey, 0o600),
			[]Model{{ModelID: "m", EngineURL: "http://h"}}
		change(&cfg)
		switch _, err := New(cfg, Deps{}); {
		case err == nil:
			t.Errorf("naming %q: got no error, want one", want)
		case !strings.Contains(err.Error(), want):
			t.Errorf("naming %q: got the error %q, want %q in it", want, err, want)
		case strings.Contains(err.Error(), "secret-that"):
			t.Errorf(`naming %q: got the error %q, want it without "secret-that"`, want, err)
		}
	}
}
