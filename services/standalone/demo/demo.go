// Package demo seeds a first start with what a person needs to try the service: models, a
// consumer with credit and a key, a provider with a key, a reference that the provider is
// verified by, and an engine for the agents of both. It makes the calls that an operator
// would make, and a second start finds what the first one made. The provider becomes active
// as any other does: once the verifier has passed its benchmark.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/standalone/localdata"
)

// credit is what the demo's consumer gets, once, in US dollars.
const credit = "100"

// Peers are the services that an operator calls.
type Peers struct {
	Accounts  billingv1.AccountAdminServiceClient
	Keys      billingv1.KeyServiceClient
	Catalog   catalogv1.CatalogAdminServiceClient
	Providers hubv1.ProviderAdminServiceClient
	// BaseURL is the public API, where the provider's owner signs up as any other user does.
	BaseURL string
	// OperatorsURL is where operators call, and Bootstrap the token that makes the first of them; empty for none.
	OperatorsURL, Bootstrap string
}

// Seed puts the catalog's models, and makes consumer, provider, reference and operator unless an
// earlier start on this directory has made them.
func Seed(ctx context.Context, peers Peers, dir *localdata.Dir, catalog Catalog) (Credentials, error) {
	for _, m := range catalog.Models {
		if _, err := peers.Catalog.PutModel(ctx, m.request()); err != nil {
			return Credentials{}, fmt.Errorf("put model %s: %w", m.ID, err)
		}
	}
	known, err := remembered(ctx, peers, dir)
	if err != nil {
		return known, err
	}
	if known.ConsumerKey == "" || known.ReferenceKey == "" {
		if known, err = makeProviders(ctx, peers, dir, known); err != nil {
			return Credentials{}, err
		}
	}
	if err := addOperator(ctx, peers.OperatorsURL, peers.Bootstrap, dir, &known); err != nil {
		return Credentials{}, fmt.Errorf("make the demo's operator: %w", err)
	}
	return known, nil
}

// makeProviders makes what is missing of consumer, provider and reference.
func makeProviders(ctx context.Context, peers Peers, dir *localdata.Dir, known Credentials) (Credentials, error) {
	if known.ConsumerKey == "" {
		var err error
		if known, err = makeBoth(ctx, peers, dir); err != nil {
			return known, err
		}
	}
	if err := addReference(ctx, peers.Providers, &known); err != nil {
		return known, fmt.Errorf("make the demo's reference: %w", err)
	}
	return known, remember(dir, known)
}

// remembered reads the credentials of an earlier start. It forgets keys that the database
// does not know, because another database was given.
func remembered(ctx context.Context, peers Peers, dir *localdata.Dir) (Credentials, error) {
	text, err := os.ReadFile(dir.Path(stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Credentials{}, nil
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read the demo's state: %w", err)
	}
	var known Credentials
	if err := json.Unmarshal(text, &known); err != nil {
		return Credentials{}, fmt.Errorf("read the demo's state: %w", err)
	}
	digest := apikey.Sum(known.ConsumerKey)
	_, err = peers.Keys.AuthenticateKey(ctx, &billingv1.AuthenticateKeyRequest{KeySha256: digest[:]})
	if f, ok := fault.As(err); ok && f.Kind == fault.Unauthenticated {
		return Credentials{}, nil
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("check the demo's key: %w", err)
	}
	return known, nil
}

func makeBoth(ctx context.Context, peers Peers, dir *localdata.Dir) (Credentials, error) {
	consumer, err := makeConsumer(ctx, peers, dir)
	if err != nil {
		return Credentials{}, fmt.Errorf("make the demo's consumer: %w", err)
	}
	provider, err := makeProvider(ctx, peers, dir)
	if err != nil {
		return Credentials{}, fmt.Errorf("make the demo's provider: %w", err)
	}
	consumer.ProviderID, consumer.ProviderKey = provider.ProviderID, provider.ProviderKey
	consumer.OwnerPassword = provider.OwnerPassword
	return consumer, nil
}

// makeConsumer makes the demo's account, which belongs to a user.
func makeConsumer(ctx context.Context, peers Peers, dir *localdata.Dir) (Credentials, error) {
	password, err := dir.ConsumerPassword()
	if err != nil {
		return Credentials{}, err
	}
	user, err := signUp(ctx, peers.BaseURL, ConsumerEmail, password, "Demo consumer")
	if err != nil {
		return Credentials{}, fmt.Errorf("sign the consumer up: %w", err)
	}
	accounts, id := peers.Accounts, user.User.AccountID
	if _, err := accounts.GrantCredit(ctx, &billingv1.GrantCreditRequest{
		AccountId: id, AmountUsd: credit, IdempotencyKey: "demo-credit", Memo: "Demo credit",
	}); err != nil {
		return Credentials{}, err
	}
	if _, err := accounts.SetAccountLimits(ctx, &billingv1.SetAccountLimitsRequest{
		AccountId: id, Limits: &billingv1.Limits{RequestsPerMinute: -1, ConcurrentRequests: -1},
	}); err != nil {
		return Credentials{}, err
	}
	key, err := accounts.IssueKey(ctx, &billingv1.IssueKeyRequest{AccountId: id, Name: "Demo key"})
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{AccountID: id, ConsumerKey: key.GetApiKey(), ConsumerPassword: password}, nil
}

// makeProvider makes the demo's provider, which belongs to a user.
func makeProvider(ctx context.Context, peers Peers, dir *localdata.Dir) (Credentials, error) {
	password, err := dir.OwnerPassword()
	if err != nil {
		return Credentials{}, err
	}
	made, err := signUpOwner(ctx, peers.BaseURL, password)
	if err != nil {
		return Credentials{}, err
	}
	yes := true
	if _, err := peers.Providers.ConfirmQualification(ctx, &hubv1.ConfirmQualificationRequest{
		ProviderId: made.ProviderID, Collateral: &yes, GpuWaived: &yes,
		Reason: "the demo runs on any machine and holds no collateral",
	}); err != nil {
		return Credentials{}, err
	}
	return made, nil
}

// addReference makes the node whose answers the provider's are compared with.
func addReference(ctx context.Context, providers hubv1.ProviderAdminServiceClient, to *Credentials) error {
	created, err := providers.CreateProvider(ctx, &hubv1.CreateProviderRequest{Name: "Demo reference", Region: "local",
		IdempotencyKey: "demo-reference"})
	if err != nil {
		return err
	}
	id := created.GetProvider().GetProviderId()
	if _, err := providers.SetReference(ctx, &hubv1.SetReferenceRequest{
		ProviderId: id, Reference: true, Reason: "the demo's provider is verified by it",
	}); err != nil {
		return err
	}
	key, err := providers.IssueProviderKey(ctx, &hubv1.IssueProviderKeyRequest{ProviderId: id, Name: "Demo key"})
	if err != nil {
		return err
	}
	to.ReferenceID, to.ReferenceKey = id, key.GetApiKey()
	return nil
}

// Offers are the models of the catalog that the engine serves, each with the
// engine's name for it.
func Offers(catalog Catalog, engine Engine) map[string]Model {
	offers := map[string]Model{}
	for _, m := range catalog.Models {
		if slices.Contains(engine.Models, m.local()) {
			m.LocalModel = m.local()
			offers[m.ID] = m
		}
	}
	return offers
}
