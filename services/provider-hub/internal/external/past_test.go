package external

import (
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
)

// An owner of a server that fails could otherwise change its name, and be counted as up.
func TestARestOutlivesAChangeOfTheNameAlone(t *testing.T) {
	t.Parallel()
	endpoint := func() *Endpoint {
		return &Endpoint{Name: "Rack", BaseURL: "https://a.example.org", Models: []Model{{ID: "a", Local: "a"}}}
	}
	k := config.NewSecret("sk-12345678")
	for what, c := range map[string]struct {
		change func(*Endpoint)
		key    config.Secret
		rests  bool
	}{
		"the name":     {func(e *Endpoint) { e.Name = "Other" }, k, true},
		"what a list":  {func(e *Endpoint) { e.Models[0].Listed = true }, k, true},
		"the base URL": {func(e *Endpoint) { e.BaseURL = "https://b.example.org" }, k, false},
		"the key":      {func(*Endpoint) {}, config.NewSecret("sk-87654321"), false},
		"the models":   {func(e *Endpoint) { e.Models[0].Local = "b" }, k, false},
	} {
		callerOf := func(before *past) *caller {
			one := &caller{base: base{deps: Deps{Clock: clock.System}}, news: make(chan struct{}, 1), before: before}
			one.resting = newResting(one.tell)
			return one
		}
		first := callerOf(nil)
		first.begin(endpoint(), k)
		for range failedCalls {
			first.record.note(failed, time.Now())
		}
		first.record.judge(failed, time.Now())
		first.resting.begin("a", time.Minute)
		unread := callerOf(first.past()) // was replaced before it had read its endpoint
		last := callerOf(unread.past())
		e := endpoint()
		c.change(e)
		last.begin(e, c.key)
		if got := last.callsFail(); got != c.rests {
			t.Errorf("a change of %s: good probes do not count: got %v, want %v", what, got, c.rests)
		}
		if got := last.resting.has("a"); got != c.rests {
			t.Errorf("a change of %s: the model rests: got %v, want %v", what, got, c.rests)
		}
	}
}

func TestTheCallerThatTookARestOverHearsOfItsEnd(t *testing.T) {
	t.Parallel()
	e := &Endpoint{Models: []Model{{ID: "a"}}}
	first := &caller{news: make(chan struct{}, 1)}
	first.resting = newResting(first.tell)
	first.begin(e, config.Secret{})
	first.resting.begin("a", time.Hour)
	second := &caller{news: make(chan struct{}, 1), before: first.past()}
	second.resting = newResting(second.tell)
	second.begin(e, config.Secret{})
	first.resting.end("a")
	select {
	case <-second.news:
	default:
		t.Error("got no signal, want one")
	}
}
