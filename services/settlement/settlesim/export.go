package settlesim

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/earning"
)

// Export writes the lines and what overruled them, as rows of the tables
// earning_line, earning_correction and earning_ruling. The last line has the
// number of rows.
func (d *Database) Export(out io.Writer) error {
	e := &export{to: json.NewEncoder(out)}
	for _, r := range sorted(d.lines) {
		e.row("earning_line", columns(r, d.lines[r]))
	}
	for _, r := range sorted(d.corrected) {
		e.row("earning_correction", columns(r, d.corrected[r]))
	}
	for _, r := range sorted(d.rulings) {
		for i, ruling := range d.rulings[r] {
			c := map[string]any{"day": r.Day().Format(time.DateOnly), "request_id": r.String()}
			if ruling.settled {
				c = columns(r, ruling.line)
			}
			c["ruling"], c["settled"] = i+1, ruling.settled
			e.row("earning_ruling", c)
		}
	}
	e.line(map[string]any{"end": true, "rows": e.rows})
	return e.err
}

func columns(r ids.RequestID, l earning.Line) map[string]any {
	return map[string]any{
		"day": r.Day().Format(time.DateOnly), "request_id": r.String(), "provider_id": l.ProviderID.String(),
		"attempt": l.Attempt, "model_id": l.ModelID, "price_version_id": l.PriceVersionID.String(),
		"prompt_tokens": l.Tokens.Prompt, "completion_tokens": l.Tokens.Completion,
		"payout_nano_usd": l.Payout, "evidence_source": l.EvidenceSource, "unit": l.Unit,
	}
}

// export is an export under way.
type export struct {
	to   *json.Encoder
	rows int
	err  error
}

func (e *export) row(table string, columns map[string]any) {
	e.rows++
	e.line(map[string]any{"table": table, "row": columns})
}

func (e *export) line(v any) {
	if e.err == nil {
		e.err = e.to.Encode(v)
	}
}

// sorted are the requests of a table in the order of their ids.
func sorted[V any](table map[ids.RequestID]V) []ids.RequestID {
	return slices.SortedFunc(maps.Keys(table), func(a, b ids.RequestID) int { return bytes.Compare(a[:], b[:]) })
}
