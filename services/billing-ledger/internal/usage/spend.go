package usage

import "iter"

// SpendPin names the windows of budgets and caps that count a request: by the day (UTC, days
// since 1970) of its admission, and by bits of Windows. The zero pin names none.
type SpendPin struct {
	Day     int32
	Windows int16
}

// SpendWindow is a window in which a key or an account counts what it spends: that which has
// the day in it.
type SpendWindow struct {
	// Owner is the id of the key or of the account.
	Owner  [16]byte
	Period string
	Day    int32
}

// pinned are the periods by the bits of a pin: first those of the key's budget, then those of
// the account's caps.
var pinned = []struct {
	bit    int16
	period string
	ofKey  bool
}{
	{1, "none", true}, {2, "day", true}, {4, "week", true}, {8, "month", true}, {16, "day", false}, {32, "month", false},
}

// windows returns the windows that count a request of a key and its account.
func (p SpendPin) windows(account, key [16]byte) iter.Seq[SpendWindow] {
	return func(yield func(SpendWindow) bool) {
		for _, of := range pinned {
			if p.Windows&of.bit == 0 {
				continue
			}
			w := SpendWindow{Owner: account, Period: of.period, Day: p.Day}
			if of.ofKey {
				w.Owner = key
			}
			if !yield(w) {
				return
			}
		}
	}
}
