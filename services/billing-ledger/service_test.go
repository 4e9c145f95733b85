package billingledger_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	billingledger "svc.internal/services/billing-ledger"
)

func TestARequestIsAdmittedSettledAndReceipted(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	notices := f.notices(t)
	req := order(t, c)
	a := f.admit(t, req)
	if a.GetAccountId() != c.account || a.GetHeldNanoUsd() != 2_000_000 ||
		a.GetBillingType() != billingv1.BillingType_BILLING_TYPE_PAYG ||
		!proto.Equal(a.GetRates(), rates) || a.GetPriceVersionId() != price || a.GetRequests().GetLimit() != 200 ||
		a.GetRequests().GetRemaining() != 199 {
		t.Fatalf("admitted as %v", a)
	}
	if got := f.balance(t, c); got != "1.00 held 0.002" {
		t.Errorf(`balance: got %q, want "1.00 held 0.002"`, got)
	}
	f.publish(t, served(req.GetRequestId()))
	if got := wait(t, notices); got != req.GetRequestId() {
		t.Errorf("told: got %q, want %q", got, req.GetRequestId())
	}
	if got := f.balance(t, c); got != "0.9986 held 0.00" {
		t.Errorf(`balance: got %q, want "0.9986 held 0.00"`, got)
	}
	if _, err := f.admission.Conclude(t.Context(), &billingv1.ConcludeRequest{Reports: []*billingv1.RequestReport{{
		RequestId: req.GetRequestId(), Outcome: billingv1.Outcome_OUTCOME_COMPLETED, CommittedAttempt: 2, HttpStatus: 200,
		Stream: true,
		Attempts: []*billingv1.AttemptRecord{
			{Attempt: 1, ProviderId: "p1", ProviderName: "first", Result: "busy"}, {Attempt: 2, ProviderId: provider,
				ProviderName: "second", Result: "served"},
		}, ReceivedAt: timestamppb.Now(), FirstContentMs: 130, TotalMs: 900,
	}, {RequestId: "not an id"}}}); err != nil {
		t.Fatal(err)
	}
	got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: req.GetRequestId(),
		AccountId: c.account})
	if err != nil {
		t.Fatal(err)
	}
	r := proto.CloneOf(got.GetReceipt())
	r.AdmittedAt, r.SettledAt = nil, nil
	want := &billingv1.Receipt{
		RequestId: req.GetRequestId(), Model: "acme/large", Status: "settled", BillingType: "payg", CostUsd: 0.0014,
		CostUsdStr: "0.0014", DiscountUsdStr: "0.00",
		PromptTokens: 800, CompletionTokens: 300, ClaimedPromptTokens: 800, ClaimedCompletionTokens: 300,
		RecountedCompletionTokens: 290,
		PriceVersionId:            price, PricingUnit: "per_1m_tokens", InputPriceStr: "1.00", OutputPriceStr: "2.00",
		ProviderId: provider, ProviderName: "second",
		ConnectionMode: "websocket", RouteMode: "auto", Ending: "completed", HttpStatus: 200, Stream: true,
		Attempts: []*billingv1.ReceiptAttempt{
			{Attempt: 1, ProviderId: "p1", ProviderName: "first", Result: "busy"}, {Attempt: 2, ProviderId: provider,
				ProviderName: "second", Result: "served"},
		}, FirstContentMs: 130, TotalMs: 900,
	}
	if !proto.Equal(r, want) {
		t.Errorf("receipt\n%v\nwant\n%v", r, want)
	}
	accruals, err := f.accruals.ListAccruals(t.Context(),
		&billingv1.ListAccrualsRequest{FirstDay: time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)})
	if err != nil || len(accruals.GetAccruals()) != 1 || accruals.GetAccruals()[0].GetPayoutNanoUsd() != 980_000 ||
		accruals.GetAccruals()[0].GetProviderId() != provider {
		t.Errorf("accruals %v %v", accruals, err)
	}
	f.sound(t)
}

