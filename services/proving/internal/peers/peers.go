// Package peers calls the services of a fleet as other services do, with their certificates: for what no API offers to
// a harness, because a person's wallet would have to sign it, or because settlement alone may say it.
package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"svc.internal/pkg/devcerts"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/proving/internal/fleet"
)

// Services are the services of a fleet.
type Services struct{ Fleet *fleet.Fleet }

// SignUp makes a provider, as a gateway does for somebody who says at once where earnings go, and returns its id and
// key.
func (s Services) SignUp(ctx context.Context, name, beneficiary string) (id, key string, err error) {
	err = s.call(fleet.Gateway, fleet.Hub, func(conn *grpc.ClientConn) error {
		made, err := hubv1.NewProviderSelfServiceClient(conn).SignUp(ctx, &hubv1.SignUpRequest{
			Name: name, Region: "local", BeneficiaryAddress: beneficiary,
		})
		id, key = made.GetProvider().GetProviderId(), made.GetApiKey()
		return err
	})
	if err != nil {
		return "", "", fmt.Errorf("sign %s up: %w", name, err)
	}
	return id, key, nil
}

// BuyTokens tells the books, as settlement, that the bank bought units of a token, which came by a transaction.
func (s Services) BuyTokens(ctx context.Context, chain, transaction, token string, units int64) error {
	err := s.call(fleet.Settlement, fleet.Billing, func(conn *grpc.ClientConn) error {
		_, err := billingv1.NewPostingServiceClient(conn).Post(ctx, &billingv1.PostRequest{
			Fact: &billingv1.PostRequest_TreasuryMoved{TreasuryMoved: &billingv1.TreasuryMoved{
				ChainId: chain, TransactionHash: transaction, Sum: &billingv1.TokenSum{Token: token, Units: units},
			}},
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("book tokens that were bought: %w", err)
	}
	return nil
}

// RequestPayout asks for a payout, as a gateway does for an owner. The same key asks for the same payout.
func (s Services) RequestPayout(ctx context.Context, provider, usd, key, actor string) error {
	err := s.call(fleet.Gateway, fleet.Settlement, func(conn *grpc.ClientConn) error {
		_, err := settlementv1.NewPayoutServiceClient(conn).RequestPayout(ctx, &settlementv1.RequestPayoutRequest{
			ProviderId: provider, AmountUsd: usd, IdempotencyKey: key, Actor: actor,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for a payout of %s: %w", usd, err)
	}
	return nil
}

// call makes calls on a connection of its own.
func (s Services) call(as, service string, make func(*grpc.ClientConn) error) error {
	conn, err := s.dial(as, service)
	if err != nil {
		return err
	}
	return errors.Join(make(conn), conn.Close())
}

// dial connects to the first process of a service with the certificate of another one, as which it is called.
func (s Services) dial(as, service string) (*grpc.ClientConn, error) {
	certs := s.Fleet.CertDir()
	text, err := os.ReadFile(filepath.Join(certs, devcerts.CAFile))
	if err != nil {
		return nil, fmt.Errorf("call %s as %s: %w", service, as, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(devcerts.CertFile(certs, as), devcerts.KeyFile(certs, as))
	if err != nil {
		return nil, fmt.Errorf("call %s as %s: %w", service, as, err)
	}
	conn, err := grpc.NewClient(s.Fleet.GRPCAddr(s.Fleet.Replicas(service)[0]), grpc.WithTransportCredentials(
		credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: service,
			MinVersion: tls.VersionTLS13})))
	if err != nil {
		return nil, fmt.Errorf("call %s as %s: %w", service, as, err)
	}
	return conn, nil
}
