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
	"path"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// Bought is a token that the bank bought, which came by a transaction. Rate is what a coin costs, in nano-USD; 0 for a
// dollar.
type Bought struct {
	Chain, Transaction, Token string
	Units, Rate               int64
}

// BuyTokens tells the books, as settlement, that the bank bought units of a token.
func (s Services) BuyTokens(ctx context.Context, b Bought) error {
	sum := &billingv1.TokenSum{Token: b.Token, Units: b.Units}
	if b.Rate != 0 {
		sum.Quote = &billingv1.TokenQuote{RateNanoUsd: b.Rate, Source: "fixed", At: timestamppb.Now()}
	}
	err := s.call(fleet.Settlement, fleet.Billing, func(conn *grpc.ClientConn) error {
		_, err := billingv1.NewPostingServiceClient(conn).Post(ctx, &billingv1.PostRequest{
			Fact: &billingv1.PostRequest_TreasuryMoved{TreasuryMoved: &billingv1.TreasuryMoved{
				ChainId: b.Chain, TransactionHash: b.Transaction, Sum: sum,
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

// PrepareDeposit says how to put collateral behind a provider on a chain, as a gateway asks.
func (s Services) PrepareDeposit(ctx context.Context, provider string, chain int64, amount string) (
	out *settlementv1.DepositCall, err error,
) {
	err = s.call(fleet.Gateway, fleet.Settlement, func(conn *grpc.ClientConn) error {
		resp, err := settlementv1.NewCollateralServiceClient(conn).PrepareDeposit(ctx, &settlementv1.PrepareDepositRequest{
			ProviderId: provider, How: &settlementv1.PrepareDepositRequest_Chain{
				Chain: &settlementv1.ChainDeposit{ChainId: chain, Amount: amount}},
		})
		out = resp.GetCall()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask how to put collateral behind %s: %w", provider, err)
	}
	return out, nil
}

// RequestRefund asks for all collateral of a provider, as a gateway does for an owner; one that is open is the same.
func (s Services) RequestRefund(ctx context.Context, provider string) error {
	err := s.call(fleet.Gateway, fleet.Settlement, func(conn *grpc.ClientConn) error {
		_, err := settlementv1.NewCollateralServiceClient(conn).RequestRefund(ctx, &settlementv1.RequestRefundRequest{
			ProviderId: provider,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("ask for the collateral of %s: %w", provider, err)
	}
	return nil
}

// PayByCard puts so much behind a provider by a card of the sandbox, as somebody does who opens the page and pays. The
// same key is the same payment. It returns the page's session.
func (s Services) PayByCard(ctx context.Context, provider, key string, cents int64) (session string, err error) {
	err = s.call(fleet.Gateway, fleet.Settlement, func(conn *grpc.ClientConn) error {
		resp, err := settlementv1.NewCollateralServiceClient(conn).PrepareDeposit(ctx, &settlementv1.PrepareDepositRequest{
			ProviderId: provider, IdempotencyKey: key, How: &settlementv1.PrepareDepositRequest_Card{
				Card: &settlementv1.CardDeposit{AmountCents: cents, ReturnUrl: "https://example.org/"}},
		})
		session = path.Base(resp.GetPage().GetUrl())
		return err
	})
	if err == nil {
		err = s.press(ctx, session, billingv1.SandboxAction_SANDBOX_ACTION_PAY)
	}
	if err != nil {
		return "", fmt.Errorf("pay for %s by card: %w", provider, err)
	}
	return session, nil
}

// ChargeBack has the card's owner dispute a payment in the sandbox.
func (s Services) ChargeBack(ctx context.Context, session string) error {
	if err := s.press(ctx, session, billingv1.SandboxAction_SANDBOX_ACTION_CHARGE_BACK); err != nil {
		return fmt.Errorf("charge a payment back: %w", err)
	}
	return nil
}

// press presses a button of a page of the sandbox. A button that was pressed stays so.
func (s Services) press(ctx context.Context, session string, button billingv1.SandboxAction) error {
	return s.call(fleet.Gateway, fleet.Billing, func(conn *grpc.ClientConn) error {
		_, err := billingv1.NewCardSandboxServiceClient(conn).ActOnSandboxSession(ctx,
			&billingv1.ActOnSandboxSessionRequest{SessionId: session, Action: button})
		return err
	})
}

// Call makes calls on a connection of its own to the first process of a service, with the certificate of another one.
func (s Services) Call(as, service string, make func(*grpc.ClientConn) error) error {
	return s.call(as, service, make)
}

// call is Call.
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
