package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"svc.internal/pkg/config"
)

// Account is what status adds from GET /api/v1/provider/me. A part that the marketplace cannot
// give now is nil.
type Account struct {
	Models   *[]OwnModel       `json:"models"`
	Earnings *Earnings         `json:"earnings"`
	Payout   *OpenPayout       `json:"open_payout"`
	Notes    map[string]string `json:"notes"`
}

// OwnModel is where the provider stands with one model.
type OwnModel struct {
	ModelID string `json:"model_id"`
	Trust   string `json:"trust"`
	Lane    string `json:"lane"`
	Found   string `json:"standing"`
	// Benchmark is the word proven while a benchmark counts, until BenchmarkExpiresAt.
	Benchmark          string     `json:"benchmark"`
	BenchmarkExpiresAt *time.Time `json:"benchmark_expires_at"`
	// The windows are in tokens; 0 is not known.
	DeclaredContextLength int64  `json:"declared_context_length"`
	ContextLength         int64  `json:"context_length"`
	NextStep              string `json:"next_step"`
}

// Earnings is where the earnings stand. Amounts are in dollars, as settlement writes them.
type Earnings struct {
	Settled        string `json:"settled_usd_str"`
	Held           string `json:"held_usd_str"`
	Pending        string `json:"settlement_pending_usd_str"`
	Payable        string `json:"payable_usd_str"`
	InFlight       string `json:"in_flight_usd_str"`
	Paid           string `json:"paid_usd_str"`
	Converted      string `json:"converted_usd_str"`
	Owed           string `json:"owed_usd_str"`
	BatchedThrough string `json:"batched_through"`
	Blocked        bool   `json:"blocked"`
	// The periods are nil where the service is older and does not tell them.
	Today  *Period `json:"today"`
	Last7  *Period `json:"last_7_days"`
	Last30 *Period `json:"last_30_days"`
}

// Period is what was earned in a period that ends now. Earned is the sum of the others.
type Period struct {
	// Since is the first UTC day.
	Since  string `json:"since"`
	Earned string `json:"earned_usd_str"`
	// Unbatched is of days that no batch has yet, and is not divided further.
	Unbatched string `json:"unbatched_usd_str"`
	Settled   string `json:"settled_usd_str"`
	Held      string `json:"held_usd_str"`
	Pending   string `json:"settlement_pending_usd_str"`
}

// OpenPayout is a payout that has not ended.
type OpenPayout struct {
	State string `json:"state"`
	Net   string `json:"net_usd_str"`
}

// Account asks for the account in one call.
func (c *Client) Account(ctx context.Context, key config.Secret) ([]byte, error) {
	answer, err := c.ask(ctx, http.MethodGet, "/api/v1/provider/me", nil, key)
	if err != nil {
		return nil, fmt.Errorf("ask for the account: %w", err)
	}
	return answer, nil
}

// ParseAccount reads the answer of Client.Account.
func ParseAccount(answer []byte) (Account, error) {
	var a Account
	if err := json.Unmarshal(answer, &a); err != nil {
		return Account{}, errors.New("the service's answer is no account")
	}
	return a, nil
}

// Date asks the service for its time. The answer's status does not matter.
func (c *Client) Date(ctx context.Context) (time.Time, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+"/health", nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("User-Agent", "svc-agent")
	resp, err := c.http.Do(req)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s does not answer: %w", c.base.Host, err)
	}
	defer resp.Body.Close()
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}, errors.New("the service's answer has no date")
	}
	return at, nil
}

// Statement is the statement of one day in a list.
type Statement struct {
	Day    string `json:"day"`
	Amount string `json:"amount_usd_str"`
	Lines  int64  `json:"lines"`
}

// Statements asks for the statements of the last 31 days that have any, the newest first.
func (c *Client) Statements(ctx context.Context, key config.Secret) ([]byte, error) {
	answer, err := c.ask(ctx, http.MethodGet, "/api/v1/provider/statements?page_size=31", nil, key)
	if err != nil {
		return nil, fmt.Errorf("ask for the statements: %w", err)
	}
	return answer, nil
}

// ParseStatements reads the answer of Client.Statements.
func ParseStatements(answer []byte) ([]Statement, error) {
	var told struct {
		List []Statement `json:"list"`
	}
	if err := json.Unmarshal(answer, &told); err != nil {
		return nil, errors.New("the service's answer is no list of statements")
	}
	return told.List, nil
}

// Verification is one visible challenge, or the hidden probes of a day and kind.
type Verification struct {
	ModelID string `json:"model_id"`
	// Flow is visible or hidden.
	Flow string `json:"flow"`
	Kind string `json:"kind"`
	// At is when a visible challenge ended, or the day of hidden probes.
	At *time.Time `json:"at"`
	// Result is counted, void, or differs.
	Result string `json:"result"`
}

// Verifications asks for the last verifications, the newest first: the visible challenges, or the hidden
// probes, which the marketplace shows a day later.
func (c *Client) Verifications(ctx context.Context, key config.Secret, hidden bool) ([]byte, error) {
	path := "/api/v1/provider/challenges?page_size=5&flow=visible"
	if hidden {
		path = "/api/v1/provider/challenges?page_size=5&flow=hidden"
	}
	answer, err := c.ask(ctx, http.MethodGet, path, nil, key)
	if err != nil {
		return nil, fmt.Errorf("ask for the verifications: %w", err)
	}
	return answer, nil
}

// ParseVerifications reads the answer of Client.Verifications.
func ParseVerifications(answer []byte) ([]Verification, error) {
	var told struct {
		List []Verification `json:"list"`
	}
	if err := json.Unmarshal(answer, &told); err != nil {
		return nil, errors.New("the service's answer is no list of verifications")
	}
	return told.List, nil
}

// maxDay bounds the text of a day, in bytes.
const maxDay = 10

// Statement asks for the signed statement of a day, such as 2026-11-29.
func (c *Client) Statement(ctx context.Context, key config.Secret, day string) ([]byte, error) {
	answer, err := c.ask(ctx, http.MethodGet, "/api/v1/provider/statements/"+url.PathEscape(day[:min(len(day), maxDay)]),
		nil, key)
	if err != nil {
		return nil, fmt.Errorf("ask for the statement of %s: %w", Clean(day, maxDay), err)
	}
	return answer, nil
}

// Signer asks for the address of the key with which the service signs statements. It needs no provider
// key.
func (c *Client) Signer(ctx context.Context) (string, error) {
	var told struct {
		Signers []struct {
			Name    string `json:"name"`
			Address string `json:"address"`
		} `json:"signers"`
	}
	if err := c.get(ctx, "/api/v1/stats/signers", &told); err != nil {
		return "", fmt.Errorf("ask for the keys of the service: %w", err)
	}
	for _, s := range told.Signers {
		if s.Name == "statement" {
			return s.Address, nil
		}
	}
	return "", errors.New("the service names no key that signs statements")
}
