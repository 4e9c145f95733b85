package auditor

import (
	"slices"
	"testing"
)

func TestEverySightHasOneLineForEachCircumstance(t *testing.T) {
	type place struct {
		saw  sight
		told circumstance
	}
	seen := map[place]bool{}
	for _, r := range endings {
		at := place{r.saw, r.told}
		if seen[at] {
			t.Error("seen[at]: got true, want false")
		} else if r.lines == "" {
			t.Error(`r.lines: got "", want some text`)
		} else if got := sights(); !slices.Contains(got, r.saw) {
			t.Errorf("sights(): got %q, want %q in it", got, r.saw)
		}
		seen[at] = true
	}
	for _, s := range sights() {
		if !seen[place{s, ordinary}] {
			t.Errorf("%s has no ordinary line", s)
		}
		if r := ruleFor(s, "something else"); r.saw != s {
			t.Errorf("%s in another circumstance is judged: r.saw: got %q, want %q", s, r.saw, s)
		} else if r.told != ordinary {
			t.Errorf("%s in another circumstance is judged: r.told: got %q, want %q", s, r.told, ordinary)
		}
	}
}

// With honest counts, no line asks for more than it allows, and only whole
// answers, clients that left and what ended before the platform died cost a
// prompt.
func TestNoLineContradictsItself(t *testing.T) {
	v := vouched{
		call:   &call{received: 3, bytes: 15, usage: &tokens{7, 5}},
		engine: &engineCall{tokens: tokens{7, 5}},
		hold:   &hold{prompt: 9, maxCompletion: 100},
	}
	for _, r := range endings {
		for _, s := range []struct {
			span
			prompt bool
		}{{r.prompt, true}, {r.completion, false}} {
			if floor, ceiling := v.of(s.floor, s.prompt), v.of(s.ceiling, s.prompt); floor > ceiling || floor < 0 {
				t.Errorf("%s %s: the floor: got %d, want at most %d and at least 0", r.saw, r.told, floor, ceiling)
			}
		}
		free := r.saw == sawEmpty || r.saw == sawCut || r.saw == sawRefused || r.saw == sawBreak || r.told == crashed
		ended := r.told == finished || r.told == unreported || r.told == overtime || r.told == vanished
		if got := v.of(r.prompt.ceiling, true); (got == 0) != (free && !ended) {
			t.Errorf("%s %s: a prompt of %d may be charged: got == 0: got %t, want %t", r.saw, r.told, got, got == 0,
				free && !ended)
		}
	}
}

func TestWhatAClientSawIsToldByTheWorst(t *testing.T) {
	for name, tc := range map[string]struct {
		call call
		want sight
	}{
		"an end":                         {call{status: 200, complete: true, received: 2, bytes: 9}, sawWhole},
		"an end after a tool call":       {call{status: 200, complete: true, bytes: 9}, sawWhole},
		"an end of nothing":              {call{status: 200, complete: true}, sawEmpty},
		"an error after content":         {call{status: 200, errored: true, received: 2, bytes: 9}, sawCut},
		"an error and then an end":       {call{status: 200, errored: true, complete: true, received: 2, bytes: 9}, sawCut},
		"an error event at once":         {call{status: 200, errored: true}, sawRefused},
		"an error in a whole body":       {call{status: 503, complete: true, bytes: 40}, sawRefused},
		"its own back":                   {call{status: 200, left: true, received: 2, bytes: 9}, sawNothingMore},
		"an end, and then it left":       {call{status: 200, left: true, complete: true, received: 2, bytes: 9}, sawWhole},
		"nothing":                        {call{}, sawBreak},
		"an answer that just stops":      {call{status: 200, received: 2, bytes: 9}, sawBreak},
		"headers, and then it hung up":   {call{status: 200, left: true}, sawNothingMore},
		"an error, and then it hung up":  {call{status: 200, left: true, errored: true, received: 1, bytes: 1}, sawCut},
		"a refusal of a client too many": {call{status: 429, complete: true}, sawRefused},
	} {
		if got := tc.call.sight(); got != tc.want {
			t.Errorf("a client that saw %s saw: got %s, want %s", name, got, tc.want)
		}
	}
}
