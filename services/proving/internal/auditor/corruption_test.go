package auditor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// corruption is one wrong that is put into the fixture, with the finding that must
// follow.
type corruption struct {
	name    string
	change  func(f *fixture)
	verdict Verdict
	// subject is the subject of the finding, and text a part of its sentence.
	subject, text string
}

func ofID(kind, u string) string { return kind + " " + u }

func onRequest(n int) string  { return ofID("request", requestID(n)) }
func onAccount(a int) string  { return ofID("account", accountID(a)) }
func onKey(a int) string      { return ofID("key", keyID(a)) }
func onEntry(n int) string    { return ofID("entry", entryID(n)) }
func onProvider(p int) string { return ofID("provider", providerID(p)) }

// bump adds to a number of a row.
func bump(r row, column string, by int64) {
	switch n := r[column].(type) {
	case int64:
		r[column] = n + by
	case int:
		r[column] = int64(n) + by
	}
}

// resettle writes other tokens into a settled request and everything that follows from
// it, so that only the judgement by the table can find it.
func resettle(f *fixture, n int, prompt, completion int64) {
	s := f.line(n)
	r := rates{
		unitToken, s["input_rate"].(int64), s["output_rate"].(int64),
		s["payout_input_rate"].(int64), s["payout_output_rate"].(int64),
	}
	list, payout := listed(r, prompt, completion), paid(r, prompt, completion)
	maps.Copy(s, row{
		"prompt_tokens": prompt, "completion_tokens": completion, "list_price": list, "payout": payout, "fee": list - payout,
	})
	if s["source"] == "payg" {
		for a := payer; a <= poor; a++ {
			if s["account_id"] == accountID(a) {
				bump(f.wallet(a), "posted", s["charged"].(int64)-list)
			}
		}
		maps.Copy(s, row{"charged": list, "shortfall": int64(0)})
	}
	maps.Copy(f.earning(n), row{"prompt_tokens": prompt, "completion_tokens": completion, "payout_nano_usd": payout})
	if u := f.call(n)["usage"]; u != nil {
		f.call(n)["usage"] = row{"prompt_tokens": prompt, "completion_tokens": completion}
	}
}

// unsettle removes a settled request from everything but the client's and the engine's
// records.
func unsettle(f *fixture, n int) {
	bump(f.wallet(payer), "posted", f.line(n)["charged"].(int64))
	f.drop("usage_settlement", "request_id", requestID(n))
	f.earnings["earning_line"] = slices.DeleteFunc(f.earnings["earning_line"], func(r row) bool {
		return r["request_id"] == requestID(n)
	})
	f.hold(n)["state"] = "released"
}

// reopen opens a hold, of an amount that the wallet holds.
func reopen(f *fixture, n int) {
	h := f.hold(n)
	maps.Copy(h, row{"state": "open", "closed_at": nil, "expires_at": at(3600)})
	bump(f.wallet(payer), "held", h["amount"].(int64))
}

// againstClients are the wrongs that only clients and engines can show, because the books
// agree with each other.
func againstClients() []corruption { return slices.Concat(againstAnswers(), againstEndings()) }

