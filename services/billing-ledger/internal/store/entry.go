package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/posting"
)

// maxPosts bounds how often Post begins again because another transaction posted the same
// fact meanwhile, or took from the same earnings. The second try finds that fact.
const maxPosts = 3

// Post posts entries and moves the wallets of the consumers in them, in one transaction.
// It returns the id of each entry. An entry that was posted before, for the same kind and
// business id and with the same legs, is not posted again: Post returns the first one's
// id.
//
// It returns ledger.ErrReused when a business id stands for another entry, ErrNoWallet
// when a consumer does not exist, ErrShort when a consumer has less than is taken,
// ErrCeiling when a consumer would have too much, ErrHeld when what is taken from a
// provider is held, ErrUnearned when a provider has less than is taken, ErrOverpaid when
// more is paid than is owed, ErrEnded when a payout, a slash or a refund has another end,
// ErrNoPayout when a payout was not requested so, ErrNoRefund when a refund was not, and
// ErrMonthClosed when the pool of a closed month is moved.
func (s *Store) Post(ctx context.Context, entries ...ledger.Entry) ([]ids.EntryID, error) {
	return s.postAnd(ctx, entries, nil)
}

// postAnd is Post. It also calls also, unless that is nil, in the same transaction for
// each entry that was not posted before.
func (s *Store) postAnd(
	ctx context.Context, entries []ledger.Entry, also func(pgx.Tx, ledger.Entry) error,
) ([]ids.EntryID, error) {
	for _, e := range entries {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("post %s: %w", e.Kind, err)
		}
	}
	return s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) { return post(ctx, tx, entries, also) })
}

// PostFrom posts the entry that make returns for what the books say; see posting.Store. Its
// errors are those of Post and of make.
func (s *Store) PostFrom(
	ctx context.Context, needs posting.Needs, make func(posting.Has) (ledger.Entry, error),
) (ids.EntryID, error) {
	posted, err := s.tryPosting(ctx, func(tx pgx.Tx) ([]ids.EntryID, error) {
		has, err := readNeeds(ctx, tx, needs)
		if err != nil {
			return nil, err
		}
		e, err := make(has)
		if err != nil {
			return nil, err
		}
		return post(ctx, tx, []ledger.Entry{e}, nil)
	})
	if err != nil {
		return ids.EntryID{}, err
	}
	return posted[0], nil
}

// readNeeds reads what an entry depends on, under the locks that posting it takes.
func readNeeds(ctx context.Context, tx pgx.Tx, needs posting.Needs) (posting.Has, error) {
	var has posting.Has
	if !needs.Provider.IsZero() {
		if err := lockEarnings(ctx, tx, needs.Provider); err != nil {
			return has, err
		}
		// One statement, so that a payment and its collateral are seen together or not at all.
		if err := tx.QueryRow(ctx, `SELECT -provider_balance('a:provider_receivable', $1, ''),
			provider_balance('l:provider:collateral', $1, ''), CASE WHEN $2 THEN card_room($1) ELSE 0 END`,
			[16]byte(needs.Provider), needs.Cards).Scan(&has.Owed, &has.Collateral, &has.Room); err != nil {
			return has, fmt.Errorf("read what a provider owes: %w", err)
		}
	}
	if !needs.Account.IsZero() {
		err := tx.QueryRow(ctx, `SELECT posted - held FROM wallet WHERE account_id = $1 FOR UPDATE`,
			[16]byte(needs.Account)).Scan(&has.Unheld)
		if errors.Is(err, pgx.ErrNoRows) {
			return has, ledger.ErrNoWallet
		}
		if err != nil {
			return has, fmt.Errorf("read a wallet: %w", err)
		}
		// What a slice holds is available, once its owner has given it back.
		if _, err := tx.Exec(ctx, `SELECT keep_slices_out(ARRAY[$1::uuid])`, [16]byte(needs.Account)); err != nil {
			return has, fmt.Errorf("look for a slice: %w", err)
		}
	}
	return has, nil
}

// tryPosting posts in a transaction, and again where another one posted the same facts or
// took from the same earnings meanwhile.
func (s *Store) tryPosting(
	ctx context.Context, each func(pgx.Tx) ([]ids.EntryID, error),
) ([]ids.EntryID, error) {
	for try := 1; ; try++ {
		var posted []ids.EntryID
		err := s.inTx(ctx, func(tx pgx.Tx) (err error) {
			posted, err = each(tx)
			return err
		})
		refusal := refusalOf(err)
		switch {
		case try < maxPosts && (refusal != nil || pg.IsUnique(err, "entry_kind_business_id_key") ||
			pg.IsUnique(err, "entry_reverses_key")):
			continue
		case refusal != nil:
			return nil, refusal
		}
		return posted, err
	}
}

