package verification

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fingerprint"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/proving/internal/cheat"
	"svc.internal/services/proving/internal/trial"
)

// precomputed proves its files by digests of before, because it does not hold them any more.
// Its answers are honest: the files alone betray it.
var precomputed = scheme{name: "precomputed", model: "lab/precomputed", leads: []string{"files"}}

// weightFiles are the files of the model's weights with their sizes in bytes, in the order of
// their names: one shorter than a block, one longer than a range, and one of some blocks.
var weightFiles = []fingerprint.File{
	{Name: "config.json", Size: 700}, {Name: "model-1.safetensors", Size: 3 << 20},
	{Name: "model-2.safetensors", Size: 50_000},
}

// restated is how often the provider states that it has a newer revision of the files. Files
// that are new are asked for daily in their first week, and others every third day.
const restated = 6 * 24 * time.Hour

// wrongPairs is how many pairs of wrong answers lead to a notice: five exceedances of a family
// whose share is a twentieth.
const wrongPairs = 5

// dropper is a provider that drops its files.
type dropper struct {
	*cheater
	agent  *fakeagent.Agent
	prover *cheat.Precomputed
	// revision is the number of the files' revision that it stated last, and stated when.
	revision int
	stated   time.Time
}

func TestDigestsOfDroppedFilesEndInANotice(t *testing.T) {
	chosen(t, precomputed)
	dir := writeWeights(t)
	s := &stage{began: time.Now(), laboratory: startWithFiles(t, precomputed.model, dir)}
	s.mark(t, "the market is ready")
	s.good = s.join(t, "honest", honest(t, 21), precomputed.model)
	d := s.dropper(t, dir)
	s.cheaters = []*cheater{d.cheater}
	s.admitted(t, "honest", s.good.ID, d.model)
	s.admitted(t, d.name, d.ID, d.model)
	s.mark(t, "both are admitted")
	s.calibrate(t)
	s.m.Admin(t, http.MethodPost, "/api/v1/admin/verification/penalties", `{"on":true,"reason":"all is calibrated"}`)
	s.mark(t, "the model is calibrated")
	s.stating(t, d, "both have proven their files", func() bool {
		return s.proven(t, d.ID, false) > 0 && s.proven(t, s.good.ID, false) > 0
	})
	s.mark(t, "both have proven their files")
	d.prover.Drop()
	s.noticedByFiles(t, d)
	t.Run(d.name, func(t *testing.T) {
		s.checkNotice(t, d.cheater)
		s.checkTraffic(t, d.cheater)
		s.checkOwnView(t, d.cheater)
		s.checkToldOfFiles(t, d.cheater)
	})
	t.Run("the honest provider", func(t *testing.T) {
		s.checkHonest(t)
		if s.proven(t, s.good.ID, false) == 0 {
			t.Error("passed observations of its files: got none, want some")
		}
		if got := s.proven(t, s.good.ID, true); got != 0 {
			t.Errorf("exceedances of its files: got %d, want none", got)
		}
	})
	t.Run("replay", s.checkReplay)
	s.cost(t)
}

// stating is hourly while a provider states newer files each week.
func (s *stage) stating(t *testing.T, d *dropper, what string, reached func() bool) {
	t.Helper()
	s.hourly(t, d, what, func() bool {
		if now := s.now(t); now.Sub(d.stated) >= restated {
			d.revision, d.stated = d.revision+1, now
			if err := d.agent.Heartbeat(t.Context(), offerOfFiles(d.revision)); err != nil {
				t.Fatalf("%s states a revision: %v", d.name, err)
			}
		}
		return reached()
	})
}