// againstAnswers are the wrongs of whole answers and of answers that broke off.
func againstAnswers() []corruption {
	return []corruption{
		{"a whole answer is not settled", func(f *fixture) { unsettle(f, wholeAnswer) },
			Lost, onRequest(wholeAnswer), "nothing is settled: its hold is released"},
		{"its provider is not paid either", func(f *fixture) { unsettle(f, wholeAnswer) },
			Unpaid, onRequest(wholeAnswer), "no provider is credited"},
		{"a whole answer has no hold",
			func(f *fixture) { unsettle(f, wholeAnswer); f.drop("hold", "request_id", requestID(wholeAnswer)) },
			Lost, onRequest(wholeAnswer), "there is no hold"},
		{"a whole answer is settled for less", func(f *fixture) { resettle(f, wholeAnswer, 7, 4) },
			Lost, onRequest(wholeAnswer), "at least 7 + 5"},
		{"and pays for less", func(f *fixture) { resettle(f, wholeAnswer, 7, 4) },
			Unpaid, onRequest(wholeAnswer), "the table gives it 7 + 5"},
		{"a whole answer without its prompt", func(f *fixture) { resettle(f, wholeAnswer, 0, 5) },
			Lost, onRequest(wholeAnswer), "at least 7 + 5"},
		{"a whole answer is settled for more", func(f *fixture) { resettle(f, wholeAnswer, 7, 6) },
			Doubled, onRequest(wholeAnswer), "at most 7 + 5"},
		{"a whole answer is settled for a greater prompt", func(f *fixture) { resettle(f, wholeAnswer, 8, 5) },
			Doubled, onRequest(wholeAnswer), "at most 7 + 5"},
		{"a covered answer is settled for more", func(f *fixture) { resettle(f, planned, 7, 6) },
			Doubled, onRequest(planned), "at most 7 + 5"},
		{"a costless answer is settled for more", func(f *fixture) { resettle(f, costless, 7, 6) },
			Doubled, onRequest(costless), "at most 7 + 5"},
		{"an uncounted answer costs more than its bytes", func(f *fixture) { resettle(f, uncountedAnswer, 9, 26) },
			Doubled, onRequest(uncountedAnswer), "at most 100 + 25"},
		{"an uncounted answer costs nothing", func(f *fixture) { resettle(f, uncountedAnswer, 9, 0) },
			Lost, onRequest(uncountedAnswer), "at least 0 + 1"},
		{"the prompt of a broken answer is charged", func(f *fixture) { resettle(f, cutAnswer, 1, 3) },
			Doubled, onRequest(cutAnswer), "at most 0 + 3"},
		{"a broken answer is charged beyond what came", func(f *fixture) { resettle(f, cutAnswer, 0, 4) },
			Doubled, onRequest(cutAnswer), "at most 0 + 3"},
		{"a broken answer is charged beyond what came, and too little is given back",
			func(f *fixture) { makeGood(f, overpriced()-2) }, Doubled, onRequest(cutAnswer), "at most 0 + 3"},
		{"a broken answer is charged beyond what came, and too much is given back",
			func(f *fixture) { makeGood(f, overpriced()+1) }, Doubled, onRequest(cutAnswer), "at most 0 + 3"},
		{"a broken answer is charged for more than was sent", func(f *fixture) {
			makeGood(f, overpriced())
			f.engine(cutAnswer)["completion_tokens"] = int64(3)
		}, Doubled, onRequest(cutAnswer), "at most 0 + 3"},
		{"a broken answer is charged beyond what came although its gateway had reported", func(f *fixture) {
			makeGood(f, overpriced())
			f.row("request_report", "request_id", requestID(cutAnswer))["recorded_at"] = at(0)
		}, Doubled, onRequest(cutAnswer), "at most 0 + 3"},
		{"a broken answer is charged below what came", func(f *fixture) { resettle(f, cutAnswer, 0, 2) },
			Unpaid, onRequest(cutAnswer), "at least 0 + 3"},
		{"a broken answer is not settled", func(f *fixture) { unsettle(f, cutAnswer) },
			Unpaid, onRequest(cutAnswer), "its client got 3 tokens (cut)"},
	}
}

