package auditor

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/workreceipt"
)

// row is a row of a file, as it is written.
type row map[string]any

// start is when the fixture's first request was admitted.
var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func at(seconds float64) string {
	return start.Add(time.Duration(seconds * float64(time.Second))).Format(time.RFC3339Nano)
}

// uid is an id: of a request (version 7, in the fixture's day) or of anything else.
func uid(kind byte, n int) string {
	ms := start.UnixMilli() + int64(n)
	return fmt.Sprintf("%08x-%04x-7000-80%02x-%012x", ms>>16, ms&0xffff, kind, n)
}

// Kinds of ids.
const (
	ofRequest = iota
	ofAccount
	ofKey
	ofProvider
	ofPrice
	ofEntry
)

func requestID(n int) string  { return uid(ofRequest, n) }
func accountID(n int) string  { return uid(ofAccount, n) }
func keyID(n int) string      { return uid(ofKey, n) }
func providerID(n int) string { return uid(ofProvider, n) }
func entryID(n int) string    { return uid(ofEntry, n) }

// fixture is a whole consistent world, in the rows of its files.
type fixture struct {
	tables   map[string][]row
	earnings map[string][]row
	clients  []row
	engines  []row
	chains   map[string][]row
	setup    row
}

// Accounts and providers of the fixture.
const (
	payer, planner, poor = 1, 2, 3
	first, second        = 1, 2
)

// Rates of the fixture's models, chosen so that amounts have a remainder.
var (
	priced = rates{input: 1234, output: 5678, payoutInput: 1111, payoutOutput: 5111}
	free   = rates{}
	dear   = rates{input: 4_000_000_000_000, output: 3_000_000_000_000, payoutInput: 2_000_000_000_001,
		payoutOutput: 2_999_999_999_999}
)

// listed and paid compute by the rule's own words, without the auditor's arithmetic.
func listed(r rates, prompt, completion int64) int64 {
	pico := prompt*r.input + completion*r.output
	nano, rest := pico/1000, pico%1000
	if rest > 500 || rest == 500 && nano%2 == 1 {
		nano++
	}
	return nano
}

func paid(r rates, prompt, completion int64) int64 {
	return (prompt*r.payoutInput + completion*r.payoutOutput) / 1000
}

// story is a request from its beginning to its end.
type story struct {
	account, provider int
	model             string
	// billing and state are the hold's. source is empty when nothing is settled.
	billing, state, source  string
	ending, claim, evidence string
	prompt, completion      int64 // settled
	charged                 int64 // -1 is the list price
	enginePrompt, sent      int64
	engineComplete, silent  bool
	noEngine, noReport      bool
	status                  int
	received                int64
	complete, errored, left bool
	noRequestID             bool
	usage                   bool // the client sees the settled usage
	refunded                bool
}

