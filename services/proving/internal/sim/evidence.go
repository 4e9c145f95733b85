package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"svc.internal/pkg/money"
)

// files are the inputs of the auditor, written of a history that has come to rest.
type files struct{ export, earnings, clients, engines, setup bytes.Buffer }

// files writes them. The ledgers write their own tables. The simulator knows what clients
// got and engines sent.
func (n *network) files() (*files, error) {
	f := &files{}
	if err := n.db.billing.Export(&f.export); err != nil {
		return nil, fmt.Errorf("write the ledger's export: %w", err)
	}
	if err := n.db.settlement.Export(&f.earnings); err != nil {
		return nil, fmt.Errorf("write the earning lines: %w", err)
	}
	if err := n.writeClients(&f.clients); err != nil {
		return nil, fmt.Errorf("write what clients got: %w", err)
	}
	if err := n.writeEngines(&f.engines); err != nil {
		return nil, fmt.Errorf("write what engines sent: %w", err)
	}
	if err := n.writeSetup(&f.setup); err != nil {
		return nil, fmt.Errorf("write the setup: %w", err)
	}
	return f, nil
}

// clientRecord is an HTTP call as its client saw it.
type clientRecord struct {
	Nonce    string    `json:"nonce"`
	Account  string    `json:"account_id"`
	Model    string    `json:"model"`
	SentAt   time.Time `json:"sent_at"`
	EndedAt  time.Time `json:"ended_at"`
	Status   int       `json:"status"`
	Request  string    `json:"request_id"`
	Tokens   int       `json:"content_tokens"`
	Bytes    int       `json:"content_bytes"`
	Complete bool      `json:"complete"`
	Error    bool      `json:"error_event"`
	Left     bool      `json:"left"`
}

// writeClients names the request of each call that got as far as a request's id, even
// where the client left before it got the id.
func (n *network) writeClients(to io.Writer) error {
	lines := json.NewEncoder(to)
	for i, c := range n.clients {
		ended := n.world.now
		if c.over {
			ended = c.overAt
		}
		err := lines.Encode(clientRecord{
			Nonce: fmt.Sprintf("c%d", i), Account: c.account.id.String(), Model: model,
			SentAt: epoch.Add(c.began), EndedAt: epoch.Add(ended), Status: c.status, Request: c.header.Get("X-Svc-Request-Id"),
			Tokens: c.count(), Bytes: wordBytes * c.count(), Complete: c.complete, Error: c.failed, Left: c.left,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// engineRecord is what an engine sent for one attempt.
type engineRecord struct {
	Request    string    `json:"request_id"`
	Provider   string    `json:"provider_id"`
	Model      string    `json:"model"`
	At         time.Time `json:"at"`
	Prompt     int64     `json:"prompt_tokens"`
	Completion int64     `json:"completion_tokens"`
	Status     int       `json:"status"`
	Complete   bool      `json:"complete"`
	NoUsage    bool      `json:"no_usage"`
}

func (n *network) writeEngines(to io.Writer) error {
	lines := json.NewEncoder(to)
	for _, a := range n.agents {
		for _, r := range a.runs {
			completion, billable := r.reported()
			err := lines.Encode(engineRecord{
				Request: r.request, Provider: a.provider.String(), Model: model, At: epoch.Add(r.began),
				Prompt: promptClaim, Completion: completion, Status: r.plan.status, Complete: r.finished, NoUsage: !billable,
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// reported is how many tokens an engine claims to have sent, and whether its claim can be
// billed. A missing claim, a zero, and a claim above the bound cannot.
func (r *run) reported() (completion int64, billable bool) {
	if !r.claims || r.claimed == 0 || r.claimed > int64(r.call.opened.GetMaxOutputTokens()) {
		return int64(r.sent), false
	}
	return max(int64(r.sent), r.claimed), true
}

// setupFile is what was put into the fleet before the history.
type setupFile struct {
	Setup    bool           `json:"setup"`
	Accounts []setupAccount `json:"accounts"`
	Models   []setupModel   `json:"models"`
}

type setupAccount struct {
	Account    string        `json:"account_id"`
	Granted    money.NanoUSD `json:"granted_nano"`
	Concurrent int           `json:"concurrent_requests"`
}

type setupModel struct {
	Model        string        `json:"model"`
	Unit         money.Unit    `json:"unit"`
	Input        money.PicoUSD `json:"input_rate"`
	Output       money.PicoUSD `json:"output_rate"`
	PayoutInput  money.PicoUSD `json:"payout_input_rate"`
	PayoutOutput money.PicoUSD `json:"payout_output_rate"`
}

func (n *network) writeSetup(to io.Writer) error {
	s := setupFile{Setup: true, Models: []setupModel{{
		model, rates.Unit, rates.Input, rates.Output, rates.PayoutInput, rates.PayoutOutput,
	}}}
	for i, a := range n.accounts {
		s.Accounts = append(s.Accounts, setupAccount{a.id.String(), n.credits[i], concurrent})
	}
	return json.NewEncoder(to).Encode(s)
}