// againstEndings are the wrongs of the other endings, and of calls and requests that do not match.
func againstEndings() []corruption {
	return []corruption{
		{"a crashed answer charges the prompt", func(f *fixture) { resettle(f, gatewayDied, 7, 4) },
			Doubled, onRequest(gatewayDied), "at most 0 + 5"},
		{"tokens beyond what the engine sent", func(f *fixture) { resettle(f, gatewayDied, 0, 6) },
			Doubled, onRequest(gatewayDied), "at most 0 + 5"},
		{"an answer that ran out of time is charged beyond", func(f *fixture) { resettle(f, late, 7, 4) },
			Doubled, onRequest(late), "at most 100 + 3"},
		{"a client that left pays for more than was sent", func(f *fixture) { resettle(f, hungUp, 9, 7) },
			Doubled, onRequest(hungUp), "at most 100 + 6"},
		{"a client that left pays for more prompt than is held", func(f *fixture) { resettle(f, hungUp, 101, 4) },
			Doubled, onRequest(hungUp), "at most 100 + 6"},
		{"a client that left pays for less than it got", func(f *fixture) { resettle(f, hungUp, 9, 2) },
			Unpaid, onRequest(hungUp), "at least 0 + 3"},
		{"an error is charged after the gateway's word", func(f *fixture) {
			f.row("request_report", "request_id", requestID(finishedFirst))["recorded_at"] = at(3*finishedFirst - 1)
		}, Doubled, onRequest(finishedFirst), "at most 0 + 0"},
		{"what an engine did not report is charged beyond what it sent",
			func(f *fixture) { resettle(f, finishedSilent, 9, 6) },
			Doubled, onRequest(finishedSilent), "at most 100 + 5"},
		{"an answer that never came is charged beyond", func(f *fixture) { resettle(f, nameless, 7, 6) },
			Doubled, onRequest(nameless), "at most 7 + 5"},
		{"an empty answer is charged", func(f *fixture) {
			maps.Copy(f.call(wholeAnswer), row{"content_tokens": 0, "content_bytes": 0})
		}, Doubled, onRequest(wholeAnswer), "at most 0 + 0"},
		{"the platform pays for a whole answer", func(f *fixture) {
			maps.Copy(f.call(orphaned), row{"complete": true, "left": false})
			maps.Copy(f.engine(orphaned), row{"complete": true, "prompt_tokens": 0})
		}, Lost, onRequest(orphaned), "the platform pays for it"},
		{"one call is settled as two requests", func(f *fixture) {
			f.engines = append(f.engines, maps.Clone(f.engine(cutAnswer)))
			f.engines[len(f.engines)-1]["nonce"] = f.call(wholeAnswer)["nonce"]
		}, Doubled, onRequest(cutAnswer), "settled twice"},
		{"a call is settled that nobody made", func(f *fixture) {
			maps.Copy(f.call(retried), row{"request_id": "", "nonce": "other", "content_tokens": 0, "content_bytes": 0,
				"complete": false})
			f.engines = slices.DeleteFunc(f.engines, func(e row) bool { return e["request_id"] == requestID(retried) })
		}, Doubled, onRequest(retried), "no client made"},
		{"a call is settled that no loose answer can be of", func(f *fixture) {
			f.engine(nameless)["request_id"] = ""
			f.engine(nameless)["completion_tokens"] = 4
		}, Doubled, onRequest(nameless), "no client made"},
		{"another account is charged", func(f *fixture) { f.call(wholeAnswer)["account_id"] = accountID(poor) },
			Doubled, onRequest(wholeAnswer), "for a call of account"},
		{"another model is admitted", func(f *fixture) { f.call(wholeAnswer)["model"] = "free" },
			Drift, onRequest(wholeAnswer), `model "free" was asked for`},
		{"another usage is told", func(f *fixture) {
			f.call(wholeAnswer)["usage"] = row{"prompt_tokens": 7, "completion_tokens": 4}
		}, Drift, onRequest(wholeAnswer), "was told of 7 + 4"},
		{"two calls have one id", func(f *fixture) {
			c := maps.Clone(f.call(wholeAnswer))
			c["nonce"] = "another"
			f.clients = append(f.clients, c)
		}, Lost, onRequest(wholeAnswer), "2 calls got a whole answer"},
		{"another provider is credited", func(f *fixture) {
			f.line(wholeAnswer)["provider_id"], f.earning(wholeAnswer)["provider_id"] = providerID(second), providerID(second)
		}, Unpaid, onRequest(wholeAnswer), "another served it"},
		{"one that failed before content is credited", func(f *fixture) {
			f.line(retried)["provider_id"], f.earning(retried)["provider_id"] = providerID(first), providerID(first)
		}, Unpaid, onRequest(retried), "another served it"},
	}
}

// withinTheBooks are the wrongs that the ledger's and settlement's rows show by
// themselves.
func withinTheBooks() []corruption {
	return slices.Concat(inLines(), inHolds(), inWallets(), inSlices(), inEntries(), inEarnings(), inPlans())
}

