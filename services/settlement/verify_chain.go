package settlement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/config"
	"svc.internal/services/settlement/internal/audit"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/chainaudit"
	"svc.internal/services/settlement/internal/evm"
	"svc.internal/services/settlement/internal/store"
)

// VerifyChains compares the rows in db with the configured chains, beside what Verify does.
func VerifyChains(ctx context.Context, db *pgxpool.Pool, cfg Config) (audit.Report, error) {
	report, err := Verify(ctx, db)
	if err != nil {
		return audit.Report{}, err
	}
	if len(cfg.Chains) == 0 {
		return audit.Report{}, errors.New("no chains are configured (SVC_SETTLEMENT_CHAINS)")
	}
	all := report.Invariants
	for _, one := range cfg.Chains {
		found, err := verifyChain(ctx, db, one)
		if err != nil {
			return audit.Report{}, err
		}
		all = append(all, found...)
	}
	return audit.NewReport(all), nil
}

func verifyChain(ctx context.Context, db *pgxpool.Pool, cfg chain.Config) ([]audit.Invariant, error) {
	reader, err := evm.Dial(cfg)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	rows := store.ChainRows{Reserves: store.Reserves{Store: store.New(db)}}
	return (&chainaudit.Auditor{Rows: rows, Node: reader, Config: cfg, Decode: evm.Decode}).Audit(ctx)
}

// WithRPCs returns the configuration with other RPCs for some of its chains: each of others is a chain's number, an
// equals sign, and addresses with commas between them.
func (c Config) WithRPCs(others []string) (Config, error) {
	c.Chains = slices.Clone(c.Chains)
	for _, text := range others {
		number, list, _ := strings.Cut(text, "=")
		at := slices.IndexFunc(c.Chains, func(one chain.Config) bool { return one.ID.String() == number })
		if at < 0 {
			return Config{}, errors.New("other RPCs are given as a configured chain, =, and addresses with commas")
		}
		c.Chains[at].RPCs = nil
		for address := range strings.SplitSeq(list, ",") {
			c.Chains[at].RPCs = append(c.Chains[at].RPCs, config.NewSecret(address))
		}
	}
	if err := c.Chains.Validate(); err != nil {
		return Config{}, fmt.Errorf("other RPCs: %w", err)
	}
	return c, nil
}
