package auditor

import (
	"errors"
	"fmt"
	"io"
)

// readEarnings reads settlement's lines. The first line of an export is optional; the
// last is required.
func (w *world) readEarnings(from io.Reader) error {
	l := newLines(from)
	tables := w.settlementTables()
	return l.each(true, func(rec *record) error {
		if _, ok := rec.find("export"); ok {
			if l.number != 1 || rec.integer("export") != 1 {
				return errHeader
			}
			l.rows = 0
			return nil
		}
		table := rec.text("table")
		row := rec.object(l, "row")
		if rec.err != nil {
			return nil
		}
		switch table {
		case "earning_line", "earning_correction", "earning_ruling":
			if err := errors.Join(w.takeEarning(&row, table), row.err); err != nil {
				return fmt.Errorf("table %s: %w", table, err)
			}
			return nil
		}
		take, ok := tables[table]
		if !ok {
			return w.count("settlement." + table)
		}
		if take(&row); row.err != nil {
			return fmt.Errorf("table %s: %w", table, row.err)
		}
		return nil
	})
}

// settlementTables are the judged tables beside those of earnings, with the functions that take their rows.
func (w *world) settlementTables() map[string]func(*record) {
	return map[string]func(*record){
		"settlement_chain_change": w.takeHome,
		"batch_day":               w.takeBatchDay,
		"batch_line":              w.takeBatchLine,
		"batch":                   w.takeBatch,
		"batch_share":             w.takeShare,
		"plan_month":              w.takePlanMonth,
		"plan_share":              w.takeStatedShare,
		"payout":                  w.takePayout,
		"chain_call":              w.takeCall,
		"signed_tx":               w.takeSigned,
		"call_end":                w.takeEnd,
		"sender":                  w.takeSender,
		"position_event":          w.takePositionEvent,
		"position":                w.takePosition,
		"adopted_call":            w.takeAdoptedCall,
		"adopted_payout":          w.takeAdoptedPayout,
		"collateral_refund":       w.takeBack,
		"collateral_refund_part":  w.takeBackPart,
		"penalty":                 w.takePenalty,
		"payout_change":           w.takePayoutChange,
	}
}

func (w *world) takeEarning(r *record, table string) error {
	u := r.id("request_id")
	q := w.request(r, u)
	e := earning{day: r.day("day")}
	if table == "earning_ruling" {
		e.ruling, e.void = r.count("ruling"), !r.flag("settled")
	}
	if !e.void {
		e.provider, e.payout = r.id("provider_id"), r.count("payout_nano_usd")
		e.tokens = tokens{prompt: r.count("prompt_tokens"), completion: r.count("completion_tokens")}
	}
	if len(q.earnings)+len(q.corrections)+len(q.rulings) >= maxMembers {
		return errTooMany
	}
	switch table {
	case "earning_correction":
		q.corrections = append(q.corrections, e)
	case "earning_ruling":
		q.rulings = append(q.rulings, e)
	default:
		q.earnings = append(q.earnings, e)
	}
	return nil
}
