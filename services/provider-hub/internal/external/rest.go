package external

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A model rests while its server asks to be left alone: it is offered as unhealthy. minRest and maxRest
// bound a rest. A server that asks for a day is tried once a minute. A model rests at most shortRest,
// because one consumer's call may be too much for a server that serves everybody else, and at most
// twice as long each further time until a call is answered.
const (
	minRest   = time.Second
	maxRest   = time.Minute
	shortRest = 2 * time.Second
)

// restAfter returns how long a server that is busy or fails asks to be left alone; 0 where it does not
// ask. A date in Retry-After counts from the answer's own Date, because clocks differ.
func restAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < http.StatusInternalServerError {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	if at, err := http.ParseTime(text); err == nil {
		now, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			return 0
		}
		return min(max(at.Sub(now), minRest), maxRest)
	}
	seconds, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || !(seconds >= 0): // also for NaN
		return 0
	case seconds >= maxRest.Seconds():
		return maxRest
	}
	return max(time.Duration(seconds*float64(time.Second)), minRest)
}

// resting are the models of an endpoint that rest.
type resting struct {
	mu     sync.Mutex
	models map[string]rested
	// told is called when a rest begins or ends.
	told func()
}

// rested is whether a model rests, and the length of its last rest since a call was answered.
type rested struct {
	now  bool
	last time.Duration
}

func newResting(told func()) *resting { return &resting{models: map[string]rested{}, told: told} }

// tells has another caller hear when a rest begins or ends.
func (r *resting) tells(told func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = told
}

// begin lets a model rest, because its server asks to be left alone for d. It does not prolong a rest.
// It returns how long the model rests; 0 where no rest begins.
func (r *resting) begin(model string, d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.models[model]
	if d <= 0 || was.now {
		return 0
	}
	d = min(d, max(2*was.last, shortRest), maxRest)
	r.models[model] = rested{true, d}
	time.AfterFunc(d, func() { r.end(model) })
	r.told()
	return d
}

func (r *resting) end(model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.models[model]; ok {
		one.now = false
		r.models[model] = one
	}
	r.told()
}

// answered notes that a call of a model was answered. A rest that has begun goes on.
func (r *resting) answered(model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.models[model]; ok && one.now {
		r.models[model] = rested{now: true}
	} else {
		delete(r.models, model)
	}
}

// has reports whether a model rests.
func (r *resting) has(model string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.models[model].now
}