// stories are the requests of the fixture, by their numbers.
func stories() []story {
	whole := story{account: payer, provider: first, model: "priced", billing: "payg", state: "settled", source: "payg",
		ending: "completed",
		claim:  "valid", evidence: "hub", prompt: 7, completion: 5, charged: -1, enginePrompt: 7, sent: 5,
		engineComplete: true,
		status:         200, received: 5, complete: true, usage: true}
	with := func(change func(*story)) story {
		s := whole
		change(&s)
		return s
	}
	unserved := func(s *story) {
		s.state, s.source, s.received, s.sent, s.complete, s.usage, s.engineComplete = "released", "", 0, 0, false, false,
			false
	}
	return []story{
		wholeAnswer: whole,
		cutAnswer: with(func(s *story) {
			s.ending, s.claim, s.prompt, s.completion, s.received, s.sent = "provider_lost", "absent", 0, 3, 3, 4
			s.complete, s.errored, s.usage, s.engineComplete = false, true, false, false
		}),
		refused: with(func(s *story) { unserved(s); s.status = 502 }),
		hungUp: with(func(s *story) {
			s.ending, s.claim, s.prompt, s.completion, s.received, s.sent = "client_gone", "absent", 9, 4, 3, 6
			s.complete, s.left, s.usage, s.engineComplete = false, true, false, false
		}),
		gatewayDied: with(func(s *story) {
			s.ending, s.claim, s.prompt, s.completion, s.received, s.sent = "platform_lost", "absent", 0, 4, 2, 5
			s.complete, s.usage, s.engineComplete, s.noReport = false, false, false, true
		}),
		emptyAnswer: with(func(s *story) { unserved(s); s.complete, s.engineComplete = true, true }),
		planned:     with(func(s *story) { s.account, s.billing, s.source, s.charged = planner, "plan", "plan", 0 }),
		costless:    with(func(s *story) { s.model, s.billing, s.source = "free", "free", "free" }),
		orphaned: with(func(s *story) {
			s.state, s.source, s.ending, s.claim, s.prompt, s.completion, s.charged = "expired", "orphan", "platform_lost",
				"absent", 0, 4, 0
			s.received, s.sent, s.complete, s.left, s.usage, s.engineComplete, s.noReport = 4, 4, false, true, false, false, true
		}),
		short: with(func(s *story) { s.account, s.charged, s.prompt, s.enginePrompt = poor, poorCredit, 90, 90 }),
		counted: with(func(s *story) {
			s.ending, s.claim, s.evidence, s.prompt, s.completion = "platform_lost", "absent", "gateway", 0, 3
			s.received, s.sent, s.complete, s.errored, s.usage = 3, 5, false, true, false
		}),
		retried: with(func(s *story) { s.provider = second }),
		nameless: with(func(s *story) {
			s.status, s.received, s.complete, s.usage, s.noRequestID, s.noReport = 0, 0, false, false, true, true
		}),
		uncountedAnswer: with(func(s *story) { s.claim, s.silent, s.prompt, s.usage = "absent", true, 9, false }),
		late: with(func(s *story) {
			s.ending, s.prompt, s.completion, s.received, s.sent = "wall_limit", 7, 3, 3, 4
			s.complete, s.errored, s.usage, s.engineComplete = false, true, false, false
		}),
		givenBack: with(func(s *story) {
			unserved(s)
			s.account, s.billing, s.status, s.refunded = planner, "plan", 502, true
		}),
		receipted: with(func(s *story) {
			s.ending, s.claim, s.evidence, s.prompt, s.completion, s.received, s.sent = "platform_lost", "absent", "receipt", 0,
				5, 3, 5
			s.complete, s.usage, s.noReport = false, false, true
		}),
		finishedFirst: with(func(s *story) { s.received, s.status, s.complete, s.usage = 0, 502, false, false }),
		finishedSilent: with(func(s *story) {
			s.received, s.status, s.complete, s.usage = 0, 502, false, false
			s.claim, s.silent, s.prompt = "absent", true, 9
		}),
	}
}

// Numbers of the stories.
const (
	wholeAnswer = iota
	cutAnswer
	refused
	hungUp
	gatewayDied
	emptyAnswer
	planned
	costless
	orphaned
	short
	counted
	retried
	nameless
	uncountedAnswer
	late
	givenBack
	receipted
	finishedFirst
	finishedSilent
	// invented has no story; settlement heard of it.
	invented
	// ruled is the request for which settlement got a ruling later.
	ruled = cutAnswer
)

const (
	credit     = 1_000_000
	poorCredit = 100
	heldTokens = 100 // prompt and completion each, that a hold covers
)

// newFixture is the world of all stories.
func newFixture() *fixture {
	f := &fixture{tables: map[string][]row{}, earnings: map[string][]row{}}
	for _, a := range []int{payer, planner, poor} {
		f.add("account", row{"id": accountID(a), "name": fmt.Sprint("account ", a)})
	}
	f.addChart()
	f.grant(1, accountID(payer), credit)
	f.grant(2, accountID(poor), poorCredit)
	f.addReversal()
	f.add("plan_limit", row{"plan_id": "pro", "kind": "requests", "period": "day", "tiers": []int{1, 2, 3},
		"draws": nil})
	f.add("plan_limit", row{"plan_id": "pro", "kind": "tokens", "period": "week", "tiers": []int{1, 2, 3},
		"draws": []int{1, 2}})
	f.add("plan_limit", row{"plan_id": "pro", "kind": "list_price", "period": "month", "tiers": []int{3}})
	f.add("plan_limit", row{"plan_id": "pro", "kind": "images", "period": "day", "tiers": []int{1, 2}})
	f.add("plan_limit", row{"plan_id": "pro", "kind": "concurrent", "period": "none", "tiers": []int{1, 2}})
	for n, s := range stories() {
		f.tell(n, s)
	}
	f.tellSpecials()
	f.clients = append(f.clients, f.client("stranger", story{account: payer, model: "priced", status: 503}, 50, ""))
	f.setup = row{"setup": true,
		"accounts": []row{{"account_id": accountID(payer), "granted_nano": credit, "requests_per_minute": 20,
			"concurrent_requests": 4}},
		"models": []row{{"model": "priced", "input_rate": priced.input, "output_rate": priced.output,
			"payout_input_rate": priced.payoutInput, "payout_output_rate": priced.payoutOutput}},
		"providers": []row{{"provider_id": providerID(first), "engine": "engine 1"}, {"provider_id": providerID(second),
			"engine": "engine 2"}},
	}
	f.sum()
	return f
}

