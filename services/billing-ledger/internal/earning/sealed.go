package earning

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/ledger"
)

// SealedPage is the largest number of rows in a page of a sealed day.
const SealedPage = 5_000

// ChangeKind is by what earnings changed.
type ChangeKind string

// The kinds. A request's is its source, and that of what is no longer held is its End.
const (
	ByCredit   ChangeKind = "payg"
	ByPlan     ChangeKind = "plan"
	ByOrphan   ChangeKind = "orphan"
	ByRefund   ChangeKind = "request_refund"
	ByReversal ChangeKind = "reversal"
	// ByEntry is an entry of any other kind.
	ByEntry ChangeKind = "entry"
	NowHeld ChangeKind = "held"
)

// ChangeCursor is the place of a change among those of a day: the part of the list, the time
// to the microsecond, the id of the request or the entry, and the leg.
type ChangeCursor struct {
	Part int
	At   time.Time
	ID   [16]byte
	Leg  int
}

// Change is one change of what a provider has earned, as a sealed day recorded it.
type Change struct {
	ChangeCursor
	Kind ChangeKind
	// Request is zero where an entry is about none.
	Request ids.RequestID
	// Entry is zero where there is none. EntryKind and BusinessID are those of the entry.
	Entry      ids.EntryID
	EntryKind  ledger.EntryKind
	BusinessID string

	Provider ids.ProviderID
	Account  ledger.AccountKind
	// Month is that of earnings by plans, "2026-03".
	Month  string
	Amount money.NanoUSD
}

// BalanceCursor is the place of an account among those of a day.
type BalanceCursor struct {
	Account  ledger.AccountKind
	Provider ids.ProviderID
	Month    string
}

// SealedBalance is an account of a provider at the end of a day on which it moved.
type SealedBalance struct {
	BalanceCursor
	Moved, Balance money.NanoUSD
}

// ErrDayOpen is the error for a day that is not sealed.
var ErrDayOpen = errors.New("the day is not sealed")

// SealedStore lists sealed days. Its error for another day is ErrDayOpen.
type SealedStore interface {
	// SealedChanges returns at most limit changes after a place, and the root of the day's
	// seal.
	SealedChanges(ctx context.Context, day time.Time, after ChangeCursor, limit int) ([]Change, []byte, error)
	// SealedBalances returns at most limit accounts after a place.
	SealedBalances(ctx context.Context, day time.Time, after BalanceCursor, limit int) ([]SealedBalance, error)
}

// ListSealed returns a page of the changes of a sealed day, the token of the next page, empty
// after the last, and the root of the day's seal in hexadecimal.
func ListSealed(
	ctx context.Context, store SealedStore, dayText, token string,
) (rows []Change, next, root string, err error) {
	day, err := parseDay(dayText)
	if err != nil {
		return nil, "", "", err
	}
	after, err := parseChangeToken(token)
	if err != nil {
		return nil, "", "", badToken()
	}
	rows, seal, err := store.SealedChanges(ctx, day, after, SealedPage+1)
	if err != nil {
		return nil, "", "", explainSealed(err)
	}
	if len(rows) > SealedPage {
		rows = rows[:SealedPage]
		next = rows[SealedPage-1].token()
	}
	return rows, next, hex.EncodeToString(seal), nil
}

// ListSealedBalances returns a page of the accounts that moved on a sealed day, and the token
// of the next page, empty after the last.
func ListSealedBalances(
	ctx context.Context, store SealedStore, dayText, token string,
) (rows []SealedBalance, next string, err error) {
	day, err := parseDay(dayText)
	if err != nil {
		return nil, "", err
	}
	after, err := parseBalanceToken(token)
	if err != nil {
		return nil, "", badToken()
	}
	if rows, err = store.SealedBalances(ctx, day, after, SealedPage+1); err != nil {
		return nil, "", explainSealed(err)
	}
	if len(rows) > SealedPage {
		rows = rows[:SealedPage]
		next = rows[SealedPage-1].token()
	}
	return rows, next, nil
}

func explainSealed(err error) error {
	if errors.Is(err, ErrDayOpen) {
		return fault.Wrap(err, fault.Precondition, fault.DayOpen, "the day is not sealed yet").On("day")
	}
	return fmt.Errorf("list a sealed day: %w", err)
}

func badToken() error {
	return fault.New(fault.Invalid, fault.InvalidValue, "page_token is not one of this list").On("page_token")
}

func parseDay(text string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil || day.Year() < 2000 {
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidValue, "day must be a day since 2000, YYYY-MM-DD").
			On("day")
	}
	return day, nil
}

func (c ChangeCursor) token() string {
	return fmt.Sprintf("%d/%d/%s/%d", c.Part, c.At.UnixMicro(), hex.EncodeToString(c.ID[:]), c.Leg)
}

var errToken = errors.New("not a token of this list")

func parseChangeToken(token string) (ChangeCursor, error) {
	if token == "" {
		return ChangeCursor{}, nil
	}
	parts := strings.Split(token, "/")
	if len(parts) != 4 {
		return ChangeCursor{}, errToken
	}
	part, err := strconv.Atoi(parts[0])
	micros, err1 := strconv.ParseInt(parts[1], 10, 64)
	id, err2 := hex.DecodeString(parts[2])
	leg, err3 := strconv.Atoi(parts[3])
	c := ChangeCursor{Part: part, At: time.UnixMicro(micros).UTC(), Leg: leg}
	if err := errors.Join(err, err1, err2, err3); err != nil || len(id) != len(c.ID) || leg < 0 || leg > ledger.MaxLegs ||
		part < 0 || c.At.Year() < 1970 || c.At.Year() > 9999 {
		return ChangeCursor{}, errToken
	}
	copy(c.ID[:], id)
	return c, nil
}

func (c BalanceCursor) token() string {
	return fmt.Sprintf("%s/%s/%s", c.Account, c.Provider, c.Month)
}

func parseBalanceToken(token string) (BalanceCursor, error) {
	if token == "" {
		return BalanceCursor{}, nil
	}
	parts := strings.Split(token, "/")
	if len(parts) != 3 {
		return BalanceCursor{}, errToken
	}
	provider, err := ids.ParseProvider(parts[1])
	if err != nil {
		return BalanceCursor{}, errToken
	}
	return BalanceCursor{Account: ledger.AccountKind(parts[0]), Provider: provider, Month: parts[2]}, nil
}
