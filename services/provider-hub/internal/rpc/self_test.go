package rpc_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/presence"
)

const (
	owner       = "0x52908400098527886E0F7030069857D2E4169EE7"
	beneficiary = "0x8617E340B3D01FA5F11F306F4090FD50E238070D"
	zeroAddress = "0x0000000000000000000000000000000000000000"
)

func TestSignUpShowsAKeyOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	got, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{
		Name: "Farm", Region: "eu", OwnerAddress: strings.ToLower(owner), BeneficiaryAddress: beneficiary,
	})
	d.must(err)
	p := got.GetProvider()
	switch {
	case p.GetStatus() != pending:
		t.Errorf("provider: p.GetStatus(): got %v, want %v", p.GetStatus(), pending)
	case p.GetOwnerAddress() != owner:
		t.Errorf("provider: p.GetOwnerAddress(): got %q, want %q", p.GetOwnerAddress(), owner)
	case p.GetBeneficiaryAddress() != beneficiary:
		t.Errorf("provider: p.GetBeneficiaryAddress(): got %q, want %q", p.GetBeneficiaryAddress(), beneficiary)
	case p.GetOnline():
		t.Errorf("provider: p.GetOnline(): got true, want false, with %v", p)
	}
	if prefix, ok := apikey.Parse(got.GetApiKey()); !ok {
		t.Error("ok of apikey.Parse(got.GetApiKey()): got false, want true")
	} else if prefix != apikey.Provider {
		t.Errorf("prefix: got %q, want %q, with %q", prefix, apikey.Provider, got.GetApiKey())
	} else if wanted := apikey.Shown(got.GetApiKey()); got.GetKeyPrefix() != wanted {
		t.Errorf("got.GetKeyPrefix(): got %q, want %q", got.GetKeyPrefix(), wanted)
	}
	if c, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); err != nil {
		t.Errorf("authenticate: got the error %v, want none", err)
	} else if c.ID.String() != p.GetProviderId() {
		t.Errorf("authenticate: c.ID: got %q, want %q", c.ID.String(), p.GetProviderId())
	}
	var kept string
	d.must(d.pool.QueryRow(t.Context(), `SELECT string_agg(k::text || p::text, '') FROM provider_key k, provider p`).Scan(
		&kept))
	if strings.Contains(kept, got.GetApiKey()[12:]) {
		t.Errorf("the key is kept: got %q, want it without %q", kept, got.GetApiKey()[12:])
	}
}

func TestTheSameSignUpGivesNobodyAKeyToAnAccount(t *testing.T) {
	t.Parallel()
	d := setup(t)
	ask := &hubv1.SignUpRequest{Name: "Farm", OwnerAddress: owner}
	seen := map[string]bool{}
	for range 3 {
		got, err := d.self.SignUp(t.Context(), ask)
		d.must(err)
		if id := got.GetProvider().GetProviderId(); seen[id] {
			t.Errorf("a further key for %s", id)
		} else {
			seen[id] = true
		}
	}
}