func (f *fixture) add(table string, r row) { f.tables[table] = append(f.tables[table], r) }

func (f *fixture) addChart() {
	for _, kind := range []string{kindAvailable, kindHeld, kindAccrued, kindMargin, kindShortfall, kindPlanDebt,
		kindPlanHeld, "e:goodwill", "e:orphan_work"} {
		f.add("chart", row{"kind": kind, "normal": "credit", "owned": false, "book": ""})
	}
	for _, r := range [][3]string{
		{"goodwill", "e:goodwill", "debit"}, {"goodwill", kindAvailable, "credit"},
		{"reversal", "e:goodwill", "credit"}, {"reversal", kindAvailable, "debit"},
		{"request_refund", kindAccrued, "debit"}, {"request_refund", kindAvailable, "credit"},
		{"orphan_work", "e:orphan_work", "debit"}, {"orphan_work", kindAccrued, "credit"},
		{"broken_answer", "e:goodwill", "debit"}, {"broken_answer", kindAvailable, "credit"},
	} {
		f.add("posting_rule", row{"entry_kind": r[0], "account_kind": r[1], "side": r[2], "unit": "usd"})
	}
}

func (f *fixture) post(u, kind, business string, seconds float64, reverses any, legs ...row) {
	f.add("entry", row{"id": u, "kind": kind, "business_id": business, "memo": "", "at": at(seconds),
		"reverses": reverses})
	for i, leg := range legs {
		maps.Copy(leg, row{"entry_id": u, "leg": i + 1, "entry_kind": kind, "asset": "usd", "book": ""})
		f.add("posting", leg)
	}
}

func leg(kind string, owner any, amount int64) row {
	return row{"account_kind": kind, "owner_id": owner, "amount": amount}
}

func (f *fixture) grant(n int, account string, amount int64) {
	f.post(entryID(n), "goodwill", fmt.Sprint("grant ", n), -10, nil, leg("e:goodwill", nil, -amount),
		leg(kindAvailable, account, amount))
}

// addReversal posts something and takes it back.
func (f *fixture) addReversal() {
	f.post(entryID(3), "goodwill", "mistake", -9, nil, leg("e:goodwill", nil, -70),
		leg(kindAvailable, accountID(payer), 70))
	f.post(entryID(4), "reversal", entryID(3), -8, entryID(3), leg("e:goodwill", nil, 70),
		leg(kindAvailable, accountID(payer), -70))
}

// tell writes a story into all files.
func (f *fixture) tell(n int, s story) {
	begin := float64(n) * 3
	end := begin + 2
	r := map[string]rates{"priced": priced, "free": free, "dear": dear}[s.model]
	pinned := row{"account_id": accountID(s.account), "key_id": keyID(s.account), "model_id": s.model,
		"price_version_id": uid(ofPrice, 1),
		"input_rate":       r.input, "output_rate": r.output, "payout_input_rate": r.payoutInput,
		"payout_output_rate": r.payoutOutput}
	hold := maps.Clone(pinned)
	amount := int64(0)
	if s.billing == "payg" {
		amount = min(listed(r, heldTokens, heldTokens), poorCredit)
	}
	maps.Copy(hold, row{"request_id": requestID(n), "billing_type": s.billing, "amount": amount,
		"prompt_tokens":         heldTokens,
		"max_completion_tokens": heldTokens, "pinned": false, "state": s.state, "admitted_at": at(begin),
		"expires_at": at(begin + 60),
		"closed_at":  at(end), "images": 0, "plan_id": nil, "plan_tier": nil, "plan_day": nil, "plan_price": nil,
		"plan_refunded": s.refunded})
	if s.billing == "plan" {
		maps.Copy(hold, row{"plan_id": "pro", "plan_tier": 2, "plan_day": start.Format(time.DateOnly),
			"plan_price": listed(r, heldTokens, heldTokens)})
	}
	f.add("hold", hold)
	if !s.noReport {
		f.add("request_report", row{"request_id": requestID(n), "recorded_at": at(begin + 1.5), "outcome": "completed"})
	}
	if s.source != "" {
		f.settle(n, s, r, pinned, end)
	}
	if !s.noEngine {
		f.engines = append(f.engines, row{"nonce": fmt.Sprint("nonce ", n), "request_id": requestID(n),
			"engine":      fmt.Sprint("engine ", s.provider),
			"provider_id": providerID(s.provider), "model": s.model, "prompt_tokens": s.enginePrompt,
			"completion_tokens": s.sent, "status": 200,
			"complete": s.engineComplete, "cut": !s.engineComplete, "no_usage": s.silent, "at": at(end)})
	}
	request := requestID(n)
	if s.noRequestID {
		request = ""
	}
	f.clients = append(f.clients, f.client(fmt.Sprint("nonce ", n), s, begin, request))
}

