package billingledger_test

import (
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pg"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/ledger"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Hostile test 40: who owns a consumer account and a provider sends itself
// requests that the platform pays for.

// earned is what a provider gets for the usage of served.
const earned = 980_000 * money.NanoUSD(1)

// owner is a user with a consumer account and a provider.
type owner struct {
	consumer
	provider string
}

func (f *fleet) owner(t *testing.T) owner {
	t.Helper()
	up, err := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: rand.Text() + "@example.com",
		Password: password})
	if err != nil {
		t.Fatal(err)
	}
	key, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: digestOf(up.GetApiKey())})
	if err != nil {
		t.Fatal(err)
	}
	o := owner{consumer{up.GetUser().GetAccountId(), key.GetKeyId(), up.GetApiKey()}, anotherProvider(t)}
	if _, err := f.users.LinkProvider(t.Context(), &billingv1.LinkProviderRequest{UserId: up.GetUser().GetUserId(),
		ProviderId: o.provider}); err != nil {
		t.Fatal(err)
	}
	return o
}

func anotherProvider(t *testing.T) string {
	t.Helper()
	id, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func (o owner) ids(t *testing.T) (ids.AccountID, ids.ProviderID) {
	t.Helper()
	account, err := ids.ParseAccount(o.account)
	if err != nil {
		t.Fatal(err)
	}
	provider, err := ids.ParseProvider(o.provider)
	if err != nil {
		t.Fatal(err)
	}
	return account, provider
}

func entryID(t *testing.T) ids.EntryID {
	t.Helper()
	id, err := ids.NewEntry(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func newFact(t *testing.T) ledger.Fact {
	t.Helper()
	return ledger.Fact{ID: entryID(t), BusinessID: rand.Text()}
}

// books is the ledger as settlement posts to it.
func (f *fleet) books() *store.Store { return store.New(f.db, limit.Defaults{}, store.Terms{}) }

// post posts an entry as it was composed.
func (f *fleet) post(t *testing.T, e ledger.Entry, err error) error {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.books().Post(t.Context(), e)
	return err
}

// credits are the ways to be given credit.
var credits = map[string]func(t *testing.T, f *fleet, o owner){
	"card": func(t *testing.T, f *fleet, o owner) {
		account, _ := o.ids(t)
		cards := store.Cards{Store: f.books()}
		c, err := cards.Open(t.Context(), card.Checkout{ID: card.CheckoutID(entryID(t)), Purpose: card.TopUp,
			Account: account, Amount: 500, Processor: "sandbox", ReturnURL: "https://example.com/"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cards.SetSession(t.Context(), c.ID, card.Session{ID: rand.Text(), URL: "https://example.com/",
			Expires: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		if _, err := cards.Pay(t.Context(), c.ID, card.Charge{PaymentID: rand.Text(), CostID: rand.Text(), Total: 500},
			newEntry); err != nil {
			t.Fatal(err)
		}
	},
	"bonus": func(t *testing.T, f *fleet, o owner) {
		account, _ := o.ids(t)
		quote := ledger.Quote{Token: ledger.Native, Rate: 1_000_000_000, Source: "feed",
			At: time.Now().UTC().Truncate(time.Microsecond)}
		e, err := ledger.Deposit(newFact(t), account, ledger.Sum{Token: ledger.Native, Units: 5_000_000_000, Quote: &quote})
		if err := f.post(t, e, err); err != nil {
			t.Fatal(err)
		}
	},
	"grant": func(t *testing.T, f *fleet, o owner) {
		if _, err := f.accounts.GrantCredit(t.Context(), &billingv1.GrantCreditRequest{
			AccountId: o.account, AmountUsd: "1", IdempotencyKey: rand.Text(), Memo: "test",
		}); err != nil {
			t.Fatal(err)
		}
	},
	"plan": func(t *testing.T, f *fleet, o owner) {
		if _, err := f.accounts.SetAccountPlan(t.Context(), &billingv1.SetAccountPlanRequest{AccountId: o.account,
			Plan: "pro"}); err != nil {
			t.Fatal(err)
		}
	},
}

// serve has a provider serve a request, whose usage comes twice.
func (f *fleet) serve(t *testing.T, c consumer, provider string) string {
	t.Helper()
	notices := f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	event := served(req.GetRequestId())
	event.ProviderId = provider
	for range 2 {
		f.publish(t, event)
		for wait(t, notices) != req.GetRequestId() {
		}
	}
	return req.GetRequestId()
}

// held are the requests of a provider whose earnings are held.
func (f *fleet) held(t *testing.T, provider string) []string {
	t.Helper()
	var all []string
	var cursor string
	for {
		page, err := f.accounts.ListHeldEarnings(t.Context(), &billingv1.ListHeldEarningsRequest{ProviderId: provider,
			PageSize: 1, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.GetList()) > 1 {
			t.Fatalf("a page of one: got %d, want at most 1", len(page.GetList()))
		}
		for _, h := range page.GetList() {
			switch {
			case h.GetState() != "held":
				t.Errorf(`held: h.GetState(): got %q, want "held"`, h.GetState())
			case h.GetRule() != "same_user":
				t.Errorf(`held: h.GetRule(): got %q, want "same_user"`, h.GetRule())
			case h.GetPayoutUsdStr() != earned.String():
				t.Errorf("held: h.GetPayoutUsdStr(): got %q, want %q", h.GetPayoutUsdStr(), earned.String())
			}
			all = append(all, h.GetRequestId())
		}
		if cursor = page.GetNextCursor(); cursor == "" {
			return all
		}
	}
}

// refusedInSQL posts two legs by hand, as the application's role.
func (f *fleet) refusedInSQL(t *testing.T, kind, from, book, provider string) {
	t.Helper()
	_, err := f.db.Exec(t.Context(),
		`WITH e AS (INSERT INTO entry (id, kind, business_id) VALUES (gen_random_uuid(), $1, gen_random_uuid()::text)
			RETURNING id, kind)
		INSERT INTO posting (entry_id, leg, entry_kind, account_kind, account_owned, owner_id, book, amount)
		SELECT id, leg, kind, l.account, true, $4::uuid, l.book, amount
			FROM e, (VALUES (1, $2, $3, -1), (2, 'l:provider:payable', '', 1)) AS l (leg, account, book, amount)`,
		kind, from, book, provider)
	if !pg.IsCheck(err, "held_earnings_stay") {
		t.Errorf("%s in SQL: %v", kind, err)
	}
}

func TestHostile40_OwnersEarnNothingAtThePlatformsExpense(t *testing.T) {
	f := start(t)
	for name, tc := range map[string]struct {
		credits  []string
		stranger bool
		held     bool
	}{
		"a plan":                      {credits: []string{"plan"}, held: true},
		"a grant":                     {credits: []string{"grant"}, held: true},
		"a bonus":                     {credits: []string{"bonus"}, held: true},
		"a card":                      {credits: []string{"card"}},
		"a card and a grant":          {credits: []string{"card", "grant"}, held: true},
		"a stranger, by a plan":       {credits: []string{"plan"}, stranger: true},
		"a stranger, by a grant":      {credits: []string{"grant"}, stranger: true},
		"a plan beside credit bought": {credits: []string{"card", "plan"}, held: true},
	} {
		o := f.owner(t)
		for _, c := range tc.credits {
			credits[c](t, f, o)
		}
		provider := o.provider
		if tc.stranger {
			provider = anotherProvider(t)
		}
		request := f.serve(t, o.consumer, provider)
		var want []string
		if tc.held {
			want = []string{request}
		}
		if got := f.held(t, provider); !slices.Equal(got, want) {
			t.Errorf("%s: held: got %v, want %v", name, got, want)
		}
	}
	f.sound(t)
}

func TestHostile40_WhatIsHeldIsNotPaidUntilItIsReleased(t *testing.T) {
	f := start(t)
	o := f.owner(t)
	_, provider := o.ids(t)
	credits["card"](t, f, o)
	f.serve(t, o.consumer, o.provider)
	credits["grant"](t, f, o)
	kept := []string{f.serve(t, o.consumer, o.provider), f.serve(t, o.consumer, o.provider)}
	if got := f.held(t, o.provider); !slices.Equal(got, kept) {
		t.Fatalf("held: got %v, want %v", got, kept)
	}
	batch := func(amount money.NanoUSD) error {
		e, err := ledger.EarningsBatch(newFact(t), provider, amount, 0)
		return f.post(t, e, err)
	}
	if err := batch(earned + 1); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a batch beyond what is free: got the error %v, want %v", err, ledger.ErrHeld)
	}
	if err := batch(earned); err != nil {
		t.Errorf("a batch of what is free: %v", err)
	}
	f.refusedInSQL(t, "earnings_batch", "l:provider:accrued", "", o.provider)
	for range 2 {
		released, err := f.accounts.ReleaseHeldEarnings(t.Context(),
			&billingv1.ReleaseHeldEarningsRequest{RequestIds: kept[:1], Reason: "looked at"})
		if err != nil {
			t.Fatalf("release: got the error %v, want none", err)
		}
		if len(released.GetList()) != 1 {
			t.Fatalf("len(released.GetList()): got %d, want 1, in %v", len(released.GetList()), released)
		}
		switch h := released.GetList()[0]; {
		case h.GetState() != "released":
			t.Errorf(`released: h.GetState(): got %q, want "released"`, h.GetState())
		case h.GetReason() != "looked at":
			t.Errorf(`released: h.GetReason(): got %q, want "looked at"`, h.GetReason())
		case h.GetEndedAt() == nil:
			t.Error("released: h.GetEndedAt(): got nil, want a value")
		case h.GetRequestId() != kept[0]:
			t.Errorf("released: h.GetRequestId(): got %q, want %q", h.GetRequestId(), kept[0])
		}
	}
	if err := batch(2 * earned); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a batch of the other too: got the error %v, want %v", err, ledger.ErrHeld)
	}
	if err := batch(earned); err != nil {
		t.Errorf("a batch of what was released: %v", err)
	}
	if got := f.held(t, o.provider); !slices.Equal(got, kept[1:]) {
		t.Errorf("held: got %v, want %v", got, kept[1:])
	}
	f.sound(t)
}

func TestHostile40_ConcurrentBatchesLeaveWhatIsHeld(t *testing.T) {
	f := start(t)
	o := f.owner(t)
	_, provider := o.ids(t)
	credits["card"](t, f, o)
	f.serve(t, o.consumer, o.provider)
	credits["grant"](t, f, o)
	f.serve(t, o.consumer, o.provider)
	var posted atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		e, err := ledger.EarningsBatch(newFact(t), provider, earned, 0)
		callers.Go(func() {
			switch err := f.post(t, e, err); {
			case err == nil:
				posted.Add(1)
			case !errors.Is(err, ledger.ErrHeld):
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if posted.Load() != 1 {
		t.Errorf("got %d batches posted, want 1", posted.Load())
	}
	f.sound(t)
}

func TestHostile40_AMonthIsNotClosedOverWhatIsHeldAndAForfeitEndsIt(t *testing.T) {
	f := start(t)
	o, other := f.owner(t), f.owner(t)
	_, provider := o.ids(t)
	credits["plan"](t, f, o)
	credits["plan"](t, f, other)
	f.serve(t, other.consumer, o.provider) // a stranger's
	request := f.serve(t, o.consumer, o.provider)
	id, err := ids.ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	month := ledger.Month(id.Day().Format("2006-01"))
	closeMonth := func(provider ids.ProviderID, of money.NanoUSD, more ...ledger.Entry) error {
		entries, err := ledger.PlanClose(func() (ids.EntryID, error) { return entryID(t), nil }, month, 0,
			[]ledger.Share{{Provider: provider, Earned: of}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.books().Post(t.Context(), append(entries, more...)...)
		return err
	}
	forfeit := func(amount money.NanoUSD) error {
		e, err := ledger.PlanForfeit(newFact(t), provider, month, amount)
		return f.post(t, e, err)
	}
	if err := closeMonth(provider, 2*earned); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a share of what is held: got the error %v, want %v", err, ledger.ErrHeld)
	}
	// A part of what is held belongs to no request in particular.
	if err := forfeit(earned + 1); !errors.Is(err, ledger.ErrHeld) {
		t.Errorf("a forfeit of a part of what is held: got the error %v, want %v", err, ledger.ErrHeld)
	}
	if err := forfeit(earned); err != nil {
		t.Errorf("a forfeit of what is not held: %v", err)
	}
	f.refusedInSQL(t, "plan_share", "l:provider:plan_held", string(month), o.provider)
	if got := f.held(t, o.provider); !slices.Equal(got, []string{request}) {
		t.Errorf("after it is held: got %q, want %q", got, []string{request})
	}
	if err := forfeit(earned); err != nil {
		t.Errorf("a forfeit of all: %v", err)
	}
	ended, err := f.accounts.ReleaseHeldEarnings(t.Context(),
		&billingv1.ReleaseHeldEarningsRequest{RequestIds: []string{request}, Reason: "too late"})
	if err != nil || ended.GetList()[0].GetState() != "forfeited" || ended.GetList()[0].GetPlanMonth() != string(month) {
		t.Errorf("what is forfeited: %v, %v", ended, err)
	}

	// The free part is shared and the rest forfeited, all at once.
	_, provider = other.ids(t)
	f.serve(t, o.consumer, other.provider)
	request = f.serve(t, other.consumer, other.provider)
	for _, try := range []struct {
		forfeited money.NanoUSD
		want      error
	}{{1, ledger.ErrHeld}, {earned, nil}} {
		e, err := ledger.PlanForfeit(newFact(t), provider, month, try.forfeited)
		if err != nil {
			t.Fatal(err)
		}
		if err := closeMonth(provider, 2*earned-try.forfeited, e); !errors.Is(err, try.want) {
			t.Errorf("%s forfeited and the rest shared: got the error %v, want %v", try.forfeited, err, try.want)
		}
	}
	if got := f.held(t, other.provider); len(got) > 0 {
		t.Errorf("held %v, although %s is forfeited: got %d, want 0", got, request, len(got))
	}
	f.sound(t)
}

func TestHostile40_ARefundEndsWhatIsHeldOfItsRequestAlone(t *testing.T) {
	f := start(t)
	o := f.owner(t)
	_, provider := o.ids(t)
	credits["card"](t, f, o)
	paid := f.serve(t, o.consumer, o.provider)
	e, err := ledger.EarningsBatch(newFact(t), provider, earned, 0)
	if err := f.post(t, e, err); err != nil {
		t.Fatal(err)
	}
	credits["grant"](t, f, o)
	first, second := f.serve(t, o.consumer, o.provider), f.serve(t, o.consumer, o.provider)
	for _, step := range []struct {
		request string
		cause   usage.RefundCause
		held    []string
	}{
		{first, usage.Goodwill, []string{first, second}}, // the provider keeps what it earned
		{paid, usage.ProviderFault, []string{first, second}},
		{second, usage.ProviderFault, []string{first}},
	} {
		request, err := ids.ParseRequest(step.request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.books().Refund(t.Context(), entryID(t), request, step.cause, ""); err != nil {
			t.Errorf("refund: %v", err)
		}
		if got := f.held(t, o.provider); !slices.Equal(got, step.held) {
			t.Errorf("held: got %v, want %v", got, step.held)
		}
	}
	if e, err = ledger.EarningsBatch(newFact(t), provider, 1, 0); !errors.Is(f.post(t, e, err), ledger.ErrHeld) {
		t.Error("what is held of the first is free")
	}
	f.sound(t)
}

func TestHostile40_OperatorsAreToldWhatTheyDoWrong(t *testing.T) {
	f := start(t)
	release := func(reason string, requests ...string) error {
		_, err := f.accounts.ReleaseHeldEarnings(t.Context(), &billingv1.ReleaseHeldEarningsRequest{RequestIds: requests,
			Reason: reason})
		return err
	}
	list := func(req *billingv1.ListHeldEarningsRequest) error {
		_, err := f.accounts.ListHeldEarnings(t.Context(), req)
		return err
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = newRequest(t)
	}
	for name, c := range map[string]struct {
		err    error
		reason fault.Reason
		param  string
	}{
		"no requests":       {release("x"), fault.InvalidValue, "request_ids"},
		"too many":          {release("x", many...), fault.InvalidValue, "request_ids"},
		"no reason":         {release("", many[0]), fault.InvalidValue, "reason"},
		"nothing held":      {release("x", many[0]), fault.RequestNotFound, "request_ids"},
		"no request":        {release("x", "y"), fault.RequestNotFound, "request_ids"},
		"no provider":       {list(&billingv1.ListHeldEarningsRequest{ProviderId: "x"}), fault.InvalidValue, "provider_id"},
		"a page too large":  {list(&billingv1.ListHeldEarningsRequest{PageSize: 501}), fault.InvalidValue, "page_size"},
		"a page below zero": {list(&billingv1.ListHeldEarningsRequest{PageSize: -1}), fault.InvalidValue, "page_size"},
		"another's cursor":  {list(&billingv1.ListHeldEarningsRequest{Cursor: "x"}), fault.InvalidValue, "cursor"},
	} {
		switch got, ok := fault.As(c.err); {
		case !ok:
			t.Errorf("%s: got the error %v, want a fault", name, c.err)
		case got.Reason != c.reason:
			t.Errorf("%s: %v: Reason: got %q, want %q", name, c.err, got.Reason, c.reason)
		case got.Param != c.param:
			t.Errorf("%s: %v: Param: got %q, want %q", name, c.err, got.Param, c.param)
		}
	}
}
