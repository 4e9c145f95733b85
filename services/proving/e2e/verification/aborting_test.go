package verification

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/services/proving/internal/cheat"
	"svc.internal/services/proving/internal/trial"
)

const (
	// consumers are the accounts that ask the provider: of each one pair counts in a day.
	consumers = 30
	// mostPairs is after how many pairs a provider that always aborts is found.
	mostPairs = 28
	// spareProbes is for how many probes a request waits for its pair. A request that routers
	// kept from the provider, because it failed the last ones, has none.
	spareProbes = 8
	// unfair is the evidence of pairs from which on fairness, and so trust, is leastTrust.
	unfair, leastTrust = 1_000, .05
	// remembered is how many of a provider's last requests routers judge its health by.
	remembered = 64
	// consumersMark is in each consumer's prompt and in no probe's.
	consumersMark = "Say something."
)

// aborting serves probes honestly and fails consumers. Pairs lower trust and do nothing else,
// so it serves four bits to probes, too, once its trust is gone: the notice is led by them.
var aborting = scheme{name: "aborting", model: "lab/aborting",
	leads: []string{"greedy", "sampled", "logprobs", "visible"}}

func TestAProviderThatFailsConsumersAloneLosesItsTrust(t *testing.T) {
	list := chosen(t, aborting)
	var bits *cheat.Engine
	list[0].engine = func(t testing.TB, seed uint64) http.Handler {
		bits = cheat.NewEngine(honest(t, seed), recalls(t, cheat.FourBit(seed)))
		return cheat.Aborting(bits, consumersMark)
	}
	s := setUp(t, list)
	c := s.cheaters[0]
	s.abort(t, c)
	t.Run("trust", func(t *testing.T) { s.checkFairness(t, c) })
	t.Run("consumers", func(t *testing.T) { s.checkSpared(t, c) })
	t.Run("what the provider reads", func(t *testing.T) { s.checkToldNothing(t, c) })
	t.Run("the honest provider is fair", s.checkHonest)
	bits.Turn(true)
	s.find(t)
	t.Run("replay of the pairs, too", s.checkReplay)
	s.cost(t)
}

// abort has consumers ask the provider, each beside another probe, until the pairs have taken
// its trust. Without a probe that is served between them routers would keep consumers from
// it at once.
func (s *stage) abort(t *testing.T, c *cheater) {
	t.Helper()
	keys := make([]string, consumers)
	for i := range keys {
		_, keys[i] = s.m.Consumer(t, "1")
	}
	c.engine.Turn(true)
	n, probes := 0, s.probed(t, c)
	for ; s.at(t, c).Factors.Fairness > leastTrust; n++ {
		pairs := s.paired(t, c)
		s.inSteps(t, c, 30*time.Minute, "another probe is served", func() bool { return s.probed(t, c) > probes })
		probes = s.probed(t, c)
		asked := trial.Chat(c.model, fmt.Sprintf(`,"max_tokens":32,"stream":%t`, n%2 == 0))
		// A whole answer comes from another provider then, and a stream ends with an error.
		s.m.Call(t, http.MethodPost, trial.ChatPath, keys[n%consumers], asked, "X-Svc-Provider", c.ID)
		s.inSteps(t, c, time.Minute, "the request makes a pair", func() bool {
			return s.paired(t, c) > pairs || s.probed(t, c) > probes+spareProbes
		})
	}
	s.mark(t, "%s: trust is gone after %d pairs, beside %d probes and %d requests of consumers", c.name, s.paired(t, c),
		s.probed(t, c), n)
}

// inSteps is until for one probe of a cheater at a time. Probes come along the hours of an
// offer's requests, and these are all of the hour in which the test runs. A step goes to the
// next probe that is planned. Where none is, it is the longest, after a pause in which the
// verifier plans the hour.
func (s *stage) inSteps(t testing.TB, c *cheater, longest time.Duration, what string, reached func() bool) {
	t.Helper()
	const look, looks = 100 * time.Millisecond, 2
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for n := 1; !reached(); n++ {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("still not: %s", what)
		}
		if s.due(t) > 0 {
			continue
		}
		if step := s.nextProbe(t, c); step < longest {
			s.pass(t, step)
		} else if n%looks == 0 {
			s.pass(t, longest)
		}
	}
}