// inLines are the wrongs of settled requests.
func inLines() []corruption {
	return []corruption{
		{"a settlement is deleted", func(f *fixture) { f.drop("usage_settlement", "request_id", requestID(wholeAnswer)) },
			Drift, onRequest(wholeAnswer), "there is no settled request"},
		{"and its client is lost", func(f *fixture) { f.drop("usage_settlement", "request_id", requestID(wholeAnswer)) },
			Lost, onRequest(wholeAnswer), "its hold is settled"},
		{"and its wallet is off", func(f *fixture) { f.drop("usage_settlement", "request_id", requestID(wholeAnswer)) },
			Drift, onAccount(payer), "its postings less its charges"},
		{"and settlement has more", func(f *fixture) { f.drop("usage_settlement", "request_id", requestID(wholeAnswer)) },
			Drift, onRequest(wholeAnswer), "the ledger settled nothing"},
		{"a settlement is doubled", func(f *fixture) { f.add("usage_settlement", maps.Clone(f.line(wholeAnswer))) },
			Doubled, onRequest(wholeAnswer), "it is settled 2 times"},
		{"a settlement is doubled on another day", func(f *fixture) {
			again := maps.Clone(f.line(wholeAnswer))
			again["day"] = "2026-03-05"
			f.add("usage_settlement", again)
		}, Drift, onRequest(wholeAnswer), "its id is of day"},
		{"a redelivery takes its charge once more",
			func(f *fixture) { bump(f.wallet(payer), "posted", -f.line(wholeAnswer)["charged"].(int64)) },
			Drift, onAccount(payer), "its postings less its charges"},
		{"a charge is off by one", func(f *fixture) { bump(f.line(wholeAnswer), "charged", 1) },
			Drift, onRequest(wholeAnswer), "are not the list price"},
		{"a shortfall is off by one", func(f *fixture) { bump(f.line(short), "shortfall", -1) },
			Drift, onRequest(short), "are not the list price"},
		{"a list price is off by one", func(f *fixture) { bump(f.line(wholeAnswer), "list_price", 1) },
			Drift, onRequest(wholeAnswer), "and the list price is"},
		{"a payout is off by one", func(f *fixture) { bump(f.line(wholeAnswer), "payout", 1) },
			Drift, onRequest(wholeAnswer), "and the payout is"},
		{"a fee is off by one", func(f *fixture) { bump(f.line(wholeAnswer), "fee", 1) },
			Drift, onRequest(wholeAnswer), "leave a fee of"},
		{"a fee makes the books uneven", func(f *fixture) { bump(f.line(wholeAnswer), "fee", 1) },
			Drift, "asset usd", "its accounts sum to 1"},
		{"a charge is negative", func(f *fixture) { f.line(wholeAnswer)["charged"] = int64(-1) },
			Drift, onRequest(wholeAnswer), "-1 are charged"},
		{"a hold would have covered", func(f *fixture) {
			s := f.line(wholeAnswer)
			s["charged"], s["shortfall"] = s["charged"].(int64)-1, int64(1)
		}, Drift, onRequest(wholeAnswer), "1 are short, and only"},
		{"a plan is charged", func(f *fixture) { f.line(planned)["charged"] = int64(1) },
			Drift, onRequest(planned), "source plan charges 1"},
		{"something free has a price", func(f *fixture) { f.line(costless)["list_price"] = int64(1) },
			Drift, onRequest(costless), "source free charges 0"},
		{"the gateway's count was not reviewed", func(f *fixture) { f.tables["orphan_review"] = nil },
			Drift, onRequest(counted), "was never reviewed"},
	}
}

// inHolds are the wrongs of holds.
func inHolds() []corruption {
	return []corruption{
		{"a settlement has no hold", func(f *fixture) { f.drop("hold", "request_id", requestID(wholeAnswer)) },
			Drift, onRequest(wholeAnswer), "there is no hold"},
		{"a settlement is of a released hold", func(f *fixture) { f.hold(wholeAnswer)["state"] = "released" },
			Drift, onRequest(wholeAnswer), "its hold is released"},
		{"a hold is left open", func(f *fixture) { reopen(f, wholeAnswer) },
			Drift, onRequest(wholeAnswer), "its hold is open and of payg"},
		{"a hold is left open and nobody counts it", func(f *fixture) {
			reopen(f, gatewayDied)
			f.tables["key_inflight"] = nil
		}, Drift, onKey(payer), "nothing counts them"},
		{"a hold is open long after its time", func(f *fixture) {
			reopen(f, nameless)
			f.drop("usage_settlement", "request_id", requestID(nameless))
			f.hold(nameless)["expires_at"] = at(60)
			f.engines = slices.DeleteFunc(f.engines, func(e row) bool { return e["request_id"] == requestID(nameless) })
		}, Drift, onRequest(nameless), "s after its time"},
		{"a hold has two states", func(f *fixture) { f.hold(wholeAnswer)["closed_at"] = nil },
			Drift, onRequest(wholeAnswer), "was closed at 0"},
		{"a hold closed at another time", func(f *fixture) { f.hold(wholeAnswer)["closed_at"] = at(2.5) },
			Drift, onRequest(wholeAnswer), "its hold closed at"},
		{"a settlement has other rates", func(f *fixture) { bump(f.hold(wholeAnswer), "payout_output_rate", 1) },
			Drift, onRequest(wholeAnswer), "not of the account, key, model or price"},
		{"a settlement is of another unit", func(f *fixture) { f.hold(wholeAnswer)["unit"] = unitMinute },
			Drift, onRequest(wholeAnswer), "not of the account, key, model or price"},
		{"a settlement counts what its unit does not", func(f *fixture) {
			f.hold(wholeAnswer)["unit"], f.line(wholeAnswer)["unit"] = unitImage, unitImage
		}, Drift, onRequest(wholeAnswer), "which unit 1 does not count"},
		{"more audio is settled than is held", func(f *fixture) {
			f.hold(wholeAnswer)["unit"], f.line(wholeAnswer)["unit"] = unitMinute, unitMinute
			f.hold(wholeAnswer)["prompt_tokens"] = 6
		}, Drift, onRequest(wholeAnswer), "7 of the prompt are settled, and its hold is for 6"},
		{"the unit is nobody's", func(f *fixture) { f.hold(refused)["unit"] = unitImage },
			Drift, onRequest(refused), "which priced never had"},
		{"the rates are nobody's", func(f *fixture) { bump(f.hold(refused), "output_rate", 1) },
			Drift, onRequest(refused), "which priced never had"},
		{"more is settled than is held", func(f *fixture) { f.hold(wholeAnswer)["max_completion_tokens"] = 4 },
			Drift, onRequest(wholeAnswer), "its hold is for 4"},
		{"a settlement is from another source", func(f *fixture) { f.line(planned)["source"] = "free" },
			Drift, onRequest(planned), "settled from free"},
	}
}

