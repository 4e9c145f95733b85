package passbook

import (
	"strings"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/usage"
)

// Group says by what sums of usage are made.
type Group string

// The groups.
const (
	ByKey      Group = "key"
	ByModel    Group = "model"
	ByDay      Group = "day"
	ByProvider Group = "provider"
)

// GroupOf reads a group; the empty text is ByDay.
func GroupOf(text string) (Group, error) {
	switch g := Group(text); g {
	case "":
		return ByDay, nil
	case ByKey, ByModel, ByDay, ByProvider:
		return g, nil
	default:
		return "", invalid("by", "must be key, model, day or provider")
	}
}

// maxModel bounds a model's id in bytes.
const maxModel = 255

// UsageFilter chooses settled requests of an account.
type UsageFilter struct {
	Period
	// Key is zero for all keys, and Model empty for all models.
	Key   ids.KeyID
	Model string
}

// UsageFilterOf reads a filter of requests in a period.
func UsageFilterOf(p Period, key, model string) (UsageFilter, error) {
	f := UsageFilter{Period: p, Model: model}
	if len(model) > maxModel {
		return f, invalid("model", "must have at most %d bytes", maxModel)
	}
	if !utf8.ValidString(model) || strings.ContainsRune(model, 0) { // PostgreSQL takes neither
		return f, invalid("model", "must be the id of a model")
	}
	if key != "" {
		var err error
		if f.Key, err = ids.ParseKey(key); err != nil {
			return f, invalid("key", "must be the id of a key")
		}
	}
	return f, nil
}

// All reports whether the filter chooses by time alone.
func (f UsageFilter) All() bool { return f.Key.IsZero() && f.Model == "" }

// Counts are sums over settled requests.
type Counts struct {
	Requests int64
	// Prompt and Completion are tokens; Images and AudioMS are what models of other units did.
	Prompt, Completion, Images, AudioMS int64
	// Charged is what was paid from credit, and Covered the list price of what a plan paid.
	Charged, Covered money.NanoUSD
}

// Add adds counts in a unit to the sums.
func (c *Counts) Add(unit money.Unit, requests int64, t money.Tokens, charged, covered money.NanoUSD) {
	c.Requests += requests
	c.Charged += charged
	c.Covered += covered
	if unit == money.Token {
		c.Prompt += t.Prompt
		c.Completion += t.Completion
		return
	}
	c.Images += unit.Images(t)
	c.AudioMS += unit.AudioMS(t)
}

// Sum is the usage of one group.
type Sum struct {
	// Of is a key's or provider's id, a model's id, or a day.
	Of string
	// Name is the name of a key; empty otherwise.
	Name string
	Counts
}

// Served is one settled request.
type Served struct {
	Place
	Request  ids.RequestID
	Key      ids.KeyID
	KeyName  string
	Model    string
	Provider ids.ProviderID
	Source   usage.Source
	Counts
}

// Burn is what an account spends.
type Burn struct {
	// PerDay is the mean of the last seven days.
	PerDay money.NanoUSD
	// DaysLeft is how long the available credit lasts at that; negative where nothing is spent.
	DaysLeft float64
}

// burnDays is over how many UTC days, today among them, spending is averaged.
const burnDays = 7

// BurnFrom is the first day that counts for the burn.
func BurnFrom(now time.Time) time.Time { return now.UTC().Truncate(day).Add(-(burnDays - 1) * day) }

// BurnOf returns the burn of an account that was opened at a time, has credit available and
// was charged so much since BurnFrom. An account younger than that spent it in its own time,
// of which less than a day counts as one.
func BurnOf(now, opened time.Time, charged, available money.NanoUSD) Burn {
	from := BurnFrom(now)
	if opened.After(from) {
		from = opened
	}
	span := max(now.Sub(from), day)
	b := Burn{PerDay: money.NanoUSD(float64(charged) / span.Hours() * 24), DaysLeft: -1}
	if b.PerDay > 0 {
		b.DaysLeft = float64(max(available, 0)) / float64(b.PerDay)
	}
	return b
}

// Standing is where an account's credit stands.
type Standing struct {
	Credit, Held money.NanoUSD
	// Owed is what the account owes for payments that were taken back.
	Owed   money.NanoUSD
	Frozen bool
	// Freezes are why, and Debts what is and was owed.
	Freezes  []account.Freeze
	Debts    []account.Debt
	OpenedAt time.Time
	// Charged is what was charged since BurnFrom, up to AsOf.
	Charged money.NanoUSD
	// Now is the database's time.
	Now, AsOf time.Time
}

// Available is what requests may still set aside.
func (s Standing) Available() money.NanoUSD { return s.Credit - s.Held }
