package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/usage"
)

// selectRelated costs little beyond one look for the provider of each account, and one for each
// mark that the account bears, because few accounts own a provider or are kin of one. OFFSET 0
// keeps the planner from joining the view whole. Only the providers that served are looked for,
// so that an owner of many costs no more. An EXISTS could be planned as a read of all granted
// credit.
const selectRelated = `SELECT h.account_id, k.provider_id, k.rule,
	(SELECT true FROM granted_credit c WHERE c.account_id = h.account_id LIMIT 1) IS NOT NULL
	FROM (SELECT DISTINCT account_id FROM hold WHERE request_id = ANY ($1)) h
		CROSS JOIN LATERAL (SELECT provider_id, rule FROM kin
			WHERE account_id = h.account_id AND provider_id = ANY ($2) OFFSET 0) k`

func scanRelated(rows pgx.Rows, snapshot usage.Snapshot) error {
	var account, provider [16]byte
	var rule string
	var unpaid bool
	_, err := pgx.ForEachRow(rows, []any{&account, &provider, &rule, &unpaid}, func() error {
		pair := usage.Pair{Account: account, Provider: provider}
		snapshot.Related[pair] = usage.Surest(snapshot.Related[pair], usage.Rule(rule))
		if unpaid {
			snapshot.GrantedCredit[account] = true
		}
		return nil
	})
	return err
}

// insertHeld stores which payouts of the lines are held. A repeat is an error, as it is
// for a line.
func insertHeld(batch *pgx.Batch, lines []usage.Line) {
	for _, l := range lines {
		if l.Held != "" {
			batch.Queue(`INSERT INTO held_earning (request_id, day, account_id, provider_id, rule, book, payout)
				VALUES ($1, $2, $3, $4, $5, $6, $7)`, [16]byte(l.Event.Request), l.Event.Request.Day(), [16]byte(l.Account),
				[16]byte(l.Event.Provider), string(l.Held), l.PlanMonth(), int64(l.Payout))
		}
	}
}

// earnings is an account of a provider of which something may be held.
type earnings struct {
	kind     ledger.AccountKind
	provider [16]byte
	month    string
}

func (e earnings) compare(o earnings) int {
	return cmp.Or(bytes.Compare(e.provider[:], o.provider[:]), strings.Compare(e.month, o.month))
}

// taken sums what entries take from earnings, and how much of it is forfeited. Earnings
// that entries add to are left out.
func taken(entries []ledger.Entry) (all, forfeited map[earnings]money.NanoUSD) {
	all, forfeited = map[earnings]money.NanoUSD{}, map[earnings]money.NanoUSD{}
	for _, e := range entries {
		for _, p := range e.Postings {
			if p.Account.Kind != ledger.Accrued && p.Account.Kind != ledger.PlanHeld {
				continue
			}
			from := earnings{p.Account.Kind, p.Account.Owner, p.Account.Book}
			all[from] -= p.Amount
			if e.Kind == ledger.PlanForfeited {
				forfeited[from] -= p.Amount
			}
		}
	}
	for from, amount := range all {
		if amount <= 0 {
			delete(all, from)
		}
	}
	return all, forfeited
}

// keepHeld refuses, with ledger.ErrHeld, entries that take from a provider's earnings
// what is held. An earnings batch (line 15) may leave no less in the accrued balance than
// is held of it, and the close of a month (lines 13 and 14) no less in plan_held of that
// month. So what is held of a month must end before the month is closed.
//
// It also ends what the entries end. A forfeit of all that is left of a month's plan
// earnings ends what is held of it; its free part may be shared in the same posting. The
// reversal of an entry of orphan work ends what is held of that work. Held earnings end
// otherwise when an operator releases them, or when their own request is refunded at the
// provider's fault; a refund of another request takes nothing from them.
//
// The database enforces the same at commit (held_earnings_stay). The earnings are locked
// by lockTaken.
func keepHeld(ctx context.Context, tx pgx.Tx, entries []ledger.Entry) error {
	all, forfeited := taken(entries)
	if len(all) == 0 {
		return nil
	}
	watched, err := whereHeld(ctx, tx, all)
	if err != nil || len(watched) == 0 {
		return err
	}
	if err := endReversed(ctx, tx, entries); err != nil {
		return err
	}
	for _, from := range watched {
		if forfeited[from] > 0 {
			if err := endForfeited(ctx, tx, from, all[from], forfeited[from]); err != nil {
				return err
			}
		}
		if err := checkHeld(ctx, tx, from, all[from]); err != nil {
			return err
		}
	}
	return nil
}

