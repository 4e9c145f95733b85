package standing

import "time"

// Owed is the longest prompt of a recall that the provider failed or voided. Shorter recalls
// keep nothing fresh until one of about this length passes, because a provider with a short
// window would otherwise fail long prompts and pass the others. The zero value owes nothing.
type Owed struct {
	tokens int64
	at     time.Time
}

const (
	// owedShare is how long a recall must be that pays what is owed, in hundredths of it.
	// Recalls near the whole window differ by less, and ones at its middle are shorter.
	owedShare = 80
	// owedLapse is after how long a recall is owed no more: the stated window may be another.
	owedLapse = 14 * 24 * time.Hour
)

// pays reports whether a recall of so many tokens pays what is owed.
func (o Owed) pays(tokens int) bool { return int64(tokens)*100 >= o.tokens*owedShare }