// inWallets are the wrongs of wallets and of the counters of keys.
func inWallets() []corruption {
	return []corruption{
		{"a wallet is off by one", func(f *fixture) { bump(f.wallet(payer), "posted", 1) },
			Drift, onAccount(payer), "its postings less its charges"},
		{"a wallet holds what no hold does", func(f *fixture) { bump(f.wallet(payer), "held", 1) },
			Overdrawn, onAccount(payer), "1 are held, and its open holds and slices are 0"},
		{"a wallet is below nothing", func(f *fixture) { f.wallet(poor)["posted"] = -1 },
			Overdrawn, onAccount(poor), "-1 are posted"},
		{"a wallet is missing", func(f *fixture) { f.drop("wallet", "account_id", accountID(payer)) },
			Drift, onAccount(payer), "there is no wallet"},
		{"an account is missing", func(f *fixture) { f.drop("account", "id", accountID(payer)) },
			Drift, onAccount(payer), "and no account"},
		{"more was granted than agreed", func(f *fixture) {
			f.grant(9, accountID(payer), 5)
			bump(f.wallet(payer), "posted", 5)
		}, Drift, onAccount(payer), "1000000 were granted, and its postings are 1000005"},
		{"in flight is off by one", func(f *fixture) { f.row("key_inflight", "key_id", keyID(payer))["n"] = 1 },
			Drift, onKey(payer), "1 requests are in flight, and 0"},
		{"a rate is ahead of all requests", func(f *fixture) { f.tables["key_rate"][0]["full_at"] = at(100_000) },
			Drift, onKey(payer), "its rate of class 1"},
	}
}

// inEntries are the wrongs of entries and postings.
func inEntries() []corruption {
	return []corruption{
		{"a posting is missing", func(f *fixture) { f.tables["posting"] = f.tables["posting"][1:] },
			Drift, onEntry(1), "sum to 1000000"},
		{"and the entry has one leg", func(f *fixture) { f.tables["posting"] = f.tables["posting"][1:] },
			Drift, onEntry(1), "has 1 postings"},
		{"a posting is of another asset", func(f *fixture) { f.legs(1)[0]["asset"] = "8453:usdc" },
			Drift, onEntry(1), "sum to -1000000 8453:usdc"},
		{"a posting is of nothing", func(f *fixture) { f.legs(1)[0]["amount"] = int64(0) },
			Drift, onEntry(1), "is of nothing"},
		{"an entry is missing", func(f *fixture) { f.drop("entry", "id", entryID(1)) },
			Drift, onEntry(1), "2 postings stand without their entry"},
		{"an entry is posted twice", func(f *fixture) {
			f.grant(9, accountID(payer), 5)
			f.entry(9)["business_id"] = "grant 1"
		}, Doubled, onEntry(9), "was posted before"},
		{"an account is not in the chart", func(f *fixture) { f.drop("chart", "kind", kindAvailable) },
			Drift, onEntry(1), "not in the chart"},
		{"no rule allows a posting", func(f *fixture) { f.drop("posting_rule", "account_kind", "e:goodwill") },
			Drift, onEntry(1), "no rule allows"},
		{"a side is the wrong one", func(f *fixture) {
			for _, l := range f.legs(1) {
				l["amount"] = -l["amount"].(int64)
			}
		}, Drift, onEntry(1), "no rule allows"},
		{"a provider earns for nothing", func(f *fixture) { f.legs(1)[1]["account_kind"] = kindAccrued },
			Drift, onEntry(1), "nothing that they served"},
		{"a reversal takes back too much", func(f *fixture) {
			for _, l := range f.legs(4) {
				l["amount"] = l["amount"].(int64) * 2
			}
		}, Drift, onEntry(4), "does not take back"},
		{"a reversal is another's", func(f *fixture) { f.legs(4)[1]["owner_id"] = accountID(poor) },
			Drift, onEntry(4), "does not take back"},
		{"a reversal is of nothing", func(f *fixture) { f.entry(4)["reverses"] = entryID(77) },
			Drift, onEntry(4), "which there is not"},
		{"a reversal is of none", func(f *fixture) { f.entry(4)["reverses"] = nil },
			Drift, onEntry(4), "reversal reverses 0000"},
		{"a reversal is reversed", func(f *fixture) {
			f.post(entryID(5), "reversal", entryID(4), -7, entryID(4), leg("e:goodwill", nil, -70),
				leg(kindAvailable, accountID(payer), 70))
		}, Drift, onEntry(5), "a reversal itself"},
		{"an entry is reversed twice", func(f *fixture) {
			f.post(entryID(5), "reversal", "again", -7, entryID(3), leg("e:goodwill", nil, 70),
				leg(kindAvailable, accountID(payer), -70))
		}, Doubled, onEntry(5), "was reversed before"},
		{"orphan work is of no request", func(f *fixture) { f.entry(100 + orphaned)["business_id"] = requestID(refused) },
			Drift, onEntry(100 + orphaned), "which no settled request is"},
		{"orphan work is not posted", func(f *fixture) { f.entry(100 + orphaned)["business_id"] = requestID(refused) },
			Unpaid, onRequest(orphaned), "no entry credits it"},
		{"orphan work is posted for less", func(f *fixture) {
			l := f.legs(100 + orphaned)
			bump(l[0], "amount", 1)
			bump(l[1], "amount", -1)
		}, Drift, onRequest(orphaned), "orphan work credits"},
	}
}