// refusalOf returns why the database refused entries, nil for another error. Another
// transaction may have posted the same facts meanwhile, so that it is tried again.
func refusalOf(err error) error {
	switch {
	case pg.IsCheck(err, "held_earnings_stay"):
		return ledger.ErrHeld
	case pg.IsCheck(err, "provider_never_short"):
		return ledger.ErrUnearned
	case pg.IsCheck(err, "debt_never_overpaid"):
		return ledger.ErrOverpaid
	case pg.IsCheck(err, "payout_ends_its_request"):
		return ledger.ErrNoPayout
	case pg.IsCheck(err, "collateral_refund_ends"):
		return ledger.ErrNoRefund
	case pg.IsCheck(err, "entry_ends_once"):
		return ledger.ErrEnded
	case pg.IsCheck(err, "plan_pool_is_open"):
		return ledger.ErrMonthClosed
	}
	return nil
}

// Reverse posts the entry that undoes another, once: a repeat returns the first
// reversal's id.
func (s *Store) Reverse(ctx context.Context, id, of ids.EntryID, memo string) (ids.EntryID, error) {
	found, err := readEntries(ctx, s.pool, []ids.EntryID{of})
	if err != nil {
		return ids.EntryID{}, err
	}
	original, ok := found[of]
	if !ok {
		return ids.EntryID{}, ledger.ErrNoEntry
	}
	reversal, err := ledger.Reverse(id, original, memo)
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("reverse entry %s: %w", of, err)
	}
	posted, err := s.Post(ctx, reversal)
	if err != nil {
		return ids.EntryID{}, err
	}
	return posted[0], nil
}

// post locks the wallets first, in the order of their ids. Whatever it looks for after
// that was committed by the last holder of those locks. It calls also as postAnd does.
func post(
	ctx context.Context, tx pgx.Tx, entries []ledger.Entry, also func(pgx.Tx, ledger.Entry) error,
) ([]ids.EntryID, error) {
	if err := lockPosted(ctx, tx, entries); err != nil {
		return nil, err
	}
	before, err := postedBefore(ctx, tx, entries)
	if err != nil {
		return nil, err
	}
	posted := make([]ids.EntryID, len(entries))
	var fresh []ledger.Entry
	for i, e := range entries {
		first, ok := before[fact{e.Kind, e.BusinessID}]
		switch {
		case !ok:
			posted[i] = e.ID
			fresh = append(fresh, e)
		case !e.Repeats(first):
			return nil, ledger.ErrReused
		default:
			posted[i] = first.ID
		}
	}
	if err := lockTaken(ctx, tx, fresh); err != nil {
		return nil, err
	}
	if err := keepHeld(ctx, tx, fresh); err != nil {
		return nil, err
	}
	if err := movePosted(ctx, tx, fresh); err != nil {
		return nil, err
	}
	// In one order, so that transactions with the same facts wait for the first of them
	// and never for each other.
	slices.SortFunc(fresh, func(a, b ledger.Entry) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.BusinessID, b.BusinessID))
	})
	batch := &pgx.Batch{}
	for _, e := range fresh {
		insertEntry(batch, e)
	}
	if err := sendAll(ctx, tx, batch); err != nil {
		return nil, fmt.Errorf("post entries: %w", err)
	}
	for _, e := range fresh {
		if also == nil {
			break
		}
		if err := also(tx, e); err != nil {
			return nil, err
		}
	}
	return posted, nil
}

// fact identifies what an entry is about.
type fact struct {
	kind       ledger.EntryKind
	businessID string
}

// moved sums what entries move in wallets.
func moved(entries []ledger.Entry) map[[16]byte]money.NanoUSD {
	sums := map[[16]byte]money.NanoUSD{}
	for _, e := range entries {
		for _, p := range e.Postings {
			if p.Account.Kind == ledger.Available {
				sums[p.Account.Owner] += p.Amount
			}
		}
	}
	return sums
}

func lockPosted(ctx context.Context, tx pgx.Tx, entries []ledger.Entry) error {
	accounts := slices.Collect(maps.Keys(moved(entries)))
	if len(accounts) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, `SELECT FROM wallet WHERE account_id = ANY ($1) ORDER BY account_id FOR UPDATE`, accounts)
	switch {
	case err != nil:
		return fmt.Errorf("lock wallets: %w", err)
	case tag.RowsAffected() != int64(len(accounts)):
		return ledger.ErrNoWallet
	}
	return nil
}

