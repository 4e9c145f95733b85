package external

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/services/provider-hub/internal/session"
)

func TestAServerIsLeftAloneForAsLongAsItAsksWithinBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		header string
		want   time.Duration
	}{
		{429, "7", 7 * time.Second}, {429, "0", time.Second}, {429, "2.5", 2500 * time.Millisecond},
		{429, "86400", time.Minute}, {429, "99999999999999999999999", time.Minute}, {503, "7", 7 * time.Second},
		{529, "7", 7 * time.Second}, {429, "Sun, 01 Mar 2026 12:00:09 GMT", 9 * time.Second},
		{429, "Sun, 01 Mar 2020 12:00:09 GMT", time.Second}, {429, "Sun, 01 Mar 2099 12:00:09 GMT", time.Minute},
		{429, "", 0}, {429, "-1", 0}, {429, "soon", 0}, {429, "NaN", 0}, {429, "Inf", time.Minute}, {200, "7", 0},
		{400, "7", 0}, {302, "7", 0},
	} {
		resp := &http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header},
			"Date": {"Sun, 01 Mar 2026 12:00:00 GMT"}}}
		if got := restAfter(resp); got != c.want {
			t.Errorf("%d with %q: got %v, want %v", c.status, c.header, got, c.want)
		}
	}
}

func TestAModelThatRestsIsOfferedAgainAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &caller{base: base{deps: Deps{Log: slog.New(slog.DiscardHandler)}}, news: make(chan struct{}, 1),
			endpoint: &Endpoint{Models: []Model{{ID: "a"}, {ID: "b"}}}, well: true, listed: []string{"a", "b"}}
		c.resting = newResting(c.tell)
		c.rest("a", &session.End{Status: 429, Complete: true, RetryAfter: 2 * time.Second})
		c.rest("a", &session.End{Status: 429, Complete: true, RetryAfter: time.Minute}) // asked again while it rests
		healthy := func() (all []string) {
			for _, m := range c.offers().List {
				if m.Offer.Healthy {
					all = append(all, m.Offer.Model)
				}
			}
			return all
		}
		if got := strings.Join(healthy(), " "); got != "b" {
			t.Errorf("while it rests: got %q, want b", got)
		}
		select {
		case <-c.news:
		default:
			t.Error("the session is not told that a model rests")
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		if got := healthy(); len(got) != 2 {
			t.Errorf("afterwards: got %v, want both", got)
		}
		select {
		case <-c.news:
		default:
			t.Error("the session is not told that a model is back")
		}
	})
}

// One consumer's call may be too much for a server that serves everybody else.
func TestOneRefusalPutsAModelBackForTwoSecondsAndAnAnswerEndsTheDoubling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newResting(func() {})
		rests := func(asked time.Duration) time.Duration {
			got := r.begin("a", asked)
			time.Sleep(got) //nolint:forbidigo // the bubble's time
			synctest.Wait()
			return got
		}
		for i, want := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
			if got := rests(time.Hour); got != want*time.Second {
				t.Errorf("refusal %d: got a rest of %v, want %v", i, got, want*time.Second)
			}
		}
		if got := rests(7 * time.Second); got != 7*time.Second {
			t.Errorf("a server that asks for 7 s: got a rest of %v, want that", got)
		}
		r.answered("a")
		if got := rests(time.Minute); got != shortRest {
			t.Errorf("after an answer: got a rest of %v, want %v", got, shortRest)
		}
		r.begin("a", time.Minute)
		r.answered("a") // of a call that was under way
		if !r.has("a") {
			t.Error("an answer ends a rest that has begun")
		}
	})
}
