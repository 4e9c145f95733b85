package replay_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/archive"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/judge"
	"svc.internal/services/verifier/internal/judge/judgetest"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/replay"
	"svc.internal/services/verifier/internal/standing"
)

func TestAVerdictFollowsFromItsEvidence(t *testing.T) {
	t.Parallel()
	c := noticed(t)
	report, err := replay.Verify(c.sealed, c.verdict)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	if !report.OK() {
		t.Errorf("got %+v, want a report that is OK", report)
	}
	if !report.Whole {
		t.Error("the evidence does not begin at M = 0")
	}
	last := report.Rows[len(report.Rows)-1]
	if got, want := strings.Join(last.Verdicts, ""), "notify"; got != want {
		t.Errorf("got the verdict %q, want %q", got, want)
	}
	if got, want := last.Said, "B1 U0"; got != want {
		t.Errorf("got the observations %q, want %q", got, want)
	}
}

func TestEveryFlippedBitOfAPieceIsFound(t *testing.T) {
	t.Parallel()
	c := noticed(t)
	good := c.sealed[len(c.sealed)-1]
	for at := 0; at < len(good.Plain); at += 7 { // some byte of every member
		bad := good
		bad.Plain = bytes.Clone(good.Plain)
		bad.Plain[at] ^= 1 << (at % 8)
		if _, err := replay.Verify([]replay.Sealed{bad}, c.verdict); !errors.Is(err, replay.ErrDiffers) {
			t.Fatalf("a flipped bit of byte %d: got %v, want %v", at, err, replay.ErrDiffers)
		}
	}
	if _, err := replay.Verify([]replay.Sealed{good}, c.verdict); err != nil {
		t.Errorf("without a flipped bit: got %v, want none", err)
	}
}

func TestAFlippedBitOfLeafOrLinkIsFound(t *testing.T) {
	t.Parallel()
	for name, flip := range map[string]func(*replay.Sealed){
		"id":       func(s *replay.Sealed) { s.ID[9] ^= 1 },
		"leaf":     func(s *replay.Sealed) { s.Leaf[0] ^= 1 },
		"previous": func(s *replay.Sealed) { s.Previous[31] ^= 128 },
		"link":     func(s *replay.Sealed) { s.Link[7] ^= 4 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := noticed(t)
			flip(&c.sealed[len(c.sealed)-1])
			if _, err := replay.Verify(c.sealed, c.verdict); !errors.Is(err, replay.ErrDiffers) {
				t.Errorf("got %v, want %v", err, replay.ErrDiffers)
			}
		})
	}
}

// TestForgedPiecesAreFound seals pieces anew that somebody changed with care, so that only
// the computation shows it.
func TestForgedPiecesAreFound(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(*replay.Piece){
		"the answer": func(p *replay.Piece) {
			p.Event.Judged.Answer.Raw = bytes.Replace(p.Event.Judged.Answer.Raw, []byte("abc"), []byte("abd"), 1)
		},
		"the claim": func(p *replay.Piece) { p.Event.Judged.Answer.ClaimedPrompt += 1_000 },
		"the score": func(p *replay.Piece) {
			p.Event.Judged.Scores[0].Raw = bytes.ReplaceAll(p.Event.Judged.Scores[0].Raw, []byte("-1.7"), []byte("-0.3"))
		},
		"the plan":        func(p *replay.Piece) { p.Event.Judged.Plan.Kind = probe.Sampled },
		"the calibration": func(p *replay.Piece) { delete(p.Event.Judged.Calibrations, "greedy") },
		"another event":   func(p *replay.Piece) { p.Event = standing.Event{Ticked: &standing.Tick{}} },
		"the time":        func(p *replay.Piece) { p.At = p.At.Add(1_000) },
		"the limits":      func(p *replay.Piece) { p.World.Limits.Notice = 1 },
		"the brakes":      func(p *replay.Piece) { p.World.Brakes.WatchOnly = true },
		"the key":         func(p *replay.Piece) { p.World.Key = "another" },
		"the state before": func(p *replay.Piece) {
			p.Before = other(p.Before, func(s *standing.State) { s.RecalledAt = start })
		},
		"the state after": func(p *replay.Piece) {
			p.After = other(p.After, func(s *standing.State) { s.CapTokens = 1_000 })
		},
		"the verdict":   func(p *replay.Piece) { p.Outcome.Verdicts[0].Effects.Slash = 3_000 },
		"no verdict":    func(p *replay.Piece) { p.Outcome.Verdicts = nil },
		"the published": func(p *replay.Piece) { p.Outcome.Published.Trust = 1 },
		"what was held": func(p *replay.Piece) { p.Outcome.Held = ladder.PenaltiesOff },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := noticed(t)
			last := len(c.sealed) - 1
			p, err := replay.Decode(c.sealed[last].Plain)
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			forge(&p)
			plain, err := p.Encode()
			if err != nil {
				t.Fatalf("encode: %v", err)
			}
			c.sealed[last] = replay.Seal(p.ID, plain, c.sealed[last].Previous)
			if _, err := replay.Verify(c.sealed, c.verdict); !errors.Is(err, replay.ErrDiffers) {
				t.Errorf("got %v, want %v", err, replay.ErrDiffers)
			}
		})
	}
}

