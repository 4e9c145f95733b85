// Package caller is the load of a chaos run: clients of several accounts who ask without
// pause for everything that the API offers, whole and streamed, quickly and slowly,
// patiently and not, of engines that answer well and badly.
//
// The run's seed alone decides what each client does, but not the outcome. Each call is
// one HTTP request on a connection of its own. As behind a load balancer, a gateway that
// refuses the connection is skipped.
package caller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"svc.internal/services/proving/internal/chaos/engine"
	"svc.internal/services/proving/internal/chaos/record"
)

// Account is a consumer with a key.
type Account struct {
	Name, ID, Key string
	// Weight is the account's share of the load.
	Weight int
}

// Config says who calls whom.
type Config struct {
	Seed     uint64
	Callers  int
	Accounts []Account
	// Models are asked for in turn, the first most often.
	Models []string
	// Gateways are the roots of the public API.
	Gateways []string
	// Think is the mean pause of a caller between two calls.
	Think time.Duration
	// Bound is the longest that a call may take.
	Bound time.Duration
	// Ended is called for each call that has ended.
	Ended func(Call)
}

// failedPause is how many times longer a client waits after a call that failed.
const failedPause = 4

// Call is a call that has ended.
type Call struct {
	record.Client
	// Gateway is the number of the gateway, from 0, that took the call.
	Gateway int
	// End is how the engine was to end its answer.
	End string
	// Err is how the connection was lost, if it was.
	Err error
}

// Took is how long the call took.
func (c Call) Took() time.Duration { return c.EndedAt.Sub(c.SentAt) }

// Load is a set of running callers.
type Load struct {
	cfg   Config
	http  *http.Client
	stop  context.CancelFunc
	wg    sync.WaitGroup
	calls atomic.Int64
	// running is how many calls are under way.
	running atomic.Int64
}

// Start starts the callers, which run until Stop.
func Start(cfg Config) *Load {
	ctx, stop := context.WithCancel(context.Background())
	l := &Load{cfg: cfg, stop: stop, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DisableCompression: true}}}
	for i := range cfg.Callers {
		l.wg.Go(func() { l.work(ctx, i) })
	}
	return l
}

// Stop lets the calls under way end and returns how many calls there were.
func (l *Load) Stop() int64 {
	l.stop()
	l.wg.Wait()
	return l.calls.Load()
}

// Calls is how many calls have ended.
func (l *Load) Calls() int64 { return l.calls.Load() }

func (l *Load) work(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(l.cfg.Seed, uint64(number)+1)) //nolint:gosec // it must repeat, not surprise
	for n := 0; ctx.Err() == nil; n++ {
		s := l.cfg.wish(random, fmt.Sprintf("%x-%d-%d", l.cfg.Seed, number, n))
		// A call that has begun may end.
		call := l.call(context.WithoutCancel(ctx), s)
		l.calls.Add(1)
		l.cfg.Ended(call)
		pause := time.Duration(random.Int64N(int64(2*l.cfg.Think) + 1))
		if !call.Answered() && !call.Left {
			pause *= failedPause
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// wish describes one call.
type wish struct {
	nonce, model, end string
	account           Account
	gateway           int
	stream            bool
	tokens            int
	pause             time.Duration
	// leaveAfter is after how many tokens the client hangs up, or in a whole answer after
	// how long; 0 is never.
	leaveAfter int
	leaveIn    time.Duration
	// readPause is how long a slow client takes for each line.
	readPause time.Duration
}

// percent is true in p of 100 calls.
func percent(random *rand.Rand, p int) bool { return random.IntN(100) < p }

// wish makes up a call.
func (c Config) wish(random *rand.Rand, nonce string) wish {
	s := wish{
		nonce: nonce, account: c.pickAccount(random), gateway: random.IntN(len(c.Gateways)), stream: percent(random, 65),
		model: c.Models[max(0, random.IntN(len(c.Models)+2)-2)],
	}
	switch kind := random.IntN(100); {
	case kind < 70: // quick
		s.tokens, s.pause = 1+random.IntN(40), time.Duration(random.IntN(2000))*time.Microsecond
	case kind < 78: // long, beyond the step of the hub's progress
		s.tokens, s.pause = 260+random.IntN(80), 300*time.Microsecond
	case kind < 90: // slow
		s.tokens, s.pause = 20+random.IntN(20), time.Duration(30+random.IntN(40))*time.Millisecond
	case kind < 95: // longer than a lease
		s.tokens, s.pause = 70, 100*time.Millisecond
	default:
		s.tokens = 0 // an empty answer
	}
	switch kind := random.IntN(100); {
	case kind < 4:
		s.end = engine.EndSilent
	case kind < 7:
		s.end = engine.EndReset
	case kind < 9:
		s.end = engine.EndError
	case kind < 11:
		s.end = engine.EndRefuse
	case kind < 12:
		s.end = engine.EndFailing
	}
	if percent(random, 8) {
		s.leaveAfter, s.leaveIn = 1+random.IntN(20), time.Duration(random.IntN(200))*time.Millisecond
	}
	if percent(random, 5) {
		s.readPause = time.Duration(random.IntN(40)) * time.Millisecond
	}
	return s
}

func (c Config) pickAccount(random *rand.Rand) Account {
	total := 0
	for _, a := range c.Accounts {
		total += a.Weight
	}
	at := random.IntN(total)
	for _, a := range c.Accounts {
		if at -= a.Weight; at < 0 {
			return a
		}
	}
	return c.Accounts[0]
}

// call makes one call, at the next gateway if one refuses the connection.
func (l *Load) call(ctx context.Context, s wish) Call {
	l.running.Add(1)
	defer l.running.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Bound)
	defer cancel()
	c := Call{End: s.end, Client: record.Client{
		Nonce: s.nonce, Key: s.account.Name, AccountID: s.account.ID, Model: s.model, Stream: s.stream,
	}}
	for i := range l.cfg.Gateways {
		c.Gateway = (s.gateway + i) % len(l.cfg.Gateways)
		c.SentAt = time.Now().UTC()
		l.try(ctx, s, &c)
		if !errors.Is(c.Err, syscall.ECONNREFUSED) {
			break
		}
	}
	c.EndedAt = time.Now().UTC()
	return c
}

// Running is how many calls are under way.
func (l *Load) Running() int64 { return l.running.Load() }
