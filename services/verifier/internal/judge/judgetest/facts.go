package judgetest

import (
	"fmt"
	"time"

	"svc.internal/services/verifier/internal/battery"
)

// Passing are the facts of a benchmark that passes.
func Passing() battery.Facts {
	timing := battery.Timing{Tokens: 256, Took: 5 * time.Second}
	f := battery.Facts{
		First: battery.Speed{
			Answers:     []battery.Timing{timing, timing, timing, timing, timing},
			FirstTokens: []time.Duration{time.Second, time.Second, time.Second},
		},
		Asked: 60, Answered: 60, StatedTokens: 8_192, MeasuredTokens: 8_192,
	}
	for i := range battery.Questions {
		f.Questions = append(f.Questions, battery.Question{ID: fmt.Sprint(i)})
	}
	return f
}
