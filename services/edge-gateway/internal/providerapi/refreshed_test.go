package providerapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
)

// peer is what an answer is made of. It answers once it may, or ends with its caller.
type peer struct {
	asked atomic.Int32
	ended atomic.Int32 // asked in vain, because the context ended
	may   chan struct{}
	err   error
}

func (p *peer) ask(ctx context.Context) (int32, error) {
	n := p.asked.Add(1)
	select {
	case <-p.may:
		return n, p.err
	case <-ctx.Done():
		p.ended.Add(1)
		return 0, ctx.Err()
	}
}

// open lets the peer answer at once.
func (p *peer) open() *peer {
	close(p.may)
	return p
}

func newPeer() *peer { return &peer{may: make(chan struct{})} }

// answerOf is an answer of a peer for which callers wait.
func answerOf(p *peer) (*refreshed[int32], *clock.Manual) {
	now := clock.NewManual(time.Unix(1_000_000, 0))
	d := newRefreshed(now, testConfig, p.ask)
	d.patient = true
	return d, now
}

func wantAnswer(t *testing.T, d *refreshed[int32], want int32) {
	t.Helper()
	if got, _, err := d.get(t.Context()); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got != want {
		t.Errorf("got answer %d, want %d", got, want)
	}
}

func TestManyCallersShareOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		d, _ := answerOf(p)
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() { wantAnswer(t, d, 1) })
		}
		synctest.Wait()
		p.open()
		callers.Wait()
		if got := p.asked.Load(); got != 1 {
			t.Errorf("asked: got %d times, want 1", got)
		}
	})
}

func TestACallerWhoLeavesTakesTheQuestionFromNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		d, _ := answerOf(p)
		leaving, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, _, err := d.get(leaving); !fault.Is(err, fault.ClientClosed) {
				t.Errorf("who left: got the error %v, want the reason %v", err, fault.ClientClosed)
			}
		})
		synctest.Wait()
		callers.Go(func() { wantAnswer(t, d, 1) })
		synctest.Wait()
		leave()
		synctest.Wait()
		p.open()
		callers.Wait()
		if got := p.ended.Load(); got != 0 {
			t.Errorf("questions that ended with their caller: got %d, want 0", got)
		}
	})
}

func TestAQuestionEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer()
		d, _ := answerOf(p)
		began := time.Now()
		if _, _, err := d.get(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got the error %v, want %v", err, context.DeadlineExceeded)
		}
		if took := time.Since(began); took != testConfig.CallTimeout {
			t.Errorf("it took: got %v, want %v", took, testConfig.CallTimeout)
		}
	})
}

func TestAPeerThatFailedIsNotAskedAgainAtOnce(t *testing.T) {
	p := newPeer().open()
	p.err = errors.New("away")
	d, now := answerOf(p)
	for range 10 {
		if _, _, err := d.get(t.Context()); !errors.Is(err, p.err) {
			t.Errorf("got the error %v, want %v", err, p.err)
		}
	}
	if got := p.asked.Load(); got != 1 {
		t.Errorf("asked: got %d times, want 1", got)
	}
	p.err = nil
	now.Advance(refreshRetry)
	wantAnswer(t, d, 2)
}

func TestAnOldAnswerIsGivenNoLongerThanItIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer().open()
		d, now := answerOf(p)
		wantAnswer(t, d, 1)
		p.err = errors.New("away")
		now.Advance(testConfig.DemandKept - time.Second)
		wantAnswer(t, d, 1)
		// Callers who leave keep no answer alive.
		gone, leave := context.WithCancel(t.Context())
		leave()
		for range 10 {
			now.Advance(refreshRetry)
			_, _, _ = d.get(gone)
			synctest.Wait()
		}
		if _, _, err := d.get(t.Context()); !errors.Is(err, p.err) {
			t.Errorf("after an hour: got the error %v, want %v", err, p.err)
		}
	})
}

func TestPatientCallersGetAFreshAnswer(t *testing.T) {
	p := newPeer().open()
	d, now := answerOf(p)
	wantAnswer(t, d, 1)
	now.Advance(testConfig.DemandFor - time.Second)
	wantAnswer(t, d, 1)
	now.Advance(time.Second)
	wantAnswer(t, d, 2)
}