// inEarnings are the wrongs of work receipts and of settlement's lines.
func inEarnings() []corruption {
	return []corruption{
		{"a receipt is missing", func(f *fixture) { f.tables["work_receipt"] = nil }, Drift, onRequest(receipted),
			"settled by a receipt of provider"},
		{"a receipt is of less", func(f *fixture) { f.tables["work_receipt"][0]["sent_tokens"] = 4 }, Drift,
			onRequest(receipted), "is not signed by its key"},
		{"a receipt is of another attempt", func(f *fixture) { f.line(receipted)["attempt"] = 2 },
			Drift, onRequest(receipted), "settled by a receipt of provider"},
		{"a receipt is exceeded", func(f *fixture) {
			bump(f.engine(receipted), "completion_tokens", 1)
			resettle(f, receipted, 0, 6)
		}, Drift, onRequest(receipted), "settled by a receipt of provider"},
		{"a receipt has another key", func(f *fixture) { f.tables["work_receipt"][0]["public_key"] = `\x00` }, Drift,
			onRequest(receipted), "is not signed by its key"},
		{"an earning is missing", func(f *fixture) { f.earnings["earning_line"] = f.earnings["earning_line"][1:] },
			Unpaid, onRequest(wholeAnswer), "settlement has no line"},
		{"and the day is short", func(f *fixture) { f.earnings["earning_line"] = f.earnings["earning_line"][1:] },
			Drift, onProvider(first), "the ledger accrued"},
		{"an earning is doubled", func(f *fixture) {
			f.earnings["earning_line"] = append(f.earnings["earning_line"], maps.Clone(f.earning(wholeAnswer)))
		}, Doubled, onRequest(wholeAnswer), "settlement has 2 lines"},
		{"an earning is off by one", func(f *fixture) { bump(f.earning(wholeAnswer), "payout_nano_usd", 1) },
			Drift, onRequest(wholeAnswer), "and settlement has"},
		{"an earning is another's", func(f *fixture) { f.earning(wholeAnswer)["provider_id"] = providerID(second) },
			Drift, onProvider(second), "the ledger accrued"},
		{"an earning of no request counts",
			func(f *fixture) { f.earnings["earning_ruling"] = f.earnings["earning_ruling"][1:] },
			Drift, onRequest(invented), "the ledger settled nothing"},
		{"an earning is held out", func(f *fixture) { f.rule(ruled, 3, nil) },
			Unpaid, onRequest(ruled), "settlement has no line"},
		{"a ruling is of more", func(f *fixture) { bump(f.earnings["earning_ruling"][2], "payout_nano_usd", 1) },
			Drift, onRequest(ruled), "and settlement has"},
		{"a ruling is doubled", func(f *fixture) {
			f.earnings["earning_ruling"] = append(f.earnings["earning_ruling"], maps.Clone(f.earnings["earning_ruling"][2]))
		}, Doubled, onRequest(ruled), "settlement has 3 rulings"},
		{"a correction is missing", func(f *fixture) { f.earnings["earning_correction"] = nil },
			Drift, onRequest(counted), "and settlement has"},
		{"a correction has no line", func(f *fixture) {
			f.earnings["earning_line"] = slices.DeleteFunc(f.earnings["earning_line"],
				func(r row) bool { return r["request_id"] == requestID(counted) })
		}, Drift, onRequest(counted), "a line that it does not have"},
	}
}

