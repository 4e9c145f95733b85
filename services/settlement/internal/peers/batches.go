package peers

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/settlement/internal/batch"
)

const (
	// listTimeout bounds a call that reads a page of a sealed day, and postTimeout one that posts.
	listTimeout = time.Minute
	postTimeout = 10 * time.Second
	// monthTimeout bounds the close of a month, which posts an entry for each provider.
	monthTimeout = 5 * time.Minute
)

// Books is billing-ledger as batches and months see it; it implements batch.Ledger and batch.PlanLedger.
type Books struct {
	Accruals billingv1.AccrualServiceClient
	Posting  billingv1.PostingServiceClient
}

var (
	_ batch.Ledger     = Books{}
	_ batch.PlanLedger = Books{}
)

// changeKinds are the kinds of changes as the contract names them.
var changeKinds = map[billingv1.EarningChange_Kind]batch.Kind{
	billingv1.EarningChange_KIND_PAYG:          batch.Payg,
	billingv1.EarningChange_KIND_PLAN:          batch.Plan,
	billingv1.EarningChange_KIND_ORPHAN:        batch.Orphan,
	billingv1.EarningChange_KIND_REFUND:        batch.Refund,
	billingv1.EarningChange_KIND_REVERSAL:      batch.Reversal,
	billingv1.EarningChange_KIND_ENTRY:         batch.Entry,
	billingv1.EarningChange_KIND_HELD:          batch.Held,
	billingv1.EarningChange_KIND_RELEASED:      batch.Released,
	billingv1.EarningChange_KIND_HELD_REFUNDED: batch.HeldRefunded,
	billingv1.EarningChange_KIND_FORFEITED:     batch.Forfeited,
	billingv1.EarningChange_KIND_HELD_REVERSED: batch.HeldReversed,
}

// Changes implements batch.Ledger.
func (b Books) Changes(ctx context.Context, day time.Time, token string) ([]batch.Change, string, batch.Seal, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	resp, err := b.Accruals.ListSealedEarnings(ctx, &billingv1.ListSealedEarningsRequest{
		Day: day.Format(time.DateOnly), PageToken: token})
	if err != nil {
		return nil, "", batch.Seal{}, ofSealed(err)
	}
	root, err := hex.DecodeString(resp.GetSeal())
	if err != nil || len(root) != len(batch.Seal{}) {
		return nil, "", batch.Seal{}, fmt.Errorf("list a sealed day: the seal %.80q is not 32 bytes", resp.GetSeal())
	}
	changes := make([]batch.Change, len(resp.GetChanges()))
	for i, c := range resp.GetChanges() {
		if changes[i], err = changeFromProto(c); err != nil {
			return nil, "", batch.Seal{}, fmt.Errorf("list a sealed day: %w", err)
		}
	}
	return changes, resp.GetNextPageToken(), batch.Seal(root), nil
}

func ofSealed(err error) error {
	if fault.Is(err, fault.DayOpen) {
		return batch.ErrDayOpen
	}
	return fmt.Errorf("list a sealed day: %w", err)
}

// changeFromProto reads a change. A kind that this program does not know is an error: a batch without it would be
// wrong.
func changeFromProto(m *billingv1.EarningChange) (batch.Change, error) {
	c := batch.Change{At: m.GetAt().AsTime(), Account: m.GetAccount(), Month: m.GetMonth(),
		Amount: money.NanoUSD(m.GetAmountNanoUsd()), EntryKind: m.GetEntryKind(), BusinessID: m.GetBusinessId()}
	var known bool
	if c.Kind, known = changeKinds[m.GetKind()]; !known {
		return c, fmt.Errorf("a change has the unknown kind %d", m.GetKind())
	}
	var err error
	if c.Provider, err = ids.ParseProvider(m.GetProviderId()); err != nil {
		return c, fmt.Errorf("provider id of a change: %w", err)
	}
	if m.GetRequestId() != "" {
		if c.Request, err = ids.ParseRequest(m.GetRequestId()); err != nil {
			return c, fmt.Errorf("request id of a change: %w", err)
		}
	}
	if m.GetEntryId() != "" {
		if c.Entry, err = ids.ParseEntry(m.GetEntryId()); err != nil {
			return c, fmt.Errorf("entry id of a change: %w", err)
		}
	}
	return c, nil
}

// batched are the accounts that changes of earnings are about. The ledger lists more, such as collateral.
var batched = map[string]bool{batch.Accrued: true, batch.PlanHeld: true, batch.Payable: true, batch.InFlight: true,
	batch.Receivable: true}

// Balances implements batch.Ledger.
func (b Books) Balances(ctx context.Context, day time.Time, token string) ([]batch.Balance, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	resp, err := b.Accruals.ListSealedBalances(ctx, &billingv1.ListSealedBalancesRequest{
		Day: day.Format(time.DateOnly), PageToken: token})
	if err != nil {
		return nil, "", ofSealed(err)
	}
	balances := make([]batch.Balance, 0, len(resp.GetBalances()))
	for _, m := range resp.GetBalances() {
		provider, err := ids.ParseProvider(m.GetProviderId())
		if err != nil {
			return nil, "", fmt.Errorf("provider id of a balance: %w", err)
		}
		if batched[m.GetAccount()] {
			balances = append(balances, batch.Balance{Provider: provider, Account: m.GetAccount(), Month: m.GetMonth(),
				Moved: money.NanoUSD(m.GetMovedNanoUsd()), Balance: money.NanoUSD(m.GetBalanceNanoUsd())})
		}
	}
	return balances, resp.GetNextPageToken(), nil
}

// Free implements batch.Ledger.
func (b Books) Free(ctx context.Context, provider ids.ProviderID) (money.NanoUSD, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Accruals.GetProviderBalances(ctx, &billingv1.GetProviderBalancesRequest{ProviderId: provider.String()})
	if err != nil {
		return 0, fmt.Errorf("ask what a provider has: %w", err)
	}
	return money.NanoUSD(resp.GetAccruedNanoUsd() - resp.GetHeldNanoUsd()), nil
}

// Post implements batch.Ledger.
func (b Books) Post(ctx context.Context, p batch.Posting) (ids.EntryID, error) {
	entry, err := b.post(ctx, &billingv1.PostRequest{Fact: &billingv1.PostRequest_EarningsBatch{
		EarningsBatch: &billingv1.EarningsBatch{Day: p.Day.Format(time.DateOnly), ProviderId: p.Provider.String(),
			ChainId: p.Chain.String(), AmountNanoUsd: int64(p.Amount)}}})
	switch {
	case fault.Is(err, fault.InsufficientEarnings), fault.Is(err, fault.EarningsHeld):
		return entry, batch.ErrRefused
	case fault.Is(err, fault.IdempotencyKeyReused):
		return entry, batch.ErrReused
	}
	return entry, err
}

func (b Books) post(ctx context.Context, req *billingv1.PostRequest) (ids.EntryID, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	resp, err := b.Posting.Post(ctx, req)
	if err != nil {
		return ids.EntryID{}, fmt.Errorf("post: %w", err)
	}
	return entryOf(resp.GetEntryId())
}

func entryOf(text string) (ids.EntryID, error) {
	entry, err := ids.ParseEntry(text)
	if err != nil {
		return entry, fmt.Errorf("post: entry id: %w", err)
	}
	return entry, nil
}
