package verifier

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	"svc.internal/services/verifier/internal/house"
)

// Config of the service.
type Config struct {
	// Sealed is the file with the settings that nobody outside may know: the secret of
	// prompts and schedules, the key of the evidence, thresholds, and the bank of prompts.
	// It is made at the first start, with mode 0600. Replicas share one file. A path within a
	// git checkout is refused, because such files are published, except in development.
	Sealed string `yaml:"sealed" env:"SVC_VERIFIER_SEALED"`
	// EdgeURL is the public API, which hidden probes use as consumers do: https, or http on
	// loopback.
	EdgeURL string `yaml:"edge_url" env:"SVC_VERIFIER_EDGE_URL"`
	// HouseAccounts is how many accounts of the platform pay for hidden probes: at least 20
	// in production, where few accounts would stand out.
	HouseAccounts int `yaml:"house_accounts" env:"SVC_VERIFIER_HOUSE_ACCOUNTS"`
	// BudgetUSDPerDay is what all hidden probes of a UTC day may cost, in US dollars.
	BudgetUSDPerDay float64 `yaml:"budget_usd_per_day" env:"SVC_VERIFIER_BUDGET_USD_PER_DAY"`
	// Siblings names smaller models of the same series, which sampled answers are weighed
	// against: model=smaller, separated by commas.
	Siblings string `yaml:"siblings" env:"SVC_VERIFIER_SIBLINGS"`
	// Probes asks offers and references. Without it what is known stays published, and
	// nothing new is found out.
	Probes bool `yaml:"probes" env:"SVC_VERIFIER_PROBES"`
	// Development runs quick benchmarks, and allows a sealed file in a checkout. A process
	// that listens, or asks an edge, anywhere but on loopback refuses it.
	Development bool `yaml:"development" env:"SVC_VERIFIER_DEVELOPMENT"`
	// BenchmarksWaived tells hubs that every provider's benchmark is passed, and nothing else
	// is done. It is for tests of other services, needs Development, and excludes Probes.
	BenchmarksWaived bool `yaml:"benchmarks_waived" env:"SVC_VERIFIER_BENCHMARKS_WAIVED"`
	// Challenges is how many challenges a calibration has of each family and host; 0 is what
	// the bounds demand, 1,604 to 2,158. Fewer are for development, and reach no further
	// than watch.
	Challenges int `yaml:"challenges" env:"SVC_VERIFIER_CHALLENGES"`
	// Haste divides the pauses between looks of the loops, 1 to 1,000; 0 is none. It is for
	// tests that move the database's clock, which alone says what is due, and needs
	// Development.
	Haste int `yaml:"haste" env:"SVC_VERIFIER_HASTE"`
	// ClaimWait is how long a probe waits for its usage event.
	ClaimWait time.Duration `yaml:"claim_wait" env:"SVC_VERIFIER_CLAIM_WAIT"`
}

// DefaultConfig probes at no more than five dollars a day, with three accounts.
func DefaultConfig() Config {
	return Config{
		Sealed: filepath.Join(".run", "verifier", "sealed.json"), EdgeURL: "http://127.0.0.1:8080", HouseAccounts: 3,
		BudgetUSDPerDay: 5, Probes: true, ClaimWait: 15 * time.Second,
	}
}

