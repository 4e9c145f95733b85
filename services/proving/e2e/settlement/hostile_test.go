package settlement_test

import (
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

const (
	payoutsPath = "/api/v1/provider/payouts"
	convertPath = "/api/v1/provider/convert"
	depositPath = "/api/v1/provider/collateral/deposit"
	never       = "0192f0c0-0000-7000-8000-00000000dead"
)

// said is an answer.
type said struct {
	status int
	code   string
	body   string
}

// tries calls the API as somebody, whatever the answer is.
func (c *town) tries(t *testing.T, method, path, credential, body string, headers ...string) said {
	t.Helper()
	status, _, answer := c.Call(t, method, path, credential, body, headers...)
	return said{status, trial.ErrorCode(answer), string(answer)}
}

// atOnce makes n calls at once, and counts their answers by status and reason. A busy machine may answer 503, although
// the call was done: then it is made again, with the same Idempotency-Key, as an honest client would.
func (c *town) atOnce(n int, call func(i int) said) map[string]int {
	answers := make([]said, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for range 50 {
				if answers[i] = call(i); answers[i].status != http.StatusServiceUnavailable {
					return
				}
			}
		})
	}
	wg.Wait()
	count := map[string]int{}
	for _, a := range answers {
		count[strings.TrimSpace(fmt.Sprint(a.status, " ", a.code))]++
	}
	return count
}

// only fails the test for answers that are not among the wanted ones.
func only(t *testing.T, what string, got map[string]int, want ...string) {
	t.Helper()
	rest := map[string]int{}
	for answer, n := range got {
		rest[answer] = n
	}
	for _, answer := range want {
		delete(rest, answer)
	}
	if len(rest) > 0 {
		t.Errorf("%s: got the answers %v, want these alone: %v", what, got, want)
	}
}

// counted counts rows.
func (c *town) counted(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := c.db.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// nano is one of the sums of a provider's earnings, in nano-USD.
func nano(t *testing.T, earnings map[string]any, field string) int64 {
	t.Helper()
	r, ok := new(big.Rat).SetString(trial.Text(t, earnings, field))
	if !ok {
		t.Fatalf("%s: got %v, want an amount", field, earnings[field])
	}
	n := new(big.Rat).Mul(r, big.NewRat(1_000_000_000, 1))
	return n.Num().Int64()
}

// TestHostile makes the attacks on what is earned on one marketplace, one after the other.
func TestHostile(t *testing.T) {
	t.Parallel() // it has a marketplace of its own
	c := newPeered(t, "SVC_SETTLEMENT_PAYOUTS_ALONE_USD=0", "SVC_SETTLEMENT_CARD_COLLATERAL=true")
	victim, thief := c.newOwner(t, "vic", 0x71), c.newOwner(t, "mal", 0x72)
	victim.serveWithCollateral(t, 8453)
	victim.Earn(t, 60)
	c.NextDay(t)
	victim.Payable(t)
	thief.Login(t)
	attacks := []struct {
		name string
		run  func(*testing.T, *peered, *owner, *owner)
	}{
		{"T21_amounts_that_are_none", oddAmounts},
		{"T52_payouts_and_conversions_of_the_same_money", sameMoney},
		{"T48_a_hundred_payouts_at_once", hundredPayouts},
		{"T06_ids_and_keys_of_another", ofAnother},
		{"T04_a_provider_key_moves_no_money", keyAlone},
		{"T49_a_refund_beside_a_payout", besidePayout},
		{"T53_pages_and_webhooks_of_cards", cardPages},
		{"T06_appeals_of_another", appealOfAnother},
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) { a.run(t, c, victim, thief) })
	}
	c.verified(t)
}

