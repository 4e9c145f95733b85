package billingledger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"svc.internal/pkg/apikey"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/mail"
	"svc.internal/services/billing-ledger/internal/oidc"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/user"
)

// userWork keeps users, their sessions and the letters to them.
type userWork struct {
	users *user.Users
	mail  *mail.Worker
	// playground reports whether there is a budget for visitors without a key.
	playground bool
}

// newUserWork makes the work on users.
func newUserWork(
	cfg Config, deps Deps, st *store.Store, accounts *account.Accounts, keys *key.Keys,
) (*userWork, error) {
	m, err := newUserMetrics(deps.Meters.Meter("svc.internal/services/billing-ledger"))
	if err != nil {
		return nil, err
	}
	sender, err := cfg.Mail.sender(deps.Clock, deps.Log)
	if err != nil {
		return nil, err
	}
	chains, err := cfg.walletChains()
	if err != nil {
		return nil, err
	}
	openID, err := newOpenID(cfg, keys.Peppers, deps)
	if err != nil {
		return nil, err
	}
	w := &userWork{playground: cfg.PlaygroundDailyUSD > 0, users: &user.Users{
		Store: st, Families: st, Letters: st, Identities: st, Wallets: user.NewWallets(keys.Peppers, chains),
		OpenID: openID, Passwords: user.NewPasswords(), Accounts: accounts, Keys: keys,
		Peppers: keys.Peppers, Clock: deps.Clock, Random: deps.Random, Lookups: limit.NewSemaphore(sessionCalls),
		SendsLetters: cfg.Mail.Sends(),
		ObserveReuse: func(ctx context.Context, id user.ID, family user.FamilyID) {
			m.reused.Add(ctx, 1)
			deps.Log.ErrorContext(ctx, "a refresh token was used twice; its session has ended", "user_id", id.String(),
				"session_id", family.String())
		},
	}}
	w.mail = &mail.Worker{Store: store.Letters{Store: st}, Tokens: w.users, Sender: sender, Site: cfg.Mail.SiteURL,
		Log: deps.Log, Observe: m.letter, Still: st.Due(store.DueLetters)}
	return w, nil
}

// newOpenID makes the client of the OpenID providers. Its secrets follow from the peppers.
func newOpenID(cfg Config, peppers apikey.Peppers, deps Deps) (*oidc.Client, error) {
	issuers, err := cfg.issuers()
	if err != nil {
		return nil, err
	}
	transport, err := cfg.openIDTransport()
	if err != nil {
		return nil, err
	}
	var secrets [][]byte
	for pepper := range peppers.Each {
		mac := hmac.New(sha256.New, pepper[:])
		mac.Write([]byte("svc.internal/services/billing-ledger: secret of OpenID flows"))
		secrets = append(secrets, mac.Sum(nil))
	}
	return oidc.New(issuers, secrets, deps.Clock, transport)
}

func (w *userWork) register(r grpc.ServiceRegistrar) {
	billingv1.RegisterUserServiceServer(r, &rpc.Users{Users: w.users, Playground: w.playground})
	billingv1.RegisterUserSelfServiceServer(r, &rpc.UserSelf{Users: w.users})
}

// userMetrics are the instruments of the work on users.
type userMetrics struct {
	reused, letters metric.Int64Counter
}

func newUserMetrics(meter metric.Meter) (m userMetrics, err error) {
	var errs [2]error
	m.reused, errs[0] = meter.Int64Counter("svc.billing.refresh_tokens_reused",
		metric.WithDescription("Refresh tokens that were used twice. Each time a session was ended."))
	m.letters, errs[1] = meter.Int64Counter("svc.billing.letters",
		metric.WithDescription("Tries to send a letter, by outcome."))
	return m, errors.Join(errs[:]...)
}

func (m userMetrics) letter(ctx context.Context, o mail.Outcome) {
	m.letters.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", string(o)))))
}