// noticedByFiles lets time pass until a provider has its notice.
func (s *stage) noticedByFiles(t *testing.T, d *dropper) {
	t.Helper()
	began, wrong := s.now(t), 0
	days := func() float64 { return s.now(t).Sub(began).Hours() / 24 }
	s.stating(t, d, d.name+" has its notice", func() bool {
		o := s.at(t, d.cheater)
		if n := s.proven(t, d.ID, true); n > wrong {
			wrong = n
			s.mark(t, "%d exceedances of files after %.1f days: %s", n, days(), o.Offering.Level)
		}
		return o.reached("notice")
	})
	o := s.at(t, d.cheater)
	s.mark(t, "%s: notice after %.1f days and %d observations, led by %s", d.name, days(), o.Observations, o.Led)
	if got := s.proven(t, d.ID, true); got != wrongPairs {
		t.Errorf("exceedances of files to the notice: got %d, want %d", got, wrongPairs)
	}
}

// hourly is hours for a dropper: a fingerprint has one hour of its day. Once the honest provider
// has proven its files, what is left of a day with a fingerprint is passed at once.
func (s *stage) hourly(t *testing.T, d *dropper, what string, reached func() bool) {
	t.Helper()
	s.hours(t, what, func(now time.Time) time.Time {
		if day := now.Truncate(24 * time.Hour); s.asked(t, d.ID, day) > 0 && s.proven(t, s.good.ID, false) > 0 {
			return day.Add(24 * time.Hour)
		}
		return now.Truncate(time.Hour).Add(time.Hour)
	}, reached)
}

// asked is how many fingerprints a provider answered since a time.
func (s *stage) asked(t *testing.T, provider string, since time.Time) int {
	t.Helper()
	return count(t, s.db, `SELECT count(*) FROM verifier.probe WHERE provider_id = $1 AND kind = 'fingerprint'
		AND purpose = 'evidence' AND due_at >= $2 AND state = 'done'`, provider, since)
}

// proven is how many observations of a provider's files there are: those that exceed, or those
// that do not.
func (s *stage) proven(t *testing.T, provider string, exceeded bool) int {
	t.Helper()
	return count(t, s.db, `SELECT count(*) FROM verifier.observation WHERE provider_id = $1 AND model_id = $2
		AND family = 'files' AND exceeded = $3`, provider, precomputed.model, exceeded)
}

// checkToldOfFiles checks that the provider reads which challenges found other files.
func (s *stage) checkToldOfFiles(t *testing.T, c *cheater) {
	t.Helper()
	list, body := own[standings](t, s.laboratory, c.Key, "standing")
	for _, st := range list.List {
		if st.Kind != "files" {
			t.Errorf("kind of the notice: got %s, want files", body)
		}
	}
	asked, more := own[challenges](t, s.laboratory, c.Key, "challenges")
	differ := 0
	for _, one := range asked.List {
		if one.Kind == "fingerprint" && one.Result == "differs" {
			differ++
		}
	}
	if differ == 0 {
		t.Errorf("challenges that found other files: got none in %s, want some", more)
	}
}

