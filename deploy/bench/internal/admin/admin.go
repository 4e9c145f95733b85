// Package admin makes the few calls of the product's admin API that a
// benchmark needs: models, providers, consumers and their keys.
package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds the bytes of an answer, and callTimeout the time of a call.
const (
	maxAnswer   = 1 << 20
	callTimeout = 15 * time.Second
)

// Client calls one gateway. Base is the root of its operators' API. HTTP may be nil.
type Client struct {
	Base, Token string
	HTTP        *http.Client
}

// Model is what there is to say about a model of the benchmark; its prices are
// the same for all.
type Model struct {
	ID            string `json:"model_id"`
	ContextLength int    `json:"context_length"`
	// MaxOutputTokens bounds an answer; 0 is 4,096.
	MaxOutputTokens int `json:"-"`
}

// maxOutputTokens is the bound of an answer that a model has by default.
const maxOutputTokens = 4096

type fields = map[string]any

// PutModel creates or replaces a model.
func (c Client) PutModel(ctx context.Context, m Model) error {
	return c.call(ctx, http.MethodPut, "models/"+m.ID, fields{
		"name": m.ID, "context_length": m.ContextLength,
		"max_output_tokens": cmp.Or(m.MaxOutputTokens, maxOutputTokens), "capabilities": []string{"chat"},
		"input_price": "0.10", "output_price": "0.40", "payout_input_price": "0.09", "payout_output_price": "0.36",
	}, nil)
}

// Provider makes a provider that serves once its agent is connected, where the verifier
// waives benchmarks, and returns a key of it. The same name gives the same provider and
// another key.
func (c Client) Provider(ctx context.Context, name string) (key string, err error) {
	var made struct {
		Provider struct {
			ID string `json:"provider_id"`
		} `json:"provider"`
	}
	if err := c.call(ctx, http.MethodPost, "providers", fields{"name": name, "region": "local",
		"idempotency_key": "bench-" + name}, &made); err != nil {
		return "", err
	}
	path := "providers/" + made.Provider.ID
	confirmed := fields{"collateral": true, "gpu_waived": true, "reason": "bench"}
	if err := c.call(ctx, http.MethodPost, path+"/qualification", confirmed, nil); err != nil {
		return "", err
	}
	var issued struct {
		Key string `json:"api_key"`
	}
	err = c.call(ctx, http.MethodPost, path+"/keys", fields{"name": name}, &issued)
	return issued.Key, err
}

// Consumer makes an account without limits that has so many US dollars, and
// returns a key of it. The same name gives the same account and another key.
func (c Client) Consumer(ctx context.Context, name, usd string) (key string, err error) {
	keys, err := c.ConsumerKeys(ctx, name, usd, 1)
	if err != nil {
		return "", err
	}
	return keys[0], nil
}

// ConsumerKeys is Consumer with n keys.
func (c Client) ConsumerKeys(ctx context.Context, name, usd string, n int) (keys []string, err error) {
	var made struct {
		Account struct {
			ID string `json:"account_id"`
		} `json:"account"`
	}
	if err := c.call(ctx, http.MethodPost, "accounts", fields{"name": name, "idempotency_key": "bench-" + name},
		&made); err != nil {
		return nil, err
	}
	path := "accounts/" + made.Account.ID
	if err := c.call(ctx, http.MethodPost, path+"/credit", fields{"amount_usd": usd, "idempotency_key": "bench-credit-" +
		name, "memo": "bench"}, nil); err != nil {
		return nil, err
	}
	if err := c.call(ctx, http.MethodPut, path+"/limits", fields{"requests_per_minute": -1, "concurrent_requests": -1},
		nil); err != nil {
		return nil, err
	}
	for i := range n {
		var issued struct {
			Key string `json:"api_key"`
		}
		if err := c.call(ctx, http.MethodPost, path+"/keys", fields{"name": fmt.Sprintf("%s-%d", name, i)},
			&issued); err != nil {
			return nil, err
		}
		keys = append(keys, issued.Key)
	}
	return keys, nil
}

func (c Client) call(ctx context.Context, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+"/api/v1/admin/"+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	req.Header.Set("Content-Type", "application/json")
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, said)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(said, answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}