func (f *fixture) client(nonce string, s story, begin float64, request string) row {
	c := row{"nonce": nonce, "key": "name", "account_id": accountID(s.account), "model": s.model, "stream": true,
		"sent_at": at(begin), "ended_at": at(begin + 1),
		"status": s.status, "request_id": request, "error_code": "", "content_tokens": s.received,
		"content_bytes": 5 * s.received,
		"complete":      s.complete, "error_event": s.errored, "left": s.left, "usage": nil}
	if s.usage {
		c["usage"] = row{"prompt_tokens": s.prompt, "completion_tokens": s.completion}
	}
	return c
}

func (f *fixture) settle(n int, s story, r rates, pinned row, end float64) {
	list, payout := listed(r, s.prompt, s.completion), paid(r, s.prompt, s.completion)
	charged, shortfall := s.charged, int64(0)
	if charged < 0 {
		charged = list
	}
	if s.source == "payg" {
		shortfall = list - charged
	}
	line := maps.Clone(pinned)
	maps.Copy(line, row{"day": start.Format(time.DateOnly), "request_id": requestID(n),
		"provider_id":   providerID(s.provider),
		"prompt_tokens": s.prompt, "completion_tokens": s.completion, "list_price": list, "payout": payout,
		"fee":     list - payout,
		"charged": charged, "shortfall": shortfall, "source": s.source, "ending": s.ending, "claim_state": s.claim,
		"evidence_source": s.evidence, "settled_at": at(end), "attempt": 1})
	f.add("usage_settlement", line)
	f.earn("earning_line", n, s.provider, s.prompt, s.completion, payout)
	if s.source == "orphan" {
		f.post(entryID(100+n), "orphan_work", requestID(n), end, nil, leg("e:orphan_work", nil, -payout),
			leg(kindAccrued, providerID(s.provider), payout))
	}
	if s.evidence == "gateway" {
		f.add("orphan_review", row{"request_id": requestID(n), "publications": 1})
	}
}

func (f *fixture) earn(table string, n, provider int, prompt, completion, payout int64) {
	f.earnings[table] = append(f.earnings[table], row{"day": start.Format(time.DateOnly), "request_id": requestID(n),
		"provider_id":   providerID(provider),
		"prompt_tokens": prompt, "completion_tokens": completion, "payout_nano_usd": payout})
}

// rule adds a ruling: the ledger's settled line, or that it settled nothing.
func (f *fixture) rule(n, ruling int, settled row) {
	r := row{"day": start.Format(time.DateOnly), "request_id": requestID(n), "provider_id": nil,
		"prompt_tokens": nil, "completion_tokens": nil, "payout_nano_usd": nil}
	maps.Copy(r, settled)
	maps.Copy(r, row{"ruling": ruling, "settled": settled != nil})
	f.earnings["earning_ruling"] = append(f.earnings["earning_ruling"], r)
}