func TestWhatASignUpSaysIsChecked(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for name, bad := range map[string]*hubv1.SignUpRequest{
		"no name":          {},
		"a long name":      {Name: strings.Repeat("x", 65)},
		"a control":        {Name: "a\x00"},
		"a long region":    {Name: "a", Region: strings.Repeat("x", 33)},
		"no address":       {Name: "a", OwnerAddress: "me"},
		"a short address":  {Name: "a", OwnerAddress: owner[:41]},
		"a typing mistake": {Name: "a", OwnerAddress: strings.Replace(owner, "E", "e", 1)},
		"a bad benefit":    {Name: "a", BeneficiaryAddress: "0x" + strings.Repeat("g", 40)},
		"the zero wallet":  {Name: "a", OwnerAddress: zeroAddress},
		"the zero benefit": {Name: "a", BeneficiaryAddress: zeroAddress},
	} {
		if _, err := d.self.SignUp(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want the reason %v", name, err, fault.InvalidValue)
		}
	}
	m := d.signUp()
	for name, bad := range map[string]*hubv1.RequestReviewRequest{
		"a long name":     {ProviderName: strings.Repeat("x", 65)},
		"a long summary":  {HardwareSummary: strings.Repeat("x", 501)},
		"a long address":  {ContactEmail: strings.Repeat("x", 250) + "@b.test"},
		"no address":      {ContactEmail: "me"},
		"a control in it": {ContactEmail: "a@b\n"},
	} {
		bad.KeyDigest = m.digest
		if _, err := d.self.RequestReview(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("review with %s: got the error %v, want the reason %v", name, err, fault.InvalidValue)
		}
	}
	for _, bad := range []string{"", "0x", owner[2:], owner + "0", zeroAddress} {
		if _, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest,
			BeneficiaryAddress: bad}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("beneficiary %q: got the error %v, want the reason %v", bad, err, fault.InvalidValue)
		}
		if _, err := d.self.CreateChallenge(t.Context(), &hubv1.CreateChallengeRequest{Address: bad}); !fault.Is(err,
			fault.InvalidValue) {
			t.Errorf("challenge for %q: got the error %v, want the reason %v", bad, err, fault.InvalidValue)
		}
	}
	for _, overlap := range []int64{-1, 7*24*3600 + 1, 1 << 62, -1 << 63} {
		if _, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest,
			OverlapSeconds: overlap}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("overlap of %d: got the error %v, want the reason %v", overlap, err, fault.InvalidValue)
		}
	}
}

func TestTheErrorOfAZeroAddressSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := setup(t)
	_, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{Name: "a", BeneficiaryAddress: zeroAddress})
	f, ok := fault.As(err)
	if !ok {
		t.Fatalf("got the error %v, want a fault", err)
	}
	if want := "beneficiary_address must not be the zero address"; !strings.Contains(f.Message, want) {
		t.Errorf("message: got %q, want %q in it", f.Message, want)
	}
}

// calls makes each call that shows a key, and returns the errors by name.
func (d *desk) calls(digest []byte) map[string]error {
	_, status := d.self.GetOwnStatus(d.Context(), &hubv1.GetOwnStatusRequest{KeyDigest: digest})
	_, update := d.self.UpdateOwn(d.Context(), &hubv1.UpdateOwnRequest{KeyDigest: digest, BeneficiaryAddress: beneficiary})
	_, review := d.self.RequestReview(d.Context(), &hubv1.RequestReviewRequest{KeyDigest: digest})
	_, rotate := d.self.RotateOwnKey(d.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: digest})
	return map[string]error{"status": status, "update": update, "review": review, "rotate": rotate}
}

func TestOnlyAGoodKeyOpensAnAccount(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for _, bad := range [][]byte{nil, {1}, make([]byte, 32), make([]byte, 33), []byte(m.key)} {
		for call, err := range d.calls(bad) {
			switch f, _ := fault.As(err); {
			case f == nil:
				t.Errorf("%s with a digest of %d: %v: f: got no error, want one", call, len(bad), err)
			case f.Kind != fault.Unauthenticated:
				t.Errorf("%s with a digest of %d: %v: f.Kind: got %d, want %d", call, len(bad), err, f.Kind, fault.Unauthenticated)
			case f.Reason != fault.InvalidAPIKey:
				t.Errorf("%s with a digest of %d: %v: f.Reason: got %q, want %q", call, len(bad), err, f.Reason,
					fault.InvalidAPIKey)
			}
		}
	}
	c, err := d.accounts.Holder(t.Context(), apikey.Digest(m.digest))
	d.must(err)
	_, err = d.admin.RevokeProviderKey(t.Context(), &hubv1.RevokeProviderKeyRequest{KeyId: c.KeyID.String()})
	d.must(err)
	for call, err := range d.calls(m.digest) {
		switch f, _ := fault.As(err); {
		case f == nil:
			t.Errorf("%s with a revoked key: %v: f: got no error, want one", call, err)
		case f.Kind != fault.Unauthenticated:
			t.Errorf("%s with a revoked key: %v: f.Kind: got %d, want %d", call, err, f.Kind, fault.Unauthenticated)
		case f.Reason != fault.KeyRevoked:
			t.Errorf("%s with a revoked key: %v: f.Reason: got %q, want %q", call, err, f.Reason, fault.KeyRevoked)
		}
	}
}

