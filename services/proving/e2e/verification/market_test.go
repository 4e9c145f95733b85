package verification

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/trial"
)

// The parts of the test are scenes of one story, because its market costs more than they do.
func TestCheatsAreFoundAndHonestProvidersAreNot(t *testing.T) {
	s := setUp(t, chosen(t, schemes...))
	s.find(t)
	for _, c := range s.cheaters {
		if c.penalized {
			t.Run(c.name+" to the penalty and back", func(t *testing.T) { s.penalty(t, c) })
		}
	}
	t.Run("replay", s.checkReplay)
	s.cost(t)
}

func TestAnHonestProviderIsTrustedFromItsEightiethObservationOn(t *testing.T) {
	s := setUp(t, chosen(t, nobody))
	s.checkTrust(t, nobody.model)
	s.cost(t)
}

func TestALieAboutTheWindowEndsInACap(t *testing.T) {
	s := setUp(t, chosen(t, windowLie))
	s.find(t)
	t.Run("replay", s.checkReplay)
	s.cost(t)
}

// find has every cheater cheat until its notice, and looks at what that brings.
func (s *stage) find(t *testing.T) {
	t.Helper()
	for _, c := range s.cheaters {
		c.engine.Turn(true)
	}
	s.noticed(t)
	for _, c := range s.cheaters {
		t.Run(c.name, func(t *testing.T) {
			s.checkNotice(t, c)
			s.checkTraffic(t, c)
			s.checkOwnView(t, c)
		})
	}
	t.Run("the honest provider", s.checkHonest)
}

// noticed lets time pass until every cheater has its notice.
func (s *stage) noticed(t *testing.T) {
	t.Helper()
	done := map[string]bool{}
	s.until(t, "every cheat has its notice", func() bool {
		for _, c := range s.cheaters {
			if done[c.name] {
				continue
			}
			if o := s.at(t, c); o.reached("notice") {
				done[c.name] = true
				s.mark(t, "%s: notice after %d observations, led by %s", c.name, o.Observations, o.Led)
			}
		}
		return len(done) == len(s.cheaters)
	})
}

// checkNotice checks the verdict and what it brings.
func (s *stage) checkNotice(t *testing.T, c *cheater) {
	t.Helper()
	verdicts := s.verdicts(t, c.ID, c.model)
	i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.Trigger == "notify" })
	if i < 0 {
		t.Fatalf("verdicts: got %+v, want one that notifies", verdicts)
	}
	if !c.mayLead(verdicts[i].Family) {
		t.Errorf("family that led: got %s, want visible or one of %v", verdicts[i].Family, c.leads)
	}
	if verdicts[i].Share != 0 {
		t.Errorf("share that a notice takes: got %d, want 0", verdicts[i].Share)
	}
	o := s.at(t, c)
	switch {
	case c.capped && (o.Offering.CapTokens == 0 || o.Offering.CapTokens >= window):
		t.Errorf("cap: got %d, want one below %d", o.Offering.CapTokens, window)
	case !c.capped && o.Offering.Lane == "main":
		t.Errorf("lane: got %s, want another", o.Offering.Lane)
	}
	if o.Factors.Integrity != 1 { // the notice has set M to 0
		t.Logf("integrity after the notice: %v", o.Factors.Integrity)
	}
}

// estimated is how many bytes of a prompt the edge takes for a token at least.
const estimated = 4

// organicCalls are how many calls of a consumer are looked at.
const organicCalls = 8

// checkTraffic checks that consumers are served by the honest provider: by all calls, or by
// those that are longer than a capped window.
func (s *stage) checkTraffic(t *testing.T, c *cheater) {
	t.Helper()
	_, key := s.m.Consumer(t, "1")
	text := "Say something. "
	if c.capped {
		text = strings.Repeat(text, estimated*window*3/4/len(text)) + "What is the code of the red mill?"
	}
	asked := fmt.Sprintf(`{"model":%q,"max_tokens":8,"messages":[{"role":"user","content":%q}]}`, c.model, text)
	served := map[string]int{}
	calls := func() int {
		clear(served)
		for range organicCalls {
			status, header, body := s.m.Call(t, http.MethodPost, trial.ChatPath, key, asked)
			if status != http.StatusOK {
				t.Fatalf("a call: got %d, want 200 (body is %.300s)", status, body)
			}
			served[header.Get("X-Svc-Provider-Id")]++
		}
		return served[s.good.ID]
	}
	// Routers hear of it within seconds.
	trial.Until(t, "consumers are served by the honest provider", func() bool { return calls() == organicCalls })
}

// checkOwnView checks what the provider learns, and what it does not.
func (s *stage) checkOwnView(t *testing.T, c *cheater) {
	t.Helper()
	list, body := own[standings](t, s.laboratory, c.Key, "standing")
	if len(list.List) != 1 {
		t.Fatalf("standings: got %s, want one", body)
	}
	st := list.List[0]
	if st.Standing == "none" {
		t.Errorf("standing: got %s, want notice or penalty", st.Standing)
	}
	if st.Kind == "" {
		t.Error("kind: got none, want that of the probes that led")
	}
	if st.Since == "" {
		t.Error("time: got none, want that of the notice")
	}
	if st.NextStep == "" {
		t.Error("next step: got none, want one")
	}
	asked, more := own[challenges](t, s.laboratory, c.Key, "challenges")
	for _, one := range asked.List {
		if slices.Contains([]string{one.Kind, one.At, one.Result}, "") {
			t.Errorf("challenge: got %+v, want its kind, time and result", one)
		}
	}
	if len(asked.List) == 0 {
		t.Errorf("challenges: got %s, want those of its benchmark", more)
	}
	for _, secret := range []string{"evidence\"", "threshold", "\"m\"", "tau", "exceed"} {
		if strings.Contains(string(body)+string(more), secret) {
			t.Errorf("own pages: got %s %s, want no %s in them", body, more, secret)
		}
	}
}

// checkHonest checks that the provider beside the cheaters stays as it was.
func (s *stage) checkHonest(t *testing.T) {
	for _, c := range s.cheaters {
		o := s.offering(t, s.good.ID, c.model)
		if o.Offering.Level != "normal" {
			t.Errorf("level at %s: got %s, want normal", c.model, o.Offering.Level)
		}
		if o.Offering.Lane != "main" {
			t.Errorf("lane at %s: got %s, want main", c.model, o.Offering.Lane)
		}
		if o.Factors.Integrity != 1 {
			t.Errorf("integrity at %s: got %v, want 1 (evidence %v)", c.model, o.Factors.Integrity, o.Offering.Evidence)
		}
		if o.Factors.Fairness != 1 {
			t.Errorf("fairness at %s: got %v, want 1", c.model, o.Factors.Fairness)
		}
	}
}