// tellSpecials adds what only some stories have.
func (f *fixture) tellSpecials() {
	// Settlement had the hub's usage first, and was corrected.
	line := f.earning(counted)
	f.earn("earning_correction", counted, first, 0, 3, line["payout_nano_usd"].(int64))
	maps.Copy(line, row{"prompt_tokens": int64(7), "completion_tokens": int64(5), "payout_nano_usd": paid(priced, 7, 5)})
	// Settlement had heard of a request that does not exist, and of one whose ledger lost
	// its settled line and settled it once more.
	f.earn("earning_line", invented, second, 7, 5, 1_000)
	f.rule(invented, 1, nil)
	f.rule(ruled, 1, nil)
	f.rule(ruled, 2, f.earning(ruled))
	// The first provider had failed before content.
	f.engines = append(f.engines, row{"nonce": fmt.Sprint("nonce ", retried), "request_id": requestID(retried),
		"engine": "engine 1", "provider_id": "",
		"model": "priced", "prompt_tokens": 7, "completion_tokens": 0, "status": 500, "complete": true, "cut": false,
		"at": at(1)})
	// The gateway's report came after the usage was settled.
	f.row("request_report", "request_id", requestID(finishedFirst))["recorded_at"] = at(3*finishedFirst + 3)
	f.row("request_report", "request_id", requestID(finishedSilent))["recorded_at"] = at(3*finishedSilent + 3)
	// One engine never learnt the request's id.
	f.engine(costless)["request_id"] = ""
	f.addReceipt(receipted)
	f.add("quarantine", row{"id": 1, "reason": "undecodable", "request_id": nil})
	f.add("novelty", row{"a": 1})
}

// addReceipt adds the provider's signed receipt of a request. It is signed as the
// provider's agent signs, so that the two readings of the form meet.
func (f *fixture) addReceipt(n int) {
	request, _ := parseID(requestID(n))
	provider, _ := parseID(providerID(first))
	signer := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	signed := workreceipt.Sign(signer, workreceipt.Receipt{
		Request: ids.RequestID(request), Attempt: 1, Provider: ids.ProviderID(provider), Epoch: 3, Model: "priced",
		Claimed: true, ClaimedPrompt: 7, ClaimedCompletion: 5, SentTokens: 5, SentBytes: 25, Complete: true, EndedAt: start,
		Proof: []byte("proof"),
	})
	f.add("work_receipt", row{"request_id": requestID(n), "attempt": 1, "provider_id": providerID(first),
		"epoch": 3, "hub_id": "hub-1", "model_id": "priced",
		"claimed_prompt": 7, "claimed_completion": 5, "sent_tokens": 5, "sent_bytes": 25, "complete": true, "ended_at": at(0),
		"proof": fmt.Sprintf(`\x%x`, "proof"), "public_key": fmt.Sprintf(`\x%x`, signer.Public()),
		"signature": fmt.Sprintf(`\x%x`, signed.Signature)})
}

// sum computes the counted fields.
func (f *fixture) sum() {
	posted := map[string]int64{}
	for _, p := range f.tables["posting"] {
		if p["account_kind"] == kindAvailable {
			posted[p["owner_id"].(string)] += p["amount"].(int64)
		}
	}
	for _, s := range f.tables["usage_settlement"] {
		posted[s["account_id"].(string)] -= s["charged"].(int64)
	}
	for _, a := range []int{payer, planner, poor} {
		f.add("wallet", row{"account_id": accountID(a), "posted": posted[accountID(a)], "held": 0})
		f.add("key_inflight", row{"key_id": keyID(a), "n": 0})
	}
	f.add("key_rate", row{"key_id": keyID(payer), "class": 1, "full_at": at(30)})
	f.add("plan_counter", row{"account_id": accountID(planner), "kind": "requests", "period": "day",
		"window_start": "2026-03-04", "used": 1, "cap": 10, "excess": 0})
	f.add("plan_counter", row{"account_id": accountID(planner), "kind": "tokens", "period": "week",
		"window_start": "2026-03-02", "used": 12, "cap": nil, "excess": 0})
	f.add("plan_gate", row{"account_id": accountID(planner), "open": 0, "full_at": at(0)})
}

