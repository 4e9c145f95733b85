package auditor

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// chains are those that have a batch every day, and home where a provider is paid that never chose.
var chains = []int64{1, 254, 8453}

const homeless = 8453

// checkBatches computes the shares and the root of every batch anew. The share of a provider is what it has earned up
// to the day's end, that is free, and that no share of an earlier day had.
func (a *audit) checkBatches() {
	earned := a.earnings()
	byBatch := map[batchKey][]shareKey{}
	byProvider := map[id][]shareKey{}
	for key, s := range a.shares {
		byBatch[batchKey{key.day, s.chain}] = append(byBatch[batchKey{key.day, s.chain}], key)
		byProvider[key.provider] = append(byProvider[key.provider], key)
	}
	for _, n := range slices.Sorted(maps.Keys(a.collected)) {
		if !a.collected[n].committed {
			a.r.doubt("day "+day(n), "its list is there, and its batches are yet to come")
			continue
		}
		a.r.count("days whose batches were computed")
		for _, chain := range chains {
			a.checkBatch(batchKey{n, chain}, byBatch[batchKey{n, chain}])
		}
	}
	for provider := range earned {
		if _, ok := byProvider[provider]; !ok {
			byProvider[provider] = nil
		}
	}
	for _, provider := range sortedIDs(byProvider) {
		slices.SortFunc(byProvider[provider], func(x, y shareKey) int { return cmp.Compare(x.day, y.day) })
		a.checkShares(provider, earned[provider], byProvider[provider])
	}
	a.checkPosted()
}

// checkBatch computes the root of a batch.
func (a *audit) checkBatch(key batchKey, shares []shareKey) {
	subject := "batch " + day(key.day) + " of chain " + strconv.FormatInt(key.chain, 10)
	b, ok := a.roots[key]
	if !ok {
		a.r.found(Drift, subject, "there is none")
		return
	}
	slices.SortFunc(shares, func(x, y shareKey) int { return bytes.Compare(x.provider[:], y.provider[:]) })
	var total wide
	leaves := make([]hash32, len(shares))
	for i, sk := range shares {
		s := a.shares[sk]
		if s.index != int64(i) {
			a.r.found(Drift, subject, "provider %v has leaf %d, and is number %d in the order of ids", sk.provider, s.index, i)
		}
		leaves[i], total = leaf(s.index, s.beneficiary, s.amount), total.plus(s.amount)
		a.checkStatement(subject, sk, s, b.root)
	}
	if root(leaves) != b.root {
		a.r.found(Drift, subject, "its root is %x, and its shares give %x", b.root, root(leaves))
	}
	if wideOf(b.total) != total || b.shares != int64(len(shares)) {
		a.r.found(Drift, subject, "it says %d in %d shares, and has %v in %d", b.total, b.shares, total, len(shares))
	}
}

// statement is what is judged of a statement.
type statement struct {
	Day      string `json:"day"`
	Provider string `json:"provider_id"`
	Root     string `json:"root"`
	Leaf     struct {
		Index       string `json:"index"`
		Beneficiary string `json:"beneficiary"`
		Amount      string `json:"amount_nano_usd"`
	} `json:"leaf"`
	Proof  []string `json:"proof"`
	Earned string   `json:"earned_nano_usd"`
	Given  string   `json:"given_nano_usd"`
}

// checkStatement checks that a statement says what its share says, and proves the share.
func (a *audit) checkStatement(subject string, key shareKey, s *share, want hash32) {
	if keccak256(s.statement) != s.summary {
		a.r.found(Drift, subject, "the statement to %v is not of its hash", key.provider)
	}
	var said statement
	if err := json.Unmarshal(s.statement, &said); err != nil {
		a.r.found(Drift, subject, "the statement to %v is no JSON", key.provider)
		return
	}
	got := []string{said.Day, said.Provider, said.Root, said.Leaf.Index, said.Leaf.Beneficiary, said.Leaf.Amount,
		said.Earned, said.Given}
	is := []string{day(key.day), key.provider.String(), "0x" + hex.EncodeToString(want[:]), strconv.FormatInt(s.index, 10),
		"0x" + hex.EncodeToString(s.beneficiary[:]), strconv.FormatInt(s.amount, 10), strconv.FormatInt(s.earned, 10),
		strconv.FormatInt(s.given, 10)}
	if !slices.EqualFunc(got, is, strings.EqualFold) {
		a.r.found(Drift, subject, "the statement to %v says %v, and its share is %v", key.provider, got, is)
	}
	var proof []hash32
	for _, text := range said.Proof {
		var h hash32
		if n, err := hex.Decode(h[:], []byte(strings.TrimPrefix(text, "0x"))); err != nil || n != len(h) {
			a.r.found(Drift, subject, "the proof for %v is none", key.provider)
			return
		}
		proof = append(proof, h)
	}
	if !proven(leaf(s.index, s.beneficiary, s.amount), proof, want) {
		a.r.found(Drift, subject, "the statement to %v does not prove its share", key.provider)
	}
}