// inPlans are the wrongs of plans.
func inPlans() []corruption {
	return []corruption{
		{"a plan's counter is off by one", func(f *fixture) { bump(f.tables["plan_counter"][1], "used", 1) },
			Drift, onAccount(planner), "tokens of the week from 2026-03-02 are 13"},
		{"a plan's request was given back and counts", func(f *fixture) { f.hold(givenBack)["plan_refunded"] = false },
			Drift, onAccount(planner), "requests of the day"},
		{"a plan's counter is missing", func(f *fixture) { f.tables["plan_counter"] = nil },
			Drift, onAccount(planner), "are 0, and its requests took"},
		{"a plan's images count", func(f *fixture) { f.hold(planned)["images"] = 2 },
			Drift, onAccount(planner), "images of the day"},
		{"a plan's money counts", func(f *fixture) { f.hold(planned)["plan_tier"] = 3 },
			Drift, onAccount(planner), "list_price of the month from 2026-03-01"},
		{"a plan is above its cap", func(f *fixture) { f.tables["plan_counter"][0]["cap"] = 0 },
			Overdrawn, onAccount(planner), "requests of the day"},
		{"a plan's requests are in excess",
			func(f *fixture) { maps.Copy(f.tables["plan_counter"][0], row{"cap": 0, "excess": 1}) },
			Overdrawn, onAccount(planner), "1 of them in excess"},
		{"a plan's tokens are above its cap", func(f *fixture) { f.tables["plan_counter"][1]["cap"] = 11 },
			Overdrawn, onAccount(planner), "tokens of the week"},
		{"a plan's gate is off by one", func(f *fixture) { f.tables["plan_gate"][0]["open"] = 1 },
			Drift, onAccount(planner), "1 requests of its plan are under way, and 0"},
		{"a plan's gate is missing", func(f *fixture) {
			f.tables["plan_gate"] = nil
			f.drop("request_report", "request_id", requestID(planned))
			maps.Copy(f.hold(planned), row{"state": "open", "closed_at": nil})
		}, Drift, onAccount(planner), "1 requests of its plan are under way, and nothing"},
		{"a covered request is of credit", func(f *fixture) { f.hold(planned)["billing_type"] = "payg" },
			Drift, onRequest(planned), "a plan is pinned: true"},
	}
}

// refund gives a request's charge back.
func refund(f *fixture, entry int, request string, amount int64) {
	f.post(entryID(entry), "request_refund", request, 900, nil, leg(kindAccrued, providerID(first), -amount),
		leg(kindAvailable, accountID(payer), amount))
	bump(f.wallet(payer), "posted", amount)
}

// ofTheDay are the wrongs of refunds and of sealed days.
func ofTheDay() []corruption {
	margin := func(f *fixture) row { return f.row("balance_snapshot", "account_kind", kindMargin) }
	return []corruption{
		{"too much is given back", func(f *fixture) {
			refund(f, 50, requestID(wholeAnswer), f.line(wholeAnswer)["charged"].(int64)+1)
		}, Drift, onRequest(wholeAnswer), "are given back of"},
		{"a charge is given back twice", func(f *fixture) {
			charged := f.line(wholeAnswer)["charged"].(int64)
			refund(f, 50, requestID(wholeAnswer), charged)
			refund(f, 51, requestID(wholeAnswer), charged)
		}, Doubled, onRequest(wholeAnswer), "its charge is given back twice"},
		{"what was not charged is given back", func(f *fixture) { refund(f, 50, requestID(refused), 1) },
			Drift, onEntry(50), "of which nothing was settled"},
		{"a snapshot is off by one", func(f *fixture) { f.seal(); bump(margin(f), "balance", 1) },
			Drift, "account r:usage_margin in usd", "its snapshot of 2026-03-04"},
		{"a snapshot's moves are off by one", func(f *fixture) { f.seal(); bump(margin(f), "moved", 1) },
			Drift, "account r:usage_margin in usd", "its snapshot of 2026-03-04"},
		{"a snapshot is missing", func(f *fixture) {
			f.seal()
			f.drop("balance_snapshot", "account_kind", kindMargin)
		}, Drift, "account r:usage_margin in usd", "no snapshot has it"},
		{"a snapshot is of nothing", func(f *fixture) {
			f.seal()
			margin(f)["day"] = "2026-03-03"
		}, Drift, "account r:usage_margin in usd", "its snapshot of 2026-03-03"},
		{"a row came after its day was sealed", func(f *fixture) {
			f.seal()
			refund(f, 50, requestID(wholeAnswer), f.line(wholeAnswer)["charged"].(int64))
		}, Drift, "account l:consumer:available:" + accountID(payer) + " in usd", "its snapshot of 2026-03-04"},
	}
}

