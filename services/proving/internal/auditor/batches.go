package auditor

import "fmt"

// batches are the rows of settlement's daily batches, and those of the ledger that they rest on alone.
type batches struct {
	collected map[int64]batchDay
	// sums are the changes of a day's list that are no requests.
	sums   map[changeKey]changeSum
	roots  map[batchKey]batch
	shares map[shareKey]*share
	// homes are the settlement chains that providers changed to.
	homes map[id][]home
	held  map[id]heldEarning
}

func newBatches() batches {
	return batches{
		collected: map[int64]batchDay{}, sums: map[changeKey]changeSum{}, roots: map[batchKey]batch{},
		shares: map[shareKey]*share{}, homes: map[id][]home{}, held: map[id]heldEarning{},
	}
}

// batchDay is a row of batch_day.
type batchDay struct {
	lines     int64
	committed bool
}

// changeKey names the changes of one kind of a provider's account on a day. moved is the kind of those that move
// accounts; the others are of what is held.
type changeKey struct {
	day            int64
	provider       id
	kind           string
	account, month string
}

// The kinds of changes that are no requests.
const (
	moved        = "moved"
	kindOfHeld   = "held"
	kindReleased = "released"
)

// changeSum is a number of changes and their sum.
type changeSum struct {
	lines int64
	sum   wide
}

func (c changeSum) plus(amount int64) changeSum { return changeSum{c.lines + 1, c.sum.plus(amount)} }

// batchLine is a request in a day's list.
type batchLine struct {
	day      int64
	provider id
	amount   int64
}

// batchKey names a batch, and shareKey a share: a provider has one a day.
type batchKey struct{ day, chain int64 }

type shareKey struct {
	day      int64
	provider id
}

// batch is a row of that name.
type batch struct {
	root          hash32
	total, shares int64
}

// address is an account of a chain.
type address [20]byte

// share is a row of batch_share; posted is -1 until it is posted.
type share struct {
	chain, index          int64
	beneficiary           address
	earned, given, amount int64
	blocked               bool
	lines                 int64
	statement             []byte
	summary               hash32
	posted                int64
	entry                 id
}

// home is a row of settlement_chain_change.
type home struct{ since, chain int64 }

// heldEarning is a row of that name; ended is 0 until it ends.
type heldEarning struct {
	provider        id
	book, endedAs   string
	payout          int64
	heldAt, endedAt int64
}

func (w *world) takeHeld(r *record) {
	put(w, r, w.held, r.id("request_id"), heldEarning{
		provider: r.id("provider_id"), book: w.once(r.text("book")), endedAs: w.once(r.textOr("ended_as")),
		payout: r.count("payout"), heldAt: r.time("held_at"), endedAt: r.timeOr("ended_at"),
	})
}

func (w *world) takeBatchDay(r *record) {
	put(w, r, w.collected, r.day("day"), batchDay{lines: r.count("lines"), committed: r.timeOr("committed_at") != 0})
}

// takeBatchLine keeps a request with the request, and of all else the sums.
func (w *world) takeBatchLine(r *record) {
	day, provider, kind, amount := r.day("day"), r.id("provider_id"), w.once(r.text("kind")), r.integer("amount")
	switch kind {
	case sourcePayg, sourcePlan, sourceOrphan:
		q := w.request(r, r.id("request_id"))
		if len(q.batched) >= maxMembers {
			r.fail("request_id", "has too many rows")
			return
		}
		q.batched = append(q.batched, batchLine{day, provider, amount})
		return
	case "refund", "reversal", "entry":
		kind = moved
	case kindOfHeld, kindReleased, "held_refunded", "forfeited", "held_reversed":
	default:
		r.fail("kind", "is not known")
		return
	}
	key := changeKey{day, provider, kind, w.once(r.text("account")), w.once(r.text("month"))}
	if _, known := w.sums[key]; !known && len(w.sums) >= w.max {
		r.err = errTooMany
		return
	}
	w.sums[key] = w.sums[key].plus(amount)
}

func (w *world) takeBatch(r *record) {
	put(w, r, w.roots, batchKey{r.day("day"), r.integer("chain_id")}, batch{r.hash("root"), r.integer("total"),
		r.count("shares")})
}

func (w *world) takeShare(r *record) {
	put(w, r, w.shares, shareKey{r.day("day"), r.id("provider_id")}, &share{
		chain: r.integer("chain_id"), index: r.count("index"), beneficiary: r.address("beneficiary"),
		earned: r.integer("earned"), given: r.integer("given"), amount: r.integer("amount"), blocked: r.flag("blocked"),
		lines: r.count("lines"), statement: r.bytes("statement"), summary: r.hash("summary"),
		posted: r.integerOr("posted", -1), entry: r.idOr("entry_id"),
	})
}

func (w *world) takeHome(r *record) {
	provider := r.id("provider_id")
	if len(w.homes[provider]) >= maxMembers {
		r.err = errTooMany
		return
	}
	w.homes[provider] = append(w.homes[provider], home{r.time("since"), r.integer("chain_id")})
}

// businessID is the business id of the entry that posts a share.
func (s *share) businessID(key shareKey) string {
	return fmt.Sprintf("%s/%v/%d", day(key.day), key.provider, s.chain)
}

// day is a day since 1970 as it is written.
func day(n int64) string { return date(n).Format("2006-01-02") }
