package ledger

import (
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries by which the platform gives credit.
const (
	GoodwillGrant     EntryKind = "goodwill"
	VerificationGrant EntryKind = "verification"
)

// Grant is line 21 for an operator's reason of any kind: credit at the platform's
// expense, debiting Goodwill and crediting Available. Business id: the operator's
// idempotency key. The amount is checked where the entry is posted.
func Grant(id ids.EntryID, account ids.AccountID, amount money.NanoUSD, idempotencyKey, memo string) Entry {
	return Entry{ID: id, Kind: GoodwillGrant, BusinessID: idempotencyKey, Memo: memo, Postings: []Posting{
		debit(Goodwill, nobody, amount), credit(Available, account, amount),
	}}
}

// FundVerification is line 21 for a house account: credit for hidden probes of providers,
// debiting Verification and crediting Available. Business id: the verifier's idempotency
// key. The amount is checked where the entry is posted.
func FundVerification(id ids.EntryID, house ids.AccountID, amount money.NanoUSD, idempotencyKey string) Entry {
	return Entry{ID: id, Kind: VerificationGrant, BusinessID: idempotencyKey, Postings: []Posting{
		debit(Verification, nobody, amount), credit(Available, house, amount),
	}}
}