func TestAReceiptSaysHowItsProviderWasReached(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	notices := f.notices(t)
	for _, tc := range []struct {
		mode eventsv1.ConnectionMode
		want string
	}{
		{eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED, "websocket"}, // of a hub that is older than the field
		{eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET, "websocket"},
		{eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL, "external"},
		{9, "external"}, // of a later release
	} {
		req := order(t, c)
		f.admit(t, req)
		event := served(req.GetRequestId())
		event.ConnectionMode = tc.mode
		f.publish(t, event)
		if got := wait(t, notices); got != req.GetRequestId() {
			t.Fatalf("mode %d: told: got %q, want %q", tc.mode, got, req.GetRequestId())
		}
		got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: req.GetRequestId(),
			AccountId: c.account})
		if err != nil {
			t.Fatal(err)
		}
		if mode := got.GetReceipt().GetConnectionMode(); mode != tc.want {
			t.Errorf("mode %d: got %q, want %q", tc.mode, mode, tc.want)
		}
	}
	f.sound(t)
}

func TestImagesAndAudioAreReceiptedInTheirUnit(t *testing.T) {
	f := start(t)
	image := &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_IMAGE, OutputPicoUsdPerToken: 40_000_000_000,
		PayoutOutputPicoUsdPerToken: 36_000_000_000}
	audio := &moneyv1.Rates{Unit: moneyv1.Unit_UNIT_AUDIO_MINUTE, InputPicoUsdPerToken: 6_000_000_000,
		PayoutInputPicoUsdPerToken: 5_400_000_000}
	f.catalog.snapshots <- append(models(),
		&catalogv1.Model{ModelId: "acme/painter", Category: catalogv1.Category_CATEGORY_IMAGE, Active: true,
			Price: &catalogv1.PriceVersion{PriceVersionId: price, Rates: image}},
		&catalogv1.Model{ModelId: "acme/scribe", Category: catalogv1.Category_CATEGORY_AUDIO, Active: true,
			Price: &catalogv1.PriceVersion{PriceVersionId: price, Rates: audio}})
	poor := f.consumer(t, "")
	until(t, func() bool {
		req := order(t, poor)
		req.ModelId = "acme/scribe"
		_, err := f.admission.Admit(t.Context(), req)
		return fault.Is(err, fault.InsufficientCredits)
	})
	c := f.consumer(t, "1")
	notices := f.notices(t)
	for _, tc := range []struct {
		model              string
		rates              *moneyv1.Rates
		prompt, completion int64 // ordered
		billed             [2]int64
		held               int64
		want               *billingv1.Receipt
	}{
		{"acme/painter", image, 0, 3, [2]int64{0, 2}, 120_000_000, &billingv1.Receipt{Images: 2, CostUsdStr: "0.08",
			CostUsd: 0.08, PricingUnit: "per_image", InputPriceStr: "0.00", OutputPriceStr: "0.04"}},
		{"acme/scribe", audio, 90_500, 0, [2]int64{90_500, 0}, 9_050_000, &billingv1.Receipt{AudioSeconds: 90.5,
			CostUsdStr: "0.00905",
			CostUsd:    0.00905, PricingUnit: "per_minute", InputPriceStr: "0.006", OutputPriceStr: "0.00"}},
	} {
		req := order(t, c)
		req.ModelId, req.PromptTokens, req.MaxCompletionTokens = tc.model, tc.prompt, tc.completion
		a := f.admit(t, req)
		if !proto.Equal(a.GetRates(), tc.rates) || a.GetHeldNanoUsd() != tc.held || a.GetRequests().GetLimit() != 60 {
			t.Errorf("%s admitted as %v", tc.model, a)
		}
		event := served(req.GetRequestId())
		event.ModelId, event.Rates = tc.model, tc.rates
		event.BillablePromptTokens, event.BillableCompletionTokens = tc.billed[0], tc.billed[1]
		f.publish(t, event)
		wait(t, notices)
		next := newRequest(t)
		if _, err := f.admission.Conclude(t.Context(), &billingv1.ConcludeRequest{Reports: []*billingv1.RequestReport{{
			RequestId: req.GetRequestId(), Outcome: billingv1.Outcome_OUTCOME_COMPLETED, ContinuedAs: next,
		}}}); err != nil {
			t.Fatal(err)
		}
		got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: req.GetRequestId(),
			AccountId: c.account})
		if err != nil {
			t.Fatal(err)
		}
		r := got.GetReceipt()
		told := &billingv1.Receipt{Images: r.GetImages(), AudioSeconds: r.GetAudioSeconds(), CostUsd: r.GetCostUsd(),
			CostUsdStr:   r.GetCostUsdStr(),
			PromptTokens: r.GetPromptTokens(), CompletionTokens: r.GetCompletionTokens(),
			ClaimedCompletionTokens: r.GetClaimedCompletionTokens(),
			PricingUnit:             r.GetPricingUnit(), InputPriceStr: r.GetInputPriceStr(),
			OutputPriceStr: r.GetOutputPriceStr()}
		if !proto.Equal(told, tc.want) || r.GetContinuedAs() != next {
			t.Errorf("%s is receipted as %v, want %v", tc.model, r, tc.want)
		}
	}
	f.sound(t)
}