// nextProbe is how long it is until a cheater's next probe, and a day where none is planned.
func (s *stage) nextProbe(t testing.TB, c *cheater) time.Duration {
	t.Helper()
	return time.Duration(count(t, s.db, `SELECT coalesce(1 + extract(epoch FROM min(next_at) - $3), 86400)::integer
		FROM verifier.probe WHERE provider_id = $1 AND model_id = $2 AND state = 'queued'`, c.ID, c.model, s.now(t))) *
		time.Second
}

// probed is how many hidden probes a cheater has answered.
func (s *stage) probed(t testing.TB, c *cheater) int {
	t.Helper()
	return count(t, s.db, `SELECT count(*) FROM verifier.probe WHERE provider_id = $1 AND model_id = $2
		AND flow = 'hidden' AND state = 'done'`, c.ID, c.model)
}

// paired is how many pairs of a cheater have counted.
func (s *stage) paired(t testing.TB, c *cheater) int {
	t.Helper()
	return count(t, s.db, `SELECT count(*) FROM verifier.event WHERE provider_id = $1 AND model_id = $2
		AND kind = 'paired'`, c.ID, c.model)
}

// checkFairness checks what pairs bring: little trust, and nothing of the ladder's.
func (s *stage) checkFairness(t *testing.T, c *cheater) {
	o := s.at(t, c)
	if got := s.paired(t, c); got > mostPairs {
		t.Errorf("pairs until trust was gone: got %d, want at most %d", got, mostPairs)
	}
	pairs := look[struct {
		Pairs float64 `json:"pairs"`
	}](t, s.laboratory, "/api/v1/admin/verification/offerings/"+c.ID+"/"+c.model).Pairs
	if pairs < unfair {
		t.Errorf("evidence of the pairs: got %v, want at least %d", pairs, unfair)
	}
	if o.Factors.Fairness != leastTrust {
		t.Errorf("fairness: got %v, want %v", o.Factors.Fairness, leastTrust)
	}
	if o.Factors.Integrity != 1 {
		t.Errorf("integrity: got %v, want 1, because probes were served honestly", o.Factors.Integrity)
	}
	if o.Offering.Trust != leastTrust {
		t.Errorf("trust: got %v, want %v", o.Offering.Trust, leastTrust)
	}
	if o.Offering.Level != "normal" {
		t.Errorf("level: got %s, want normal, because pairs punish nobody", o.Offering.Level)
	}
	verdicts := s.verdicts(t, c.ID, c.model)
	if slices.ContainsFunc(verdicts, func(v verdict) bool { return v.Kind == "misrepresentation" }) {
		t.Errorf("verdicts: got %+v, want none of misrepresentation", verdicts)
	}
}

// checkSpared checks that consumers are served by the honest provider even when the cheater
// serves all that it is asked, and is as healthy as the other to routers.
func (s *stage) checkSpared(t *testing.T, c *cheater) {
	c.engine.Turn(false)
	defer c.engine.Turn(true)
	account, key := s.m.Consumer(t, "1")
	s.m.Unlimit(t, account)
	served := func() bool {
		_, header, _ := s.m.Call(t, http.MethodPost, trial.ChatPath, key, trial.Chat(c.model, `,"max_tokens":8`),
			"X-Svc-Provider", c.ID)
		return header.Get("X-Svc-Provider-Id") == c.ID
	}
	trial.Until(t, "routers let a request to the provider", served)
	for range remembered {
		if !served() {
			t.Fatal("a request that names the provider: got another provider, want it")
		}
	}
	s.checkTraffic(t, c)
}

// checkToldNothing checks that the provider reads nothing of pairs, because they would tell
// it which of its requests were probes.
func (s *stage) checkToldNothing(t *testing.T, c *cheater) {
	list, body := own[standings](t, s.laboratory, c.Key, "standing")
	if len(list.List) != 1 {
		t.Fatalf("standings: got %s, want one", body)
	}
	if got := list.List[0].Standing; got != "none" {
		t.Errorf("standing: got %s, want none", got)
	}
	if got := list.List[0].Lane; got != "main" {
		t.Errorf("lane: got %s, want main", got)
	}
	_, asked := own[challenges](t, s.laboratory, c.Key, "challenges")
	for _, secret := range []string{"pair", "fair", "trust", "evidence\"", "threshold", "exceed"} {
		if strings.Contains(string(body)+string(asked), secret) {
			t.Errorf("own pages: got %s %s, want no %s in them", body, asked, secret)
		}
	}
}
