package connection

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fingerprint"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
)

func isAnswered(f *agentv2.Frame) bool { return f.GetChallengeResult() != nil }

func ask(s *hubtest.Session, c *agentv2.Challenge) {
	s.Send(&agentv2.Frame{Body: &agentv2.Frame_Challenge{Challenge: c}})
}

func answered(s *hubtest.Session) *agentv2.ChallengeResult {
	return s.ControlOf(isAnswered).GetChallengeResult()
}

// takesChallenges lets a link answer challenges with prove.
func takesChallenges(prove Prove) func(*Deps) { return func(d *Deps) { d.Prove = prove } }

// weights are the files of the model m.
func weights() fstest.MapFS {
	return fstest.MapFS{"a.bin": {Data: bytes.Repeat([]byte("weights "), 1500)}, "b.bin": {Data: []byte("b")}}
}

// fromFiles answers from files.
func fromFiles(files fs.FS) Prove {
	return func(ctx context.Context, _ string, c fingerprint.Challenge) fingerprint.Result {
		return fingerprint.Answer(ctx, files, c)
	}
}

// challenge asks for a range and a chain of the model m.
func challenge() *agentv2.Challenge {
	return &agentv2.Challenge{
		ChallengeId: "c-1", ModelId: "m", Nonce: bytes.Repeat([]byte{7}, fingerprint.NonceSize),
		Ranges:     []*agentv2.FileRange{{File: "a.bin", Offset: 8, Length: 7}, {File: "b.bin", Length: 1}},
		ChainFiles: []*agentv2.ChainFile{{File: "a.bin", Size: 12000}, {File: "b.bin", Size: 1}}, ChainLength: 256,
	}
}

func TestChallengeIsAnsweredByTheRulesOfFingerprints(t *testing.T) {
	b := setup(t, echo, options{deps: takesChallenges(func(
		ctx context.Context, model string, c fingerprint.Challenge,
	) fingerprint.Result {
		if model != "m" {
			t.Errorf(`the model: got %q, want "m"`, model)
		}
		return fingerprint.Answer(ctx, weights(), c)
	})})
	s := b.hub.AcceptLive()
	ask(s, challenge())
	got, want := answered(s), fingerprint.Answer(t.Context(), weights(), challengeOf(challenge()))
	if got.GetChallengeId() != "c-1" {
		t.Errorf(`the id: got %q, want "c-1"`, got.GetChallengeId())
	}
	if fmt.Sprintf("%x", got.GetDigests()) != fmt.Sprintf("%x", want.Digests) {
		t.Errorf("the digests: got %x, want %x", got.GetDigests(), want.Digests)
	}
	if !bytes.Equal(got.GetChainDigest(), want.Chain) {
		t.Errorf("the chain: got %x, want %x", got.GetChainDigest(), want.Chain)
	}
	if got.GetError() != "" {
		t.Errorf(`the error: got %q, want ""`, got.GetError())
	}
	nonce := challenge().GetNonce()
	if digest := fingerprint.RangeDigest(nonce, "a.bin", 8, []byte("weights")); !bytes.Equal(got.GetDigests()[0], digest) {
		t.Errorf("the first digest: got %x, want %x", got.GetDigests()[0], digest)
	}
}

