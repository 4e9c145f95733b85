package memstore

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// rules are the rows of posting_rule for the kinds of entries that memstore has.
var rules = []row{
	{"entry_kind": ledger.GoodwillGrant, "account_kind": ledger.Goodwill, "side": ledger.Debit, "unit": "usd"},
	{"entry_kind": ledger.GoodwillGrant, "account_kind": ledger.Available, "side": ledger.Credit, "unit": "usd"},
	{"entry_kind": ledger.OrphanPayout, "account_kind": ledger.OrphanWork, "side": ledger.Debit, "unit": "usd"},
	{"entry_kind": ledger.OrphanPayout, "account_kind": ledger.Accrued, "side": ledger.Credit, "unit": "usd"},
}

// Export writes the tables in the format of package store's Export: the same tables and
// columns, as far as memstore has them.
func (s *Store) Export(out io.Writer) error {
	e := &export{to: json.NewEncoder(out)}
	e.line(map[string]any{"export": 1, "at": s.now(), "schema": "billing", "seal": ""})
	s.exportAccounts(e)
	s.exportEntries(e)
	s.exportHolds(e)
	s.exportLines(e)
	for _, r := range s.Quarantined() {
		columns := row{"reason": r.Reason, "request_id": nil}
		if !r.Request.IsZero() {
			columns["request_id"] = r.Request.String()
		}
		e.row("quarantine", columns)
	}
	e.line(map[string]any{"end": true, "rows": e.rows})
	return e.err
}

func (s *Store) exportAccounts(e *export) {
	for _, a := range sorted(s.wallets) {
		e.row("account", row{"id": a.String()})
	}
	for _, a := range sorted(s.wallets) {
		w := s.wallets[a]
		e.row("wallet", row{"account_id": a.String(), "posted": w.Posted, "held": w.Held})
	}
	for _, c := range s.slices {
		columns := row{"account_id": c.account.String(), "epoch": c.epoch, "amount": c.amount, "alive_until": c.aliveUntil,
			"reclaim_at": nil}
		if !c.isOpen() {
			columns["reclaim_at"] = c.reclaimAt
		}
		e.row("slice", columns)
	}
	for _, k := range sorted(s.keys) {
		e.row("key_inflight", row{"key_id": k.String(), "n": s.keys[k].open})
	}
}

func (s *Store) exportEntries(e *export) {
	for _, l := range ledger.Chart() {
		e.row("chart", row{"kind": l.Kind})
	}
	for _, r := range rules {
		e.row("posting_rule", r)
	}
	for _, entry := range s.entries {
		id := entry.ID.String()
		e.row("entry", row{
			"id": id, "kind": entry.Kind, "business_id": entry.BusinessID, "at": entry.at, "reverses": nil,
		})
		for _, p := range entry.Postings {
			columns := row{
				"entry_id": id, "asset": p.Asset, "book": p.Account.Book,
				"account_kind": p.Account.Kind, "owner_id": nil, "amount": p.Amount,
			}
			if owner := ids.AccountID(p.Account.Owner); !owner.IsZero() {
				columns["owner_id"] = owner.String()
			}
			e.row("posting", columns)
		}
	}
}

func (s *Store) exportHolds(e *export) {
	for _, h := range s.order {
		columns := row{
			"request_id": h.Request.String(), "account_id": h.Account.String(), "key_id": h.Key.String(),
			"price_version_id": h.Price.String(), "model_id": h.Model, "billing_type": h.Billing, "state": h.State,
			"amount": h.Amount, "prompt_tokens": h.PromptTokens, "max_completion_tokens": h.MaxCompletionTokens,
			"admitted_at": h.AdmittedAt, "expires_at": h.Expires, "closed_at": nil,
		}
		if !h.ClosedAt.IsZero() {
			columns["closed_at"] = h.ClosedAt
		}
		columns.rates(h.Rates)
		e.row("hold", columns)
	}
	for _, r := range sorted(s.reports) {
		w := s.reports[r]
		e.row("request_report", row{"request_id": r.String(), "outcome": w.Outcome, "recorded_at": w.at})
	}
	for _, r := range sorted(s.reviews) {
		e.row("orphan_review", row{"request_id": r.String(), "publications": s.reviews[r].publications})
	}
}

func (s *Store) exportLines(e *export) {
	for i, l := range s.settled {
		v := l.Event
		columns := row{
			"day": v.Request.Day().Format(time.DateOnly), "request_id": v.Request.String(),
			"account_id": l.Account.String(), "key_id": l.Key.String(), "provider_id": v.Provider.String(),
			"price_version_id": v.Price.String(), "model_id": v.Model, "attempt": v.Attempt, "hub_id": v.Hub,
			"source": l.Source, "ending": v.Ending, "claim_state": v.ClaimState, "evidence_source": v.EvidenceSource,
			"prompt_tokens": v.Billable.Prompt, "completion_tokens": v.Billable.Completion,
			"list_price": l.ListPrice, "payout": l.Payout, "fee": l.ListPrice - l.Payout,
			"charged": l.Charged, "shortfall": l.Shortfall, "discount": l.Discount, "settled_at": s.settledAt[i],
		}
		columns.rates(v.Rates)
		e.row("usage_settlement", columns)
	}
}

// row is a row of a table, by column.
type row map[string]any

func (r row) rates(rates money.Rates) {
	r["unit"], r["input_rate"], r["output_rate"] = rates.Unit, rates.Input, rates.Output
	r["payout_input_rate"], r["payout_output_rate"] = rates.PayoutInput, rates.PayoutOutput
}

// export is an export under way.
type export struct {
	to   *json.Encoder
	rows int
	err  error
}

func (e *export) row(table string, columns row) {
	e.rows++
	e.line(map[string]any{"table": table, "row": columns})
}

func (e *export) line(v any) {
	if e.err == nil {
		e.err = e.to.Encode(v)
	}
}

// sorted returns the ids of a table in their order.
func sorted[K any, V any](table map[ids.Of[K]]V) []ids.Of[K] {
	return slices.SortedFunc(maps.Keys(table), func(a, b ids.Of[K]) int { return bytes.Compare(a[:], b[:]) })
}