func oddAmounts(t *testing.T, c *peered, victim, _ *owner) {
	for i, amount := range []string{`"10.0000001"`, `"1e3"`, `1e1`, `-12.5`, `"-12.5"`, `"+12"`, `"0012.5"`, `"12."`,
		`".5"`,
		`"１２"`, `"١٢"`, `" 12"`, `"12\u0000"`, `"9.99"`, `0`, `"0.00"`, `"99999999999999999999999"`, `"1000000.01"`,
		`"1000001"`, `true`, `{}`, `["12"]`, `"12","amount_usd":"12"`, `null`, `""`, `"0x10"`, `"Infinity"`, `"NaN"`} {
		got := c.tries(t, http.MethodPost, payoutsPath, victim.Token, `{"amount_usd":`+amount+`}`, "Idempotency-Key",
			fmt.Sprint("odd-", i))
		if got.status != http.StatusBadRequest && got.status != http.StatusUnprocessableEntity {
			t.Errorf("amount %s: got %d %s, want a refusal", amount, got.status, got.body)
		}
	}
	for i, chain := range []string{"0.5", "-1", `"8453"`, "31337", "1", "254", "99999999999"} {
		got := c.tries(t, http.MethodPost, payoutsPath, victim.Token, `{"amount_usd":"10","chain_id":`+chain+`}`,
			"Idempotency-Key", fmt.Sprint("chain-", i))
		if got.status != http.StatusBadRequest {
			t.Errorf("chain %s: got %d %s, want 400", chain, got.status, got.body)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", 256), "ü"} {
		got := c.tries(t, http.MethodPost, payoutsPath, victim.Token, `{"amount_usd":"10"}`, "Idempotency-Key", key)
		if got.status != http.StatusBadRequest {
			t.Errorf("the key %q: got %d %s, want 400", key, got.status, got.body)
		}
	}
	if n := c.counted(t, `SELECT count(*) FROM settlement.payout`); n != 0 {
		t.Errorf("payouts: got %d, want none", n)
	}
}

// sameMoney converts and asks for payouts at once, each of nearly all there is.
func sameMoney(t *testing.T, c *peered, victim, thief *owner) {
	before := c.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/earnings", victim.Key, "")
	payable := nano(t, before, "payable_usd_str")
	got := c.atOnce(60, func(i int) said {
		if i%3 > 0 {
			return c.tries(t, http.MethodPost, convertPath, victim.Token, `{"amount_usd":"0.3"}`, "Idempotency-Key",
				fmt.Sprint("convert-", i))
		}
		return c.tries(t, http.MethodPost, payoutsPath, victim.Token, `{"amount_usd":"12"}`, "Idempotency-Key",
			fmt.Sprint("payout-", i))
	})
	only(t, "calls", got, "200", "201", "422 insufficient_earnings", "409 payout_pending", "409 payout_too_frequent")
	after := c.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/earnings", victim.Key, "")
	taken := nano(t, after, "converted_usd_str") + nano(t, after, "in_flight_usd_str")
	rest := nano(t, after, "payable_usd_str")
	if rest < 0 {
		t.Errorf("payable: got %d, want what is not below zero", rest)
	}
	if taken+rest != payable {
		t.Errorf("converted, in flight and payable: got %d and %d, want %d together", taken, rest, payable)
	}
	if n := nano(t, after, "converted_usd_str"); n != int64(got["200"])*300_000_000 {
		t.Errorf("converted: got %d, want the %d conversions that were told so", n, got["200"])
	}
	// What is open ends, so that the next attack begins anew.
	page := c.Admin(t, http.MethodGet, "/api/v1/admin/payouts", "")
	list, _ := page["list"].([]any)
	for _, p := range list {
		if trial.Text(t, p, "state") == "PAYOUT_STATE_REQUESTED" {
			c.Admin(t, http.MethodPost, "/api/v1/admin/payouts/"+trial.Text(t, p, "payout_id")+"/cancel", `{"reason":"test"}`)
		}
	}
	victim.Earn(t, 60)
	c.NextDay(t)
	trial.Until(t, "the next batch is posted", func() bool {
		earnings := c.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/earnings", victim.Key, "")
		return nano(t, earnings, "payable_usd_str") > 13_000_000_000
	})
	victim.Login(t)
	thief.Login(t)
}

// hundredPayouts asks a hundred times at once, half of the calls with one key.
func hundredPayouts(t *testing.T, c *peered, victim, _ *owner) {
	before := c.counted(t, `SELECT count(*) FROM settlement.payout`)
	got := c.atOnce(100, func(i int) said {
		key := "one"
		if i%2 == 0 {
			key = fmt.Sprint("each-", i)
		}
		return c.tries(t, http.MethodPost, payoutsPath, victim.Token, `{"amount_usd":"12.50"}`, "Idempotency-Key", key)
	})
	only(t, "calls", got, "201", "409 payout_pending", "422 insufficient_earnings")
	if n := c.counted(t, `SELECT count(*) FROM settlement.payout`); n != before+1 {
		t.Errorf("payouts: got %d more, want 1 (answers %v)", n-before, got)
	}
	earnings := c.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/earnings", victim.Key, "")
	if got, want := earnings["in_flight_usd_str"], "12.50"; got != want {
		t.Errorf("in flight: got %v, want %s", got, want)
	}
}

// open is the open payout of an owner.
func (o *owner) open(t *testing.T) (id string) {
	t.Helper()
	list, _ := trial.At(o.town.Wants(t, http.StatusOK, http.MethodGet, payoutsPath, o.Key, ""), "list").([]any)
	for _, one := range list {
		if trial.Text(t, one, "state") == "requested" {
			return trial.Text(t, one, "payout_id")
		}
	}
	t.Fatalf("the payouts: got %v, want one that is requested", list)
	return ""
}

func ofAnother(t *testing.T, c *peered, victim, thief *owner) {
	id := victim.open(t)
	for what, path := range map[string]string{"cancel": payoutsPath + "/%s/cancel",
		"cancel by another spelling": payoutsPath + "/%s%%20/cancel"} {
		theirs := c.tries(t, http.MethodPost, fmt.Sprintf(path, id), thief.Token, "", "Idempotency-Key", "x")
		none := c.tries(t, http.MethodPost, fmt.Sprintf(path, never), thief.Token, "", "Idempotency-Key", "y")
		alike(t, what, theirs, none)
	}
	// A key is its provider's.
	got := c.tries(t, http.MethodPost, payoutsPath, thief.Token, `{"amount_usd":"12.50"}`, "Idempotency-Key", "one")
	if got.code != "insufficient_earnings" {
		t.Errorf("the victim's key: got %d %s, want insufficient_earnings", got.status, got.body)
	}
	for _, path := range []string{payoutsPath, "/api/v1/provider/statements", "/api/v1/provider/penalties"} {
		page := c.Wants(t, http.StatusOK, http.MethodGet, path+"?provider_id="+victim.ID, thief.Token, "")
		if list, _ := page["list"].([]any); len(list) > 0 {
			t.Errorf("%s of the thief: got %v, want nothing", path, list)
		}
	}
	if again := victim.open(t); again != id {
		t.Errorf("the victim's payout: got %s, want %s as before", again, id)
	}
}

// alike fails the test unless both answers are the same 404.
func alike(t *testing.T, what string, theirs, none said) {
	t.Helper()
	if theirs.status != http.StatusNotFound {
		t.Errorf("%s: got %d %s, want 404", what, theirs.status, theirs.body)
	}
	if theirs.code != none.code {
		t.Errorf("%s: got %s, want %s as of an id that never was", what, theirs.code, none.code)
	}
}

func keyAlone(t *testing.T, c *peered, victim, _ *owner) {
	for _, call := range [][2]string{{http.MethodPost, payoutsPath}, {http.MethodPost, convertPath},
		{http.MethodPost, payoutsPath + "/" + victim.open(t) + "/cancel"}, {http.MethodPost, depositPath},
		{http.MethodPost, refundPath}, {http.MethodDelete, refundPath}, {http.MethodPut, "/api/v1/provider/collateral"}} {
		got := c.tries(t, call[0], call[1], victim.Key, `{"amount_usd":"10","settlement_chain_id":8453}`, "Idempotency-Key",
			"stolen")
		if got.code != "owner_required" {
			t.Errorf("%s %s: got %d %s, want owner_required", call[0], call[1], got.status, got.body)
		}
	}
}

func besidePayout(t *testing.T, c *peered, victim, _ *owner) {
	got := c.atOnce(20, func(i int) said {
		return c.tries(t, http.MethodPost, refundPath, victim.Token, "", "Idempotency-Key", fmt.Sprint("refund-", i))
	})
	only(t, "refunds", got, "409 refund_blocked")
	victim.suspendedNot(t)
}

func (o *owner) suspendedNot(t *testing.T) {
	t.Helper()
	if o.suspended(t) {
		t.Error("the causes of the suspension: got the refund, want none")
	}
}

// page opens a page on which to pay by card.
func (o *owner) page(t *testing.T, key, returnURL string) said {
	t.Helper()
	return o.town.tries(t, http.MethodPost, depositPath, o.Token, `{"amount_usd":"20","return_url":"`+returnURL+`"}`,
		"Idempotency-Key", key)
}

func cardPages(t *testing.T, c *peered, victim, thief *owner) {
	for i, bad := range []string{"javascript:alert(1)", "data:text/html,x", "//evil.example", "/x",
		"https://u:p@x.example",
		"ftp://x.example", "", "https:", "vbscript:x"} {
		if got := thief.page(t, fmt.Sprint("bad-", i), bad); got.status != http.StatusBadRequest {
			t.Errorf("return_url %q: got %d %s, want 400", bad, got.status, got.body)
		}
	}
	made := victim.page(t, "page", `https://x.example/\"><script>alert(1)</script>`)
	if made.status != http.StatusOK {
		t.Fatalf("a page: got %d %s, want 200", made.status, made.body)
	}
	at, err := url.Parse(trial.Text(t, trial.Decode(t, []byte(made.body)), "url"))
	if err != nil {
		t.Fatal(err)
	}
	if same := thief.page(t, "page", "https://x.example/"); strings.Contains(same.body, at.Path) {
		t.Errorf("the victim's key: got the victim's page %s, want another", same.body)
	}
	shown := c.tries(t, http.MethodGet, at.Path, "", "")
	if strings.Contains(shown.body, "<script") {
		t.Errorf("the page: got %s, want no script", shown.body)
	}
	if !strings.Contains(shown.body, "No money moves") {
		t.Errorf("the page: got %s, want the word that no money moves", shown.body)
	}
	session := strings.TrimPrefix(at.Path, "/sandbox/checkout/")
	for what, path := range map[string]string{"no session": "/sandbox/checkout/sbx_cs_aaaaaaaaaaaaaaaaaaaaaaaaaa",
		"a part of one": "/sandbox/checkout/" + session[:len(session)-1], "a wildcard": "/sandbox/checkout/sbx_cs_%25",
		"another case": "/sandbox/checkout/" + strings.ToUpper(session), "the checkout": "/sandbox/checkout/" +
			trial.Text(t, trial.Decode(t, []byte(made.body)), "checkout_id")} {
		if got := c.tries(t, http.MethodGet, path, "", ""); got.status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", what, got.status)
		}
	}
	webhooks(t, c, session)
	form := "action=pay&amount=1&total_cents=1&provider=" + thief.ID + "&return_url=https://evil.example"
	paid := c.tries(t, http.MethodPost, at.Path, "", form, "Content-Type", "application/x-www-form-urlencoded")
	if !strings.Contains(paid.body, "Paid, with sandbox money") {
		t.Errorf("a form with more than a button: got %d %s, want the page that is paid", paid.status, paid.body)
	}
	if strings.Contains(paid.body, "evil.example") {
		t.Errorf("a form with an address: got %s, want the address of before", paid.body)
	}
	trial.Until(t, "the payment is the victim's", func() bool { return victim.byCard(t) == "20.00" })
	if got := thief.byCard(t); got != "0.00" {
		t.Errorf("the thief's collateral by card: got %s, want 0.00", got)
	}
}

