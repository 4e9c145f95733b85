package auditor

import (
	"errors"
	"fmt"
	"io"
)

// readEarnings reads settlement's lines. The first line of an export may be
// there; the last must.
func (w *world) readEarnings(from io.Reader) error {
	l := newLines(from)
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
		case "earning_line", "earning_correction":
		default:
			return w.count("settlement." + table)
		}
		if err := errors.Join(w.takeEarning(&row, table == "earning_correction"), row.err); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
		return nil
	})
}

func (w *world) takeEarning(r *record, corrects bool) error {
	u := r.id("request_id")
	q := w.request(r, u)
	e := earning{
		day: r.day("day"), provider: r.id("provider_id"), payout: r.count("payout_nano_usd"),
		tokens: tokens{prompt: r.count("prompt_tokens"), completion: r.count("completion_tokens")},
	}
	if len(q.earnings)+len(q.corrections) >= maxMembers {
		return errTooMany
	}
	if corrects {
		q.corrections = append(q.corrections, e)
		return nil
	}
	q.earnings = append(q.earnings, e)
	return nil
}
