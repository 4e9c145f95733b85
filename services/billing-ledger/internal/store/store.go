// Package store keeps billing-ledger's tables in PostgreSQL. It works as the application
// role, which may add to the ledger and never change it.
//
// # Locks
//
// No two transactions deadlock, because all of them take their locks in one order, and the
// locks of one kind by ascending id:
//
//  1. reports, by request (Conclude inserts them);
//  2. holds, by request; a transaction that locks holds in another order skips the holds
//     that are locked already (SKIP LOCKED);
//  3. renewals and reviews, which the lock on the hold guards, and likewise the lines and
//     entries of settled requests (every other entry is posted after the wallets that it
//     moves, by kind and business id);
//  4. wallets, by account. A transaction takes all the wallets that it needs at once,
//     however little it changes some of them: the lock also guards key_inflight and
//     key_rate of the account's keys, the account's state and its slices, and everything
//     that counts for its plan, and those are changed under it in any order. A refund, or an entry that
//     takes from earnings that are held in part, then locks the earnings of the providers,
//     and after them the held earnings;
//  5. changes of holds: new holds are inserted by request, because another transaction
//     may admit the same request for another account, and the holds that are locked since
//     2 are closed. An insert waits for a row that is being changed, so after a change of
//     holds a transaction locks no wallet any more;
//  6. the quarantine, by payload and reason.
//
// A transaction that marks an account locks credit wallets before the row of the account's user.
// Sign-ins share that row and do not wait; a transaction that links a provider makes the mark wait.
// Neither of these locks a credit wallet. A transaction that links a blockchain wallet has locked
// the user's row before it stores the mark (mark_wallet). The marks of one account or provider are
// inserted in the order of evidence and cause.
//
// A change of what decides about requests (a key, limits, a plan, the account's state) locks the wallet
// before its row. A trigger locks it too (meet_no_slice), and finds it locked.
//
// Eight kinds of transactions are apart from these. The fold holds the row of passbook_fold,
// and after it those of document_number; it only reads what others write. The fold of figures
// holds the row of stats_fold, and after it those of stats_sum. A claim of an
// idempotency key holds the lock on its key's quota and only reads beside it. A visit holds
// the row of its address; the opening of a visitor's session holds such a row for its wider
// network, and after it the row of visitor_session_count. A message that asks for terms holds the row of its account.
// Signing in locks the rows of the e-mail's attempts, then the user, then the sessions. What is
// done to operators locks the rows of the attempts, then the operator, then the advisory lock on
// all operators, then the sessions.
//
// A report frees the places that its request takes in the concurrency of account and
// plan. When there is no report, the transaction that closes the hold frees them. Each of
// the two first locks the hold, and then reads whether the other has freed the places.
//
// Settling locks wallets as late as the money allows, at best in its last round trip,
// because every admission of the account waits for them.
//
// Nothing here uses the process's clock. The database's clock decides what a minute is,
// and when a hold is over.
//
// # Slices
//
// While the owner of an open slice lives (package slice), nobody else decides about requests of the
// account, and nothing changes that the owner decides by. Whoever would, calls keep_slices_out
// under the lock on the wallet, which ends the transaction with SL001. Then inTx, pipelined and atOnce have
// the owner close its slice, and run the transaction again. An owner that they cannot reach is asked through
// the column recalled: it hears of that at its next turn, which adds nothing to its life. Admit returns a
// hold.SliceOpen instead, because its caller may have the owner decide. The slice of an owner that is dead is
// stranded on the spot: its credit and places stay taken until ReclaimSlices gives them back, the account's rates
// count as used up, and it gets no other slice so long. A hold of a request that the owner admitted is written from
// its pin by anybody and at any time, once.
//
// # Constraints
//
// The database enforces the invariants again, whatever the Go code does. attacks_test.go
// attacks every constraint, trigger and grant, and fails when one has no attack.
//
//   - No overdraft: wallet_bounds; a ceiling: wallet_ceiling.
//   - An account has at most one open slice. No slice has less than nothing, and a stranded
//     slice stays so: slice_open, slice_amount_check, slice_strands_once. Changes meet no open
//     slice: the triggers with meet_no_slice on account, account_limits, account_plan,
//     consumer_key and wallet.
//   - A hold begins open and is closed once, its lease only moves forward and its prices
//     are pinned: the triggers on hold, column grants. A hold of which something is known
//     to have been served does not expire unreviewed: hold_expires_reviewed, the view
//     evidence.
//   - A gateway's count never shrinks, and the attempt that it committed to stands:
//     renewal_only_grows.
//   - A request is settled once: the key (day, request_id) with the day of the id.
//   - A row of hold obeys all of its rules: hold_is_sound, a function that names the rule in its error.
//   - Counts are of the unit that is priced: hold_counts_images, hold_counts_audio,
//     usage_counts_images, usage_counts_audio.
//   - 0 ≤ payout ≤ list price: a CHECK of usage_settlement. Charged + shortfall + discount =
//     list price for a request that is paid from credit, and a discount leaves a price:
//     payg_is_charged.
//   - What terms count of a category is within its bounds: category_gate_bounds,
//     category_tokens_cap.
//   - An entry sums to zero in each asset, is whole when it is committed, and debits and
//     credits what its kind may: entry_balances, posting_rule (by side and unit). It is
//     undone once, by its exact negation, and a reversal never: entry_undoes,
//     entry_reverses_key. A request is refunded once: entry_refunds_once.
//   - The ledger only grows: svc_billing has no UPDATE, DELETE or TRUNCATE on it. What a
//     request left beside its line is deleted only after its day was cleared: hold_is_kept
//     and its like on request_report, renewal, work_receipt and orphan_review,
//     cleared_day_day_fkey; drop_cleared is the only way.
//   - A closed day takes no more rows, and every change of a sealed day shows:
//     usage_day_open, usage_recorded_now, seal_root, seal_follows.
//   - Rate and concurrency are exact over replicas: key_rate, account_rate and key_inflight
//     under the lock on the wallet.
//   - No admission passes a cap of a plan, and plans do not overlap:
//     plan_counter_within_cap, one_plan_at_a_time, hold_plan_is_pinned.
//   - Earnings are held once, end once, and stay in their balance until then:
//     held_earning_pkey, held_earning_was_earned, held_earning_ends_once,
//     held_earnings_stay under the lock on the provider's earnings.
//   - An invoice of a vendor is paid once and by its entries, above $10,000 or with a large
//     correction by two operators, and never by more than is owed: vendor_invoice_pkey,
//     vendor_invoice_stands, vendor_invoice_is_posted, vendor_invoice_by_two,
//     vendor_never_overpaid under the lock on the vendor's earnings.
//   - A provider bears the marks of its user's account, whichever came first:
//     account_mark_is_its_providers, app_user_provider_is_marked under the lock on the user. A card
//     marks whom it paid for: card_payment_marks. A wallet by which a user signs in marks the
//     user's account, and at most 64 ever do: user_identity_marks. Marks are never changed. An
//     account or a provider bears about 1,000 of each cause, and a provider about 100,000 payout
//     addresses: account_mark_bound, provider_mark_bound.
//   - Of the requests with one Idempotency-Key one runs: the key (key_id, token_sha256)
//     under the lock on idempotency_quota, idempotency_claim_ends_once. A key has at most
//     10,000 claims, an account 100,000: idempotency_quota_live_check,
//     idempotency_account_bound, counted by triggers. Kept answers stay within their
//     quotas: kept.keep is the only way in, under one lock.
//   - A user has at most 8 known networks and 32 sessions of 15 minutes, which never
//     change: known_network_bound, user_session_bound, user_session_is_short,
//     user_session_stands. It owns one account and at most one provider, for ever: unique
//     keys of app_user, app_user_provider_stands.
//   - A code of an operator counts once, an operator who has ended stays so, and one admin
//     stays active: operator_code_counts_once, operator_ends_once, operator_keeps_an_admin. There
//     are at most 500 operators with 32 sessions each: operator_bound, operator_session_bound.
//   - A hub adds at most 300 keys within 24 hours: usage_key_bound, under a lock for each
//     hub.
//   - An account is in the state of its last change: account_state_is_kept.
//   - The fold only moves on, and makes the invoices of a month before it passes its end:
//     passbook_fold_moves_on, passbook_fold_month. A document never changes and has the next
//     number of its series: document_stays, document_is_next. An entry has one document for an
//     account, and a month one invoice: document_of_entry, document_of_month.
//   - The fold of figures only moves on, and sums are kept as long as figures need them:
//     stats_fold_moves_on, stats_sum_is_kept.
package store

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/limit"
)

