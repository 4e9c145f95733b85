package earning

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/usage"
)

// SettledPage is the largest number of settled requests in a page.
const SettledPage = 1_000

// SettledCursor is the place of a settled request in the order of settling: by the time
// of settling, to the microsecond, then by its id. The zero request comes before all
// others of its time.
type SettledCursor struct {
	At      time.Time
	Request ids.RequestID
}

// Settled is one request as it was settled, as far as its provider is concerned.
type Settled struct {
	SettledCursor
	Provider       ids.ProviderID
	Price          ids.PriceVersionID
	Model          string
	Attempt        int32
	Billable       money.Tokens
	Rates          money.Rates
	Payout         money.NanoUSD
	EvidenceSource usage.EvidenceSource
}

// SettledStore lists settled requests.
type SettledStore interface {
	// SettledAfter returns at most limit requests after a place that were settled at
	// least age ago.
	SettledAfter(ctx context.Context, after SettledCursor, age time.Duration, limit int) ([]Settled, error)
}

// ListSettled returns one page of the requests that were settled since a time, or after a
// watermark, and the watermark of the next page. more reports whether there are rows
// after this page already.
func ListSettled(
	ctx context.Context, store SettledStore, since time.Time, watermark string, age time.Duration,
) (rows []Settled, next string, more bool, err error) {
	after := SettledCursor{At: since}
	if watermark != "" {
		if after, err = parseMark(watermark); err != nil {
			return nil, "", false, fault.New(fault.Invalid, fault.InvalidValue, "watermark is not one of this list").On(
				"watermark")
		}
	}
	if after.At.Year() < 2000 || after.At.Year() > 9999 {
		return nil, "", false, fault.New(fault.Invalid, fault.InvalidValue, "since must be a time since the year 2000").On(
			"since")
	}
	if age < 0 {
		return nil, "", false, fault.New(fault.Invalid, fault.InvalidValue, "settled_for must not be negative").On(
			"settled_for")
	}
	if rows, err = store.SettledAfter(ctx, after, age, SettledPage+1); err != nil {
		return nil, "", false, fmt.Errorf("list settled requests: %w", err)
	}
	if len(rows) > SettledPage {
		rows, more = rows[:SettledPage], true
	}
	if len(rows) > 0 {
		after = rows[len(rows)-1].SettledCursor
	}
	return rows, after.token(), more, nil
}

func (m SettledCursor) token() string {
	token := strconv.FormatInt(m.At.UnixMicro(), 10)
	if m.Request.IsZero() {
		return token
	}
	return token + "/" + m.Request.String()
}

func parseMark(token string) (SettledCursor, error) {
	at, request, behind := strings.Cut(token, "/")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return SettledCursor{}, fmt.Errorf("read the time of a watermark: %w", err)
	}
	m := SettledCursor{At: time.UnixMicro(micros).UTC()}
	if behind {
		m.Request, err = ids.ParseRequest(request)
	}
	return m, err
}