func movePosted(ctx context.Context, tx pgx.Tx, entries []ledger.Entry) error {
	sums := moved(entries)
	accounts := slices.SortedFunc(maps.Keys(sums), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	if len(accounts) == 0 {
		return nil
	}
	amounts := make([]int64, len(accounts))
	for i, a := range accounts {
		amounts[i] = int64(sums[a])
	}
	_, err := tx.Exec(ctx, `UPDATE wallet w SET posted = w.posted + m.amount
		FROM unnest($1::uuid[], $2::bigint[]) AS m (account_id, amount) WHERE w.account_id = m.account_id`, accounts, amounts)
	switch {
	case pg.IsCheck(err, "wallet_ceiling"):
		return ledger.ErrCeiling
	case pg.IsCheck(err, "wallet_bounds"):
		return ledger.ErrShort
	case err != nil:
		return fmt.Errorf("move wallets: %w", err)
	}
	return nil
}

func postedBefore(ctx context.Context, tx pgx.Tx, entries []ledger.Entry) (map[fact]ledger.Entry, error) {
	kinds, businessIDs := make([]string, len(entries)), make([]string, len(entries))
	for i, e := range entries {
		kinds[i], businessIDs[i] = string(e.Kind), e.BusinessID
	}
	rows, err := tx.Query(ctx, `SELECT e.id FROM unnest($1::text[], $2::text[]) AS u (kind, business_id)
		JOIN entry e ON e.kind = u.kind AND e.business_id = u.business_id`, kinds, businessIDs)
	if err != nil {
		return nil, fmt.Errorf("look for entries: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (ids.EntryID, error) {
		var id [16]byte
		err := row.Scan(&id)
		return id, err
	})
	if err != nil {
		return nil, fmt.Errorf("look for entries: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	all, err := readEntries(ctx, tx, found)
	if err != nil {
		return nil, err
	}
	before := map[fact]ledger.Entry{}
	for _, e := range all {
		before[fact{e.Kind, e.BusinessID}] = e
	}
	return before, nil
}

// reader is the part of a pool or a transaction that reads many rows.
type reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// readEntries reads entries with their legs.
func readEntries(ctx context.Context, from reader, list []ids.EntryID) (map[ids.EntryID]ledger.Entry, error) {
	rows, err := from.Query(ctx, `SELECT e.id, e.kind, e.business_id, e.memo, e.reverses,
			e.quote_asset, e.quote_rate, e.quote_source, e.quote_at,
			p.account_kind, p.owner_id, p.book, p.asset, p.amount
		FROM entry e JOIN posting p ON p.entry_id = e.id WHERE e.id = ANY ($1) ORDER BY e.id, p.leg`, raw(list))
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	var (
		id                       [16]byte
		reverses, owner          *[16]byte
		kind, account, asset     string
		business, memo           string
		subaccount               string
		quoteAsset, quotedSource *string
		rate                     *int64
		quotedAt                 *time.Time
		amount                   int64
	)
	found := map[ids.EntryID]ledger.Entry{}
	_, err = pgx.ForEachRow(rows, []any{&id, &kind, &business, &memo, &reverses,
		&quoteAsset, &rate, &quotedSource, &quotedAt, &account, &owner, &subaccount, &asset, &amount}, func() error {
		e := found[id]
		e.ID, e.Kind, e.BusinessID, e.Memo = id, ledger.EntryKind(kind), business, memo
		if reverses != nil {
			e.Reverses = *reverses
		}
		if quoteAsset != nil && rate != nil && quotedSource != nil && quotedAt != nil {
			e.Quote = &ledger.Quote{Token: ledger.Token(*quoteAsset), Rate: nano(*rate), Source: *quotedSource,
				At: quotedAt.UTC()}
		}
		p := ledger.Posting{Account: ledger.Account{Kind: ledger.AccountKind(account), Book: subaccount},
			Asset: ledger.Asset(asset), Amount: nano(amount)}
		if owner != nil {
			p.Account.Owner = *owner
		}
		e.Postings = append(e.Postings, p)
		found[id] = e
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	return found, nil
}

// Entry reads an entry with its legs.
func (s *Store) Entry(ctx context.Context, id ids.EntryID) (ledger.Entry, error) {
	found, err := readEntries(ctx, s.pool, []ids.EntryID{id})
	if err != nil {
		return ledger.Entry{}, err
	}
	e, ok := found[id]
	if !ok {
		return ledger.Entry{}, ledger.ErrNoEntry
	}
	return e, nil
}

// insertEntry posts a balanced entry.
func insertEntry(batch *pgx.Batch, e ledger.Entry) {
	var reverses *[16]byte
	if !e.Reverses.IsZero() {
		reverses = (*[16]byte)(&e.Reverses)
	}
	var (
		token, source *string
		rate          *int64
		at            *time.Time
	)
	if q := e.Quote; q != nil {
		token, rate, source, at = (*string)(&q.Token), (*int64)(&q.Rate), &q.Source, &q.At
	}
	batch.Queue(`INSERT INTO entry (id, kind, business_id, memo, reverses, quote_asset, quote_rate, quote_source, quote_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		[16]byte(e.ID), string(e.Kind), e.BusinessID, e.Memo, reverses, token, rate, source, at)
	for i, p := range e.Postings {
		var owner *[16]byte
		if p.Account.Owner != [16]byte{} {
			owner = &p.Account.Owner
		}
		batch.Queue(
			`INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, book, asset, amount)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			[16]byte(e.ID), i+1, string(e.Kind), string(p.Account.Kind), owner != nil, owner, p.Account.Book, string(p.Asset),
			int64(p.Amount))
	}
}
