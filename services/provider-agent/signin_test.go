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
		if r.GetToken() != "" || r.GetOwnerAddress() != walletAddress || len(r.GetSignature()) != 65 ||
			r.GetAuthNonce() != fmt.Sprintf("nonce%04d", i+1) {
			t.Errorf("REGISTER is %v", r)
		}
	}
	service.mu.Lock()
	defer service.mu.Unlock()
	if want := `POST /api/v1/provider/ws-challenge {"address":"` + walletAddress + `"}`; service.asked[0] != want {
		t.Errorf("the service was asked %s", service.asked[0])
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
	if got, err := sign(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a sign-in at") ||
		got.Signature != nil {
		t.Errorf("%+v %v", got, err)
	}
	if text := log.String(); strings.Contains(text, walletKey) || !strings.Contains(text, walletAddress) {
		t.Errorf("the log is\n%s", text)
	}
	cfg.WalletDomain = "bank.example" // its owner says that it is
	if sign, err = signingIn(cfg, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if got, err := sign(t.Context()); err != nil || len(got.Signature) != 65 || service.count() != 2 {
		t.Errorf("%+v %v", got, err)
	}
}

func TestFaultsOfTheWalletAreToldAtStart(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"chmod 600":              func(c *Config) { c.WalletKeyFile = keyFile(t, walletKey, 0o644) },
		"64 hexadecimal digits":  func(c *Config) { c.WalletKeyFile = keyFile(t, "secret-that-is-none", 0o600) },
		"read the wallet key":    func(c *Config) { c.WalletKeyFile = "/nowhere" },
		"the service's address":  func(c *Config) { c.ServiceURL = "ftp://x" },
		"without a wallet's key": func(c *Config) { c.WalletKeyFile, c.WalletDomain = "", "x" },
		"provider key is missing": func(c *Config) {
			c.WalletKeyFile = ""
		},
	} {
		cfg := DefaultConfig()
		cfg.WSURL, cfg.WalletKeyFile, cfg.Models = "wss://hub.invalid", keyFile(t, walletKey, 0o600),
			[]Model{{ModelID: "m", EngineURL: "http://h"}}
		change(&cfg)
		if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret-that") {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}
