package providerhub_test

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
	providerhub "svc.internal/services/provider-hub"
)

func TestConfigReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	bad := providerhub.Config{HubID: "Hub_1", PingInterval: -1, MaxSockets: -1, WalletDomain: "a b\nURI: evil"}
	err := bad.Validate()
	if err == nil {
		t.Fatal("a broken configuration is accepted")
	}
	for _, part := range []string{"hub id", "journal folder", "pepper", "ping interval", "limit", "domain"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("a word of the %s: got the error %q, want %q in it", part, err, part)
		}
	}
	good := providerhub.DefaultConfig()
	good.HubID, good.DispatchAddress, good.JournalDir, good.Pepper = "hub-1", "inprocess", "/tmp/x", apikey.Pepper{1}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for dials, sound := range map[int]bool{0: true, 499: false, 500: true, -1: false} {
		cfg := good
		if cfg.DialsPerSecond = dials; (cfg.Validate() == nil) != sound {
			t.Errorf("%d dials a second for 500 handshakes: cfg.Validate() == nil: got %t, want %t", dials,
				cfg.Validate() == nil, sound)
		}
	}
	long := strings.Repeat("s", 32)
	for previous, sound := range map[string]bool{"pepper": true, long: true, "too short": false} {
		cfg := good
		cfg.WorkReceiptSecret, cfg.WorkReceiptSecretPrevious = config.NewSecret(long), config.NewSecret(previous)
		if err := cfg.Validate(); (err == nil) != sound {
			t.Errorf("a previous receipt secret of %d bytes: err == nil: got %t, want %t", len(previous), err == nil, sound)
		} else if err != nil && strings.Contains(err.Error(), previous) {
			t.Errorf("a previous receipt secret of %d bytes: got the error %q, want it without %q", len(previous), err, previous)
		}
	}
}

// reconnectSpread is over how long agents come back when their hub has stopped.
const reconnectSpread = 20 * time.Second

func TestAFullHubsAgentsAreBackWithinAMinute(t *testing.T) {
	t.Parallel()
	cfg := providerhub.DefaultConfig()
	if took := reconnectSpread + time.Duration(float64(cfg.MaxSockets)/
		cfg.HandshakesPerSecond*float64(time.Second)); took > time.Minute {
		t.Errorf("%d agents are back after: got %v, want at most %v", cfg.MaxSockets, took, time.Minute)
	}
}