// overTime are the wrongs that only the order of events shows: at the end, every sum is
// right.
func overTime() []corruption {
	// credits come this late.
	tooLate := func(f *fixture, n int) { f.entry(n)["at"] = at(3000) }
	return []corruption{
		{"credit comes after it was spent", func(f *fixture) { tooLate(f, 1) },
			Overdrawn, onAccount(payer), "more than it had"},
		{"credit comes after it was charged", func(f *fixture) {
			tooLate(f, 1)
			for _, h := range f.tables["hold"] {
				h["amount"] = int64(0)
			}
		}, Overdrawn, onAccount(payer), "had been charged"},
		{"two holds take the same credit", func(f *fixture) {
			h := maps.Clone(f.hold(short))
			maps.Copy(h, row{"request_id": requestID(90), "state": "released", "admitted_at": at(3*short - 20),
				"closed_at": at(3*short + 20)})
			f.add("hold", h)
		}, Overdrawn, onAccount(poor), "spent and held 100 more"},
		{"a settlement without a hold is charged", func(f *fixture) {
			f.drop("hold", "request_id", requestID(short))
			tooLate(f, 2)
		}, Overdrawn, onAccount(poor), "had been charged"},
		{"an open hold takes what is not there", func(f *fixture) {
			h := maps.Clone(f.hold(short))
			maps.Copy(h, row{"request_id": requestID(90), "state": "open", "closed_at": nil, "amount": 5})
			f.add("hold", h)
			f.wallet(poor)["held"] = 5
		}, Overdrawn, onAccount(poor), "more than it had"},
		{"more run at once than may", func(f *fixture) {
			for n := range 5 {
				h := maps.Clone(f.hold(refused))
				maps.Copy(h, row{"request_id": requestID(90 + n), "admitted_at": at(500), "closed_at": at(510)})
				f.add("hold", h)
			}
		}, Overdrawn, onKey(payer), "5 requests ran at once, of 4"},
		{"more begin at a time than may", func(f *fixture) {
			for n := range 21 {
				h := maps.Clone(f.hold(refused))
				maps.Copy(h, row{"request_id": requestID(90 + n), "admitted_at": at(500 + float64(n)/10),
					"closed_at": at(500 + float64(n)/10)})
				f.add("hold", h)
			}
		}, Overdrawn, onRequest(90 + 20), "above 20 requests of priced a minute"},
	}
}

func TestEveryCorruptionIsFound(t *testing.T) {
	for _, c := range slices.Concat(againstClients(), withinTheBooks(), ofTheDay(), overTime()) {
		c.run(t, newFixture)
	}
}

// run checks that the corruption is found in a world.
func (c corruption) run(t *testing.T, world func() *fixture) {
	t.Helper()
	t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
		f := world()
		c.change(f)
		r, err := f.texts(t).audit(Options{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, j := range r.Judgements {
			for _, found := range j.Findings {
				if j.Verdict == c.verdict && found.Subject == c.subject && strings.Contains(found.Text, c.text) {
					return
				}
				all = append(all, fmt.Sprintf("%s: %s: %s", j.Verdict, found.Subject, found.Text))
			}
		}
		t.Errorf("want %s: %s: …%s…\nfound:\n%s\nundecided: %v", c.verdict, c.subject, c.text, strings.Join(all, "\n"),
			r.Undecided)
	})
}

// A wrong that only the table can judge must have no other finding, because the books are
// right.
func TestWhatOnlyClientsShowLeavesTheBooksInOrder(t *testing.T) {
	for _, c := range againstClients() {
		if c.verdict == Drift {
			continue
		}
		f := newFixture()
		c.change(f)
		r, err := f.texts(t).audit(Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range r.Judgements {
			// A plan counts tokens, and another usage is told where a client's
			// record was changed alone.
			if j.Verdict == Overdrawn && j.Count > 0 {
				t.Errorf("%s: %v", c.name, j.Findings)
			}
		}
	}
}
