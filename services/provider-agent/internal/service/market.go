package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"svc.internal/pkg/config"
)

// The bounds of the catalog that is read.
const (
	catalogPage  = 200
	catalogPages = 50
)

// CatalogModel is a model of the catalog.
type CatalogModel struct {
	ID            string `json:"id"`
	Slug          string `json:"slug"`
	Name          string `json:"name"`
	Category      string `json:"category"`
	Kind          string `json:"kind"`
	Active        bool   `json:"active"`
	ContextLength int64  `json:"context_length"`
	MinVRAMGB     int    `json:"min_vram_gb"`
}

// Offerable reports whether providers serve the model: it is in service, and not a vendor's.
func (m CatalogModel) Offerable() bool { return m.Active && m.Kind != "gateway" }

// Chats reports whether the model answers chats. A model without a category does, because an older
// service names none.
func (m CatalogModel) Chats() bool {
	return m.Category != "embedding" && m.Category != "image" && m.Category != "audio"
}

// AllModels asks for all models of the catalog. It needs no key.
func (c *Client) AllModels(ctx context.Context) ([]CatalogModel, error) {
	var all []CatalogModel
	for page := 1; page <= catalogPages; page++ {
		var told struct {
			Data struct {
				List []CatalogModel `json:"list"`
			} `json:"data"`
		}
		query := url.Values{"page": {strconv.Itoa(page)}, "page_size": {strconv.Itoa(catalogPage)}}
		if err := c.get(ctx, "/api/v1/models?"+query.Encode(), &told); err != nil {
			return nil, fmt.Errorf("ask for the catalog: %w", err)
		}
		all = append(all, told.Data.List...)
		if len(told.Data.List) < catalogPage {
			return all, nil
		}
	}
	return all, nil
}

// ModelFile is a file of a model's weights.
type ModelFile struct {
	Name string `json:"filename"`
	// Hash is a SHA-256 in hexadecimal.
	Hash  string  `json:"hash"`
	Bytes float64 `json:"size_bytes"`
	URL   string  `json:"url"`
}

