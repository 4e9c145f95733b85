package billingledger_test

import (
	"context"
	"encoding/json"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/descriptorpb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// kept is an audit entry.
type kept struct {
	actor, action, subject string
	detail                 map[string]any
}

// kept are the audit entries after the first so many.
func (f *fleet) kept(t *testing.T, known int) []kept {
	t.Helper()
	rows, err := f.db.Query(t.Context(),
		`SELECT actor, action, subject::text, detail FROM operator_action ORDER BY id OFFSET $1`, known)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []kept
	for rows.Next() {
		var k kept
		var detail []byte
		if err := rows.Scan(&k.actor, &k.action, &k.subject, &detail); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(detail, &k.detail); err != nil {
			t.Fatal(err)
		}
		list = append(list, k)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// F14: each call of an operator that changes something leaves one audit entry with
// the operator's name, and a repeat that changes nothing leaves none. A method that
// is added to the service fails this test until it has a case.
func TestEachActionOfAnOperatorLeavesAnEntryWithTheOperatorsName(t *testing.T) {
	f := start(t)
	o := f.owner(t)
	credits["grant"](t, f, o)
	held := f.serve(t, o.consumer, o.provider)
	subscriber := f.owner(t)
	credits["plan"](t, f, subscriber)
	covered := f.serve(t, subscriber.consumer, subscriber.provider)
	c := f.consumer(t, "")
	alice := metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice"))
	type result struct {
		subject string
		err     error
	}
	// Each runs twice; what is asked for is the same both times.
	cases := map[string]struct {
		call   func(ctx context.Context) result
		action string
		detail map[string]any
		// again is how many entries a repeat leaves.
		again int
	}{
		"CreateAccount": {func(ctx context.Context) result {
			m, err := f.accounts.CreateAccount(ctx, &billingv1.CreateAccountRequest{Name: "new", IdempotencyKey: "once"})
			return result{m.GetAccount().GetAccountId(), err}
		}, "create_account", map[string]any{"name": "new"}, 0},
		"GrantCredit": {func(ctx context.Context) result {
			_, err := f.accounts.GrantCredit(ctx, &billingv1.GrantCreditRequest{AccountId: c.account, AmountUsd: "2.5",
				IdempotencyKey: "once", Memo: "sorry"})
			return result{c.account, err}
		}, "grant_credit", map[string]any{"amount_usd": "2.50", "memo": "sorry"}, 0},
		"SetAccountLimits": {func(ctx context.Context) result {
			_, err := f.accounts.SetAccountLimits(ctx, &billingv1.SetAccountLimitsRequest{AccountId: c.account,
				Limits: &billingv1.Limits{RequestsPerMinute: 7, ConcurrentRequests: -1}})
			return result{c.account, err}
		}, "set_limits", map[string]any{"requests_per_minute": 7.0, "concurrent_requests": -1.0}, 0},
		"SetAccountPlan": {func(ctx context.Context) result {
			_, err := f.accounts.SetAccountPlan(ctx, &billingv1.SetAccountPlanRequest{AccountId: c.account, Plan: "pro"})
			return result{c.account, err}
		}, "set_plan", map[string]any{"plan": "pro", "until": nil}, 0},
		"SetAccountState": {func(ctx context.Context) result {
			_, err := f.accounts.SetAccountState(ctx, &billingv1.SetAccountStateRequest{AccountId: c.account, State: "frozen",
				Memo: "why"})
			return result{c.account, err}
		}, "set_state", map[string]any{"state": "frozen", "memo": "why"}, 0},
		"IssueKey": {func(ctx context.Context) result {
			_, err := f.accounts.IssueKey(ctx, &billingv1.IssueKeyRequest{AccountId: c.account, Name: "second"})
			return result{c.account, err}
		}, "issue_key", map[string]any{"name": "second"}, 1},
		"RevokeKey": {func(ctx context.Context) result {
			_, err := f.accounts.RevokeKey(ctx, &billingv1.RevokeKeyRequest{KeyId: c.key})
			return result{c.key, err}
		}, "revoke_key", nil, 0},
		"ReleaseHeldEarnings": {func(ctx context.Context) result {
			_, err := f.accounts.ReleaseHeldEarnings(ctx, &billingv1.ReleaseHeldEarningsRequest{RequestIds: []string{held},
				Reason: "known"})
			return result{held, err}
		}, "release_earnings", map[string]any{"provider_id": o.provider, "reason": "known", "payout_usd": earned.String()},
			0},
		"ForfeitHeldEarnings": {func(ctx context.Context) result {
			_, err := f.accounts.ForfeitHeldEarnings(ctx, &billingv1.ForfeitHeldEarningsRequest{RequestIds: []string{covered},
				Reason: "own"})
			return result{covered, err}
		}, "forfeit_earnings", map[string]any{"provider_id": subscriber.provider, "reason": "own",
			"payout_usd": earned.String()}, 0},
	}
	methods := billingv1.File_svc_billing_v1_account_proto.Services().ByName("AccountAdminService").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		options, _ := methods.Get(i).Options().(*descriptorpb.MethodOptions)
		if options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
			continue
		}
		tc, ok := cases[name]
		if !ok {
			t.Errorf("got no case for %s, want one for each method that changes something", name)
			continue
		}
		known := len(f.kept(t, 0))
		got := tc.call(alice)
		if got.err != nil {
			t.Fatalf("%s: %v", name, got.err)
		}
		list := f.kept(t, known)
		if len(list) != 1 || list[0].actor != "operator:alice" || list[0].action != tc.action ||
			list[0].subject != got.subject {
			t.Errorf("%s: got the entries %+v, want one of operator:alice that says %s of %s", name, list, tc.action,
				got.subject)
			continue
		}
		for member, want := range tc.detail {
			if said, ok := list[0].detail[member]; !ok || said != want {
				t.Errorf("%s: got %s %v in the entry, want %v", name, member, said, want)
			}
		}
		if again := tc.call(alice); again.err != nil {
			t.Errorf("%s again: %v", name, again.err)
		}
		if list := f.kept(t, known+1); len(list) != tc.again {
			t.Errorf("%s again: got the entries %+v, want %d", name, list, tc.again)
		}
	}
}

// A caller that is no gateway's operator, or whose name is none, is written down
// without a name; a call that fails leaves nothing.
func TestAnEntryHasNoNameThatIsNoOperators(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "")
	known := len(f.kept(t, 0))
	for _, name := range []string{"<b>", "Alice", "a b"} {
		ctx := metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata(name))
		if _, err := f.accounts.GrantCredit(ctx, &billingv1.GrantCreditRequest{AccountId: c.account, AmountUsd: "1",
			IdempotencyKey: name, Memo: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx := metadata.NewOutgoingContext(t.Context(), serve.OperatorMetadata("alice"))
	if _, err := f.accounts.GrantCredit(ctx, &billingv1.GrantCreditRequest{AccountId: newRequest(t), AmountUsd: "1",
		IdempotencyKey: "k", Memo: "test"}); !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("got %v for an account that is not there, want %s", err, fault.AccountNotFound)
	}
	if _, err := f.accounts.SetAccountLimits(ctx, &billingv1.SetAccountLimitsRequest{AccountId: newRequest(t),
		Limits: &billingv1.Limits{}}); !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("got %v for the limits of an account that is not there, want %s", err, fault.AccountNotFound)
	}
	list := f.kept(t, known)
	if len(list) != 3 {
		t.Errorf("got the entries %+v, want three", list)
	}
	for _, k := range list {
		if k.actor != "operator" {
			t.Errorf("got the actor %q, want operator", k.actor)
		}
	}
}