// byCard is what is free of the provider's collateral by card.
func (o *owner) byCard(t *testing.T) string {
	t.Helper()
	return trial.Text(t, o.town.Wants(t, http.StatusOK, http.MethodGet, "/api/v1/provider/collateral", o.Key, ""),
		"card", "free_usd_str")
}

// webhooks sends events that nobody signed.
func webhooks(t *testing.T, c *peered, session string) {
	t.Helper()
	event := `{"id":"evt_forged","type":"checkout.session.completed","livemode":false,"data":{"object":{"id":"` + session +
		`"}}}`
	hmac := strings.Repeat("0", 64)
	for what, header := range map[string]string{
		"none": "", "no secret": "t=1700000000,v1=" + hmac, "another version": "t=1700000000,v0=" + hmac,
		"many": "t=1," + strings.Repeat("v1="+hmac+",", 30) + "v1=" + hmac, "no time": "v1=" + hmac,
	} {
		headers := []string{"Content-Type", "application/json"}
		if header != "" {
			headers = append(headers, "X-Svc-Signature", header)
		}
		if got := c.tries(t, http.MethodPost, "/webhooks/card", "", event, headers...); got.code != "invalid_signature" {
			t.Errorf("a webhook signed by %s: got %d %s, want invalid_signature", what, got.status, got.body)
		}
	}
	large := strings.Repeat("x", 256<<10+1)
	if got := c.tries(t, http.MethodPost, "/webhooks/card", "", large, "X-Svc-Signature", "t=1,v1="+
		hmac); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("256 KiB and a byte: got %d, want 413", got.status)
	}
	if n := c.counted(t, `SELECT count(*) FROM billing.processor_event`); n != 0 {
		t.Errorf("events that were stored: got %d, want none", n)
	}
}

func appealOfAnother(t *testing.T, c *peered, victim, thief *owner) {
	id := c.penalize(t, victim, 1_000)
	path := "/api/v1/provider/penalties/%s/appeal"
	theirs := c.tries(t, http.MethodPost, fmt.Sprintf(path, id), thief.Token, `{"text":"it is not mine"}`)
	none := c.tries(t, http.MethodPost, fmt.Sprintf(path, never), thief.Token, `{"text":"it is not mine"}`)
	alike(t, "an appeal of another's penalty", theirs, none)
	if got := trial.At(victim.penalty(t, id), "state"); got != "proposed" {
		t.Errorf("the victim's penalty: got %v, want proposed", got)
	}
}
