package usage

import (
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/plan"
)

// Change is what a batch does to one wallet: Charged leaves its posted credit, Released
// its held credit.
type Change struct{ Charged, Released money.NanoUSD }

// Moves are what the end of requests does to wallets and counters.
type Moves struct {
	// Wallets has every account that is touched, even where no money moves.
	Wallets map[ids.AccountID]Change
	// Ended counts the places that become free, by the key that took them, and Left the
	// places in the concurrency of an account's plan.
	Ended map[ids.KeyID]int
	Left  map[ids.AccountID]int
	// Spend moves the counters of budgets and caps.
	Spend map[SpendWindow]Change
	// Categories moves the counters of accounts' terms.
	Categories map[CategoryWindow]CategoryMove
	// Plans corrects the counters of plans.
	Plans map[plan.Key]plan.Units
	// Refunded are the requests that are given back to their plan.
	Refunded []ids.RequestID
}

// NewMoves returns moves that change nothing.
func NewMoves() Moves {
	return Moves{
		Wallets: map[ids.AccountID]Change{}, Ended: map[ids.KeyID]int{},
		Left: map[ids.AccountID]int{}, Spend: map[SpendWindow]Change{}, Plans: map[plan.Key]plan.Units{},
		Categories: map[CategoryWindow]CategoryMove{},
	}
}

// Leave frees the places that a request takes. Every request leaves once: when the
// gateway reports its end, or when its hold is closed before that.
func (m *Moves) Leave(h Hold) {
	m.touch(h, Change{})
	m.Ended[h.Key]++
	if h.Cover.Covered() {
		m.Left[h.Account]++
	}
	m.count(h, CategoryMove{Left: 1})
}

// Return gives back all that was set aside for a request of which nothing is settled.
// When the caller ended it, the request and its images stay counted in the plan.
func (m *Moves) Return(request ids.RequestID, h Hold, byCaller bool) {
	m.touch(h, Change{Released: h.Amount})
	m.count(h, CategoryMove{Tokens: -h.Estimate()})
	m.correct(request, h, money.Tokens{}, 0, !byCaller)
}

// correct moves a plan's counters to what a request came to.
func (m *Moves) correct(request ids.RequestID, h Hold, used money.Tokens, listPrice money.NanoUSD, refunded bool) {
	if !h.Cover.Covered() {
		return
	}
	key := plan.Key{Account: h.Account, Pin: h.Cover.Pin}
	m.Plans[key] = m.Plans[key].Plus(h.Cover.Used(h.Tokens(used), listPrice, refunded))
	if refunded {
		m.Refunded = append(m.Refunded, request)
	}
}

func (m *Moves) touch(h Hold, c Change) {
	sum := m.Wallets[h.Account]
	sum.Charged += c.Charged
	sum.Released += c.Released
	m.Wallets[h.Account] = sum
	if c == (Change{}) {
		return
	}
	for w := range h.Spend.windows(h.Account, h.Key) {
		sum := m.Spend[w]
		sum.Charged += c.Charged
		sum.Released += c.Released
		m.Spend[w] = sum
	}
}

// count moves the counters of the category that counts a request, if one does. The wallet of its
// account is touched, because the counters are guarded by its lock.
func (m *Moves) count(h Hold, by CategoryMove) {
	if h.Category.Class == 0 || by == (CategoryMove{}) {
		return
	}
	m.touch(h, Change{})
	w := CategoryWindow{Account: h.Account, CategoryPin: h.Category}
	sum := m.Categories[w]
	sum.Left += by.Left
	sum.Tokens += by.Tokens
	m.Categories[w] = sum
}