func TestUnusedBytesThatWereSealedAnewShowInTheLinksBehind(t *testing.T) {
	t.Parallel()
	c := noticed(t)
	p, err := replay.Decode(c.sealed[0].Plain)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	p.Event.Judged.Answer.Chunks[0].AtMicros++
	plain, err := p.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	c.sealed[0] = replay.Seal(p.ID, plain, c.sealed[0].Previous)
	report, err := replay.Verify(c.sealed, c.verdict)
	if !errors.Is(err, replay.ErrDiffers) {
		t.Errorf("got %v, want %v", err, replay.ErrDiffers)
	}
	if got := report.Rows[0].Wrong; got != "" {
		t.Errorf("got %q of the changed piece, want nothing: only the next one's link shows it", got)
	}
}

// other is the form of a state that somebody changed.
func other(form []byte, change func(*standing.State)) []byte {
	var s standing.State
	if s.UnmarshalBinary(form) != nil {
		return nil
	}
	change(&s)
	b, err := s.MarshalBinary()
	if err != nil {
		return nil
	}
	return b
}

func TestAnotherHistoryBehindTheFirstPiecesIsFound(t *testing.T) {
	t.Parallel()
	honest, forged := noticed(t), begin(t)
	forged.state.RecalledAt = start // never in the honest career
	for n := 0; forged.state.Level != ladder.Notice; n++ {
		forged.judged(judgetest.Greedy(t, judgetest.Say{N: n, Exceeded: true}))
	}
	spliced := honest.sealed[:1:1]
	for _, s := range forged.sealed {
		spliced = append(spliced, replay.Seal(s.ID, s.Plain, spliced[len(spliced)-1].Link))
	}
	report, err := replay.Verify(spliced, forged.verdict)
	if !errors.Is(err, replay.ErrDiffers) {
		t.Errorf("got %v, want %v", err, replay.ErrDiffers)
	}
	if got := report.Rows[1].Wrong; !strings.Contains(got, "state before") {
		t.Errorf("got %q of the first forged piece, want its state before", got)
	}
}

func TestAPieceUnderAnotherNameIsFound(t *testing.T) {
	t.Parallel()
	c := begin(t)
	c.apply(standing.Event{Run: &standing.RunJudged{}})
	c.sealed[0] = replay.Seal(replay.ID{7}, c.sealed[0].Plain, c.sealed[0].Previous)
	if report, _ := replay.Verify(c.sealed, c.verdict); report.Wrong != 1 {
		t.Errorf("got %d differences, want 1", report.Wrong)
	}
}

func TestMissingAndForeignPiecesAreFound(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*career){
		"one is missing": func(c *career) { c.sealed = append(c.sealed[:1:1], c.sealed[2:]...) },
		"two are swapped": func(c *career) {
			c.sealed[0], c.sealed[1] = c.sealed[1], c.sealed[0]
		},
		"the verdict's is missing": func(c *career) { c.sealed = c.sealed[:len(c.sealed)-1] },
		"none is there":            func(c *career) { c.sealed = nil },
		"one is of another offer": func(c *career) {
			c.world.Offer.Model = "acme/other"
			c.apply(standing.Event{Ticked: &standing.Tick{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := noticed(t)
			change(c)
			if _, err := replay.Verify(c.sealed, c.verdict); !errors.Is(err, replay.ErrDiffers) {
				t.Errorf("got %v, want %v", err, replay.ErrDiffers)
			}
		})
	}
}

func TestEvidenceThatBeginsLateIsNotWhole(t *testing.T) {
	t.Parallel()
	c := noticed(t)
	report, err := replay.Verify(c.sealed[1:], c.verdict)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	if report.Whole {
		t.Error("evidence that begins with M above 0 is whole")
	}
}

func TestAPieceHasOneForm(t *testing.T) {
	t.Parallel()
	c := noticed(t)
	good := c.sealed[0].Plain
	for name, plain := range map[string][]byte{
		"space":             append([]byte(" "), good...),
		"another member":    bytes.Replace(good, []byte(`{"version"`), []byte(`{"x":1,"version"`), 1),
		"another version":   bytes.Replace(good, []byte(`{"version":1`), []byte(`{"version":2`), 1),
		"two pieces":        append(bytes.Clone(good), good...),
		"a name in capital": bytes.Replace(good, []byte(`"before"`), []byte(`"Before"`), 1),
		"nothing":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := replay.Decode(plain); !errors.Is(err, replay.ErrPiece) {
				t.Errorf("got %v, want %v", err, replay.ErrPiece)
			}
		})
	}
}

