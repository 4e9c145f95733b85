package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/control"
	"svc.internal/services/provider-agent/internal/service"
)

// picture is all that status shows: what the agent on this machine knows, and what the
// marketplace knows of the account. A part that could not be read is nil.
type picture struct {
	Agent      *control.State `json:"agent"`
	AgentFault string         `json:"agent_fault,omitempty"`
	// Account, Detail, Statements, Challenges and Probes are the service's answers as they are.
	Account      json.RawMessage `json:"account"`
	AccountFault string          `json:"account_fault,omitempty"`
	Detail       json.RawMessage `json:"detail"`
	Statements   json.RawMessage `json:"statements"`
	Challenges   json.RawMessage `json:"challenges"`
	Probes       json.RawMessage `json:"probes"`

	status     *service.Status
	account    *service.Account
	earnings   *service.Earnings
	statements []service.Statement
	// challenges are the visible verifications, and probes the hidden ones.
	challenges, probes []service.Verification
}

// look asks the agent and the marketplace at the same time. It fails where neither answers.
func look(ctx context.Context, cfg environment) (picture, error) {
	var p picture
	var all sync.WaitGroup
	var accountErr error
	all.Go(func() { p.askAgent(ctx, cfg) })
	all.Go(func() { accountErr = p.askAccount(ctx, cfg) })
	all.Wait()
	if accountErr == nil {
		return p, nil
	}
	p.AccountFault = accountErr.Error()
	if p.Agent == nil {
		return p, fmt.Errorf("%w (and %s)", accountErr, p.AgentFault)
	}
	return p, nil
}

// askAgent asks the agent that runs with the state folder.
func (p *picture) askAgent(ctx context.Context, cfg environment) {
	state, err := control.NewClient(cfg.StateDir).State(ctx)
	switch {
	case err == nil:
		p.Agent = &state
	case errors.Is(err, control.ErrNotRunning):
		p.AgentFault = "no agent runs on this machine with the state folder " + cfg.StateDir
	default:
		p.AgentFault = err.Error()
	}
}

// askAccount asks the marketplace. It fails without the status alone: the other parts may be
// missing.
func (p *picture) askAccount(ctx context.Context, cfg environment) error {
	if !cfg.Key.IsSet() {
		return errors.New("the status needs a provider key: set SVC_PROVIDER_KEY or give -key-file")
	}
	client, err := apiOf(cfg)
	if err != nil {
		return err
	}
	answer, err := client.Status(ctx, cfg.Key)
	if err != nil {
		if errors.Is(err, service.ErrKey) || cfg.ServiceURL != "" {
			return err
		}
		return fmt.Errorf("%w; %s", err, cfg.nameAPI())
	}
	told, err := service.ParseStatus(answer)
	if err != nil {
		return err
	}
	p.Account, p.status = answer, &told
	p.askDetails(ctx, client, cfg.Key)
	return nil
}

// askDetails asks for the parts of the picture that may be missing, all at the same time.
func (p *picture) askDetails(ctx context.Context, client *service.Client, key config.Secret) {
	var all sync.WaitGroup
	all.Go(func() {
		if answer, err := client.Account(ctx, key); err == nil {
			if told, err := service.ParseAccount(answer); err == nil {
				p.Detail, p.account, p.earnings = answer, &told, told.Earnings
			}
		}
	})
	all.Go(func() {
		if answer, err := client.Statements(ctx, key); err == nil {
			if told, err := service.ParseStatements(answer); err == nil {
				p.Statements, p.statements = answer, told
			}
		}
	})
	verified := func(hidden bool, raw *json.RawMessage, list *[]service.Verification) {
		all.Go(func() {
			if answer, err := client.Verifications(ctx, key, hidden); err == nil {
				if told, err := service.ParseVerifications(answer); err == nil {
					*raw, *list = answer, told
				}
			}
		})
	}
	verified(false, &p.Challenges, &p.challenges)
	verified(true, &p.Probes, &p.probes)
	all.Wait()
}

// errExposed means that the provider key would travel in the clear to another machine.
var errExposed = errors.New("the marketplace's address is http://, by which the provider key travels in the clear: " +
	"use https://, or say SVC_ALLOW_PLAINTEXT=true where the network is your own")

// apiOf is the client for the marketplace's API. It fails with errExposed.
func apiOf(cfg environment) (*service.Client, error) {
	base := cfg.ServiceURL
	if base == "" {
		base = service.BaseOf(cfg.WSURL)
	}
	client, err := service.New(base)
	if err != nil && cfg.ServiceURL == "" {
		return nil, errors.New("the address of the marketplace's API is not known; " + cfg.nameAPI())
	}
	if err != nil {
		return nil, fmt.Errorf("service_url, SVC_SERVICE_URL or -service: %w", err)
	}
	if client.Exposed() && !cfg.AllowPlaintext {
		return nil, errExposed
	}
	return client, nil
}