func TestASuspendedProviderMayReadAndNoMore(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, status := range []hubv1.ProviderStatus{suspended, rejected} {
		m := d.in(status)
		for call, err := range d.calls(m.digest) {
			switch call {
			case "status":
				if err != nil {
					t.Errorf("%v: %s: %v", status, call, err)
				}
			case "review":
				if !fault.Is(err, fault.TransitionNotAllowed) {
					t.Errorf("%v: %s: got the error %v, want the reason %v", status, call, err, fault.TransitionNotAllowed)
				}
			default:
				if !fault.Is(err, fault.AccountFrozen) {
					t.Errorf("%v: %s: got the error %v, want the reason %v", status, call, err, fault.AccountFrozen)
				}
			}
		}
		if own := d.own(m); own.GetCanConnect() {
			t.Errorf("%v may connect", status)
		}
		if _, err := d.accounts.Authenticate(t.Context(), m.key); !fault.Is(err, fault.AccountFrozen) {
			t.Errorf("%v connects: got the error %v, want the reason %v", status, err, fault.AccountFrozen)
		}
	}
}

func TestAKeyThatAnotherFollowsEndsAfterTheOverlap(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	got, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, Name: "second",
		OverlapSeconds: 3600})
	d.must(err)
	if ends := got.GetOldKeyExpiresAt().AsTime(); !ends.Equal(start.Add(time.Hour)) {
		t.Errorf("the old key ends: got %v, want %v", ends, start.Add(time.Hour))
	}
	if w := d.own(m).GetWarning(); !strings.Contains(w, "2026-03-01T01:00:00Z") {
		t.Errorf(`warning: got %q, want "2026-03-01T01:00:00Z" in it`, w)
	}
	// A longer overlap does not let it live longer.
	later, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, OverlapSeconds: 7200})
	if err != nil {
		t.Errorf("again: got the error %v, want none", err)
	} else if !later.GetOldKeyExpiresAt().AsTime().Equal(start.Add(time.Hour)) {
		t.Errorf("again: later.GetOldKeyExpiresAt().AsTime(): got %v, want %v", later.GetOldKeyExpiresAt().AsTime(),
			start.Add(time.Hour))
	}
	d.clock.Advance(time.Hour - time.Second)
	for _, key := range []string{m.key, got.GetApiKey(), later.GetApiKey()} {
		if _, err := d.accounts.Authenticate(t.Context(), key); err != nil {
			t.Errorf("in the overlap: %v", err)
		}
	}
	d.clock.Advance(time.Second)
	if _, err := d.accounts.Authenticate(t.Context(), m.key); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("after the overlap: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
	for call, err := range d.calls(m.digest) {
		if !fault.Is(err, fault.KeyRevoked) {
			t.Errorf("%s after the overlap: got the error %v, want the reason %v", call, err, fault.KeyRevoked)
		}
	}
	if _, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); err != nil {
		t.Errorf("the key that follows: %v", err)
	}
	// Without an overlap it ends at once.
	digest := apikey.Sum(got.GetApiKey())
	_, err = d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: digest[:]})
	d.must(err)
	if _, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("without an overlap: got the error %v, want the reason %v", err, fault.KeyRevoked)
	}
}

// rotate makes a key that follows, and returns who has it.
func (d *desk) rotate(m member, overlap int64) (member, error) {
	got, err := d.self.RotateOwnKey(d.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, OverlapSeconds: overlap})
	digest := apikey.Sum(got.GetApiKey())
	return member{id: m.id, key: got.GetApiKey(), digest: digest[:]}, err
}