// Schema and Role are billing-ledger's own in a shared database.
const (
	Schema = "billing"
	Role   = "svc_billing"
)

// Migrations make the schema, with the functions and views beside them.
//
//go:embed migrations/*.sql functions/*.sql views/*.sql
var Migrations embed.FS

// Store reads and writes billing-ledger's tables.
type Store struct {
	pool   *pgxpool.Pool
	lull   *pg.Lull
	limits limit.Defaults
	terms  Terms
	// vendorPrices remembers price versions of gateway models that are in the database.
	vendorPrices *keptPrices
	boundedKeys  *boundedKeys
	recall       func(ctx context.Context, open hold.SliceOpen) error
}

// Terms are the times of holds.
type Terms struct {
	// Lease is how long a hold stays open without a renewal. Orphan is how long a hold
	// with evidence waits for its hub's usage.
	Lease, Orphan time.Duration
	// MaxHold is the age beyond which no renewal carries a hold.
	MaxHold time.Duration
}

// New returns a store on a pool that was opened for Schema and Role. limits apply to
// accounts without limits of their own.
func New(pool *pgxpool.Pool, limits limit.Defaults, terms Terms) *Store {
	return &Store{pool: pool, lull: pg.NewLull(pool), limits: limits, terms: terms, vendorPrices: newKeptPrices(),
		boundedKeys: newBoundedKeys()}
}

// Still is for one loop that looks for work; see pg.Lull.
func (s *Store) Still(rest time.Duration) *clock.Still { return s.lull.Loop(rest) }

// Ping returns an error unless the database answers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	return nil
}

// EnsurePartitions makes the partitions of settled usage for the days around today, and
// returns how many it made.
func (s *Store) EnsurePartitions(ctx context.Context, back, ahead int) (int, error) {
	var made int
	if err := s.pool.QueryRow(ctx, `SELECT ensure_usage_partitions($1, $2)`, back, ahead).Scan(&made); err != nil {
		return 0, fmt.Errorf("make partitions: %w", err)
	}
	return made, nil
}

func nano(amount int64) money.NanoUSD { return money.NanoUSD(amount) }

// raw returns the ids in the form that arrays of uuid are made of.
func raw[K any](list []ids.Of[K]) [][16]byte {
	out := make([][16]byte, len(list))
	for i, id := range list {
		out[i] = id
	}
	return out
}
