package store_test

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

func (e *env) overview() *account.Overview {
	return &account.Overview{Store: e.store, NewEntry: func() (ids.EntryID, error) {
		return ids.NewEntry(time.Now(), rand.Reader)
	}}
}

// mailed is a consumer whose account has a user of this e-mail address.
func (e *env) mailed(t testing.TB, email string) consumer {
	t.Helper()
	c := e.consumer(t, 10*cent)
	e.exec(t, `INSERT INTO app_user (id, email, display_name, password_hash, account_id) VALUES (gen_random_uuid(), $1, '',
		'$argon2id$v=19$m=1', $2)`, email, [16]byte(c.account))
	return c
}

// found walks all pages of two accounts each and gives the e-mail addresses.
func (e *env) found(t testing.TB, f account.Filter) string {
	t.Helper()
	var all []string
	cursor := ""
	for range 20 {
		page, next, err := e.overview().Find(t.Context(), f, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 2 {
			t.Errorf("page: got %d accounts, want 2 at most", len(page))
		}
		for _, a := range page {
			all = append(all, a.Email)
		}
		if cursor = next; next == "" {
			return strings.Join(all, " ")
		}
	}
	t.Fatal("the pages do not end")
	return ""
}

func TestAccountsAreFoundByWhatOperatorsKnow(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	ann, annie, percent := e.mailed(t, "ann@a.example"), e.mailed(t, "annie@a.example"), e.mailed(t, "a%@a.example")
	e.mailed(t, "a_n@a.example")
	e.mailed(t, "bob@a.example")
	if _, err := e.accounts.SetState(t.Context(), annie.account, account.Frozen, "x"); err != nil {
		t.Fatal(err)
	}
	owned, _, err := e.ownKeys.Rotate(t.Context(), ann.account, ann.key, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		f    account.Filter
		want string
	}{
		"prefix":            {account.Filter{EmailPrefix: "ann"}, "ann@a.example annie@a.example"},
		"capitals":          {account.Filter{EmailPrefix: "ANN@"}, "ann@a.example"},
		"percent":           {account.Filter{EmailPrefix: "a%"}, "a%@a.example"},
		"percent alone":     {account.Filter{EmailPrefix: "%"}, ""},
		"underscore":        {account.Filter{EmailPrefix: "a_n"}, "a_n@a.example"},
		"underscores alone": {account.Filter{EmailPrefix: "___"}, ""},
		"frozen":            {account.Filter{State: account.Frozen}, "annie@a.example"},
		"open among":        {account.Filter{EmailPrefix: "ann", State: account.Open}, "ann@a.example"},
		"new text":          {account.Filter{KeyPrefix: owned.Prefix}, "ann@a.example"},
		"old text":          {account.Filter{KeyPrefix: owned.OldPrefix}, "ann@a.example"},
		"nobody's text":     {account.Filter{KeyPrefix: "sk-svc-%%%%%"}, ""},
		"all":               {account.Filter{}, "bob@a.example a_n@a.example a%@a.example annie@a.example ann@a.example"},
	} {
		if got := e.found(t, tc.f); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	for name, call := range map[string]struct {
		f      account.Filter
		cursor string
		size   int
	}{
		"both":            {account.Filter{EmailPrefix: "a", KeyPrefix: owned.Prefix}, "", 1},
		"part of a key":   {account.Filter{KeyPrefix: "sk-svc-"}, "", 1},
		"state":           {account.Filter{State: "gone"}, "", 1},
		"control":         {account.Filter{EmailPrefix: "a\x00"}, "", 1},
		"long":            {account.Filter{EmailPrefix: strings.Repeat("a", 255)}, "", 1},
		"size":            {account.Filter{}, "", account.MaxPage + 1},
		"below":           {account.Filter{}, "", -1},
		"another's place": {account.Filter{EmailPrefix: "ann"}, percent.account.String(), 1},
		"cursor":          {account.Filter{}, "' OR 1=1 --", 1},
	} {
		if _, _, err := e.overview().Find(t.Context(), call.f, call.cursor, call.size); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.InvalidValue)
		}
	}
}

