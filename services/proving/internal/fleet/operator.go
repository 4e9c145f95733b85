package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"svc.internal/services/standalone/demo"
)

// credit is what the demo's consumer gets, once, in US dollars.
const credit = "100"

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// ErrUnavailable is the error of a call that a service did not answer in time. It may have been
// carried out.
var ErrUnavailable = errors.New("a service does not answer")

// Admin makes an operator's call at /api/v1/admin/<path> and decodes the response into
// answer; body and answer may be nil.
func (f *Fleet) Admin(ctx context.Context, method, path string, body, answer any) error {
	api, err := f.newOperator()
	if err != nil {
		return err
	}
	return api.call(ctx, method, path, body, answer)
}

// call makes an operator's call and decodes the response.
func (o *operator) call(ctx context.Context, method, path string, body, answer any) error {
	status, text, err := o.send(ctx, o.admin, method, "/api/v1/admin/"+path, o.token, body)
	if err != nil {
		return err
	}
	if status == http.StatusServiceUnavailable {
		return fmt.Errorf("%s %s: %w: %d %s", method, path, ErrUnavailable, status, text)
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", method, path, status, text)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (o *operator) send(ctx context.Context, base, method, path, key string, body any) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return resp.StatusCode, answer, nil
}

func (o *operator) putModel(ctx context.Context, m demo.Model) error {
	body := map[string]any{"name": m.Name, "context_length": m.ContextLength, "max_output_tokens": m.MaxOutputTokens,
		"capabilities": m.Capabilities}
	for name, value := range map[string]string{
		"slug": m.Slug, "category": m.Category, "kind": m.Kind, "tier": m.Tier,
		"input_price": m.InputPrice, "output_price": m.OutputPrice,
		"payout_input_price": m.PayoutInputPrice, "payout_output_price": m.PayoutOutputPrice,
	} {
		if value != "" {
			body[name] = value
		}
	}
	return o.call(ctx, http.MethodPut, "models/"+m.ID, body, nil)
}

type fields = map[string]any

func (o *operator) makeConsumer(ctx context.Context) (accountID, key string, err error) {
	var made struct {
		Account struct {
			ID string `json:"account_id"`
		} `json:"account"`
	}
	if err := o.call(ctx, http.MethodPost, "accounts", fields{"name": "Demo consumer", "idempotency_key": "demo-consumer"},
		&made); err != nil {
		return "", "", err
	}
	path := "accounts/" + made.Account.ID
	if err := o.call(ctx, http.MethodPost, path+"/credit", fields{"amount_usd": credit, "idempotency_key": "demo-credit",
		"memo": "Demo credit"}, nil); err != nil {
		return "", "", err
	}
	if err := o.call(ctx, http.MethodPut, path+"/limits", fields{"requests_per_minute": -1, "concurrent_requests": -1},
		nil); err != nil {
		return "", "", err
	}
	key, err = o.issueKey(ctx, path+"/keys")
	return made.Account.ID, key, err
}

// makeProvider makes the provider of an agent, with the operator's word that becomes says
// at path, below the provider.
func (o *operator) makeProvider(ctx context.Context, number int, path string, becomes fields) (key string, err error) {
	var made struct {
		Provider struct {
			ID string `json:"provider_id"`
		} `json:"provider"`
	}
	name := fmt.Sprintf("Demo provider %d", number)
	body := fields{"name": name, "region": "local", "idempotency_key": fmt.Sprintf("demo-provider-%d", number)}
	if err := o.call(ctx, http.MethodPost, "providers", body, &made); err != nil {
		return "", err
	}
	of := "providers/" + made.Provider.ID
	if err := o.call(ctx, http.MethodPost, of+path, becomes, nil); err != nil {
		return "", err
	}
	return o.issueKey(ctx, of+"/keys")
}

func (o *operator) issueKey(ctx context.Context, path string) (string, error) {
	var issued struct {
		Key string `json:"api_key"`
	}
	err := o.call(ctx, http.MethodPost, path, fields{"name": "Demo key"}, &issued)
	return issued.Key, err
}