// whereHeld returns which of the earnings are of providers of whom something is held.
func whereHeld(ctx context.Context, tx pgx.Tx, all map[earnings]money.NanoUSD) ([]earnings, error) {
	var providers [][16]byte
	for from := range all {
		providers = append(providers, from.provider)
	}
	rows, err := tx.Query(ctx, `SELECT DISTINCT provider_id FROM held_earning
		WHERE provider_id = ANY ($1) AND ended_as IS NULL`, providers)
	if err != nil {
		return nil, fmt.Errorf("look for held earnings: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	if err != nil {
		return nil, fmt.Errorf("look for held earnings: %w", err)
	}
	var watched []earnings
	for from := range all {
		if slices.Contains(found, from.provider) {
			watched = append(watched, from)
		}
	}
	slices.SortFunc(watched, earnings.compare)
	return watched, nil
}

// lockTaken locks the earnings and debts that entries take from, as the database does again
// for each leg when the transaction commits. All of them at once, in one order, wait for
// nobody in a circle.
func lockTaken(ctx context.Context, tx pgx.Tx, entries []ledger.Entry) error {
	var owners [][16]byte
	for _, e := range entries {
		for _, p := range e.Postings {
			if takes(p) {
				owners = append(owners, p.Account.Owner)
			}
		}
	}
	if len(owners) == 0 {
		return nil
	}
	return lockEarnings(ctx, tx, owners...)
}

// takes reports whether a leg takes from what a provider has, or from a debt.
func takes(p ledger.Posting) bool {
	switch p.Account.Kind {
	case ledger.ProviderReceivable, ledger.ConsumerReceivable:
		return p.Amount > 0
	case ledger.Accrued, ledger.Payable, ledger.PlanHeld, ledger.PayoutInFlight, ledger.Collateral,
		ledger.CollateralRefundPending, ledger.SlashEscrow:
		return p.Amount < 0
	default:
		return false
	}
}

// lockEarnings has transactions that take from the same earnings wait for each other. The
// lock is on nothing that requests change: what is settled meanwhile only adds to the
// earnings, and at least as much as to what is held.
func lockEarnings(ctx context.Context, tx pgx.Tx, owners ...[16]byte) error {
	if _, err := tx.Exec(ctx, `SELECT lock_earnings($1)`, owners); err != nil {
		return fmt.Errorf("lock earnings: %w", err)
	}
	return nil
}

// endForfeited ends what is held of a month's earnings when nothing is left of them and
// as much is forfeited. The statement ends what it sees, and only when it sees no more
// than is taken, so earnings that are settled meanwhile stay held.
func endForfeited(ctx context.Context, tx pgx.Tx, from earnings, all, forfeited money.NanoUSD) error {
	if _, err := tx.Exec(ctx, `UPDATE held_earning SET ended_as = 'forfeited', ended_at = now(), reason = $4
		WHERE provider_id = $2 AND book = $3 AND ended_as IS NULL AND (SELECT provider_balance($1, $2, $3)) = $5
			AND (SELECT sum(payout) FROM held_earning WHERE provider_id = $2 AND book = $3 AND ended_as IS NULL) <= $6`,
		string(from.kind), from.provider, from.month, string(ledger.PlanForfeited), int64(all),
		int64(forfeited)); err != nil {
		return fmt.Errorf("end forfeited earnings: %w", err)
	}
	return nil
}

// endReversed ends what is held of orphan work whose entry is undone. That entry has the
// id of its request.
func endReversed(ctx context.Context, tx pgx.Tx, entries []ledger.Entry) error {
	for _, e := range entries {
		takes := slices.ContainsFunc(e.Postings, func(p ledger.Posting) bool {
			return p.Account.Kind == ledger.Accrued &&
				p.Amount < 0
		})
		if e.Kind == ledger.Reversal && takes {
			if err := endHeld(ctx, tx, ids.RequestID(e.Reverses), earning.Reversed, e.BusinessID); err != nil {
				return err
			}
		}
	}
	return nil
}

// endHeld ends what is held of a request, if anything is.
func endHeld(ctx context.Context, tx pgx.Tx, request ids.RequestID, as earning.End, reason string) error {
	if _, err := tx.Exec(ctx, `UPDATE held_earning SET ended_as = $2, ended_at = now(), reason = $3
		WHERE request_id = $1 AND ended_as IS NULL`, [16]byte(request), string(as), reason); err != nil {
		return fmt.Errorf("end held earnings: %w", err)
	}
	return nil
}

// checkHeld refuses to take an amount that leaves less than is held.
func checkHeld(ctx context.Context, tx pgx.Tx, from earnings, amount money.NanoUSD) error {
	var balance, held money.NanoUSD
	if err := tx.QueryRow(ctx, `SELECT provider_balance($1, $2, $3), coalesce(sum(payout), 0)::bigint
		FROM held_earning WHERE provider_id = $2 AND book = $3 AND ended_as IS NULL`,
		string(from.kind), from.provider, from.month).Scan(&balance, &held); err != nil {
		return fmt.Errorf("read held earnings: %w", err)
	}
	if held > 0 && balance-amount < held {
		return fmt.Errorf("%w: %s of %s, of which %s are held", ledger.ErrHeld, amount, balance, held)
	}
	return nil
}

const heldColumns = `request_id, account_id, provider_id, rule, book, payout, held_at, coalesce(ended_as, ''), ended_at,
	coalesce(reason, '')`

// HeldEarnings lists held earnings; see earning.Store.
func (s *Store) HeldEarnings(
	ctx context.Context, provider ids.ProviderID, after ids.RequestID, limit int,
) ([]earning.Held, error) {
	sql, args := `SELECT `+heldColumns+
		` FROM held_earning WHERE ended_as IS NULL AND request_id > $1 ORDER BY request_id LIMIT $2`,
		[]any{[16]byte(after), limit}
	if !provider.IsZero() {
		sql = `SELECT ` + heldColumns +
			` FROM held_earning WHERE provider_id = $3 AND ended_as IS NULL AND request_id > $1 ORDER BY request_id LIMIT $2`
		args = append(args, [16]byte(provider))
	}
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("list held earnings: %w", err)
	}
	list, err := scanHeld(rows)
	return list, err
}

func scanHeld(rows pgx.Rows) ([]earning.Held, error) {
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h earning.Held, err error) {
		var request, account, provider [16]byte
		var rule, ended string
		var endedAt *time.Time
		err = row.Scan(&request, &account, &provider, &rule, &h.PlanMonth, &h.Payout, &h.HeldAt, &ended, &endedAt, &h.Reason)
		h.Request, h.Account, h.Provider, h.Rule, h.Ended = request, account, provider, usage.Rule(rule), earning.End(ended)
		if endedAt != nil {
			h.EndedAt = *endedAt
		}
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("read held earnings: %w", err)
	}
	return list, nil
}
