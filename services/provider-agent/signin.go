package provideragent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"svc.internal/services/provider-agent/internal/connection"
	"svc.internal/services/provider-agent/internal/service"
	"svc.internal/services/provider-agent/internal/wallet"
)

// signingIn reads the wallet's key and returns how the agent signs in with it. It signs
// anew for each registration, because a challenge is good once. Without a wallet it
// returns nil.
func signingIn(cfg Config, log *slog.Logger) (func(context.Context) (connection.Credential, error), error) {
	if cfg.WalletKeyFile == "" {
		if cfg.WalletDomain != "" {
			return nil, errors.New("a wallet's domain is of no use without a wallet's key")
		}
		return nil, nil
	}
	key, err := wallet.Load(cfg.WalletKeyFile)
	if err != nil {
		return nil, err
	}
	base := cfg.ServiceURL
	if base == "" {
		base = service.BaseOf(cfg.WSURL)
	}
	client, err := service.New(base)
	if err != nil {
		return nil, err
	}
	if client.Exposed() && !cfg.AllowPlaintext {
		return nil, errors.New("the wallet signs in at an http:// address, where anybody on the way can take the " +
			"signature for a connection of theirs: use https://, or say SVC_ALLOW_PLAINTEXT=true where the network is your own")
	}
	domains := client.Domains()
	if cfg.WalletDomain != "" {
		domains = []string{cfg.WalletDomain}
	}
	log.Info("the agent signs in with a wallet", "wallet", key.Address(), "service", base)
	return func(ctx context.Context) (connection.Credential, error) {
		challenge, err := client.Challenge(ctx, key.Address())
		if err != nil {
			return connection.Credential{}, fmt.Errorf("cannot sign in with the wallet: %w", err)
		}
		signature, err := key.SignIn(challenge.Message, domains, challenge.Nonce)
		if err != nil {
			return connection.Credential{}, fmt.Errorf("cannot sign in with the wallet: %w", err)
		}
		return connection.Credential{Owner: key.Address(), Signature: signature, Nonce: challenge.Nonce}, nil
	}, nil
}
