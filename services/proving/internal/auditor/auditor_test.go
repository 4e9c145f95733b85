package auditor

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustAudit(t *testing.T, f *fixture, opts Options) *Report {
	t.Helper()
	r, err := f.texts(t).audit(opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantClean checks that nothing was found and nothing is undecided.
func wantClean(t *testing.T, r *Report) {
	t.Helper()
	for _, j := range r.Judgements {
		for _, f := range j.Findings {
			t.Errorf("%s: %s: %s", j.Verdict, f.Subject, f.Text)
		}
	}
	for _, f := range r.Undecided {
		t.Errorf("undecided: %s: %s", f.Subject, f.Text)
	}
	if !r.Clean() {
		t.Error("r.Clean(): got false, want true")
	} else if !r.Decided() {
		t.Error("r.Decided(): got false, want true")
	}
}

func TestAConsistentWorldIsClean(t *testing.T) {
	r := mustAudit(t, newFixture(), Options{})
	wantClean(t, r)
	if want := len(stories()); r.Requests != want {
		t.Errorf("%d requests, %d calls, %d judged, %d untied, %d open: r.Requests: got %d, want %d", r.Requests, r.Calls,
			r.Judged, r.Untied, r.Open, r.Requests, want)
	} else if r.Calls != r.Requests+1 {
		t.Errorf("%d requests, %d calls, %d judged, %d untied, %d open: r.Calls: got %d, want %d", r.Requests, r.Calls,
			r.Judged, r.Untied, r.Open, r.Calls, r.Requests+1)
	} else if r.Judged != r.Requests {
		t.Errorf("%d requests, %d calls, %d judged, %d untied, %d open: r.Judged: got %d, want %d", r.Requests, r.Calls,
			r.Judged, r.Untied, r.Open, r.Judged, r.Requests)
	} else if r.Untied != 1 {
		t.Errorf("%d requests, %d calls, %d judged, %d untied, %d open: r.Untied: got %d, want 1", r.Requests, r.Calls,
			r.Judged, r.Untied, r.Open, r.Untied)
	} else if r.Open != 0 {
		t.Errorf("%d requests, %d calls, %d judged, %d untied, %d open: r.Open: got %d, want 0", r.Requests, r.Calls,
			r.Judged, r.Untied, r.Open, r.Open)
	}
	unjudged := []Count{{"novelty", 1}}
	if !slices.Equal(r.Unjudged, unjudged) {
		t.Errorf("not judged: got %v, want %v", r.Unjudged, unjudged)
	}
	answers := []Count{{"whole", 6}, {"empty", 1}, {"cut", 3}, {"refused", 5}, {"left", 2}, {"broken", 3}}
	if !slices.Equal(r.Answers, answers) {
		t.Errorf("got %v, want %v", r.Answers, answers)
	}
	if !slices.ContainsFunc(r.Balances, func(b Balance) bool {
		return b.Kind == kindPlanHeld && b.Book == "2026-03" && b.Amount == "33"
	}) {
		t.Errorf("balances %v", r.Balances)
	}
}

func TestSealedDaysAndRefundsAreClean(t *testing.T) {
	f := newFixture()
	refund(f, 50, requestID(wholeAnswer), f.line(wholeAnswer)["charged"].(int64))
	f.seal()
	wantClean(t, mustAudit(t, f, Options{}))
}

// The setup is optional, and settlement's file may or may not begin as an export does.
func TestWhatIsOptionalMayBeMissing(t *testing.T) {
	x := newFixture().texts(t)
	x.setup = ""
	_, x.earnings, _ = strings.Cut(x.earnings, "\n")
	r, err := x.audit(Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Without it, only the engine knows whose request it is.
	wantClean(t, r)
}

func TestWhatIsAllowedAndYetStrangeIsNoted(t *testing.T) {
	f := newFixture()
	resettle(f, gatewayDied, 0, 1)
	r := mustAudit(t, f, Options{})
	wantClean(t, r)
	for _, want := range []Count{
		{"events in quarantine", 1}, {"requests lost by the platform and paid for in part", 1},
		{"requests whose usage settled before the word that they broke off", 3},
	} {
		if !slices.Contains(r.Notes, want) {
			t.Errorf("notes: got %v, want %v", r.Notes, want)
		}
	}
}

// A connection that was cut on the way looks to a gateway as if its client had left.
func TestACutConnectionIsJudgedAsAClientThatLeft(t *testing.T) {
	f := newFixture()
	f.call(hungUp)["left"] = false
	r := mustAudit(t, f, Options{})
	if r.Clean() {
		t.Error("a prompt is charged without anybody's word")
	}
	f.row("request_report", "request_id", requestID(hungUp))["outcome"] = "client_gone"
	wantClean(t, mustAudit(t, f, Options{}))
}

func TestWhatCannotBeToldIsSaidSo(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *fixture)
		want   string
	}{
		"a hold is open": {func(f *fixture) { reopen(f, refused); f.row("key_inflight", "key_id", keyID(payer))["n"] = 0 },
			"something is yet to come"},
		"a hold of what was served is open long after its time": {func(f *fixture) {
			unsettle(f, nameless)
			reopen(f, nameless)
			f.hold(nameless)["expires_at"] = at(60)
			f.row("key_inflight", "key_id", keyID(payer))["n"] = 1
		}, "something is yet to come"},
		"usage is in quarantine": {func(f *fixture) { f.tables["quarantine"][0]["request_id"] = requestID(refused) },
			"its usage is in quarantine"},
		"no engine's record": {func(f *fixture) {
			f.engines = slices.DeleteFunc(f.engines, func(e row) bool { return e["request_id"] == requestID(cutAnswer) })
		}, "no engine's record is of it"},
		"an engine's record of half": {func(f *fixture) { f.engine(wholeAnswer)["complete"] = false },
			"its engine's record is not of one"},
		"an engine's record of less": {func(f *fixture) { f.engine(cutAnswer)["completion_tokens"] = 2 },
			"its engine's record has 2"},
		"content without an id": {func(f *fixture) {
			maps.Copy(f.clients[len(f.clients)-1], row{"content_tokens": 1, "content_bytes": 1})
		}, "no request id"},
		"a request without a client": {func(f *fixture) {
			maps.Copy(f.call(nameless), row{"nonce": "other"})
		}, "no client's record is of it"},
		"a request without ids": {func(f *fixture) {
			f.engines[nameless]["request_id"] = ""
		}, "an engine that knows no ids may have served it"},
		"a source that nobody knows": {func(f *fixture) {
			f.line(costless)["source"] = "gift"
			f.hold(costless)["billing_type"] = "gift"
		}, `its source "gift" is not known`},
		"a state that nobody knows": {func(f *fixture) { f.hold(refused)["state"] = "lent" }, `state "lent" is not known`},
	} {
		f := newFixture()
		tc.change(f)
		r := mustAudit(t, f, Options{})
		if r.Decided() || !slices.ContainsFunc(r.Undecided, func(u Finding) bool {
			return strings.Contains(u.Text, tc.want)
		}) {
			t.Errorf("%s: undecided %v, want %q", name, r.Undecided, tc.want)
		}
	}
}

// The client has its usage, which replaces the engine's record.
func TestTheToldUsageStandsInForAnEngine(t *testing.T) {
	f := newFixture()
	f.engines = slices.DeleteFunc(f.engines, func(e row) bool { return e["request_id"] == requestID(wholeAnswer) })
	wantClean(t, mustAudit(t, f, Options{}))
	resettle(f, wholeAnswer, 7, 6)
	f.call(wholeAnswer)["usage"] = row{"prompt_tokens": 7, "completion_tokens": 5}
	if r := mustAudit(t, f, Options{}); r.Judgements[1].Count != 1 {
		t.Errorf("doubled: got %d, want 1", r.Judgements[1].Count)
	}
}

// Two transactions that overlap may have their rows in another order than they
// took effect in.
func TestTheReplayInventsNoOverdraft(t *testing.T) {
	f := newFixture()
	// The hold of all credit began before the release that made room for it.
	h := maps.Clone(f.hold(short))
	maps.Copy(h, row{
		"request_id": requestID(90), "state": "released",
		"admitted_at": at(3*short - 20), "closed_at": at(3*short + 1.5),
	})
	f.add("hold", h)
	wantClean(t, mustAudit(t, f, Options{Skew: 2 * time.Second}))
	r := mustAudit(t, f, Options{Skew: time.Second})
	if r.Clean() {
		t.Error("with shorter transactions it is one")
	}
	// What ended when another began.
	h["closed_at"] = at(3 * short)
	wantClean(t, mustAudit(t, f, Options{Skew: time.Microsecond}))
}

func TestAReportIsBoundedAndCountsAll(t *testing.T) {
	f := newFixture()
	for n := range 50 {
		f.add("wallet", row{"account_id": uid(ofAccount, 100+n), "posted": -1, "held": 0})
	}
	r := mustAudit(t, f, Options{})
	j := r.Judgements[3]
	switch {
	case j.Verdict != Overdrawn:
		t.Errorf("j.Verdict: got %q, want %q", j.Verdict, Overdrawn)
	case j.Count != 50:
		t.Errorf("j.Count: got %d, want 50", j.Count)
	case len(j.Findings) != maxFindings:
		t.Errorf("len(j.Findings): got %d, want %d", len(j.Findings), maxFindings)
	}
	var plain, coloured bytes.Buffer
	if err := r.Print(&plain, Style{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Print(&coloured, Style{Colour: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"requests admitted                19\n", "whole 6, empty 1",
		"lost                              0\n", "overdrawn                        50\n",
		"      and 30 more\n", "rows of novelty", "-1 are posted and 0 are held",
	} {
		if !strings.Contains(plain.String(), want) {
			t.Errorf("%q is missing in\n%s", want, plain.String())
		}
	}
	if strings.Contains(plain.String(), "\033") {
		t.Errorf("colours: plain: got %q, want it without %q", plain.String(), "\033")
	} else if !strings.Contains(coloured.String(), "\033[31moverdrawn") {
		t.Errorf("colours: coloured: got %q, want %q in it", coloured.String(), "\033[31moverdrawn")
	}
	var text bytes.Buffer
	if err := r.JSON(&text); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text.Bytes(), &back); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if back.Judgements[3].Count != 50 {
		t.Errorf("back.Judgements[3].Count: got %d, want 50, with %s", back.Judgements[3].Count, text.Bytes())
	}
}

// The same files make the same report.
func TestAReportIsTheSameEachTime(t *testing.T) {
	f := newFixture()
	for n := range stories() {
		f.hold(n)["amount"] = int64(n)
	}
	first, second := mustAudit(t, f, Options{}), mustAudit(t, f, Options{})
	var a, b bytes.Buffer
	if err := first.JSON(&a); err != nil {
		t.Fatal(err)
	}
	if err := second.JSON(&b); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Errorf("first\n%s\nthen\n%s", a.String(), b.String())
	}
}
