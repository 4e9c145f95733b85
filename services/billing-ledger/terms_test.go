package billingledger_test

import (
	"math"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

// What an operator agrees is told by admission, with the key, and on the receipt.
func TestTermsAreAgreedToldAndCharged(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	want := &billingv1.AccountTerms{DiscountBasisPoints: 2500, Priority: true, RequestsPerMinute: 90,
		Categories: []*billingv1.CategoryTerms{{Category: "image", RequestsPerMinute: -1},
			{Category: "llm", ConcurrentRequests: 4, TokensPerDay: 10_000}}}
	if _, err := f.terms.SetAccountTerms(t.Context(), &billingv1.SetAccountTermsRequest{AccountId: c.account, Terms: want,
		Note: "contract"}); err != nil {
		t.Fatal(err)
	}
	got, err := f.terms.GetAccountTerms(t.Context(), &billingv1.GetAccountTermsRequest{AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	if answer := (&billingv1.GetAccountTermsResponse{Terms: want, Note: "contract"}); !proto.Equal(got, answer) {
		t.Errorf("terms: got %v, want %v", got, answer)
	}
	running := order(t, c)
	admitted := f.admit(t, running)
	if got := admitted.GetDiscountBasisPoints(); got != 2500 {
		t.Errorf("admitted: got a discount of %d, want 2500", got)
	}
	if !admitted.GetPriority() {
		t.Error("admitted: got no priority, want it")
	}
	notices := f.notices(t)
	f.publish(t, served(running.GetRequestId()))
	wait(t, notices)
	r, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: running.GetRequestId(),
		AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	cost, off := r.GetReceipt().GetCostUsd(), r.GetReceipt().GetDiscountUsd()
	if got := math.Round(1e6 * off / (off + cost)); got != 250_000 {
		t.Errorf("receipt: got a cost of %v and a discount of %v, want three quarters and one", cost, off)
	}
	f.sound(t)
}

func TestTermsOfUnknownCategoriesAndAccountsAreRefused(t *testing.T) {
	f := assemble(t)
	c := f.consumer(t, "")
	of := func(all ...*billingv1.CategoryTerms) *billingv1.AccountTerms {
		return &billingv1.AccountTerms{Categories: all}
	}
	llm := &billingv1.CategoryTerms{Category: "llm"}
	tokens := func(category string, n float64) *billingv1.AccountTerms {
		return of(&billingv1.CategoryTerms{Category: category, TokensPerDay: n})
	}
	for name, tc := range map[string]struct {
		account, note string
		terms         *billingv1.AccountTerms
		want          fault.Reason
	}{
		"an unknown category":     {c.account, "n", of(&billingv1.CategoryTerms{Category: "video"}), fault.InvalidValue},
		"no category":             {c.account, "n", of(&billingv1.CategoryTerms{}), fault.InvalidValue},
		"a category twice":        {c.account, "n", of(llm, llm), fault.InvalidValue},
		"too many categories":     {c.account, "n", of(llm, llm, llm, llm, llm, llm), fault.InvalidValue},
		"half a token":            {c.account, "n", tokens("llm", 0.5), fault.InvalidValue},
		"tokens beyond all count": {c.account, "n", tokens("llm", 1e300), fault.InvalidValue},
		"tokens of images":        {c.account, "n", tokens("image", 1), fault.InvalidValue},
		"a discount of all": {c.account, "n", &billingv1.AccountTerms{DiscountBasisPoints: 10_000},
			fault.InvalidValue},
		"a discount that wraps": {c.account, "n", &billingv1.AccountTerms{DiscountBasisPoints: 65_536 + 100},
			fault.InvalidValue},
		"no note":            {c.account, "", of(llm), fault.InvalidValue},
		"an unknown account": {newRequest(t), "n", of(llm), fault.AccountNotFound},
		"no account":         {"x", "n", of(llm), fault.AccountNotFound},
	} {
		_, err := f.terms.SetAccountTerms(t.Context(), &billingv1.SetAccountTermsRequest{AccountId: tc.account,
			Terms: tc.terms, Note: tc.note})
		if !fault.Is(err, tc.want) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, tc.want)
		}
	}
	got, err := f.terms.GetAccountTerms(t.Context(), &billingv1.GetAccountTermsRequest{AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got.GetTerms(), &billingv1.AccountTerms{}) {
		t.Errorf("terms: got %v, want none", got)
	}
	if _, err := f.terms.GetAccountTerms(t.Context(), &billingv1.GetAccountTermsRequest{AccountId: "x"}); !fault.Is(err,
		fault.AccountNotFound) {
		t.Errorf("no account: got the error %v, want the reason %v", err, fault.AccountNotFound)
	}
}

// What a page says of limits is what admission counts by.
func TestLimitsAreToldWithTheDefaultsOfThisLedger(t *testing.T) {
	f := assemble(t, func(c *billingledger.Config) { c.LLMPerMinute, c.ConcurrentPerKey = 7, -1 })
	c := f.consumer(t, "")
	got, err := f.ownLimits.GetConsumerLimits(asUser(t, c.account), &billingv1.GetConsumerLimitsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := f.ownLimits.SetSpendCaps(asUser(t, c.account), &billingv1.SetSpendCapsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &billingv1.DefaultLimits{ZeroPricedRequestsPerMinute: 10, ConcurrentRequests: -1,
		Categories: []*billingv1.CategoryRate{{Category: "llm", RequestsPerMinute: 7},
			{Category: "multimodal", RequestsPerMinute: 200}, {Category: "embedding", RequestsPerMinute: 500},
			{Category: "image", RequestsPerMinute: 60}, {Category: "audio", RequestsPerMinute: 60}}}
	for name, got := range map[string]*billingv1.ConsumerLimits{"read": got.GetLimits(), "set": set.GetLimits()} {
		if !proto.Equal(got.GetDefaults(), want) {
			t.Errorf("%s: got %v, want %v", name, got.GetDefaults(), want)
		}
	}
}

// A user sees the terms of the own account, without what operators noted, and nobody sees another's.
func TestAUserReadsTheTermsOfTheOwnAccount(t *testing.T) {
	f := assemble(t)
	c, other := f.consumer(t, ""), f.consumer(t, "")
	agreed := &billingv1.AccountTerms{DiscountBasisPoints: 500, Categories: []*billingv1.CategoryTerms{{Category: "llm",
		RequestsPerMinute: 900}}}
	if _, err := f.terms.SetAccountTerms(t.Context(), &billingv1.SetAccountTermsRequest{AccountId: c.account,
		Terms: agreed, Note: "between us"}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		account string
		want    *billingv1.AccountTerms
	}{"the own": {c.account, agreed}, "another's": {other.account, nil}} {
		got, err := f.ownTerms.GetConsumerTerms(asUser(t, tc.account), &billingv1.GetConsumerTermsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if want := (&billingv1.GetConsumerTermsResponse{Terms: tc.want}); !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if _, err := f.ownTerms.GetConsumerTerms(t.Context(), &billingv1.GetConsumerTermsRequest{}); !fault.Is(err,
		fault.InvalidSession) {
		t.Errorf("nobody: got the error %v, want the reason %s", err, fault.InvalidSession)
	}
}

func TestAContactNeedsAKeyAndIsOfTheCallersAccount(t *testing.T) {
	f := assemble(t)
	up, err := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: "ann@example.com", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	u := up.GetUser()
	if _, err := f.db.Exec(t.Context(), `UPDATE app_user SET email_confirmed_at = now()`); err != nil {
		t.Fatal(err)
	}
	as := asUser(t, u.GetAccountId())
	send := &billingv1.SendEnterpriseContactRequest{Message: "more"}
	if _, err := f.ownTerms.SendEnterpriseContact(as, send); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("without a key: got the error %v, want the reason %s", err, fault.InvalidValue)
	}
	byHeader := metadata.AppendToOutgoingContext(as, "idempotency-key", "k")
	sent, err := f.ownTerms.SendEnterpriseContact(byHeader, send)
	if err != nil {
		t.Fatal(err)
	}
	send.IdempotencyKey = "k"
	again, err := f.ownTerms.SendEnterpriseContact(as, send)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(sent, again) {
		t.Errorf("a repeat: got %v, want %v", again, sent)
	}
	list, err := f.terms.ListEnterpriseContacts(t.Context(), &billingv1.ListEnterpriseContactsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &billingv1.EnterpriseContact{ContactId: sent.GetContactId(), AccountId: u.GetAccountId(),
		Email: "ann@example.com", Message: "more", State: "open", CreatedAt: sent.GetCreatedAt()}
	if alone := (&billingv1.ListEnterpriseContactsResponse{List: []*billingv1.EnterpriseContact{want}}); !proto.Equal(
		list, alone) {
		t.Errorf("listed: got %v, want %v", list, alone)
	}
	for _, id := range []string{"x", ""} {
		if _, err := f.terms.AnswerEnterpriseContact(t.Context(), &billingv1.AnswerEnterpriseContactRequest{ContactId: id,
			Note: "n"}); !fault.Is(err, fault.ContactNotFound) {
			t.Errorf("answer %q: got the error %v, want the reason %s", id, err, fault.ContactNotFound)
		}
	}
}
