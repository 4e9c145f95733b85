package ledger

import (
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

// The kinds of entries by which the platform gives credit.
const (
	GoodwillGrant     EntryKind = "goodwill"
	VerificationGrant EntryKind = "verification"
	PlaygroundGrant   EntryKind = "playground"
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

// FundPlayground is line 21 for the account that pays for visitors without a key: credit of
// a day's budget, debiting Playground and crediting Available. Business id: its own id,
// because a day's credit is what the account lacks of the budget. The amount is checked where
// the entry is posted.
func FundPlayground(id ids.EntryID, payer ids.AccountID, amount money.NanoUSD) Entry {
	return Entry{ID: id, Kind: PlaygroundGrant, BusinessID: id.String(), Postings: []Posting{
		debit(Playground, nobody, amount), credit(Available, payer, amount),
	}}
}
