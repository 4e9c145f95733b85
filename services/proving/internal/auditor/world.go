package auditor

import (
	"errors"
	"fmt"
)

// world is everything that the inputs say, by subject.
type world struct {
	max   int
	names map[string]string // one copy of each repeated text

	exportedAt int64
	requests   map[id]*request
	accounts   map[id]string // names
	wallets    map[id]wallet
	slices     map[sliceKey]slice
	entries    map[id]*entry
	// strays are postings without an entry.
	strays   map[id]int
	chart    map[string]bool
	rules    map[postingRule]bool
	inflight map[id]int64
	rated    []rated
	plans
	days
	batches
	months
	payouts
	chainSide
	collateral
	quarantined int
	unjudged    map[string]int64

	earningSums map[accrual]wide
	setup       setup
	calls       []*call
	nonces      map[string]*call
	served      map[string][]id // requests that engines saw, by nonce
	unnamed     map[string][]engineCall
}

// request is everything that is known of one request.
type request struct {
	hold *hold
	// lines are the settled rows: at most one, or the ledger is wrong.
	lines       []settlement
	report      *report
	reviewed    bool
	quarantined bool
	earnings    []earning
	corrections []earning
	rulings     []earning
	batched     []batchLine
	receipts    []receipt
	engines     []engineCall
	calls       []*call
}

// wallet is a row of the table of that name.
type wallet struct{ posted, held int64 }

// sliceKey is the key of a row of slice.
type sliceKey struct {
	account id
	epoch   int64
}

// slice is what a slice holds of a wallet for requests whose holds are not written yet. reclaimAt is 0 for one
// that is open.
type slice struct{ amount, aliveUntil, reclaimAt int64 }

// hold is a row of the table of that name. Times are in microseconds since 1970; 0 is
// none.
type hold struct {
	account, key, price           id
	model, billing, state         string
	amount, prompt, maxCompletion int64
	// discount is in hundredths of a percent.
	discount                      int64
	rates                         rates
	admittedAt, expiresAt, closed int64
	plan                          *planPin
}

// settlement is a row of usage_settlement.
type settlement struct {
	day                                                  int64
	account, key, provider, price                        id
	model, source, ending, claim, evidence               string
	rates                                                rates
	tokens                                               tokens
	listPrice, payout, fee, charged, shortfall, discount int64
	attempt                                              int64
	settledAt                                            int64
}

// report is a gateway's report: its time, and whether it says that the client had left.
type report struct {
	recordedAt int64
	gone       bool
}

// entry is a row of the table of that name, with its postings.
type entry struct {
	kind, business string
	at             int64
	reverses       id
	postings       []posting
}

// posting is a row of the table of that name; an amount above zero is a credit.
type posting struct {
	asset, kind, owner, book string
	amount                   int64
}

// postingRule is a row of posting_rule.
type postingRule struct{ entry, account, side, unit string }

// rated is a row of key_rate: when everything that a key may begin at once is back.
type rated struct {
	key   id
	class int64
	full  int64
}

// earning is a line of settlement's, or a row that takes its place.
type earning struct {
	day      int64
	provider id
	payout   int64
	tokens   tokens
	// ruling is the number of a ruling. void reports that nothing was settled.
	ruling int64
	void   bool
}

// accrual is the key by which the two services sum.
type accrual struct {
	day      int64
	provider id
}

var (
	errDouble  = errors.New("has the key of an earlier row")
	errTooMany = errors.New("is one row more than are kept")
)

func newWorld(maxRows int) *world {
	return &world{
		max: maxRows, names: map[string]string{},
		requests: map[id]*request{}, accounts: map[id]string{}, wallets: map[id]wallet{}, slices: map[sliceKey]slice{},
		entries: map[id]*entry{}, strays: map[id]int{}, chart: map[string]bool{}, rules: map[postingRule]bool{},
		inflight: map[id]int64{}, plans: newPlans(), days: newDays(), unjudged: map[string]int64{},
		earningSums: map[accrual]wide{}, batches: newBatches(), months: newMonths(), payouts: newPayouts(),
		chainSide: newChainSide(), collateral: newCollateral(),
		nonces: map[string]*call{}, served: map[string][]id{}, unnamed: map[string][]engineCall{},
	}
}

// request is the request with that id, made when it is new.
func (w *world) request(r *record, u id) *request {
	q := w.requests[u]
	if q == nil {
		q = &request{}
		put(w, r, w.requests, u, q)
	}
	return q
}

// once returns one shared copy of a repeated text.
func (w *world) once(text string) string {
	if known, ok := w.names[text]; ok {
		return known
	}
	if len(w.names) < 4096 {
		w.names[text] = text
	}
	return text
}

// put keeps a row by its key, which must be new.
func put[K comparable, V any](w *world, r *record, into map[K]V, key K, row V) {
	if r.err != nil {
		return
	}
	if _, ok := into[key]; ok {
		r.err = fmt.Errorf("%w: %v", errDouble, key)
		return
	}
	if len(into) >= w.max {
		r.err = fmt.Errorf("%w: %d", errTooMany, w.max)
		return
	}
	into[key] = row
}