// ModelFiles asks for the files of a model's weights. It returns none where the catalog knows none. It
// needs no key.
func (c *Client) ModelFiles(ctx context.Context, model string) ([]ModelFile, error) {
	var told struct {
		Data struct {
			Files []ModelFile `json:"files"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/api/v1/models/"+model+"/files", &told); err != nil {
		return nil, fmt.Errorf("ask for the files of %s: %w", model, err)
	}
	return told.Data.Files, nil
}

// Demand is the demand for a model in the last 24 hours.
type Demand struct {
	ModelID     string `json:"model_id"`
	Category    string `json:"category"`
	PricingUnit string `json:"pricing_unit"`
	// The prices are in dollars for PricingUnit.
	InputPrice       float64 `json:"input_price"`
	OutputPrice      float64 `json:"output_price"`
	OnlineProviders  int     `json:"online_providers"`
	Requests24h      int64   `json:"requests_24h"`
	DemandTrend      string  `json:"demand_trend"`
	EstDailyEarnings float64 `json:"est_daily_earnings"`
	MinVRAMGB        int     `json:"min_vram_gb"`
}

// Demand asks for the demand for the models that providers may serve, most requests first. It needs no key.
func (c *Client) Demand(ctx context.Context) ([]Demand, error) {
	var told struct {
		Data struct {
			Models []Demand `json:"models"`
		} `json:"data"`
	}
	if err := c.get(ctx, "/api/v1/stats/model-demand", &told); err != nil {
		return nil, fmt.Errorf("ask for the demand: %w", err)
	}
	return told.Data.Models, nil
}

// User is who signs in.
type User struct {
	Email    string
	Password config.Secret
}

// Session is a user who is signed in. Its token lasts 15 minutes.
type Session struct {
	Token config.Secret
	// ProviderID is empty for a user without a provider account.
	ProviderID string
}

// SignUp makes a user.
func (c *Client) SignUp(ctx context.Context, who User) (Session, error) {
	return c.session(ctx, "/api/v1/user/signup", who)
}

// LogIn signs a user in.
func (c *Client) LogIn(ctx context.Context, who User) (Session, error) {
	return c.session(ctx, "/api/v1/user/login", who)
}

func (c *Client) session(ctx context.Context, path string, who User) (Session, error) {
	var told struct {
		Token string `json:"token"`
		User  struct {
			ProviderID string `json:"provider_id"`
		} `json:"user"`
	}
	err := c.post(ctx, path, map[string]string{"email": who.Email, "password": who.Password.Reveal()}, config.Secret{},
		&told)
	if err != nil {
		return Session{}, err
	}
	if told.Token == "" {
		return Session{}, errors.New("the service's answer has no session")
	}
	return Session{config.NewSecret(told.Token), told.User.ProviderID}, nil
}

// Provider is a provider account, with a key that is shown once.
type Provider struct {
	ID  string
	Key config.Secret
}

// OpenProvider opens the provider account of a user, or makes a further key of an account
// that is already open. beneficiary may be empty; it is used for a new account only.
func (c *Client) OpenProvider(ctx context.Context, s Session, name, beneficiary string) (Provider, error) {
	var told struct {
		ProviderID     string `json:"provider_id"`
		ProviderAPIKey string `json:"provider_api_key"`
		APIKey         string `json:"api_key"`
	}
	path, ask := "/api/v1/consumer/upgrade-to-provider", map[string]string{"name": name, "wallet_address": ""}
	if beneficiary != "" {
		ask["beneficiary_address"] = beneficiary
	}
	if s.ProviderID != "" {
		path, ask = "/api/v1/user/me/provider-keys", map[string]string{"name": name}
	}
	if err := c.post(ctx, path, ask, s.Token, &told); err != nil {
		return Provider{}, err
	}
	key := told.ProviderAPIKey
	if s.ProviderID != "" {
		key = told.APIKey
	}
	if key == "" {
		return Provider{}, errors.New("the service's answer has no provider key")
	}
	return Provider{told.ProviderID, config.NewSecret(key)}, nil
}

// Pay proposes the address to which earnings are paid, and confirms the proposal where there
// is a session of the account's user. waits reports that the proposal is not confirmed yet.
func (c *Client) Pay(ctx context.Context, key config.Secret, s *Session, address string) (waits bool, err error) {
	var told struct {
		BeneficiaryAddress string `json:"beneficiary_address"`
		Proposals          []struct {
			ProposalID string `json:"proposal_id"`
			Address    string `json:"address"`
		} `json:"proposals"`
	}
	if err := c.send(ctx, http.MethodPut, "/api/v1/provider/me", map[string]string{"beneficiary_address": address}, key,
		&told); err != nil {
		return false, err
	}
	if told.BeneficiaryAddress == address {
		return false, nil
	}
	for _, p := range told.Proposals {
		if s != nil && p.Address == address {
			path := "/api/v1/user/me/provider-proposals/" + url.PathEscape(p.ProposalID)
			return false, c.post(ctx, path, nil, s.Token, nil)
		}
	}
	return true, nil
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	return c.send(ctx, http.MethodGet, path, nil, config.Secret{}, into)
}

func (c *Client) post(ctx context.Context, path string, ask any, key config.Secret, into any) error {
	return c.send(ctx, http.MethodPost, path, ask, key, into)
}

// send makes a call and decodes its answer. ask and into may be nil.
func (c *Client) send(ctx context.Context, method, path string, ask any, key config.Secret, into any) error {
	var body []byte
	if ask != nil {
		var err error
		if body, err = json.Marshal(ask); err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
	}
	answer, err := c.ask(ctx, method, path, body, key)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the answer of %s is not of the expected form", c.base.Host)
	}
	return nil
}