func TestHostileChallengesAreAnsweredWithAnError(t *testing.T) {
	var asked atomic.Int32
	b := setup(t, echo, options{deps: takesChallenges(func(
		ctx context.Context, _ string, c fingerprint.Challenge,
	) fingerprint.Result {
		asked.Add(1)
		return fingerprint.Answer(ctx, weights(), c)
	})})
	s := b.hub.AcceptLive()
	for what, change := range map[string]func(*agentv2.Challenge){
		"nothing":              func(c *agentv2.Challenge) { proto.Reset(c) },
		"17 ranges":            func(c *agentv2.Challenge) { c.Ranges = manyRanges(17) },
		"2,000 ranges":         func(c *agentv2.Challenge) { c.Ranges = manyRanges(2000) },
		"a negative offset":    func(c *agentv2.Challenge) { c.Ranges[0].Offset = -1 },
		"an offset that wraps": func(c *agentv2.Challenge) { c.Ranges[0].Offset = math.MaxInt64 },
		"length 0":             func(c *agentv2.Challenge) { c.Ranges[0].Length = 0 },
		"a negative length":    func(c *agentv2.Challenge) { c.Ranges[0].Length = math.MinInt32 },
		"more than 1 MiB":      func(c *agentv2.Challenge) { c.Ranges[0].Length = 1<<20 + 1 },
		"300 blocks":           func(c *agentv2.Challenge) { c.ChainLength = 300 },
		"blocks that wrap":     func(c *agentv2.Challenge) { c.ChainLength = math.MaxUint32 },
		"a size that wraps":    func(c *agentv2.Challenge) { c.ChainFiles[0].Size = math.MaxInt64 },
		"a negative size":      func(c *agentv2.Challenge) { c.ChainFiles[0].Size = math.MinInt64 },
		"a short nonce":        func(c *agentv2.Challenge) { c.Nonce = c.Nonce[1:] },
		"a path outside":       func(c *agentv2.Challenge) { c.Ranges[0].File = "../etc/passwd" },
		"a long id":            func(c *agentv2.Challenge) { c.ChallengeId = strings.Repeat("x", 3000) },
		"an id in lines":       func(c *agentv2.Challenge) { c.ChallengeId = "a\nb" },
		"an unknown model":     func(c *agentv2.Challenge) { c.ModelId = "unknown" },
	} {
		c := challenge()
		change(c)
		ask(s, c)
		r := answered(s)
		if n := len(r.GetError()); n < 1 || n > maxError {
			t.Errorf("%s: the error: got %q, want 1 to %d bytes", what, r.GetError(), maxError)
		}
		if n := len(r.GetDigests()) + len(r.GetChainDigest()); n != 0 {
			t.Errorf("%s: the result: got %v, want no digest", what, r)
		}
		id := r.GetChallengeId()
		if len(id) > fingerprint.MaxID {
			t.Errorf("%s: the id: got %q, want at most %d bytes", what, id, fingerprint.MaxID)
		}
		if strings.Contains(id, "\n") {
			t.Errorf("%s: the id: got %q, want one line", what, id)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("files were asked for: got %d times, want never", n)
	}
	ask(s, challenge())
	if r := answered(s); r.GetError() != "" {
		t.Errorf(`a good one after them: got %q, want ""`, r.GetError())
	}
	if got, _ := s.Open("m", body(3)).Answer(); string(got) != body(3) {
		t.Errorf("a request after them: got %q, want %q", string(got), body(3))
	}
}

func manyRanges(n int) []*agentv2.FileRange {
	list := make([]*agentv2.FileRange, n)
	for i := range list {
		list[i] = &agentv2.FileRange{File: "b.bin", Length: 1}
	}
	return list
}

func TestWhatCannotBeReadIsNamedBesideTheRest(t *testing.T) {
	b := setup(t, echo, options{deps: takesChallenges(fromFiles(weights()))})
	s := b.hub.AcceptLive()
	c := challenge()
	c.Ranges[0].Offset, c.ChainFiles[0].Size = 1<<40, 12001
	ask(s, c)
	r := answered(s)
	if !strings.HasPrefix(r.GetError(), `"a.bin": `) {
		t.Errorf("the error: got %q, want it to name the file", r.GetError())
	}
	switch digests := r.GetDigests(); {
	case len(digests) != 2:
		t.Errorf("the digests: got %d, want 2", len(digests))
	case len(digests[0]) != 0:
		t.Errorf("the first digest: got %x, want none", digests[0])
	case len(digests[1]) != fingerprint.DigestSize:
		t.Errorf("the second digest: got %d bytes, want %d", len(digests[1]), fingerprint.DigestSize)
	}
	if len(r.GetChainDigest()) != 0 {
		t.Errorf("the chain: got %x, want none", r.GetChainDigest())
	}
}

func TestAgentWithoutFilesRefusesChallenges(t *testing.T) {
	b := setup(t, echo, options{})
	s := b.hub.AcceptLive()
	ask(s, challenge())
	if r := answered(s); r.GetError() != errNoProofs.Error() {
		t.Errorf("the error: got %q, want %q", r.GetError(), errNoProofs)
	}
}

// slow are proofs that wait to be let go, and count what was begun and ended.
type slow struct {
	begun, ended atomic.Int32
	release      chan struct{}
}

func (p *slow) prove(ctx context.Context, _ string, _ fingerprint.Challenge) fingerprint.Result {
	p.begun.Add(1)
	defer p.ended.Add(1)
	select {
	case <-p.release:
		return fingerprint.Result{Digests: [][]byte{nil, nil}, Error: "slow"}
	case <-ctx.Done():
		return fingerprint.Failed("the time was over")
	}
}

func TestSecondChallengeIsAnsweredBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slow{release: make(chan struct{})}
		b := setup(t, echo, options{piped: true, deps: takesChallenges(p.prove)})
		s := b.hub.AcceptLive()
		ask(s, challenge())
		synctest.Wait()
		for i := range 3 {
			c := challenge()
			c.ChallengeId = fmt.Sprintf("c-%d", i+2)
			ask(s, c)
			r := answered(s)
			if r.GetError() != errBusy.Error() {
				t.Errorf("the error: got %q, want %q", r.GetError(), errBusy)
			}
			if r.GetChallengeId() != c.GetChallengeId() {
				t.Errorf("the id: got %q, want %q", r.GetChallengeId(), c.GetChallengeId())
			}
		}
		if got, _ := s.Open("m", body(3)).Answer(); string(got) != body(3) {
			t.Errorf("a request beside: got %q, want its body", string(got))
		}
		if n := p.begun.Load(); n != 1 {
			t.Errorf("challenges begun: got %d, want 1", n)
		}
		close(p.release)
		if r := answered(s); r.GetChallengeId() != "c-1" {
			t.Errorf(`the first result: got the id %q, want "c-1"`, r.GetChallengeId())
		}
		ask(s, challenge()) // the turn is free before the hub hears of the end
		if r := answered(s); r.GetError() != "slow" {
			t.Errorf(`the next result: got %q, want "slow"`, r.GetError())
		}
	})
}

func TestChallengeIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slow{release: make(chan struct{})}
		b := setup(t, echo, options{piped: true, deps: takesChallenges(p.prove)})
		s := b.hub.AcceptLive()
		began := time.Now()
		ask(s, challenge())
		if r := answered(s); r.GetError() != "the time was over" {
			t.Errorf(`the error: got %q, want "the time was over"`, r.GetError())
		}
		if took := time.Since(began); took != proveTimeout {
			t.Errorf("it took: got %v, want %v", took, proveTimeout)
		}
	})
}

func TestLostConnectionEndsItsChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slow{release: make(chan struct{})}
		b := setup(t, echo, options{piped: true, random: constant(0), deps: takesChallenges(p.prove)})
		s := b.hub.AcceptLive()
		ask(s, challenge())
		synctest.Wait()
		s.Kill()
		fresh := b.hub.AcceptLive()
		if n := p.ended.Load(); n != 1 {
			t.Errorf("challenges ended: got %d, want 1", n)
		}
		close(p.release)
		ask(fresh, challenge())
		if r := answered(fresh); r.GetError() != "slow" {
			t.Errorf(`the next result: got %q, want "slow"`, r.GetError())
		}
	})
}

func TestChallengesOfTwoConnectionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slow{release: make(chan struct{})}
		hold := make(chan struct{})
		b := setup(t, echo, options{piped: true, random: constant(0), deps: func(d *Deps) {
			d.Prove = p.prove
			d.Warm = func(context.Context, string) error { <-hold; return nil }
		}})
		old := b.hub.AcceptLive()
		warmUp(old, "m") // keeps the old connection open
		ask(old, challenge())
		synctest.Wait()
		old.Send(drainIn(time.Second))
		fresh := b.hub.AcceptLive()
		ask(fresh, challenge())
		if r := answered(fresh); r.GetError() != errBusy.Error() {
			t.Errorf("on the new connection: got %q, want %q", r.GetError(), errBusy)
		}
		close(p.release)
		if r := answered(old); r.GetError() != "slow" {
			t.Errorf(`on the old connection: got %q, want "slow"`, r.GetError())
		}
		close(hold)
	})
}