func TestAPieceIsBoundedByTheArchive(t *testing.T) {
	t.Parallel()
	c := begin(t)
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Scores[0].Raw = append(r.Scores[0].Raw, bytes.Repeat([]byte(" "), 12<<20-len(r.Scores[0].Raw))...)
	r.Scores = append(r.Scores, r.Scores[0], r.Scores[0])
	r.Scores[1].Alternative, r.Scores[2].Alternative = evidence.Class4.String(), evidence.Class8.String()
	p, err := replay.New(replay.ID{1}, start, standing.Event{Judged: &r}, c.world, c.state, c.state, standing.Outcome{})
	if err != nil {
		t.Fatalf("make a piece: %v", err)
	}
	if _, err := p.Encode(); !errors.Is(err, archive.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, archive.ErrTooLarge)
	}
}

func TestTheLargestAnswerFitsInAPiece(t *testing.T) {
	t.Parallel()
	c := begin(t)
	r := judgetest.Greedy(t, judgetest.Say{})
	r.Answer.Raw = bytes.Repeat([]byte("a"), 12<<20)
	r.Answer.Chunks = make([]judge.Chunk, judge.MaxChunks)
	r.Request = bytes.Repeat([]byte("a"), 8<<20)
	c.judged(r)
	if len(c.sealed) != 1 {
		t.Error("the piece is not there")
	}
}

func TestAnExportIsReadOnePieceAtATime(t *testing.T) {
	t.Parallel()
	c := noticed(t)
	var export bytes.Buffer
	for _, s := range c.sealed {
		if err := json.NewEncoder(&export).Encode(s); err != nil {
			t.Fatalf("write an export: %v", err)
		}
	}
	text := export.String()
	checker := replay.Checker{Verdict: c.verdict}
	err := replay.Each(&export, func(s replay.Sealed) error {
		checker.Add(s)
		return nil
	})
	if err != nil {
		t.Fatalf("read an export: %v", err)
	}
	if err := checker.Report().Err(); err != nil {
		t.Errorf("got %v, want none", err)
	}
	for name, bad := range map[string]string{
		"cut": text[:len(text)-20], "no JSON": "evidence", "a member more": strings.Replace(text, `{"id"`, `{"x":1,"id"`, 1),
		"a short hash": strings.Replace(text, `"leaf":"`, `"leaf":"0`, 1),
	} {
		if err := replay.Each(strings.NewReader(bad), func(replay.Sealed) error { return nil }); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestATableShowsWhatDiffers(t *testing.T) {
	t.Parallel()
	c := noticed(t)
	c.sealed[1].Plain[100] ^= 1
	report, _ := replay.Verify(c.sealed, c.verdict)
	var out bytes.Buffer
	if err := report.Print(&out); err != nil {
		t.Fatalf("print: %v", err)
	}
	for _, want := range []string{
		"DIFFERS: the evidence is altered", "B1 U0", "watch → notice", "notify", "verdict found: true",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, out.String())
		}
	}
}

func FuzzAPieceIsReadOrRefused(f *testing.F) {
	f.Add(noticed(f).sealed[0].Plain)
	f.Fuzz(func(t *testing.T, plain []byte) {
		s := replay.Seal(replay.ID{1}, plain, replay.Hash{})
		c := replay.Checker{}
		c.Add(s)
		if p, err := replay.Decode(plain); err == nil {
			again, err := p.Encode()
			if err != nil {
				t.Fatalf("a piece that was read cannot be written: %v", err)
			}
			if !bytes.Equal(again, plain) {
				t.Error("a piece has two forms")
			}
		}
	})
}