func TestReceiptsOfOthersAreNotFound(t *testing.T) {
	f := start(t)
	c, other := f.consumer(t, "1"), f.consumer(t, "1")
	req := order(t, c)
	f.admit(t, req)
	for _, q := range []*billingv1.GetReceiptRequest{
		{RequestId: req.GetRequestId(), AccountId: other.account}, {RequestId: newRequest(t), AccountId: c.account},
		{RequestId: "x", AccountId: c.account}, {RequestId: req.GetRequestId()},
	} {
		if _, err := f.receipts.GetReceipt(t.Context(), q); !fault.Is(err, fault.RequestNotFound) {
			t.Errorf("%v: got the error %v, want the reason %v", q, err, fault.RequestNotFound)
		}
	}
	got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: req.GetRequestId(),
		AccountId: c.account})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case got.GetReceipt().GetStatus() != "open":
		t.Errorf(`own receipt: got.GetReceipt().GetStatus(): got %q, want "open"`, got.GetReceipt().GetStatus())
	case got.GetReceipt().GetCostUsdStr() != "0.00":
		t.Errorf(`own receipt: got.GetReceipt().GetCostUsdStr(): got %q, want "0.00"`, got.GetReceipt().GetCostUsdStr())
	}
}

func TestRedeliveredAndPoisonEventsAreToldAndKeptOnce(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	notices := f.notices(t)
	req := order(t, c)
	f.admit(t, req)
	event := served(req.GetRequestId())
	for range 10 {
		f.publish(t, event)
	}
	altered := proto.CloneOf(event)
	altered.BillableCompletionTokens = 1
	f.publish(t, altered)
	f.publishRaw(t, []byte("\xff\xff\xff"))
	invalid := served(newRequest(t))
	invalid.BillablePromptTokens = -1
	f.publish(t, invalid)
	unknown := served(newRequest(t))
	f.publish(t, unknown)

	told := map[string]int{}
	for range 13 {
		told[wait(t, notices)]++
	}
	switch {
	case told[req.GetRequestId()] != 11:
		t.Errorf("told[req.GetRequestId()]: got %d, want 11", told[req.GetRequestId()])
	case told[invalid.GetRequestId()] != 1:
		t.Errorf("told[invalid.GetRequestId()]: got %d, want 1", told[invalid.GetRequestId()])
	case told[unknown.GetRequestId()] != 1:
		t.Errorf("told[unknown.GetRequestId()]: got %d, want 1", told[unknown.GetRequestId()])
	}
	if got := f.balance(t, c); got != "0.9986 held 0.00" {
		t.Errorf(`balance: got %q, want "0.9986 held 0.00"`, got)
	}
	rows, err := f.db.Query(t.Context(), `SELECT reason FROM quarantine ORDER BY reason`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var reasons []string
	for rows.Next() {
		var reason string
		if err := rows.Scan(&reason); err != nil {
			t.Fatal(err)
		}
		reasons = append(reasons, reason)
	}
	switch {
	case len(reasons) != 4:
		t.Errorf("in quarantine: len(reasons): got %d, want 4, in %v", len(reasons), reasons)
	case reasons[0] != "altered":
		t.Errorf(`in quarantine: reasons[0]: got %q, want "altered"`, reasons[0])
	case reasons[1] != "invalid":
		t.Errorf(`in quarantine: reasons[1]: got %q, want "invalid"`, reasons[1])
	case reasons[2] != "undecodable":
		t.Errorf(`in quarantine: reasons[2]: got %q, want "undecodable"`, reasons[2])
	case reasons[3] != "unknown_request":
		t.Errorf(`in quarantine: reasons[3]: got %q, want "unknown_request"`, reasons[3])
	}
	f.sound(t)
}

func TestUsagePublishedBeforeTheServiceRunsIsSettled(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	req := order(t, c)
	f.admit(t, req)
	f.stop()
	f.publish(t, served(req.GetRequestId()))
	notices := f.notices(t)
	f.run(t)
	wait(t, notices)
	if got := f.balance(t, c); got != "0.9986 held 0.00" {
		t.Errorf(`balance: got %q, want "0.9986 held 0.00"`, got)
	}
}

func TestBeforeTheCatalogIsReadAdmissionIsUnavailable(t *testing.T) {
	f := assemble(t)
	c := f.consumer(t, "1")
	if _, err := f.admission.Admit(t.Context(), order(t, c)); !fault.Is(err, fault.AdmissionUnavailable) {
		t.Errorf("before Run: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
	}
	if err := f.service.Ready(t.Context()); err == nil {
		t.Error("ready before Run")
	}
	f.run(t)
	if _, err := f.admission.Admit(t.Context(), order(t, c)); !fault.Is(err, fault.AdmissionUnavailable) {
		t.Errorf("before the catalog: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
	}
	f.catalog.snapshots <- models()
	until(t, func() bool { return f.service.Ready(t.Context()) == nil })
	f.admit(t, order(t, c))
	f.stop()
	if _, err := f.admission.Admit(t.Context(), order(t, c)); !fault.Is(err, fault.AdmissionUnavailable) {
		t.Errorf("after Run: got the error %v, want the reason %v", err, fault.AdmissionUnavailable)
	}
}

func TestTheRateOfAKeyIsReadWithoutBeingSpent(t *testing.T) {
	// So few that none comes back while the test looks.
	f := start(t, func(cfg *billingledger.Config) { cfg.LLMPerMinute = 2 })
	c := f.consumer(t, "1")
	read := func(key, category string) (*billingv1.RateLimit, error) {
		resp, err := f.admission.ReadRate(t.Context(), &billingv1.ReadRateRequest{KeyId: key, Category: category})
		return resp.GetRequests(), err
	}
	for range 2 {
		if got, err := read(c.key, "llm"); err != nil {
			t.Fatalf("before the first request: got the error %v, want none", err)
		} else if !proto.Equal(got, &billingv1.RateLimit{Limit: 2, Remaining: 2}) {
			t.Fatalf(`before the first request: read(c.key, "llm"): got %v, want %v`, got,
				&billingv1.RateLimit{Limit: 2, Remaining: 2})
		}
	}
	f.admit(t, order(t, c))
	switch got, err := read(c.key, "llm"); {
	case err != nil:
		t.Errorf("after one: got the error %v, want none", err)
	case got.GetRemaining() != 1:
		t.Errorf("after one: got.GetRemaining(): got %d, want 1", got.GetRemaining())
	case got.GetResetMs() <= 0 || got.GetResetMs() > 30_000:
		t.Errorf("after one: got.GetResetMs(): got %d, want more than 0 and at most 30_000", got.GetResetMs())
	}
	if got, err := read(c.key, "audio"); err != nil {
		t.Errorf("of another category: got the error %v, want none", err)
	} else if !proto.Equal(got, &billingv1.RateLimit{Limit: 60, Remaining: 60}) {
		t.Errorf(`of another category: read(c.key, "audio"): got %v, want %v`, got,
			&billingv1.RateLimit{Limit: 60, Remaining: 60})
	}
	if _, err := read(c.key, "none"); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("an unknown category: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	for _, key := range []string{"", "nonsense", newRequest(t)} {
		if _, err := read(key, "llm"); !fault.Is(err, fault.InvalidAPIKey) {
			t.Errorf("the key %q: got the error %v, want the reason %v", key, err, fault.InvalidAPIKey)
		}
	}

	// A refusal tells the same, over the wire.
	_, err := f.admission.Admit(t.Context(), order(t, f.consumer(t, "")))
	refused, _ := fault.As(err)
	switch {
	case refused == nil:
		t.Error("refused: got no error, want one")
	case refused.Reason != fault.InsufficientCredits:
		t.Errorf("refused.Reason: got %q, want %q", refused.Reason, fault.InsufficientCredits)
	case refused.Meta["limit"] != "2":
		t.Errorf(`refused.Meta["limit"]: got %q, want "2"`, refused.Meta["limit"])
	case refused.Meta["remaining"] != "2":
		t.Errorf(`refused.Meta["remaining"]: got %q, want "2"`, refused.Meta["remaining"])
	case refused.Meta["reset_ms"] != "0":
		t.Errorf(`refused.Meta["reset_ms"]: got %q, want "0"`, refused.Meta["reset_ms"])
	}
}

func TestModelsAreAdmittedAsTheCatalogHasThem(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "")
	for model, want := range map[string]fault.Reason{
		"acme/none": fault.ModelNotFound, "acme/retired": fault.ModelNotFound, "acme/broken": fault.ModelNotFound,
		"acme/large": fault.InsufficientCredits,
	} {
		req := order(t, c)
		req.ModelId = model
		if _, err := f.admission.Admit(t.Context(), req); !fault.Is(err, want) {
			t.Errorf("%s: got %v, want %s", model, err, want)
		}
	}
	req := order(t, c)
	req.ModelId = "acme/free"
	switch a := f.admit(t, req); {
	case a.GetBillingType() != billingv1.BillingType_BILLING_TYPE_FREE:
		t.Errorf("free model admitted: a.GetBillingType(): got %v, want %v", a.GetBillingType(),
			billingv1.BillingType_BILLING_TYPE_FREE)
	case a.GetHeldNanoUsd() != 0:
		t.Errorf("free model admitted: a.GetHeldNanoUsd(): got %d, want 0", a.GetHeldNanoUsd())
	case a.GetRequests().GetLimit() != 10:
		t.Errorf("free model admitted: a.GetRequests().GetLimit(): got %d, want 10", a.GetRequests().GetLimit())
	}

	// A price that changes after admission reaches the next request only.
	rich := f.consumer(t, "1")
	before := order(t, rich)
	f.admit(t, before)
	dearer := models()[:1]
	dearer[0].Price = &catalogv1.PriceVersion{PriceVersionId: freePrice, Rates: proto.CloneOf(rates)}
	dearer[0].Price.Rates.InputPicoUsdPerToken *= 2
	f.catalog.snapshots <- dearer
	until(t, func() bool { // it has no other model
		_, err := f.admission.Admit(t.Context(), req)
		return fault.Is(err, fault.ModelNotFound)
	})
	if after := f.admit(t, order(t, rich)); after.GetPriceVersionId() != freePrice {
		t.Errorf("the next request: got %q, want %q", after.GetPriceVersionId(), freePrice)
	}
	if again := f.admit(t, before); again.GetPriceVersionId() != price {
		t.Errorf("the first request is now: again.GetPriceVersionId(): got %q, want %q", again.GetPriceVersionId(), price)
	} else if again.GetHeldNanoUsd() != 2_000_000 {
		t.Errorf("the first request is now: again.GetHeldNanoUsd(): got %d, want 2_000_000", again.GetHeldNanoUsd())
	}
	notices := f.notices(t)
	f.publish(t, served(before.GetRequestId()))
	wait(t, notices)
	got, err := f.receipts.GetReceipt(t.Context(), &billingv1.GetReceiptRequest{RequestId: before.GetRequestId(),
		AccountId: rich.account})
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got.GetReceipt().GetCostUsdStr() != "0.0014" {
		t.Errorf(`got.GetReceipt().GetCostUsdStr(): got %q, want "0.0014"`, got.GetReceipt().GetCostUsdStr())
	}
}

func TestTheLastPricesApplyWhileTheCatalogIsAway(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	f.catalog.end <- fault.New(fault.Unavailable, fault.ServiceUnavailable, "gone")
	f.admit(t, order(t, c))
	f.catalog.snapshots <- models()[1:] // heard by the next stream
	until(t, func() bool {
		_, err := f.admission.Admit(t.Context(), order(t, c))
		return fault.Is(err, fault.ModelNotFound)
	})
}

func TestRevokedKeysAreAnnouncedAndRefused(t *testing.T) {
	f := start(t)
	c := f.consumer(t, "1")
	changed := make(chan string, 1)
	sub, err := f.bus.Subscribe(bus.SubjectKeyChanged, "", func(_ context.Context, m bus.Message) {
		k := &eventsv1.KeyChanged{}
		if err := proto.Unmarshal(m.Data, k); err != nil {
			t.Error(err)
		}
		changed <- k.GetKeyId()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Stop() }()
	sum := sha256.Sum256([]byte(c.text))
	k, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: sum[:]})
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case k.GetKeyId() != c.key:
		t.Fatalf("authenticated: k.GetKeyId(): got %q, want %q", k.GetKeyId(), c.key)
	case k.GetAccountId() != c.account:
		t.Fatalf("authenticated: k.GetAccountId(): got %q, want %q", k.GetAccountId(), c.account)
	case k.GetExpiresAt() != nil:
		t.Fatalf("authenticated: k.GetExpiresAt(): got %v, want nil", k.GetExpiresAt())
	}
	if _, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: sum[1:]}); !fault.Is(err,
		fault.InvalidValue) {
		t.Errorf("short digest: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	if _, err := f.accounts.RevokeKey(t.Context(), &billingv1.RevokeKeyRequest{KeyId: c.key}); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, changed); got != c.key {
		t.Errorf("announced: got %q, want %q", got, c.key)
	}
	if _, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: sum[:]}); !fault.Is(err,
		fault.KeyRevoked) {
		t.Errorf("revoked: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	if _, err := f.admission.Admit(t.Context(), order(t, c)); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("admitted with a revoked key: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
}

func TestAnExpiryThatWouldReadAsNoneIsRefused(t *testing.T) {
	f := start(t)
	account, err := f.accounts.CreateAccount(t.Context(), &billingv1.CreateAccountRequest{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, expires := range []time.Time{{}, time.Unix(0, 0)} {
		_, err := f.accounts.IssueKey(t.Context(), &billingv1.IssueKeyRequest{
			AccountId: account.GetAccount().GetAccountId(), Name: "k", ExpiresAt: timestamppb.New(expires)})
		if got, ok := fault.As(err); !ok {
			t.Errorf("a key that expires at %v: got the error %v, want a fault", expires, err)
		} else if got.Param != "expires_at" {
			t.Errorf(`a key that expires at %v: Param: got %q, want "expires_at"`, expires, got.Param)
		}
	}
}

func TestGrantTakesItsKeyFromBodyOrHeader(t *testing.T) {
	f := assemble(t)
	c := f.consumer(t, "")
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", rand.Text())
	var entry string
	for range 2 {
		g, err := f.accounts.GrantCredit(ctx, &billingv1.GrantCreditRequest{AccountId: c.account, AmountUsd: "2.5",
			Memo: "test"})
		switch {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case g.GetAccount().GetBalanceUsdStr() != "2.50":
			t.Errorf(`granted: g.GetAccount().GetBalanceUsdStr(): got %q, want "2.50"`, g.GetAccount().GetBalanceUsdStr())
		case entry != "" && g.GetEntryId() != entry:
			t.Errorf(`granted: g.GetEntryId(): got %q, want %q, where entry != ""`, g.GetEntryId(), entry)
		}
		entry = g.GetEntryId()
	}
	for _, req := range []*billingv1.GrantCreditRequest{
		{AccountId: c.account, AmountUsd: "2.5", Memo: "m"}, {AccountId: c.account, AmountUsd: "1", IdempotencyKey: "a"},
		{AccountId: c.account, AmountUsd: "1e3", IdempotencyKey: "a", Memo: "m"},
		{AccountId: c.account, AmountUsd: "-1", IdempotencyKey: "a", Memo: "m"},
		{AccountId: c.account, AmountUsd: "1000000.000000001", IdempotencyKey: "a", Memo: "m"},
	} {
		if _, err := f.accounts.GrantCredit(t.Context(), req); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%v: got the error %v, want the reason %v", req, err, fault.InvalidValue)
		}
	}
}

func TestLimitsAreSetAndShown(t *testing.T) {
	f := assemble(t)
	c := f.consumer(t, "")
	set := func(l *billingv1.Limits) (*billingv1.SetAccountLimitsResponse, error) {
		return f.accounts.SetAccountLimits(t.Context(), &billingv1.SetAccountLimitsRequest{AccountId: c.account, Limits: l})
	}
	want := &billingv1.Limits{RequestsPerMinute: 7, ConcurrentRequests: -1}
	if got, err := set(want); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !proto.Equal(got.GetAccount().GetLimits(), want) {
		t.Errorf("set: got.GetAccount().GetLimits(): got %v, want %v", got.GetAccount().GetLimits(), want)
	}
	if _, err := set(&billingv1.Limits{RequestsPerMinute: -2}); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("-2: got the error %v, want the reason %v", err, fault.InvalidValue)
	}
	if _, err := f.accounts.SetAccountLimits(t.Context(),
		&billingv1.SetAccountLimitsRequest{AccountId: newRequest(t)}); !fault.Is(err, fault.AccountNotFound) {
		t.Errorf("unknown account: got the error %v, want the reason %v", err, fault.AccountNotFound)
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	_, err := billingledger.New(t.Context(), billingledger.Config{}, billingledger.Deps{})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Error("faults of an empty configuration: ok: got false, want true")
	} else if got := len(joined.Unwrap()); got != 17 {
		t.Errorf("faults of an empty configuration: len(joined.Unwrap()): got %d, want 17", got)
	}
}