// checkShares computes the shares of a provider, in the order of days. What an earlier share gave is what was posted
// of it, or all of it while nobody had heard of a posting.
func (a *audit) checkShares(provider id, earned map[int64]wide, keys []shareKey) {
	subject := about("provider", provider)
	days := slices.Sorted(maps.Keys(earned))
	var sum, low, high wide
	next := 0
	through := func(d int64) {
		for ; next < len(days) && days[next] <= d; next++ {
			sum = sum.add(earned[days[next]])
		}
	}
	taken := map[int64]*share{}
	for _, key := range keys {
		taken[key.day] = a.shares[key]
	}
	for _, d := range slices.Sorted(maps.Keys(a.collected)) {
		if !a.collected[d].committed {
			break
		}
		through(d)
		s := taken[d]
		if s == nil {
			if sum.add(high.negated()).positive() {
				a.r.found(Unpaid, subject, "up to %s it earned %v, its shares gave %v, and it has no share", day(d), sum, high)
			}
			continue
		}
		a.r.count("shares that were computed")
		a.checkShare(subject, shareKey{d, provider}, s, sum, low, high)
		low, high = low.plus(s.amount), high.plus(s.amount)
		if s.posted >= 0 {
			low = low.minus(s.amount - s.posted)
		}
	}
}

func (a *audit) checkShare(subject string, key shareKey, s *share, earned, low, high wide) {
	on := day(key.day)
	if wideOf(s.earned) != earned {
		a.r.found(Drift, subject, "up to %s it earned %v, and its share is of %d", on, earned, s.earned)
	}
	if given := wideOf(s.given); given.less(low) || high.less(given) {
		a.r.found(Drift, subject, "before %s its shares gave %v to %v, and its share says %d", on, low, high, s.given)
	}
	want := max(s.earned-s.given, 0)
	if s.blocked {
		a.r.note("shares of providers that a witness blocks")
		want = 0
	}
	if s.amount != want {
		a.r.found(Drift, subject, "its share of %s is %d, and %d less %d is due", on, s.amount, s.earned, s.given)
	}
	if chain := a.homeOf(key); chain != s.chain {
		a.r.found(Drift, subject, "its share of %s is on chain %d, and it is paid on %d", on, s.chain, chain)
	}
}

// homeOf is the chain on which a provider was paid at the end of a day.
func (a *audit) homeOf(key shareKey) int64 {
	last := home{chain: homeless}
	for _, h := range a.homes[key.provider] {
		if h.since < (key.day+1)*dayMicros && h.since >= last.since {
			last = h
		}
	}
	return last.chain
}

// checkPosted compares the shares with the entries that post them.
func (a *audit) checkPosted() {
	entries := map[string]id{}
	for _, u := range sortedIDs(a.entries) {
		if e := a.entries[u]; e.kind == entryBatch {
			if _, ok := entries[e.business]; !ok { // a second one is found where entries are judged
				entries[e.business] = u
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(a.shares), func(x, y shareKey) int {
		return cmp.Or(cmp.Compare(x.day, y.day), bytes.Compare(x.provider[:], y.provider[:]))
	}) {
		s := a.shares[key]
		subject := about("provider", key.provider)
		u, ok := entries[s.businessID(key)]
		delete(entries, s.businessID(key))
		var amount int64
		if ok {
			amount = -a.entries[u].on(kindAccrued, key.provider.String())
		}
		switch {
		case s.posted < 0 && !ok:
			a.r.doubt(subject, "its share of %d of %s is yet to be posted", s.amount, day(key.day))
		case s.posted < 0:
			a.r.doubt(subject, "its share of %s is posted, and settlement has yet to hear of it", day(key.day))
		case s.posted > 0 && !ok:
			a.r.found(Unpaid, subject, "its share of %s is said to be posted with %d, and no entry has it",
				day(key.day), s.posted)
		case amount != s.posted || s.posted > 0 && u != s.entry:
			a.r.found(Drift, subject, "its share of %s is said to be posted with %d by entry %v, and is with %d by %v",
				day(key.day), s.posted, s.entry, amount, u)
		case s.posted < s.amount:
			a.r.note("shares of which the books had less")
		}
	}
	for _, business := range slices.Sorted(maps.Keys(entries)) {
		a.r.found(Doubled, about("entry", entries[business]), "it posts %q, which is no share", business)
	}
}

// on is what an entry moves on an account of an owner, in nano-USD.
func (e *entry) on(kind, owner string) (sum int64) {
	for _, p := range e.postings {
		if p.kind == kind && p.owner == owner && p.asset == assetUSD {
			sum += p.amount
		}
	}
	return sum
}