func TestAKeyIsReplacedAtMostTenTimesADay(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	other := d.signUp()
	for i := range 10 {
		next, err := d.rotate(m, 0)
		if err != nil {
			t.Fatalf("rotation %d: %v", i+1, err)
		}
		m = next
		d.clock.Advance(time.Hour)
	}
	_, err := d.rotate(m, 0)
	switch f, _ := fault.As(err); {
	case f == nil:
		t.Error("an 11th: f: got no error, want one")
	case f.Kind != fault.Exhausted:
		t.Errorf("an 11th: f.Kind: got %d, want %d", f.Kind, fault.Exhausted)
	case f.Reason != fault.RateLimitExceeded:
		t.Errorf("an 11th: f.Reason: got %q, want %q", f.Reason, fault.RateLimitExceeded)
	case f.RetryAfter != 14*time.Hour:
		t.Errorf("an 11th: f.RetryAfter: got %v, want %v", f.RetryAfter, 14*time.Hour)
	}
	if _, err := d.accounts.Authenticate(t.Context(), m.key); err != nil {
		t.Errorf("what was refused ends a key: %v", err)
	}
	if _, err := d.rotate(other, 0); err != nil {
		t.Errorf("another provider: %v", err)
	}
	d.clock.Advance(14 * time.Hour)
	if _, err := d.rotate(m, 0); err != nil {
		t.Errorf("a day after the first: %v", err)
	}
}

func TestAKeyCanAlwaysBeReplacedAtOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	for range 31 {
		_, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: m.id})
		d.must(err)
	}
	next, err := d.rotate(m, 0)
	if err != nil {
		t.Fatalf("with 32 keys: %v", err)
	}
	last, err := d.rotate(next, 3600)
	if err != nil {
		t.Fatalf("one more in the overlap: %v", err)
	}
	if _, err := d.rotate(last, 3600); !fault.Is(err, fault.TooManyKeys) {
		t.Errorf("a 34th key: got the error %v, want the reason %v", err, fault.TooManyKeys)
	}
	if _, err := d.rotate(last, 0); err != nil {
		t.Errorf("with 33 keys: %v", err)
	}
	if _, err := d.self.IssueKey(t.Context(), &hubv1.IssueKeyRequest{ProviderId: m.id}); !fault.Is(err,
		fault.TooManyKeys) {
		t.Errorf("a key that follows none: got the error %v, want the reason %v", err, fault.TooManyKeys)
	}
}

func TestKeysThatEndedLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	_, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest, BeneficiaryAddress: beneficiary})
	d.must(err)
	named := d.keyOf(m)
	second, err := d.rotate(m, 0) // the first is named in the history
	d.must(err)
	third, err := d.rotate(second, 0)
	d.must(err)
	keys := func() (n int) {
		d.must(d.pool.QueryRow(t.Context(), `SELECT count(*) FROM provider_key`).Scan(&n))
		return n
	}
	d.clock.Advance(35 * 24 * time.Hour)
	d.sweep()
	if n := keys(); n != 3 {
		t.Errorf("keys while they may be asked for: got %d, want 3", n)
	}
	d.clock.Advance(time.Second)
	d.sweep()
	var kept bool
	d.must(d.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM provider_key WHERE key_id = $1)`, named).Scan(&kept))
	if n := keys(); n != 2 {
		t.Errorf("%d keys, the one in the history kept: %v: keys(): got %d, want 2", n, kept, n)
	} else if !kept {
		t.Errorf("%d keys, the one in the history kept: %v: kept: got false, want true", n, kept)
	}
	if _, err := d.accounts.Authenticate(t.Context(), third.key); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func TestTheStatusTellsTheNextStep(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	want := func(what, shown, label string, step int32, stepLabel string, next ...string) {
		t.Helper()
		own := d.own(m)
		if own.GetShownStatus() != shown || own.GetLabel() != label || own.GetStep() != step ||
			own.GetStepLabel() != stepLabel || !own.GetCanConnect() {
			t.Errorf("%s: %s, %s, step %d %s", what, own.GetShownStatus(), own.GetLabel(), own.GetStep(), own.GetStepLabel())
		}
		text := strings.Join(own.GetNextSteps(), "\n")
		for _, part := range next {
			if !strings.Contains(text, part) {
				t.Errorf("%s: a word of %q: got %q, want %q in it", what, part, text, part)
			}
		}
		if len(next) == 0 && text != "" {
			t.Errorf("%s: %q", what, text)
		}
	}
	want("signed up", "pending", "Pending", 2, "Connect", "Start the agent", "benchmark", "collateral")
	weak := *goodGPU
	weak.VRAMGB = 6
	d.seen(m, "node-0001", &weak)
	want("with a weak machine", "pending", "Pending", 2, "Connect", "less than 8 GB")
	d.seen(m, "node-0002", goodGPU)
	want("with a good one", "pending", "Pending", 3, "Benchmark", "benchmark", "collateral")
	d.benchmark(m, true)
	want("benchmarked", "pending", "Pending", 4, "Collateral", "collateral")
	d.must(d.review(m))
	want("in review", "under_review", "Under Review", 4, "Collateral", "operators")
	_, err := d.set(m, approved)
	d.must(err)
	want("approved", "approved", "Approved", 4, "Collateral", "collateral")
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	want("active", "active", "Active (Probation)", 5, "Active", "50 %", "2026-03-02T00:00:00Z")
	for range 25 {
		d.clock.Advance(time.Hour)
		d.write(presencePage())
	}
	d.sweep() // measures
	want("after its probation", "active", "Active", 5, "Active")
	own := d.own(m)
	if p := own.GetProvider(); !p.GetOnline() || p.GetUptime_24H() != 1 || p.GetUptime_30D() != 1 ||
		p.GetProbationEndsAt() != nil {
		t.Errorf("provider %v", p)
	}
	nodes := own.GetNodes()
	if len(nodes) != 2 || !slices.ContainsFunc(nodes, func(n *hubv1.ProviderNode) bool {
		return n.GetNodeId() == "node-0002" && n.GetOnline() && n.GetGpuEligible() && n.GetComputeCapability() == "8.9" &&
			n.GetVramGb() == 23 &&
			n.GetGpuCount() == 2 && n.GetDialect() == "v1" && n.GetEngine() == "vllm" &&
			n.GetLastSeenAt().AsTime().Equal(d.clock.Now())
	}) {
		t.Errorf("nodes %v", nodes)
	}
	// The hub falls silent, and with it what it held.
	_, err = d.pool.Exec(t.Context(), `UPDATE hub_run SET heard = heard - interval '31 s'`)
	d.must(err)
	want("its hub is gone", "offline", "Offline", 5, "Active", "Start the agent")
	if d.own(m).GetProvider().GetStatus() != active {
		t.Error("offline is a status")
	}
}

func TestClaimsThatAreCutAreAWarningWhileTheNodeIsConnected(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	const text = "claims beyond what is believed are cut: of m a capacity of 5000 as 1024"
	d.cut(m, "node-0001", text)
	if w := d.own(m).GetWarning(); !strings.Contains(w, "Node node-0001: "+text) {
		t.Errorf("warning: got %q, want %q in it", w, "Node node-0001: "+text)
	}
	d.cut(m, "node-0001", "")
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf(`the warning behind its correction: got %q, want ""`, w)
	}
}

func TestAFailedWarmUpIsAWarningUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	d.seen(m, "node-0001", nil)
	c, err := d.accounts.Holder(t.Context(), apikey.Digest(m.digest))
	d.must(err)
	at := presence.Machine{Provider: c.ID, Node: "node-0001"}
	d.write(presence.Page{Warmed: []presence.Warmed{{Machine: at, Error: "out of memory"}}})
	if w := d.own(m).GetWarning(); !strings.Contains(w, "node-0001") {
		t.Errorf(`warning: got %q, want "node-0001" in it`, w)
	} else if !strings.Contains(w, "out of memory") {
		t.Errorf(`warning: got %q, want "out of memory" in it`, w)
	}
	d.write(presence.Page{Warmed: []presence.Warmed{{Machine: at}}})
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf(`warning: got %q, want ""`, w)
	}
}

func TestAPageOfProvidersSaysWhoIsOnline(t *testing.T) {
	t.Parallel()
	d := setup(t)
	one := d.signUp()
	d.clock.Advance(time.Second)
	two := d.in(active)
	d.seen(two, "node-0001", &gpu.Report{})
	d.clock.Advance(time.Hour)
	d.write(presencePage())
	d.sweep() // measures
	got, err := d.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{})
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case got.GetTotal() != 2:
		t.Fatalf("got.GetTotal(): got %d, want 2", got.GetTotal())
	case len(got.GetList()) != 2:
		t.Fatalf("len(got.GetList()): got %d, want 2, in %v", len(got.GetList()), got)
	}
	switch a, b := got.GetList()[0], got.GetList()[1]; {
	case a.GetProviderId() != one.id:
		t.Errorf("a.GetProviderId(): got %q, want %q", a.GetProviderId(), one.id)
	case a.GetOnline():
		t.Error("a.GetOnline(): got true, want false")
	case b.GetProviderId() != two.id:
		t.Errorf("b.GetProviderId(): got %q, want %q", b.GetProviderId(), two.id)
	case !b.GetOnline():
		t.Error("b.GetOnline(): got false, want true")
	case b.GetUptime_30D() != 1:
		t.Errorf("b.GetUptime_30D(): got %v, want 1", b.GetUptime_30D())
	case b.GetUptime_24H() != 1:
		t.Errorf("b.GetUptime_24H(): got %v, want 1", b.GetUptime_24H())
	case a.GetUptime_30D() != 0:
		t.Errorf("a.GetUptime_30D(): got %v, want 0", a.GetUptime_30D())
	case b.GetProbationEndsAt() == nil:
		t.Error("b.GetProbationEndsAt(): got nil, want a value")
	case !b.GetQualification().GetBenchmarkPassed():
		t.Error("b.GetQualification().GetBenchmarkPassed(): got false, want true")
	}
	seen, err := d.directory.GetProvider(t.Context(), &hubv1.GetProviderRequest{ProviderId: two.id})
	if err != nil {
		t.Errorf("directory: got the error %v, want none", err)
	} else if !seen.GetProvider().GetOnline() {
		t.Error("directory: seen.GetProvider().GetOnline(): got false, want true")
	}
	detail, err := d.admin.GetProviderDetail(t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: two.id})
	switch {
	case err != nil:
		t.Errorf("detail: got the error %v, want none", err)
	case !detail.GetProvider().GetOnline():
		t.Error("detail.GetProvider().GetOnline(): got false, want true")
	case len(detail.GetNodes()) != 1:
		t.Errorf("len(detail.GetNodes()): got %d, want 1, in %v", len(detail.GetNodes()), detail)
	case detail.GetNodes()[0].GetGpuEligible():
		t.Error("detail.GetNodes()[0].GetGpuEligible(): got true, want false")
	}
}

// An owner who has a server and no machine is not told to start an agent.
func TestTheNextStepsOfAnOwnerWithEndpointsOnlyAreOfEndpoints(t *testing.T) {
	t.Parallel()
	d := setup(t)
	m := d.signUp()
	_, err := d.pool.Exec(t.Context(), `
		INSERT INTO external_endpoint (endpoint_id, provider_id, place, name, base_url, created_at, updated_at)
		VALUES (gen_random_uuid(), $1, 1, 'Rack', 'https://api.example.org', now(), now())`, m.id)
	d.must(err)
	steps := func() string { return strings.Join(d.own(m).GetNextSteps(), "\n") }
	wants := func(what string, parts ...string) {
		t.Helper()
		got := steps()
		if strings.Contains(got, "agent") {
			t.Errorf("%s: got %q, want no agent in it", what, got)
		}
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %q, want %q in it", what, got, part)
			}
		}
	}
	wants("registered", "waive the GPU rule", "endpoint healthy until its benchmark")
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{GpuWaived: yes()})
	d.must(err)
	wants("waived", "last_error")
	d.seen(m, "node-0001", goodGPU)
	if got := steps(); strings.Contains(got, "last_error") {
		t.Errorf("with an agent: got %q, want nothing of endpoints", got)
	}
}