func TestStopDoesNotWaitForChallenges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slow{release: make(chan struct{})}
		b := setup(t, echo, options{piped: true, deps: takesChallenges(p.prove)})
		ask(b.hub.AcceptLive(), challenge())
		synctest.Wait()
		began := time.Now()
		b.stop()
		<-b.done
		if took := time.Since(began); took != 0 {
			t.Errorf("it took: got %v, want 0", took)
		}
		if n := p.ended.Load(); n != 1 {
			t.Errorf("challenges ended: got %d, want 1", n)
		}
	})
}

// flagged is what the features are now.
type flagged struct{ on atomic.Bool }

func (f *flagged) features() []string {
	if f.on.Load() {
		return []string{"logprobs", "fingerprint"}
	}
	return nil
}

func TestFeaturesThatBecomeKnownAreDeclaredOverAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f flagged
		b := setup(t, echo, options{piped: true, random: constant(0),
			cfg:  func(c *Config) { c.Capabilities = []string{"chat", "stream"} },
			deps: func(d *Deps) { d.Features = f.features }})
		old := b.hub.AcceptLive()
		if got := strings.Join(old.Register.GetCapabilities(), " "); got != "chat stream" {
			t.Errorf(`the capabilities: got %q, want "chat stream"`, got)
		}
		began := time.Now()
		f.on.Store(true)
		fresh := b.hub.AcceptLive()
		if got := strings.Join(fresh.Register.GetCapabilities(), " "); got != "chat stream logprobs fingerprint" {
			t.Errorf(`the capabilities: got %q, want "chat stream logprobs fingerprint"`, got)
		}
		if after := time.Since(began); after < stable || after > stable+2*heartbeatDefault {
			t.Errorf("registered anew after: got %v, want about %v", after, stable)
		}
		old.WaitClosed()
		pass(5 * stable)
		if !isOpen(fresh) {
			t.Error("features that stay as they are: the connection ended, want it open")
		}
	})
}

func FuzzChallenge(f *testing.F) {
	f.Add("c-1", "m", []byte("nonce"), "a.bin", int64(8), int32(7), 2, "b.bin", int64(1), uint32(3))
	f.Add("", "x", []byte(strings.Repeat("n", 32)), "../a", int64(-1), int32(-1), 17, "/", int64(-1), uint32(300))
	f.Add("c", "m", []byte(strings.Repeat("n", 32)), "a.bin", int64(math.MaxInt64), int32(math.MaxInt32), 16, "a.bin",
		int64(math.MaxInt64), uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, id, model string, nonce []byte, file string, offset int64, length int32, ranges int,
		chained string, size int64, blocks uint32) {
		c := &agentv2.Challenge{ChallengeId: id, ModelId: model, Nonce: nonce, ChainLength: blocks,
			ChainFiles: []*agentv2.ChainFile{{File: chained, Size: size}, nil}}
		for range min(max(ranges, 0), 40) {
			c.Ranges = append(c.Ranges, &agentv2.FileRange{File: file, Offset: offset, Length: length})
		}
		s := newSession(Config{}, sessionDeps{
			slots: newSlots([]Offer{{ModelID: "m", Capacity: 1}}, 1), prover: newProver(fromFiles(weights())),
		})
		s.mu.Lock()
		s.onChallengeLocked(c)
		s.mu.Unlock()
		s.work.Wait()
		if len(s.control) != 1 {
			t.Fatalf("frames: got %d, want 1", len(s.control))
		}
		if len(s.prover.turn) != 0 {
			t.Fatalf("turns taken: got %d, want 0", len(s.prover.turn))
		}
		r := s.control[0].GetChallengeResult()
		answer := fingerprint.Result{Digests: r.GetDigests(), Chain: r.GetChainDigest(), Error: r.GetError()}
		if err := answer.Validate(challengeOf(c)); err != nil {
			t.Fatalf("the result is refused: %v", err)
		}
	})
}
