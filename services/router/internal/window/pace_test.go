package window

import (
	"testing"
	"time"
)

// prompted is an answer to a prompt of a length, at a pace.
func prompted(tokens int64, p Pace) Sample {
	return Sample{At: start, Served: true, Prompt: tokens, FirstContent: p.Base + p.Slope*time.Duration(tokens)}
}

func TestThePaceIsLearnedFromShortAndLongPrompts(t *testing.T) {
	truth := Pace{Base: 300 * time.Millisecond, Slope: time.Millisecond}
	var w Window
	for i := range 10 {
		w.Record(prompted(1, Pace{Base: truth.Base}))
		w.Record(prompted(int64(10_000+i), truth))
	}
	got := w.Pace(start)
	if got != truth {
		t.Errorf("got %+v, want %+v", got, truth)
	}
	for tokens, want := range map[int64]time.Duration{
		0: truth.Base, ShortPrompt: truth.Base, 20_000: 20300 * time.Millisecond, 1 << 50: truth.Base + time.Hour,
	} {
		if got := got.At(tokens); got != want {
			t.Errorf("at %d tokens: got %v, want %v", tokens, got, want)
		}
	}
	if got := w.Pace(start.Add(Span)); got != (Pace{}) {
		t.Errorf("got %+v of answers that are too old, want nothing", got)
	}
}

func TestAPaceThatFewAnswersSayIsNotKnown(t *testing.T) {
	var w Window
	for range paceSamples - 1 {
		w.Record(prompted(1, Pace{Base: time.Second}))
		w.Record(prompted(10_000, Pace{Base: time.Second, Slope: time.Millisecond}))
	}
	w.Record(Sample{At: start, FirstContent: time.Hour})       // failed
	w.Record(Sample{At: start, Served: true, FirstContent: 0}) // was no stream
	if got := w.Pace(start); got != (Pace{}) || got.At(1) != 0 || got.At(10_000) != 0 {
		t.Errorf("got %+v of %d answers of each kind, want nothing", got, paceSamples-1)
	}
	w.Record(prompted(1, Pace{Base: time.Second}))
	if got := w.Pace(start); got.At(1) != time.Second || got.At(10_000) != 0 {
		t.Errorf("got %+v, want the pace of short prompts alone", got)
	}
}

func TestALongPromptMakesNobodySlow(t *testing.T) {
	pace := Pace{Base: 500 * time.Millisecond, Slope: time.Millisecond}
	for name, model := range map[string]Pace{"known": pace, "unknown": {}} {
		var short, long Window
		for range 20 {
			short.Record(prompted(100, Pace{Base: pace.Base}))
			s := prompted(30_000, pace)
			s.Pace = model
			long.Record(s)
		}
		a, b := short.Health().FirstContent, long.Health().FirstContent
		if name == "known" && (b < a*9/10 || b > a*11/10) {
			t.Errorf("%s pace: got %v with long prompts, want about %v as with short ones", name, b, a)
		}
		if raw := pace.At(30_000); b > raw/10 {
			t.Errorf("%s pace: got %v with long prompts, want less than a tenth of the %v that they take", name, b, raw)
		}
	}
}

func TestAProviderThatIsTwiceAsSlowLooksTwiceAsSlowAtAnyLength(t *testing.T) {
	pace := Pace{Base: time.Second, Slope: time.Millisecond}
	for _, tokens := range []int64{10, 5_000, 100_000} {
		first := pace.At(tokens)
		one, two := pace.Short(first, tokens), pace.Short(2*first, tokens)
		if two < one*19/10 || two > one*21/10 {
			t.Errorf("%d tokens: got %v and %v, want the second twice the first", tokens, one, two)
		}
	}
}
