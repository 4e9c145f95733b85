package verifier

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// outside returns a path in no checkout.
func outside(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "sealed.json")
}

func TestAFaultOfTheConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"sealed":             func(c *Config) { c.Sealed = "" },
		"house_accounts":     func(c *Config) { c.HouseAccounts = 0 },
		"budget_usd_per_day": func(c *Config) { c.BudgetUSDPerDay = -1 },
		"challenges":         func(c *Config) { c.Challenges = 5 },
		"claim_wait":         func(c *Config) { c.ClaimWait = 0 },
		"haste is":           func(c *Config) { c.Haste = 5 },
		"haste must":         func(c *Config) { c.Haste = maxHaste + 1 },
		"siblings":           func(c *Config) { c.Siblings = "a=a" },
		"edge_url":           func(c *Config) { c.EdgeURL = "" },
		"loopback":           func(c *Config) { c.Development, c.EdgeURL = true, "https://api.example.org" },
	} {
		c := DefaultConfig()
		c.Sealed = outside(t)
		change(&c)
		if got := fmt.Sprint(c.Validate()); !strings.Contains(got, want) {
			t.Errorf("%s: got the error %s, want it named", want, got)
		}
	}
	c := DefaultConfig()
	c.Sealed = outside(t)
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults: got the error %v, want none", err)
	}
}

// Such files are published with the code.
func TestASealedFileWithinACheckoutIsRefusedButInDevelopment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Sealed = filepath.Join(dir, "a", "b", "sealed.json")
	if got := fmt.Sprint(c.Validate()); !strings.Contains(got, "checkout") {
		t.Errorf("got the error %s, want the checkout named", got)
	}
	c.Development = true
	if err := c.Validate(); err != nil {
		t.Errorf("in development: got the error %v, want none", err)
	}
}

func TestDevelopmentIsRefusedOffLoopback(t *testing.T) {
	t.Parallel()
	for address, refused := range map[string]bool{"": false, "127.0.0.1:1": false, "0.0.0.0:1": true, "10.0.0.1:1": true} {
		c := DefaultConfig()
		c.Development = true
		if got := c.CheckListeners(address) != nil; got != refused {
			t.Errorf("%s is refused: got %t, want %t", address, got, refused)
		}
		c.Development = false
		if err := c.CheckListeners(address); err != nil {
			t.Errorf("%s without development: got the error %v, want none", address, err)
		}
	}
}

func TestHouseAccountsShareTheBudgetOfADay(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.HouseAccounts, c.BudgetUSDPerDay = 4, 2
	if got := c.house().TopUp.Float(); got != .5 {
		t.Errorf("top-up: got %v, want .5", got)
	}
	c.BudgetUSDPerDay = 0
	if got := c.house().TopUp.Float(); got != .01 {
		t.Errorf("top-up without a budget: got %v, want a cent", got)
	}
}

func TestSiblingsAreReadInPairs(t *testing.T) {
	t.Parallel()
	got, err := parseSiblings("a/big=a/small, b/big=b/small")
	if err != nil {
		t.Fatal(err)
	}
	if got["b/big"] != "b/small" {
		t.Errorf("sibling of b/big: got %q, want %q", got["b/big"], "b/small")
	}
	for _, bad := range []string{"a", "=b", "a=", "a=b,,"} {
		if _, err := parseSiblings(bad); err == nil {
			t.Errorf("%q: got no error, want one", bad)
		}
	}
}