// However many accounts there are, a search reads its page and not the table.
func TestSearchesReadAnIndex(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	for name, tc := range map[string]struct {
		f    account.Filter
		want string
	}{
		"email":  {account.Filter{EmailPrefix: "a"}, "app_user_email_key"},
		"key":    {account.Filter{KeyPrefix: "sk-svc-abcde"}, "consumer_key_prefix"},
		"old":    {account.Filter{KeyPrefix: "sk-svc-abcde"}, "consumer_key_old_prefix"},
		"frozen": {account.Filter{State: account.Frozen}, "account_frozen"},
		"any":    {account.Filter{}, "account_pkey"},
	} {
		sql, args := store.SearchOf(tc.f, nil, "", 50)
		tx, err := e.owner.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`); err != nil {
			t.Fatal(err)
		}
		rows, err := tx.Query(t.Context(), "EXPLAIN "+sql, args...)
		if err != nil {
			t.Fatal(err)
		}
		var plan []string
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(plan, "\n"); !strings.Contains(text, tc.want) {
			t.Errorf("%s: got the plan\n%s\nwant %s in it", name, text, tc.want)
		} else if strings.Contains(text, "Seq Scan") {
			t.Errorf("%s: got the plan\n%s\nwant no Seq Scan", name, text)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// foundIDs walks all pages of two accounts each.
func (e *env) foundIDs(t testing.TB, f account.Filter) (all []ids.AccountID) {
	t.Helper()
	cursor := ""
	for range 20 {
		page, next, err := e.overview().Find(t.Context(), f, cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page {
			all = append(all, a.ID)
		}
		if cursor = next; next == "" {
			return all
		}
	}
	t.Fatal("the pages do not end")
	return nil
}

// Whatever form the address has, it finds the accounts whose users have proven it, also by an
// identity that ended since.
func TestAccountsAreFoundByAWalletThatTheirUsersHaveProven(t *testing.T) {
	t.Parallel()
	e := marked(t)
	p, other := newPurse(1), newPurse(2)
	ann := e.member(t, "ann@a.example")
	linked := e.links(t, ann, p)
	e.comesIn(t, other)
	want := []ids.AccountID{ann.User.Account}
	address := p.address.String()
	forms := []string{address, strings.ToLower(address), "0x" + strings.ToUpper(address[2:])}
	for _, form := range forms {
		if got := e.foundIDs(t, account.Filter{Wallet: form}); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", form, got, want)
		}
	}
	if got := e.foundIDs(t, account.Filter{Wallet: address, State: account.Frozen}); len(got) != 0 {
		t.Errorf("frozen ones: got %v, want none", got)
	}
	if got := e.foundIDs(t, account.Filter{Wallet: newPurse(3).address.String()}); len(got) != 0 {
		t.Errorf("by nobody's wallet: got %v, want none", got)
	}
	if err := e.users(t).EndIdentity(t.Context(), ann.User.ID, linked.ID, ann.Family); err != nil {
		t.Fatal(err)
	}
	if got := e.foundIDs(t, account.Filter{Wallet: address}); !slices.Equal(got, want) {
		t.Errorf("once the wallet is unlinked: got %v, want %v", got, want)
	}
	for name, f := range map[string]account.Filter{
		"a wrong checksum": {Wallet: strings.Replace(address, address[2:], swapped(address[2:]), 1)},
		"a short one":      {Wallet: address[:41]},
		"nobody's":         {Wallet: addressOf(0)},
		"a pattern":        {Wallet: "%"},
		"with an e-mail":   {Wallet: address, EmailPrefix: "ann"},
		"with a key":       {Wallet: address, KeyPrefix: "sk-svc-abcde"},
	} {
		if _, _, err := e.overview().Find(t.Context(), f, "", 2); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.InvalidValue)
		}
	}
}

// swapped has the other case for each letter.
func swapped(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' {
			return r - 'a' + 'A'
		}
		if r >= 'A' {
			return r - 'A' + 'a'
		}
		return r
	}, text)
}

func TestAccountsAreFoundByWhereMoneyCameFromAndGoesTo(t *testing.T) {
	t.Parallel()
	e := marked(t)
	var all []ids.AccountID
	for range 3 {
		c := e.consumer(t, 10*cent)
		e.mark(t, c, kin.DepositSource, 7)
		all = append(all, c.account)
	}
	both := e.consumer(t, 10*cent)
	e.user(t, both)
	e.mark(t, both, kin.DepositSource, 7)
	e.mark(t, both, kin.Wallet, 7)
	paid := e.consumer(t, 10*cent)
	e.user(t, paid)
	provider := newProvider(t)
	e.link(t, paid, provider)
	e.markProvider(t, provider, kin.PayoutAddress, 7)
	other := e.consumer(t, 10*cent)
	e.mark(t, other, kin.DepositSource, 8)
	all = append(all, both.account, paid.account)
	slices.Reverse(all) // the newest first
	if got := e.foundIDs(t, account.Filter{Wallet: addressOf(7)}); !slices.Equal(got, all) {
		t.Errorf("got %v, want %v", got, all)
	}
	page, _, err := e.overview().Find(t.Context(), account.Filter{Wallet: addressOf(7)}, "", 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]account.WalletIs{{account.Payout}, {account.Deposit, account.Proven}, {account.Deposit}} {
		if got := page[i].WalletIs; !slices.Equal(got, want) {
			t.Errorf("what the wallet is to account %d: got %v, want %v", i, got, want)
		}
	}
	if _, err := e.accounts.SetState(t.Context(), both.account, account.Frozen, "x"); err != nil {
		t.Fatal(err)
	}
	got := e.foundIDs(t, account.Filter{Wallet: addressOf(7), State: account.Frozen})
	if want := []ids.AccountID{both.account}; !slices.Equal(got, want) {
		t.Errorf("frozen ones: got %v, want %v", got, want)
	}
}

// Two marks of an account by one address take one place of a page, and accounts of another state
// take none.
func TestPagesOfAWalletAreFilledWithWhatIsListed(t *testing.T) {
	t.Parallel()
	e := marked(t)
	var all []ids.AccountID
	for range 5 {
		c := e.consumer(t, 10*cent)
		e.user(t, c)
		e.mark(t, c, kin.DepositSource, 7)
		e.mark(t, c, kin.Wallet, 7)
		all = append(all, c.account)
	}
	oldest := slices.Clone(all[:1])
	if _, err := e.accounts.SetState(t.Context(), all[0], account.Frozen, "x"); err != nil {
		t.Fatal(err)
	}
	if got := e.foundIDs(t, account.Filter{Wallet: addressOf(7), State: account.Frozen}); !slices.Equal(got, oldest) {
		t.Errorf("frozen ones: got %v, want %v", got, oldest)
	}
	slices.Reverse(all) // the newest first
	if got := e.foundIDs(t, account.Filter{Wallet: addressOf(7)}); !slices.Equal(got, all) {
		t.Errorf("got %v, want %v", got, all)
	}
}

// An exchange pays out to very many accounts from one address: a page reads its own marks alone.
func TestASearchByWalletReadsItsPage(t *testing.T) {
	t.Parallel()
	e := marked(t)
	digest := make([]byte, 32)
	e.exec(t, `INSERT INTO account (id, name, state)
		SELECT gen_random_uuid(), 'x', 'open' FROM generate_series(1, 5000)`)
	e.exec(t, `INSERT INTO account_mark (account_id, evidence, cause)
		SELECT id, $1, 'deposit_source' FROM account`, digest)
	e.exec(t, `INSERT INTO provider_mark (provider_id, evidence, cause)
		SELECT gen_random_uuid(), sha256(i::text::bytea), 'payout_address' FROM generate_series(1, 5000) AS i`)
	if _, err := e.owner.Exec(t.Context(), `ANALYZE account, account_mark, provider_mark, app_user`); err != nil {
		t.Fatal(err)
	}
	sql, args := store.SearchOf(account.Filter{Wallet: addressOf(7)}, digest, "", 50)
	plan := column[string](t, e, "EXPLAIN "+sql, args...)
	text := strings.Join(plan, "\n")
	for _, index := range []string{"account_mark_listed", "provider_mark_evidence"} {
		if !strings.Contains(text, index) {
			t.Errorf("got the plan\n%s\nwant %s in it", text, index)
		}
	}
	for _, table := range []string{"account_mark", "provider_mark", "account"} {
		if strings.Contains(text, "Seq Scan on "+table+" ") {
			t.Errorf("got the plan\n%s\nwant no Seq Scan on %s", text, table)
		}
	}
}

func TestARefundIsOfTheAccountsOwnRequestOnceAndNamesItsOperator(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c, other := e.consumer(t, 10*cent), e.consumer(t, 10*cent)
	r, open := e.reservation(t, c, 3), e.reservation(t, c, 1)
	e.admitOne(t, r, hold.Admitted)
	e.admitOne(t, open, hold.Admitted)
	e.settle(t, usage.Settled, e.served(t, r, 2))
	ctx := actor.WithOperator(t.Context(), "alice")
	refund := func(c consumer, request ids.RequestID, cause usage.RefundCause, note string) (ids.EntryID, error) {
		entry, _, err := e.overview().Refund(ctx, account.Refund{Account: c.account, Request: request, Cause: cause,
			Note: note})
		return entry, err
	}
	for name, tc := range map[string]struct {
		c       consumer
		request ids.RequestID
		cause   usage.RefundCause
		note    string
		want    fault.Reason
	}{
		"another account's": {other, r.Request, usage.Goodwill, "x", fault.RequestNotFound},
		"not settled":       {c, open.Request, usage.Goodwill, "x", fault.RequestNotFound},
		"unknown":           {c, ids.RequestID{1}, usage.Goodwill, "x", fault.RequestNotFound},
		"no note":           {c, r.Request, usage.Goodwill, "", fault.InvalidValue},
		"no cause":          {c, r.Request, "because", "x", fault.InvalidValue},
	} {
		if _, err := refund(tc.c, tc.request, tc.cause, tc.note); !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want %s", name, err, tc.want)
		}
	}
	e.wantWallet(t, c, 8*cent, cent)
	first, err := refund(c, r.Request, usage.ProviderFault, "it was rude")
	if err != nil {
		t.Fatal(err)
	}
	again, err := refund(c, r.Request, usage.ProviderFault, "it was rude")
	if err != nil {
		t.Fatal(err)
	}
	if again != first {
		t.Errorf("again: got the entry %s, want %s", again, first)
	}
	if _, err := refund(c, r.Request, usage.Goodwill, "twice"); !fault.Is(err, fault.TransitionNotAllowed) {
		t.Errorf("for another cause: got the error %v, want %s", err, fault.TransitionNotAllowed)
	}
	e.wantWallet(t, c, 10*cent, cent)
	e.wantWallet(t, other, 10*cent, 0)
	e.wantRefundTold(t, c, first, r.Request)
	e.sound(t)
}

// wantRefundTold wants one action of alice's that names the refund, and its entry.
func (e *env) wantRefundTold(t *testing.T, c consumer, entry ids.EntryID, request ids.RequestID) {
	t.Helper()
	d, err := e.overview().Details(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, a := range d.Actions {
		if a.Action == "refund_request" {
			told = append(told, a.Actor+" "+a.Detail)
		}
	}
	if len(told) != 1 {
		t.Fatalf("actions: got %q, want one refund", told)
	}
	for _, want := range []string{"operator:alice", "it was rude", entry.String(), request.String()} {
		if !strings.Contains(told[0], want) {
			t.Errorf("action: got %s, want %s in it", told[0], want)
		}
	}
	// Settlement hears of what a provider gives back.
	if !slices.ContainsFunc(d.Entries, func(e account.Entry) bool {
		return e.ID == entry && e.Kind == "request_refund"
	}) {
		t.Errorf("entries: got %+v, want the refund among them", d.Entries)
	}
}

func TestDetailsOfAnAccountAreBoundedAndHaveNoSecret(t *testing.T) {
	t.Parallel()
	e := setup(t, unlimited)
	c := e.mailed(t, "ann@a.example")
	for range 25 {
		if _, _, err := e.accounts.Grant(t.Context(), c.account, cent, rand.Text(), "x"); err != nil {
			t.Fatal(err)
		}
	}
	d, err := e.overview().Details(t.Context(), c.account)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Entries) != 20 {
		t.Errorf("entries: got %d, want 20", len(d.Entries))
	}
	if len(d.Actions) != 20 {
		t.Errorf("actions: got %d, want 20", len(d.Actions))
	}
	if d.Email != "ann@a.example" {
		t.Errorf("e-mail: got %q, want ann@a.example", d.Email)
	}
	if text := fmt.Sprintf("%+v", d); strings.Contains(text, "argon2id") {
		t.Errorf("got %s, want no hash of a password in it", text)
	}
	if _, err := e.overview().Details(t.Context(), ids.AccountID{7}); !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("of no account: got the error %v, want %s", err, fault.AccountNotFound)
	}
}