const (
	// maxBudget bounds the budget: what the ledger gives all house accounts together is
	// bounded by its own setting.
	maxBudget = 1_000_000
	maxWait   = 5 * time.Minute
	maxHaste  = 1_000
	// maxSiblings bounds the pairs.
	maxSiblings = 1_000
)

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("verifier: "+format, args...))
		}
	}
	check(c.Sealed != "", "sealed (SVC_VERIFIER_SEALED) must name a file")
	check(c.HouseAccounts >= 1 && c.HouseAccounts <= house.MaxAccounts, "house_accounts must be 1 to %d",
		house.MaxAccounts)
	check(c.BudgetUSDPerDay >= 0 && c.BudgetUSDPerDay <= maxBudget, "budget_usd_per_day must be 0 to %d", maxBudget)
	check(!c.BenchmarksWaived || c.Development, "benchmarks_waived is for development alone")
	check(!c.BenchmarksWaived || !c.Probes, "benchmarks_waived asks nobody: set probes to false")
	check(c.Challenges == 0 || c.Development, "challenges is for development alone")
	check(c.Challenges >= 0 && c.Challenges <= 20_000, "challenges must be 0 to 20,000")
	check(c.Haste == 0 || c.Development, "haste is for development alone")
	check(c.Haste >= 0 && c.Haste <= maxHaste, "haste must be 0 to %d", maxHaste)
	check(c.ClaimWait > 0 && c.ClaimWait <= maxWait, "claim_wait must be above zero and at most %v", maxWait)
	if _, err := parseSiblings(c.Siblings); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, c.checkEdge())
	if !c.Development && InCheckout(c.Sealed) {
		faults = append(faults, fmt.Errorf("verifier: sealed (SVC_VERIFIER_SEALED) %s lies within a git checkout", c.Sealed))
	}
	return errors.Join(faults...)
}

// checkEdge refuses an edge that development must not ask. What else is wrong with it, the
// start says.
func (c Config) checkEdge() error {
	u, err := url.Parse(c.EdgeURL)
	if err != nil || u.Host == "" {
		return errors.New("verifier: edge_url (SVC_VERIFIER_EDGE_URL) must be the address of the public API")
	}
	if c.Development {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		if err := serve.Loopback(u.Hostname() + ":" + port); err != nil {
			return fmt.Errorf("verifier: development (SVC_VERIFIER_DEVELOPMENT) asks an edge on loopback alone: %w", err)
		}
	}
	return nil
}

// CheckListeners returns a fault for each address that is not on loopback, where Development
// is set: a quick benchmark proves too little to let strangers earn. The addresses are all
// on which the process listens; an empty address is no listener.
func (c Config) CheckListeners(addresses ...string) error {
	if !c.Development {
		return nil
	}
	var faults []error
	for _, address := range addresses {
		if address == "" {
			continue
		}
		if err := serve.Loopback(address); err != nil {
			faults = append(faults, fmt.Errorf("verifier: development (SVC_VERIFIER_DEVELOPMENT) is for a process that listens "+
				"on loopback alone: %w", err))
		}
	}
	return errors.Join(faults...)
}

// InCheckout reports whether a directory above a path is a git checkout.
func InCheckout(path string) bool {
	dir, err := filepath.Abs(path)
	if err != nil {
		return true
	}
	for {
		parent := filepath.Dir(dir)
		if _, err := os.Lstat(filepath.Join(parent, ".git")); err == nil {
			return true
		}
		if parent == dir {
			return false
		}
		dir = parent
	}
}

// parseSiblings reads model=smaller pairs.
func parseSiblings(text string) (map[string]string, error) {
	pairs := map[string]string{}
	if text == "" {
		return pairs, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		model, smaller, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || model == "" || smaller == "" || model == smaller || len(pairs) == maxSiblings {
			return nil, errors.New("verifier: siblings (SVC_VERIFIER_SIBLINGS) must be model=smaller, separated by commas")
		}
		pairs[model] = smaller
	}
	return pairs, nil
}

// budget is the budget of a day.
func (c Config) budget() money.NanoUSD {
	return money.NanoUSD(c.BudgetUSDPerDay * float64(money.USD))
}

// house are the settings of house accounts: each gets a day's part of the budget, but a cent
// at least, and is funded again below half of it.
func (c Config) house() house.Config {
	topUp := max(c.budget()/money.NanoUSD(c.HouseAccounts), money.USD/100)
	return house.Config{Accounts: c.HouseAccounts, TopUp: topUp, Low: topUp / 2}
}