// seal closes the fixture's day, with the snapshots of some accounts.
func (f *fixture) seal() {
	f.add("seal", row{"day": "2026-03-03"})
	f.add("seal", row{"day": "2026-03-04"})
	sums := map[[3]string]int64{}
	post := func(kind, owner, book string, amount int64) { sums[[3]string{kind, owner, book}] += amount }
	for _, p := range f.tables["posting"] {
		owner, _ := p["owner_id"].(string)
		post(p["account_kind"].(string), owner, "", p["amount"].(int64))
	}
	for _, s := range f.tables["usage_settlement"] {
		account, provider, payout := s["account_id"].(string), s["provider_id"].(string), s["payout"].(int64)
		switch s["source"] {
		case "payg":
			post(kindAvailable, account, "", -s["charged"].(int64))
			post(kindShortfall, "", "", -s["shortfall"].(int64))
			post(kindAccrued, provider, "", payout)
			post(kindMargin, "", "", s["fee"].(int64))
		case "plan":
			post(kindPlanDebt, "", "2026-03", -payout)
			post(kindPlanHeld, provider, "2026-03", payout)
		}
	}
	for key, sum := range sums {
		if sum != 0 {
			owner := key[1]
			if owner == "" {
				owner = "00000000-0000-0000-0000-000000000000"
			}
			f.add("balance_snapshot", row{"day": "2026-03-04", "account_kind": key[0], "owner_id": owner, "book": key[2],
				"asset": "usd", "moved": sum, "balance": sum})
		}
	}
}

// row is the row of a table with that value.
func (f *fixture) row(table, column, value string) row {
	i := slices.IndexFunc(f.tables[table], func(r row) bool { return r[column] == value })
	return f.tables[table][i]
}

func (f *fixture) hold(n int) row   { return f.row("hold", "request_id", requestID(n)) }
func (f *fixture) line(n int) row   { return f.row("usage_settlement", "request_id", requestID(n)) }
func (f *fixture) wallet(a int) row { return f.row("wallet", "account_id", accountID(a)) }
func (f *fixture) entry(n int) row  { return f.row("entry", "id", entryID(n)) }
func (f *fixture) earning(n int) row {
	i := slices.IndexFunc(f.earnings["earning_line"], func(r row) bool { return r["request_id"] == requestID(n) })
	return f.earnings["earning_line"][i]
}
func (f *fixture) call(n int) row   { return f.clients[n] }
func (f *fixture) engine(n int) row { return f.engines[n] }

// legs are the postings of an entry.
func (f *fixture) legs(n int) []row {
	var out []row
	for _, p := range f.tables["posting"] {
		if p["entry_id"] == entryID(n) {
			out = append(out, p)
		}
	}
	return out
}

// drop removes rows from a table.
func (f *fixture) drop(table, column, value string) {
	f.tables[table] = slices.DeleteFunc(f.tables[table], func(r row) bool { return r[column] == value })
}

// texts are the files.
type texts struct{ export, earnings, clients, engines, setup, chains string }

var exportOrder = []string{
	"account", "wallet", "slice", "chart", "posting_rule", "entry", "posting", "hold", "usage_settlement",
	"request_report", "work_receipt", "renewal", "orphan_review",
	"quarantine", "key_inflight", "key_rate", "seal", "balance_snapshot", "plan_limit", "plan_counter", "plan_gate",
	"held_earning", "closed_month", "closed_share", "novelty",
}

func (f *fixture) texts(t testing.TB) texts {
	t.Helper()
	return texts{
		export: dump(t, f.tables, exportOrder),
		earnings: dump(t, f.earnings, append([]string{"earning_line", "earning_correction", "earning_ruling"},
			settlementOrder...)),
		chains:  dumpRows(t, f.chains, chainsOrder),
		clients: jsonLines(t, f.clients), engines: jsonLines(t, f.engines), setup: jsonLines(t, []row{f.setup}),
	}
}

func dump(t testing.TB, tables map[string][]row, order []string) string {
	lines := []row{{"export": 1, "at": at(3600), "schema": "billing", "seal": ""}}
	for _, table := range order {
		for _, r := range tables[table] {
			lines = append(lines, row{"table": table, "row": r})
		}
	}
	return jsonLines(t, append(lines, row{"end": true, "rows": len(lines) - 1}))
}

func jsonLines(t testing.TB, rows []row) string {
	t.Helper()
	var b strings.Builder
	for _, r := range rows {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	return b.String()
}

func (x texts) audit(opts Options) (*Report, error) {
	in := Inputs{
		Export: strings.NewReader(x.export), Earnings: strings.NewReader(x.earnings),
		Clients: strings.NewReader(x.clients), Engines: strings.NewReader(x.engines),
	}
	if x.chains != "" {
		in.Chains = strings.NewReader(x.chains)
	}
	if x.setup != "" {
		in.Setup = strings.NewReader(x.setup)
	}
	return Audit(in, opts)
}
