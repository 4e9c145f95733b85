package bench_test

import (
	"slices"
	"testing"

	"svc.internal/services/verifier/internal/battery"
	"svc.internal/services/verifier/internal/bench"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/probe"
)

// offline carries a run on until it ends: its provider answers n questions, and is not
// connected when it is asked further ones.
func offline(t *testing.T, n int) bench.Run {
	t.Helper()
	v, r := honest(), begin(t, setup())
	for step := 0; !r.Ended(); step++ {
		if step > 100 {
			t.Fatal("the run does not end")
		}
		next, err := r.Next(noon)[0], error(nil)
		if len(r.Reports) < n {
			r, err = r.Took(v.answer(r, next), noon)
		} else {
			r, err = r.Offline(next.ID, noon)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestAProviderThatIsNeverConnectedIsNotAsked(t *testing.T) {
	t.Parallel()
	outcome(t, offline(t, 0), battery.Void, battery.Disturbed)
}

// Whoever leaves in mid-run leaves questions unanswered, and has stated nothing false.
func TestAProviderThatLeavesInMidRunIsNeitherPassedNorFailed(t *testing.T) {
	t.Parallel()
	r := offline(t, 3)
	outcome(t, r, battery.Void, battery.Unanswered)
	if f := r.Facts(); f.Offline != 4 {
		t.Errorf("questions that found nobody: got %d, want 4", f.Offline)
	}
	if got := r.Disturbed; got {
		t.Error("disturbed: got true, want false: the platform did not fail")
	}
}

// A question that was read is not asked again.
func TestALostAnswerIsUnansweredAtOnce(t *testing.T) {
	t.Parallel()
	r := begin(t, setup())
	first := r.Next(noon)[0].ID
	r, err := r.Lost(first, noon)
	if err != nil {
		t.Fatal(err)
	}
	if r.Next(noon)[0].ID == first {
		t.Error("the next question: got the same one, want another")
	}
	form, err := r.Form()
	if err != nil {
		t.Fatal(err)
	}
	again, err := bench.ReadRun(form)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Facts().Offline; got != 1 {
		t.Errorf("lost answers after a restart: got %d, want 1", got)
	}
}

// A line that breaks during the recalls measures no window, and so finds no small one. A
// provider that has shown a small one gains nothing by leaving then.
func TestALineThatBreaksDuringRecallsFailsNobody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		window  int
		lost    []int
		want    battery.Outcome
		finding []battery.Finding
	}{
		{1 << 30, []int{1, 2}, battery.Void, []battery.Finding{battery.Unanswered}},
		{1 << 30, []int{0}, battery.Pass, nil},
		{1 << 30, []int{1}, battery.Pass, nil},
		{8_000, []int{2}, battery.Fail, []battery.Finding{battery.SmallWindow}},
	} {
		v, r, recalls := honest(), begin(t, setup()), 0
		v.window = c.window
		for !r.Ended() {
			next, err := r.Next(noon)[0], error(nil)
			lost := r.Stage == bench.Recalls && slices.Contains(c.lost, recalls)
			if r.Stage == bench.Recalls {
				recalls++
			}
			if lost {
				r, err = r.Lost(next.ID, noon)
			} else {
				r, err = r.Took(v.answer(r, next), noon)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		outcome(t, r, c.want, c.finding...)
	}
}

// A provider that declares digests of files that nobody knows is benchmarked all the same.
func TestAFingerprintThatNobodyCanAskForIsLeftOut(t *testing.T) {
	t.Parallel()
	v, r := honest(), begin(t, setup())
	for !r.Ended() {
		next, err := r.Next(noon)[0], error(nil)
		if next.Kind == probe.Fingerprint {
			r, err = r.NotAsked(next.ID, noon)
		} else {
			r, err = r.Took(v.answer(r, next), noon)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	outcome(t, r, battery.Pass)
}

func TestAModelWithoutAReferenceIsAskedNothingThatItWouldJudge(t *testing.T) {
	t.Parallel()
	for _, embeddings := range []bool{false, true} {
		s := setup()
		s.Calibrated, s.Unjudged, s.Embeddings, s.Fingerprint = false, true, embeddings, false
		r := honest().finish(t, begin(t, s), func(r bench.Run) bench.Run {
			for _, p := range r.Next(r.Due()) {
				if p.Feeds != evidence.NoFamily {
					t.Errorf("stage %s: got a question of %v, want none that feeds", r.Stage, p.Feeds)
				}
			}
			return r
		})
		if !embeddings { // whose timing is not what is tested
			outcome(t, r, battery.Pass, battery.Uncalibrated)
		}
	}
}
