package passbook

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"svc.internal/pkg/csvout"
	"svc.internal/pkg/ids"
)

// The first rows of the files. Columns are only ever added behind the last one.
const (
	LedgerHeader = "at,entry_id,kind,text,amount_usd,amount_nano_usd,balance_usd,balance_nano_usd,subject,subject_id" +
		csvout.EndRow
	UsageHeader = "at,request_id,model,key_id,key_name,provider_id,billing_type,prompt_tokens,completion_tokens,images," +
		"audio_ms,charged_usd,charged_nano_usd,covered_usd,covered_nano_usd" + csvout.EndRow
)

// exportPage is how many lines are read at once. Each page is a query of its own, so a reader
// that is slow holds none of the database's connections.
const exportPage = 1_000

// ExportLines writes the lines that a filter chooses as CSV in pieces, oldest first, with the
// rows so far.
func ExportLines(ctx context.Context, from Store, account ids.AccountID, f Filter,
	write func(piece []byte, rows int64) error,
) error {
	return export(LedgerHeader, write, func(behind *Place) ([]Line, error) {
		return from.Lines(ctx, account, f, Walk{Behind: behind, OldestFirst: true, Limit: exportPage})
	}, func(l *Line) *Place { return &l.Place }, appendLine)
}

// ExportServed writes the requests that a filter chooses as ExportLines does.
func ExportServed(ctx context.Context, from Store, account ids.AccountID, f UsageFilter,
	write func(piece []byte, rows int64) error,
) error {
	return export(UsageHeader, write, func(behind *Place) ([]Served, error) {
		return from.Served(ctx, account, f, Walk{Behind: behind, OldestFirst: true, Limit: exportPage})
	}, func(r *Served) *Place { return &r.Place }, appendServed)
}

// export writes page after page.
func export[T any](header string, write func([]byte, int64) error, page func(*Place) ([]T, error),
	place func(*T) *Place, row func([]byte, *T) []byte,
) error {
	out, err := csvout.NewWriter(header, write)
	if err != nil {
		return err
	}
	var behind *Place
	var cells []byte
	for {
		list, err := page(behind)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		for i := range list {
			cells = row(cells[:0], &list[i])
			if err := out.Add(cells); err != nil {
				return err
			}
		}
		if len(list) < exportPage {
			return out.Flush()
		}
		last := *place(&list[len(list)-1])
		behind = &last
	}
}

func appendLine(dst []byte, l *Line) []byte {
	subject, of := l.About()
	dst = append(appendTime(dst, l.At), ',')
	dst = append(append(dst, l.ID()...), ',')
	dst = append(csvout.AppendCell(dst, string(l.Kind)), ',')
	dst = append(csvout.AppendCell(dst, l.Text()), ',')
	dst = append(append(dst, l.Amount.String()...), ',')
	dst = append(strconv.AppendInt(dst, int64(l.Amount), 10), ',')
	dst = append(append(dst, l.Balance.String()...), ',')
	dst = append(strconv.AppendInt(dst, int64(l.Balance), 10), ',')
	dst = append(csvout.AppendCell(dst, string(subject)), ',')
	return append(csvout.AppendCell(dst, of), csvout.EndRow...)
}

func appendServed(dst []byte, r *Served) []byte {
	dst = append(appendTime(dst, r.At), ',')
	dst = append(append(dst, r.Request.String()...), ',')
	dst = append(csvout.AppendCell(dst, r.Model), ',')
	dst = append(append(dst, r.Key.String()...), ',')
	dst = append(csvout.AppendCell(dst, r.KeyName), ',')
	dst = append(append(dst, r.Provider.String()...), ',')
	dst = append(csvout.AppendCell(dst, string(r.Source)), ',')
	for _, n := range [...]int64{r.Prompt, r.Completion, r.Images, r.AudioMS} {
		dst = append(strconv.AppendInt(dst, n, 10), ',')
	}
	dst = append(append(dst, r.Charged.String()...), ',')
	dst = append(strconv.AppendInt(dst, int64(r.Charged), 10), ',')
	dst = append(append(dst, r.Covered.String()...), ',')
	return append(strconv.AppendInt(dst, int64(r.Covered), 10), csvout.EndRow...)
}

func appendTime(dst []byte, t time.Time) []byte { return t.UTC().AppendFormat(dst, time.RFC3339Nano) }
