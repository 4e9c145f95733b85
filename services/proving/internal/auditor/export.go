package auditor

import (
	"fmt"
	"io"
)

// assetUSD is the asset of all rows that are not entries.
const assetUSD = "usd"

// readExport reads billing-ledger's export. The needed columns are required; unknown
// tables are counted.
func (w *world) readExport(from io.Reader) error {
	l := newLines(from)
	head, err := l.next()
	if err == nil {
		version := head.integer("export")
		w.exportedAt = head.time("at")
		if head.err != nil || version != 1 {
			return l.fault(errHeader)
		}
		l.rows = 0
	} else {
		return fmt.Errorf("the first line: %w", err)
	}
	tables := w.tables()
	return l.each(true, func(rec *record) error {
		table := rec.text("table")
		row := rec.object(l, "row")
		if rec.err != nil {
			return nil
		}
		take, ok := tables[table]
		if !ok {
			return w.count(table)
		}
		if take(&row); row.err != nil {
			return fmt.Errorf("table %s: %w", table, row.err)
		}
		return nil
	})
}

// count notes a row of a table that is not judged.
func (w *world) count(table string) error {
	if len(w.unjudged) >= maxMembers {
		return fmt.Errorf("table %q is one too many", table)
	}
	w.unjudged[table]++
	return nil
}

// tables are the judged tables, with the functions that take their rows.
func (w *world) tables() map[string]func(*record) {
	return map[string]func(*record){
		"account":          w.takeAccount,
		"wallet":           w.takeWallet,
		"slice":            w.takeSlice,
		"chart":            func(r *record) { put(w, r, w.chart, r.text("kind"), true) },
		"posting_rule":     w.takeRule,
		"entry":            w.takeEntry,
		"posting":          w.takePosting,
		"hold":             w.takeHold,
		"usage_settlement": w.takeSettlement,
		"request_report":   w.takeReport,
		"work_receipt":     w.takeReceipt,
		"orphan_review":    func(r *record) { w.request(r, r.id("request_id")).reviewed = true },
		"quarantine":       w.takeQuarantine,
		"key_inflight":     func(r *record) { put(w, r, w.inflight, r.id("key_id"), r.integer("n")) },
		"key_rate":         w.takeRate,
		"seal":             w.takeSeal,
		"balance_snapshot": w.takeSnapshot,
		"plan_limit":       w.takePlanLimit,
		"plan_counter":     w.takePlanCounter,
		"plan_gate":        w.takePlanGate,
		"held_earning":     w.takeHeld,
		"closed_month":     w.takeClosedMonth,
		"closed_share":     w.takeClosedShare,
	}
}

func (w *world) takeAccount(r *record) { put(w, r, w.accounts, r.id("id"), r.textOr("name")) }

func (w *world) takeWallet(r *record) {
	put(w, r, w.wallets, r.id("account_id"), wallet{posted: r.integer("posted"), held: r.integer("held")})
}

func (w *world) takeSlice(r *record) {
	put(w, r, w.slices, sliceKey{r.id("account_id"), r.integer("epoch")}, slice{
		amount: r.count("amount"), aliveUntil: r.time("alive_until"), reclaimAt: r.timeOr("reclaim_at")})
}

func (w *world) takeRule(r *record) {
	put(w, r, w.rules, postingRule{r.text("entry_kind"), r.text("account_kind"), r.text("side"), r.text("unit")}, true)
}

// entry is the entry with that id. It is made when it is new, because postings may come
// first.
func (w *world) entry(r *record, u id) *entry {
	e := w.entries[u]
	if e == nil {
		e = &entry{}
		put(w, r, w.entries, u, e)
		w.strays[u] = 0
	}
	return e
}

func (w *world) takeEntry(r *record) {
	u := r.id("id")
	e := w.entry(r, u)
	if _, stray := w.strays[u]; !stray && r.err == nil {
		r.err = fmt.Errorf("%w: %v", errDouble, u)
	}
	delete(w.strays, u)
	e.kind, e.business, e.at = w.once(r.text("kind")), r.text("business_id"), r.time("at")
	e.reverses = r.idOr("reverses")
}

func (w *world) takePosting(r *record) {
	u := r.id("entry_id")
	e := w.entry(r, u)
	if _, stray := w.strays[u]; stray {
		w.strays[u]++
	}
	if len(e.postings) >= maxMembers {
		r.fail("entry_id", "has too many postings")
		return
	}
	e.postings = append(e.postings, posting{
		asset: w.once(r.text("asset")), book: w.once(r.text("book")),
		kind: w.once(r.text("account_kind")), owner: w.once(r.textOr("owner_id")), amount: r.integer("amount"),
	})
}

func (w *world) takeHold(r *record) {
	u := r.id("request_id")
	q := w.request(r, u)
	if q.hold != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %v", errDouble, u)
	}
	q.hold = &hold{
		account: r.id("account_id"), key: r.id("key_id"), price: r.id("price_version_id"),
		model: w.once(r.text("model_id")), billing: w.once(r.text("billing_type")), state: w.once(r.text("state")),
		amount: r.count("amount"), prompt: r.count("prompt_tokens"), maxCompletion: r.count("max_completion_tokens"),
		rates:      ratesOf(r),
		admittedAt: r.time("admitted_at"), expiresAt: r.time("expires_at"), closed: r.timeOr("closed_at"),
		plan: w.pinOf(r), discount: r.integerOr("discount", 0),
	}
}

// ratesOf reads pinned prices. Before units existed all were of tokens.
func ratesOf(r *record) rates {
	return rates{
		unit:  r.integerOr("unit", unitToken),
		input: r.count("input_rate"), output: r.count("output_rate"),
		payoutInput: r.count("payout_input_rate"), payoutOutput: r.count("payout_output_rate"),
	}
}

func (w *world) takeSettlement(r *record) {
	q := w.request(r, r.id("request_id"))
	if len(q.lines) >= maxMembers {
		r.fail("request_id", "has too many rows")
		return
	}
	q.lines = append(q.lines, settlement{
		day: r.day("day"), account: r.id("account_id"), key: r.id("key_id"), provider: r.id("provider_id"),
		price: r.id("price_version_id"),
		model: w.once(r.text("model_id")), source: w.once(r.text("source")), ending: w.once(r.text("ending")),
		claim: w.once(r.text("claim_state")), evidence: w.once(r.text("evidence_source")),
		rates:     ratesOf(r),
		tokens:    tokens{prompt: r.count("prompt_tokens"), completion: r.count("completion_tokens")},
		listPrice: r.integer("list_price"), payout: r.integer("payout"), fee: r.integer("fee"),
		charged: r.integer("charged"), shortfall: r.integer("shortfall"),
		discount: r.integerOr("discount", 0), settledAt: r.time("settled_at"),
		attempt: r.count("attempt"),
	})
}

func (w *world) takeReport(r *record) {
	u := r.id("request_id")
	q := w.request(r, u)
	if q.report != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %v", errDouble, u)
	}
	q.report = &report{recordedAt: r.time("recorded_at"), gone: r.text("outcome") == "client_gone"}
}

// takeQuarantine notes an event in quarantine. An event that could not be read names no
// request.
func (w *world) takeQuarantine(r *record) {
	w.quarantined++
	if u := r.idOr("request_id"); !u.zero() {
		w.request(r, u).quarantined = true
	}
}

func (w *world) takeRate(r *record) {
	if len(w.rated) >= w.max {
		r.err = errTooMany
		return
	}
	w.rated = append(w.rated, rated{key: r.id("key_id"), class: r.integer("class"), full: r.time("full_at")})
}
