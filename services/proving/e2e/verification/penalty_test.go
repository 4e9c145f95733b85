package verification

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"svc.internal/services/proving/internal/trial"
	"svc.internal/services/verifier"
)

// firstShare is the part of the collateral that a first penalty takes.
const firstShare = .1

// penalty follows a cheater to its penalty, which it appeals. A replay of the verdict
// agrees with it; an operator reverses it all the same, which gives everything back.
func (s *stage) penalty(t *testing.T, c *cheater) {
	for _, level := range []string{"confirm", "penalty"} {
		s.until(t, c.name+" is at "+level, func() bool { return s.at(t, c).reached(level) })
		s.mark(t, "%s: %s: %+v", c.name, level, s.at(t, c))
	}
	open := s.opened(t, c)
	if want := s.at(t, c).OpenVerdicts; !slices.Equal([]string{open}, want) {
		t.Errorf("the penalty at settlement: got %s, want the verdict %v", open, want)
	}
	if got, want := s.penaltyOf(t, c), "proposed"; got != want {
		t.Errorf("state of the penalty: got %s, want %s", got, want)
	}
	status, _, body := s.m.Call(t, http.MethodPost, "/api/v1/provider/penalties/"+open+"/appeal", c.Key,
		`{"text":"My weights are those that I state."}`)
	if status != http.StatusOK {
		t.Fatalf("appeal: got %d, want 200 (body is %s)", status, body)
	}
	if got, want := s.penaltyOf(t, c), "appealed"; got != want {
		t.Errorf("state of the penalty: got %s, want %s", got, want)
	}
	if out, err := s.replay(t, open); err != nil {
		t.Errorf("replay: got the error %v, want none\n%s", err, out)
	}
	c.engine.Turn(false)
	s.m.Admin(t, http.MethodPost, "/api/v1/admin/penalties/"+open+"/resolve",
		`{"uphold":false,"reason":"a test reverses what it proved"}`)
	trial.Until(t, "the verifier has heard of the reversal", func() bool { return !s.at(t, c).reached("watch") })
	o := s.at(t, c)
	if o.Offering.Lane != "main" {
		t.Errorf("lane after the reversal: got %s, want main", o.Offering.Lane)
	}
	if len(o.OpenVerdicts) != 0 {
		t.Errorf("open verdicts after the reversal: got %v, want none", o.OpenVerdicts)
	}
	if got, want := s.penaltyOf(t, c), "reversed"; got != want {
		t.Errorf("state of the penalty: got %s, want %s", got, want)
	}
	verdicts := s.verdicts(t, c.ID, c.model)
	i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.ID == open })
	if i < 0 {
		t.Fatalf("verdicts: got %+v, want %s", verdicts, open)
	}
	if verdicts[i].End != "reversed" {
		t.Errorf("end of the verdict: got %q, want reversed", verdicts[i].End)
	}
}

// opened waits for the penalty of a cheater at settlement and returns its id.
func (s *stage) opened(t *testing.T, c *cheater) string {
	t.Helper()
	var list penalties
	trial.Until(t, "settlement has the penalty of "+c.name, func() bool {
		list, _ = own[penalties](t, s.laboratory, c.Key, "penalties")
		return len(list.List) > 0
	})
	if len(list.List) != 1 {
		t.Fatalf("penalties: got %+v, want one", list)
	}
	if list.List[0].Share != firstShare {
		t.Errorf("share: got %v, want %v", list.List[0].Share, firstShare)
	}
	return list.List[0].ID
}

// penaltyOf is the state of a cheater's only penalty.
func (s *stage) penaltyOf(t *testing.T, c *cheater) string {
	t.Helper()
	list, body := own[penalties](t, s.laboratory, c.Key, "penalties")
	if len(list.List) != 1 {
		t.Fatalf("penalties: got %s, want one", body)
	}
	return list.List[0].State
}

// replay computes a verdict again from the database.
func (s *stage) replay(t *testing.T, id string) (string, error) {
	t.Helper()
	cfg := verifier.DefaultConfig()
	cfg.Sealed = s.sealed()
	tools, err := verifier.OpenTools(t.Context(), cfg, s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	var out bytes.Buffer
	err = tools.Replay(t.Context(), id, &out)
	return out.String(), err
}

// checkReplay replays every verdict of the story, from the database and from what operators
// export; one flipped bit of that makes it fail.
func (s *stage) checkReplay(t *testing.T) {
	for _, c := range s.cheaters {
		for _, v := range s.verdicts(t, c.ID, c.model) {
			if out, err := s.replay(t, v.ID); err != nil {
				t.Errorf("replay of %s of %s: got the error %v, want none\n%s", v.Trigger, c.name, err, trial.Tail(out, 2000))
			}
		}
	}
	c := s.cheaters[0]
	verdicts := s.verdicts(t, c.ID, c.model)
	i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.Trigger == "notify" })
	if i < 0 {
		t.Fatalf("verdicts: got %+v, want a notice", verdicts)
	}
	exported := s.export(t, verdicts[i].ID)
	var out bytes.Buffer
	if err := verifier.ReplayExported(verdicts[i].ID, strings.NewReader(exported), &out); err != nil {
		t.Errorf("replay of the export: got the error %v, want none\n%s", err, out.String())
	}
	at := strings.Index(exported, `"json":"`) + len(`"json":"`) + 400
	flipped := exported[:at] + string(flip(exported[at])) + exported[at+1:]
	err := verifier.ReplayExported(verdicts[i].ID, strings.NewReader(flipped), &out)
	if !verifier.Differs(err) {
		t.Errorf("replay of an export with another bit: got the error %v, want a difference", err)
	}
}

// flip returns a digit of base64 that differs in one bit.
func flip(digit byte) byte {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	return digits[strings.IndexByte(digits, digit)^1]
}

// export is the evidence of a verdict, page by page, as operators get it.
func (s *stage) export(t *testing.T, id string) string {
	t.Helper()
	var all strings.Builder
	for cursor := ""; ; {
		status, _, body := trial.CallAt(t, s.m.AdminURL(), http.MethodGet,
			"/api/v1/admin/verification/verdicts/"+id+"/evidence?cursor="+cursor, s.m.Env["SVC_ADMIN_TOKEN"], "")
		if status != http.StatusOK {
			t.Fatalf("evidence: got %d, want 200 (body is %.300s)", status, body)
		}
		all.Write(body)
		if cursor, _ = trial.Decode(t, body)["next_cursor"].(string); cursor == "" {
			return all.String()
		}
	}
}
