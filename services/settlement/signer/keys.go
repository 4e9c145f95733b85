package signer

import (
	"context"
	"fmt"

	"svc.internal/services/settlement/signer/internal/keys"
	"svc.internal/services/settlement/signer/internal/keys/kms"
	"svc.internal/services/settlement/signer/internal/policy"
)

// openKeys opens every key of the configuration.
func openKeys(ctx context.Context, cfg Config) (*keys.Ring, error) {
	opened := opener{cfg: cfg}
	if cfg.Development {
		seed, err := keys.OpenSeed(cfg.DevelopmentSeed)
		if err != nil {
			return nil, err
		}
		opened.seed = &seed
	}
	named := map[policy.Key]keys.Key{}
	for name, source := range cfg.Keys.named() {
		key, err := opened.key(ctx, name, source)
		if err != nil {
			return nil, fmt.Errorf("open the key %s: %w", name, err)
		}
		if key != nil {
			named[name] = key
		}
	}
	deposit, err := opened.deposit()
	if err != nil {
		return nil, err
	}
	return keys.NewRing(named, deposit)
}

type opener struct {
	cfg  Config
	seed *keys.Seed
	kms  *kms.Client
}

// key opens one key; nil where the configuration has none.
func (o *opener) key(ctx context.Context, name policy.Key, source Source) (keys.Key, error) {
	switch {
	case source.KMS != "":
		if o.kms == nil {
			client, err := kms.Connect(ctx, o.cfg.KMSRegion, o.cfg.KMSEndpoint)
			if err != nil {
				return nil, err
			}
			o.kms = client
		}
		key, err := o.kms.Open(ctx, source.KMS)
		if err != nil {
			return nil, err
		}
		return key, nil
	case source.Keystore != "":
		return keys.OpenFile(source.Keystore, o.cfg.KeystorePassphrase.Reveal())
	case o.seed != nil:
		return o.seed.Key(name)
	default:
		return nil, nil //nolint:nilnil // a key that is not configured is no error
	}
}

// deposit opens the keys of the deposit addresses; nil where the configuration has none.
func (o *opener) deposit() (*keys.Deposit, error) {
	switch {
	case o.cfg.DepositSeed.IsSet():
		return keys.OpenDeposit(o.cfg.DepositSeed.Reveal())
	case o.seed != nil:
		return o.seed.Deposit()
	default:
		return nil, nil //nolint:nilnil // as above
	}
}