// writeWeights makes a folder with the files.
func writeWeights(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for i, f := range weightFiles {
		dice := rand.NewChaCha8([32]byte{byte(i)})
		content := make([]byte, f.Size)
		_, _ = dice.Read(content) // it never fails
		if err := os.WriteFile(filepath.Join(dir, f.Name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// startWithFiles is start for a model whose files the catalog lists and the references hold.
// The marketplace starts twice, because a verifier reads the hash of files as it starts, and
// then twice a minute.
func startWithFiles(t testing.TB, model, dir string) *laboratory {
	t.Helper()
	l := prepare(t)
	l.models, l.weights = []string{model}, dir
	run := func() *trial.Market {
		return trial.StartIn(t, l.dir, "DATABASE_URL="+l.url, "SVC_DEMO_AGENT=off",
			"SVC_VERIFIER_BENCHMARKS_WAIVED=false", "SVC_VERIFIER_PROBES=true", fmt.Sprintf("SVC_VERIFIER_HASTE=%d", haste))
	}
	l.m = run()
	l.putDear(t, model)
	l.beginRunOf(t, model, l.putFiles(t, model))
	if err := l.m.Stop(); err != nil {
		t.Fatalf("stop the marketplace: %v", err)
	}
	l.m = run()
	for i := range 2 {
		l.reference(t, uint64(11+i))
	}
	return l
}

// putDear lists a model so dear that an offer's probes of a day buy a few chats: the story
// takes weeks, and files cost nothing.
func (l *laboratory) putDear(t testing.TB, model string) {
	t.Helper()
	l.m.Admin(t, http.MethodPut, "/api/v1/admin/models/"+model, fmt.Sprintf(`{"name":"Laboratory","input_price":"5",
		"output_price":"20","payout_input_price":"4","payout_output_price":"16","context_length":%d,
		"max_output_tokens":1024,"capabilities":["chat"]}`, window))
}

// putFiles lists the model's files in the catalog and returns their composite hash.
func (l *laboratory) putFiles(t testing.TB, model string) []byte {
	t.Helper()
	type file struct {
		Filename  string `json:"filename"`
		Hash      string `json:"hash"`
		SizeBytes int64  `json:"size_bytes"`
		URL       string `json:"url"`
	}
	var listed struct {
		Files []file `json:"files"`
	}
	composite := sha256.New()
	for _, f := range weightFiles {
		content, err := os.ReadFile(filepath.Join(l.weights, f.Name))
		if err != nil {
			t.Fatal(err)
		}
		hash := fmt.Sprintf("%x", sha256.Sum256(content))
		listed.Files = append(listed.Files, file{f.Name, hash, f.Size, "https://weights.example/" + f.Name})
		_, _ = fmt.Fprintf(composite, "%s:%s\n", f.Name, hash) // a hash never fails
	}
	body, err := json.Marshal(listed)
	if err != nil {
		t.Fatal(err)
	}
	l.m.Admin(t, http.MethodPut, "/api/v1/admin/model-files/"+model, string(body))
	return composite.Sum(nil)
}

// offerOfFiles is what the provider states of the model, with a revision of the files.
func offerOfFiles(revision int) *agentv2.ModelOffer {
	return &agentv2.ModelOffer{ModelId: precomputed.model, ContextLength: window, Quantization: "fp16",
		Capacity: capacity, Healthy: true, Revision: fmt.Sprintf("revision-%d", revision)}
}

// dropper connects the provider. It holds the files until they are dropped, and answers
// honestly.
func (s *stage) dropper(t testing.TB, dir string) *dropper {
	t.Helper()
	prover, err := cheat.NewPrecomputed(os.DirFS(dir), weightFiles)
	if err != nil {
		t.Fatal(err)
	}
	p := s.account(t, precomputed.name)
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	agent, err := fakeagent.Dial(ctx, s.m.WSURL(), fakeagent.Options{
		Key: p.Key, NodeID: "precomputed-node-1", Offers: []*agentv2.ModelOffer{offerOfFiles(0)},
		Capabilities: []string{"chat", "stream", "cancel", "logprobs", "fingerprint"},
		Handler:      cheat.V2(honest(t, 31)), Fingerprint: proves(prover),
	})
	if err != nil {
		t.Fatalf("%s: %v", precomputed.name, err)
	}
	t.Cleanup(agent.Close)
	return &dropper{cheater: &cheater{scheme: precomputed, seat: &seat{Provider: p, leave: agent.Close}}, agent: agent,
		prover: prover}
}

// proves has an agent of dialect v2 answer challenges by a prover.
func proves(prover *cheat.Precomputed) func(*agentv2.Challenge) *agentv2.ChallengeResult {
	return func(c *agentv2.Challenge) *agentv2.ChallengeResult {
		asked := fingerprint.Challenge{ID: c.GetChallengeId(), Nonce: c.GetNonce(), Blocks: int(c.GetChainLength())}
		for _, r := range c.GetRanges() {
			asked.Ranges = append(asked.Ranges, fingerprint.Range{
				File: r.GetFile(), Offset: r.GetOffset(), Length: int(r.GetLength()),
			})
		}
		for _, f := range c.GetChainFiles() {
			asked.Files = append(asked.Files, fingerprint.File{Name: f.GetFile(), Size: f.GetSize()})
		}
		r := prover.Prove(asked)
		return &agentv2.ChallengeResult{
			ChallengeId: asked.ID, Digests: r.Digests, ChainDigest: r.Chain, Error: r.Error,
		}
	}
}
