package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/probe"
)

// Past is what was planned for an offer before, as far as the next hour depends on it. It
// has one form in JSON (Form, ReadPast). The zero value is an offer without a probe.
type Past struct {
	// Hour is the hour that was planned last, in hours since 1970. It is not planned again.
	Hour int64 `json:"hour"`
	// Day is the UTC day, in days since 1970. Arrivals are those of the day, and Spent is
	// what its probes cost.
	Day      int64         `json:"day"`
	Arrivals int           `json:"arrivals"`
	Spent    money.NanoUSD `json:"spent"`
	// Week is the offer's own week. NearFull, Middle and Above are its recalls: near the
	// whole effective window, at its middle, and above it.
	Week     int64 `json:"week"`
	NearFull int   `json:"near_full"`
	Middle   int   `json:"middle"`
	Above    int   `json:"above"`
	// Waiting are sampled probes whose prompts return, the earliest first.
	Waiting []Repeat `json:"waiting,omitempty"`
}

// Repeat is a probe whose prompt returns.
type Repeat struct {
	ID            probe.ID  `json:"id"`
	After         time.Time `json:"after"`
	Streamed      bool      `json:"streamed,omitempty"`
	PromptTokens  int       `json:"prompt_tokens"`
	MaxTokens     int       `json:"max_tokens"`
	Unbounded     bool      `json:"unbounded,omitempty"`
	BytesPerToken float64   `json:"bytes_per_token,omitempty"`
}

// The bounds of a past.
const (
	maxWaiting = 8
	maxPast    = 8 << 10
	weekHours  = 7 * 24
)

// ErrPast is the error for bytes that are no past.
var ErrPast = errors.New("not what was planned for an offer")

// Form returns the only form of the past.
func (p Past) Form() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("write what was planned: %w", err)
	}
	return b, nil
}

// ReadPast reads what Form wrote, and refuses every other form.
func ReadPast(b []byte) (Past, error) {
	if len(b) > maxPast {
		return Past{}, fmt.Errorf("%w: %d bytes", ErrPast, len(b))
	}
	var p Past
	if err := json.Unmarshal(b, &p); err != nil {
		return Past{}, fmt.Errorf("%w: %w", ErrPast, err)
	}
	again, err := p.Form()
	if err != nil {
		return Past{}, err
	}
	if !bytes.Equal(again, b) {
		return Past{}, fmt.Errorf("%w: another form", ErrPast)
	}
	return p, nil
}

func (p Past) check() error {
	if p.Arrivals < 0 || p.Spent < 0 || p.NearFull < 0 || p.Middle < 0 || p.Above < 0 || len(p.Waiting) > maxWaiting {
		return fmt.Errorf("%w: a count is out of range", ErrPast)
	}
	for _, r := range p.Waiting {
		sizes := r.PromptTokens >= 1 && r.PromptTokens <= probe.MaxPromptTokens && r.MaxTokens >= 1 &&
			r.MaxTokens <= probe.MaxAnswerTokens && r.BytesPerToken >= 0 && r.BytesPerToken <= 16
		if !sizes || r.After.Location() != time.UTC || r.ID.IsZero() {
			return fmt.Errorf("%w: a repeated probe is out of range", ErrPast)
		}
	}
	return nil
}

// at returns the past as it is at an hour: the counts of a past day or week are forgotten.
// The week of an offer begins at an hour of its own.
func (p Past) at(hour time.Time, s secret, o probe.Offer) Past {
	p.Waiting = append([]Repeat(nil), p.Waiting...)
	if day := hour.Unix() / 86_400; day != p.Day {
		p.Day, p.Arrivals, p.Spent = day, 0, 0
	}
	shift := int64(s.dice("week", o, 0).IntN(weekHours))
	if week := (hour.Unix()/3600 + shift) / weekHours; week != p.Week {
		p.Week, p.NearFull, p.Middle, p.Above = week, 0, 0, 0
	}
	return p
}

// hourOfWeek returns how many hours of the offer's week have passed at a time.
func (p Past) hourOfWeek(hour time.Time, s secret, o probe.Offer) int64 {
	shift := int64(s.dice("week", o, 0).IntN(weekHours))
	return (hour.Unix()/3600 + shift) % weekHours
}
