package inference

import (
	"time"

	"svc.internal/pkg/clock"
)

// budget is the time of a request.
type budget struct {
	clock      clock.Clock
	cfg        *Config
	receivedAt time.Time
	beganAt    time.Time // what the time to first content counts from
}

// since returns how long the request has been under way.
func (b *budget) since() time.Duration { return b.clock.Now().Sub(b.receivedAt) }

// left returns the rest of the request's whole time.
func (b *budget) left() time.Duration { return b.cfg.Total - b.since() }

// firstContentLeft returns the rest of the time in which a candidate may begin to answer.
func (b *budget) firstContentLeft() time.Duration {
	return b.cfg.FirstContentAll - b.clock.Now().Sub(b.beganAt)
}
