package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// ConsumerEmail is the e-mail address of the user who has the demo's account.
	ConsumerEmail = "consumer@demo.example"
	// OwnerEmail is the e-mail address of the user who owns the demo's provider.
	OwnerEmail = "owner@demo.example"
	// Beneficiary is where the demo's provider is paid: the second account of a development chain.
	Beneficiary = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"

	providerName = "Demo provider"
	// ownerTimeout bounds a call of the owner's, and ownerPatience the calls that follow each other
	// because no service answers: on a busy machine it starts slowly.
	ownerTimeout, ownerPatience = 30 * time.Second, 2 * time.Minute
	// ownerPause is the time between two of these calls.
	ownerPause = 250 * time.Millisecond
	// maxOwnerAnswer bounds its answer, in bytes.
	maxOwnerAnswer = 64 << 10
)

// errExists says that an earlier call has made it, and errBusy that a service does not answer yet.
var (
	errExists = errors.New("it exists")
	errBusy   = errors.New("a service does not answer yet")
)

// session is what a user gets who signs up or in.
type session struct {
	Token string `json:"token"`
	User  struct {
		AccountID string `json:"account_id"`
	} `json:"user"`
}

// signUp signs a user up by calls of the public API. A user whom an earlier start signed up before it broke off signs
// in.
func signUp(ctx context.Context, baseURL, email, password, name string) (session, error) {
	user := map[string]string{"email": email, "password": password, "display_name": name}
	var s session
	err := call(ctx, baseURL+"/api/v1/user/signup", "", user, &s)
	if errors.Is(err, errExists) {
		delete(user, "display_name")
		err = call(ctx, baseURL+"/api/v1/user/login", "", user, &s)
	}
	return s, err
}

// signUpOwner signs a user up, who becomes a provider. What an earlier start made before it broke off is taken up.
func signUpOwner(ctx context.Context, baseURL, password string) (Credentials, error) {
	owner, err := signUp(ctx, baseURL, OwnerEmail, password, "Demo owner")
	if err != nil {
		return Credentials{}, fmt.Errorf("sign the owner up: %w", err)
	}
	var provider struct {
		ID       string `json:"provider_id"`
		FirstKey string `json:"provider_api_key"`
		Key      string `json:"api_key"`
	}
	err = call(ctx, baseURL+"/api/v1/user/upgrade-to-provider", owner.Token, map[string]string{
		"name": providerName, "wallet_address": "", "beneficiary_address": Beneficiary,
	}, &provider)
	if errors.Is(err, errExists) {
		err = call(ctx, baseURL+"/api/v1/user/me/provider-keys", owner.Token,
			map[string]string{"name": "Demo key"}, &provider)
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("make the owner a provider: %w", err)
	}
	return Credentials{ProviderID: provider.ID, ProviderKey: cmp.Or(provider.FirstKey, provider.Key),
		OwnerPassword: password}, nil
}

// call posts a body as JSON and decodes the answer. It asks again while a service does not answer. Where
// such a call was carried out, the next one fails with errExists, or a key stays that nobody uses.
func call(ctx context.Context, url, token string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	for {
		err := callOnce(ctx, url, token, body, into)
		if !errors.Is(err, errBusy) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(ownerPause):
		}
	}
}

func callOnce(ctx context.Context, url, token string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxOwnerAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusConflict {
		return errExists
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("%w: got %s: %s", errBusy, resp.Status, answer)
	}
	if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		return fmt.Errorf("got %s: %s", resp.Status, answer)
	}
	return json.Unmarshal(answer, into)
}
