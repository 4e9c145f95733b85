package setup

import (
	"context"
	"errors"
	"fmt"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/service"
)

// The ways to an account.
const (
	bySignUp = "signup"
	byLogIn  = "login"
	byKey    = "key"
	keepKey  = "keep"
)

// account asks for the account, opens it, and writes its key at once, because the key is
// shown only once.
func (w *wizard) account(ctx context.Context) error {
	standard := bySignUp
	if w.Key.IsSet() {
		standard = keepKey
		w.ask.say("A provider key is set already.")
	}
	for range maxTries {
		way, err := w.ask.choice("Account: signup, login, or key (enter a provider key)", w.Account, standard, "-account",
			w.checkWay)
		if err != nil {
			return err
		}
		if err = w.open(ctx, way); err == nil {
			return nil
		}
		if w.Account != "" || w.ask.silent || ctx.Err() != nil || w.ask.ended() {
			return err
		}
		w.ask.say("  %v", err)
	}
	return errors.New("no account was opened: run svc-agent setup again")
}

func (w *wizard) checkWay(way string) error {
	switch way {
	case bySignUp, byLogIn, byKey:
		return nil
	case keepKey:
		if w.Key.IsSet() {
			return nil
		}
	}
	return fmt.Errorf("%q is none of signup, login and key (keep needs a key that is set)", way)
}

// open gets the provider key by the way that was chosen.
func (w *wizard) open(ctx context.Context, way string) error {
	switch way {
	case keepKey:
		return w.pay(ctx, nil)
	case byKey:
		return w.ownKey(ctx)
	}
	session, err := w.signIn(ctx, way)
	if err != nil {
		return err
	}
	opened, err := w.client.OpenProvider(ctx, session, w.NodeName, w.Beneficiary)
	if err != nil {
		return fmt.Errorf("open the provider account: %w", err)
	}
	if validKey(opened.Key.Reveal()) != nil {
		return errors.New("open the provider account: the service's answer has no provider key")
	}
	w.Key = opened.Key
	if err := w.writeKey(); err != nil {
		return err
	}
	w.ask.say("The provider key is in %s, which only you may read.", w.keyPath())
	if session.ProviderID != "" { // an account that was open keeps its own address
		return w.pay(ctx, &session)
	}
	return nil
}

// ownKey takes the owner's key.
func (w *wizard) ownKey(ctx context.Context) error {
	key := w.Key.Reveal()
	if w.Account == "" || !w.Key.IsSet() {
		if w.ask.silent {
			return errors.New("a provider key is needed: give it by SVC_PROVIDER_KEY or -key-file")
		}
		var err error
		if key, err = w.ask.secret("Provider key, sk-prov-… (not shown)"); err != nil {
			return err
		}
	}
	if err := validKey(key); err != nil {
		return err
	}
	secret := config.NewSecret(key)
	if _, err := w.client.Status(ctx, secret); errors.Is(err, service.ErrKey) {
		return err
	}
	w.Key = secret
	if err := w.writeKey(); err != nil {
		return err
	}
	return w.pay(ctx, nil)
}

// signIn asks for the e-mail address and the password, and signs the user in.
func (w *wizard) signIn(ctx context.Context, way string) (service.Session, error) {
	email, err := w.ask.text("E-mail address", w.Email, "-email", func(string) error { return nil })
	if err != nil {
		return service.Session{}, err
	}
	password := w.Password
	if !password.IsSet() {
		if w.ask.silent {
			return service.Session{}, errors.New("a password is needed: set SVC_SETUP_PASSWORD to it, or to file:/path")
		}
		text, err := w.ask.secret("Password (not shown)")
		if err != nil {
			return service.Session{}, err
		}
		password = config.NewSecret(text)
	}
	who := service.User{Email: email, Password: password}
	if way == bySignUp {
		return w.client.SignUp(ctx, who)
	}
	return w.client.LogIn(ctx, who)
}

// pay has earnings paid to the beneficiary, if one was given.
func (w *wizard) pay(ctx context.Context, session *service.Session) error {
	if w.Beneficiary == "" {
		return nil
	}
	waits, err := w.client.Pay(ctx, w.Key, session, w.Beneficiary)
	if err != nil {
		return fmt.Errorf("have earnings paid to %s: %w", w.Beneficiary, err)
	}
	if waits {
		w.ask.say("With a provider key alone the address is only proposed: it counts once the account's user " +
			"confirms it, or after 48 hours.")
	}
	return nil
}

// validKey checks the form of a provider key.
func validKey(key string) error {
	if prefix, ok := apikey.Parse(key); !ok || prefix != apikey.Provider {
		return errors.New("this is not a provider key, which begins with sk-prov-, or it is mistyped")
	}
	return nil
}
