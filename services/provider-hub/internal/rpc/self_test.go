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
)

func TestSignUpShowsAKeyOnce(t *testing.T) {
	d := setup(t)
	got, err := d.self.SignUp(t.Context(), &hubv1.SignUpRequest{
		Name: "Farm", Region: "eu", OwnerAddress: strings.ToLower(owner), BeneficiaryAddress: beneficiary,
	})
	d.must(err)
	p := got.GetProvider()
	if p.GetStatus() != pending || p.GetOwnerAddress() != owner || p.GetBeneficiaryAddress() != beneficiary || p.GetOnline() {
		t.Errorf("provider %v", p)
	}
	if prefix, ok := apikey.Parse(got.GetApiKey()); !ok || prefix != apikey.Provider || got.GetKeyPrefix() != apikey.Shown(got.GetApiKey()) {
		t.Errorf("key %q, shown as %q", got.GetApiKey(), got.GetKeyPrefix())
	}
	if c, err := d.accounts.Authenticate(t.Context(), got.GetApiKey()); err != nil || c.ID.String() != p.GetProviderId() {
		t.Errorf("authenticate: %v", err)
	}
	var kept string
	d.must(d.pool.QueryRow(t.Context(), `SELECT string_agg(k::text || p::text, '') FROM provider_key k, provider p`).Scan(&kept))
	if strings.Contains(kept, got.GetApiKey()[12:]) {
		t.Error("the key is kept")
	}
}

func TestASignUpIsRepeatedByItsIdempotencyKey(t *testing.T) {
	d := setup(t)
	ask := &hubv1.SignUpRequest{Name: "Farm", OwnerAddress: owner, IdempotencyKey: "k1"}
	first, err := d.self.SignUp(t.Context(), ask)
	d.must(err)
	again, err := d.self.SignUp(t.Context(), ask)
	if err != nil || again.GetProvider().GetProviderId() != first.GetProvider().GetProviderId() || again.GetApiKey() == first.GetApiKey() {
		t.Fatalf("again: %v, %v", again, err)
	}
	for _, key := range []string{first.GetApiKey(), again.GetApiKey()} {
		if _, err := d.accounts.Authenticate(t.Context(), key); err != nil {
			t.Errorf("a key of the same account: %v", err)
		}
	}
	for name, other := range map[string]*hubv1.SignUpRequest{
		"another name":   {Name: "Other", OwnerAddress: owner, IdempotencyKey: "k1"},
		"another wallet": {Name: "Farm", OwnerAddress: beneficiary, IdempotencyKey: "k1"},
		"no wallet":      {Name: "Farm", IdempotencyKey: "k1"},
	} {
		if _, err := d.self.SignUp(t.Context(), other); !fault.Is(err, fault.IdempotencyKeyReused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An operator's key of the same text is another one.
	if made, err := d.admin.CreateProvider(t.Context(), &hubv1.CreateProviderRequest{Name: "Farm", IdempotencyKey: "k1"}); err != nil ||
		made.GetProvider().GetProviderId() == first.GetProvider().GetProviderId() {
		t.Errorf("an operator's: %v, %v", made, err)
	}
	// Nobody makes keys without end.
	var last error
	for range 40 {
		if _, last = d.self.SignUp(t.Context(), ask); last != nil {
			break
		}
	}
	if !fault.Is(last, fault.TooManyKeys) {
		t.Errorf("40 keys: %v", last)
	}
	d.clock.Advance(24*time.Hour + time.Second)
	if _, err := d.self.SignUp(t.Context(), ask); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("a day later: %v", err)
	}
}

func TestWhatASignUpSaysIsChecked(t *testing.T) {
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
		"a long key":       {Name: "a", IdempotencyKey: strings.Repeat("k", 129)},
	} {
		if _, err := d.self.SignUp(t.Context(), bad); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: %v", name, err)
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
			t.Errorf("review with %s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "0x", owner[2:], owner + "0"} {
		if _, err := d.self.UpdateOwn(t.Context(), &hubv1.UpdateOwnRequest{KeyDigest: m.digest, BeneficiaryAddress: bad}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("beneficiary %q: %v", bad, err)
		}
		if _, err := d.self.CreateChallenge(t.Context(), &hubv1.CreateChallengeRequest{Address: bad}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("challenge for %q: %v", bad, err)
		}
	}
	for _, overlap := range []int64{-1, 7*24*3600 + 1, 1 << 62, -1 << 63} {
		if _, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, OverlapSeconds: overlap}); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("overlap of %d: %v", overlap, err)
		}
	}
}

// calls are those that show a key.
func (d *desk) calls(digest []byte) map[string]error {
	_, status := d.self.GetOwnStatus(d.Context(), &hubv1.GetOwnStatusRequest{KeyDigest: digest})
	_, update := d.self.UpdateOwn(d.Context(), &hubv1.UpdateOwnRequest{KeyDigest: digest, BeneficiaryAddress: beneficiary})
	_, review := d.self.RequestReview(d.Context(), &hubv1.RequestReviewRequest{KeyDigest: digest})
	_, rotate := d.self.RotateOwnKey(d.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: digest})
	return map[string]error{"status": status, "update": update, "review": review, "rotate": rotate}
}

func TestOnlyAGoodKeyOpensAnAccount(t *testing.T) {
	d := setup(t)
	m := d.signUp()
	for _, bad := range [][]byte{nil, {1}, make([]byte, 32), make([]byte, 33), []byte(m.key)} {
		for call, err := range d.calls(bad) {
			if f, _ := fault.As(err); f == nil || f.Kind != fault.Unauthenticated || f.Reason != fault.InvalidAPIKey {
				t.Errorf("%s with a digest of %d: %v", call, len(bad), err)
			}
		}
	}
	c, err := d.accounts.Holder(t.Context(), apikey.Digest(m.digest))
	d.must(err)
	_, err = d.admin.RevokeProviderKey(t.Context(), &hubv1.RevokeProviderKeyRequest{KeyId: c.KeyID.String()})
	d.must(err)
	for call, err := range d.calls(m.digest) {
		if f, _ := fault.As(err); f == nil || f.Kind != fault.Unauthenticated || f.Reason != fault.KeyRevoked {
			t.Errorf("%s with a revoked key: %v", call, err)
		}
	}
}

func TestASuspendedProviderMayReadAndNoMore(t *testing.T) {
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
					t.Errorf("%v: %s: %v", status, call, err)
				}
			default:
				if !fault.Is(err, fault.AccountFrozen) {
					t.Errorf("%v: %s: %v", status, call, err)
				}
			}
		}
		if own := d.own(m); own.GetCanConnect() {
			t.Errorf("%v may connect", status)
		}
		if _, err := d.accounts.Authenticate(t.Context(), m.key); !fault.Is(err, fault.AccountFrozen) {
			t.Errorf("%v connects: %v", status, err)
		}
	}
}

func TestAKeyThatAnotherFollowsEndsAfterTheOverlap(t *testing.T) {
	d := setup(t)
	m := d.signUp()
	got, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, Name: "second", OverlapSeconds: 3600})
	d.must(err)
	if ends := got.GetOldKeyExpiresAt().AsTime(); !ends.Equal(start.Add(time.Hour)) {
		t.Errorf("the old key ends %v", ends)
	}
	if w := d.own(m).GetWarning(); !strings.Contains(w, "2026-03-01T01:00:00Z") {
		t.Errorf("warning %q", w)
	}
	// A longer overlap does not let it live longer.
	later, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, OverlapSeconds: 7200})
	if err != nil || !later.GetOldKeyExpiresAt().AsTime().Equal(start.Add(time.Hour)) {
		t.Errorf("again: %v, %v", later, err)
	}
	d.clock.Advance(time.Hour - time.Second)
	for _, key := range []string{m.key, got.GetApiKey(), later.GetApiKey()} {
		if _, err := d.accounts.Authenticate(t.Context(), key); err != nil {
			t.Errorf("in the overlap: %v", err)
		}
	}
	d.clock.Advance(time.Second)
	if _, err := d.accounts.Authenticate(t.Context(), m.key); !fault.Is(err, fault.KeyRevoked) {
		t.Errorf("after the overlap: %v", err)
	}
	for call, err := range d.calls(m.digest) {
		if !fault.Is(err, fault.KeyRevoked) {
			t.Errorf("%s after the overlap: %v", call, err)
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
		t.Errorf("without an overlap: %v", err)
	}
}

func TestAProviderMakesItselfABoundedNumberOfKeys(t *testing.T) {
	d := setup(t)
	m := d.signUp()
	rotate := func() error {
		_, err := d.self.RotateOwnKey(t.Context(), &hubv1.RotateOwnKeyRequest{KeyDigest: m.digest, OverlapSeconds: 3600})
		return err
	}
	for i := range 31 {
		if err := rotate(); err != nil {
			t.Fatalf("key %d: %v", i+2, err)
		}
	}
	if err := rotate(); !fault.Is(err, fault.TooManyKeys) {
		t.Errorf("a 33rd key: %v", err)
	}
}

func TestTheStatusTellsTheNextStep(t *testing.T) {
	d := setup(t)
	m := d.signUp()
	want := func(what, shown, label string, step int32, stepLabel string, next ...string) {
		t.Helper()
		own := d.own(m)
		if own.GetShownStatus() != shown || own.GetLabel() != label || own.GetStep() != step || own.GetStepLabel() != stepLabel || !own.GetCanConnect() {
			t.Errorf("%s: %s, %s, step %d %s", what, own.GetShownStatus(), own.GetLabel(), own.GetStep(), own.GetStepLabel())
		}
		text := strings.Join(own.GetNextSteps(), "\n")
		for _, part := range next {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no word of %q in %q", what, part, text)
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
	_, err := d.confirm(m, &hubv1.ConfirmQualificationRequest{Benchmark: yes()})
	d.must(err)
	want("benchmarked", "pending", "Pending", 4, "Collateral", "collateral")
	d.must(d.review(m))
	want("in review", "under_review", "Under Review", 4, "Collateral", "operators")
	_, err = d.set(m, approved)
	d.must(err)
	want("approved", "approved", "Approved", 4, "Collateral", "collateral")
	_, err = d.confirm(m, &hubv1.ConfirmQualificationRequest{Collateral: yes()})
	d.must(err)
	want("active", "active", "Active (Probation)", 5, "Active", "50 %", "2026-03-02T00:00:00Z")
	for range 25 {
		d.clock.Advance(time.Hour)
		d.write(presencePage())
	}
	d.sweep()
	want("after its probation", "active", "Active", 5, "Active")
	own := d.own(m)
	if p := own.GetProvider(); !p.GetOnline() || p.GetUptime_24H() != 1 || p.GetUptime_30D() != 1 || p.GetProbationEndsAt() != nil {
		t.Errorf("provider %v", p)
	}
	nodes := own.GetNodes()
	if len(nodes) != 2 || !slices.ContainsFunc(nodes, func(n *hubv1.ProviderNode) bool {
		return n.GetNodeId() == "node-0002" && n.GetOnline() && n.GetGpuEligible() && n.GetComputeCapability() == "8.9" && n.GetVramGb() == 23 &&
			n.GetGpuCount() == 2 && n.GetDialect() == "v1" && n.GetEngine() == "vllm" && n.GetLastSeenAt().AsTime().Equal(d.clock.Now())
	}) {
		t.Errorf("nodes %v", nodes)
	}
	// The hub falls silent, and with it what it held.
	d.clock.Advance(time.Minute)
	want("its hub is gone", "offline", "Offline", 5, "Active", "Start the agent")
	if d.own(m).GetProvider().GetStatus() != active {
		t.Error("offline is a status")
	}
}

func TestAFailedWarmUpIsAWarningUntilOneSucceeds(t *testing.T) {
	d := setup(t)
	m := d.signUp()
	d.seen(m, "node-0001", nil)
	c, err := d.accounts.Holder(t.Context(), apikey.Digest(m.digest))
	d.must(err)
	at := presence.Machine{Provider: c.ID, Node: "node-0001"}
	d.write(presence.Page{Warmed: []presence.Warmed{{Machine: at, Error: "out of memory"}}})
	if w := d.own(m).GetWarning(); !strings.Contains(w, "node-0001") || !strings.Contains(w, "out of memory") {
		t.Errorf("warning %q", w)
	}
	d.write(presence.Page{Warmed: []presence.Warmed{{Machine: at}}})
	if w := d.own(m).GetWarning(); w != "" {
		t.Errorf("warning %q", w)
	}
}

func TestAPageOfProvidersSaysWhoIsOnline(t *testing.T) {
	d := setup(t)
	one := d.signUp()
	d.clock.Advance(time.Second)
	two := d.in(active)
	d.seen(two, "node-0001", &gpu.Report{})
	d.clock.Advance(time.Hour)
	d.write(presencePage())
	d.sweep() // measures
	got, err := d.admin.ListProviders(t.Context(), &hubv1.ListProvidersRequest{})
	if err != nil || got.GetTotal() != 2 || len(got.GetList()) != 2 {
		t.Fatalf("%v, %v", got, err)
	}
	if a, b := got.GetList()[0], got.GetList()[1]; a.GetProviderId() != one.id || a.GetOnline() || b.GetProviderId() != two.id || !b.GetOnline() ||
		b.GetUptime_30D() != 1 || b.GetUptime_24H() != 1 || a.GetUptime_30D() != 0 || b.GetProbationEndsAt() == nil || !b.GetQualification().GetBenchmarkPassed() {
		t.Errorf("list %v", got.GetList())
	}
	seen, err := d.directory.GetProvider(t.Context(), &hubv1.GetProviderRequest{ProviderId: two.id})
	if err != nil || !seen.GetProvider().GetOnline() {
		t.Errorf("directory: %v, %v", seen, err)
	}
	detail, err := d.admin.GetProviderDetail(t.Context(), &hubv1.GetProviderDetailRequest{ProviderId: two.id})
	if err != nil || !detail.GetProvider().GetOnline() || len(detail.GetNodes()) != 1 || detail.GetNodes()[0].GetGpuEligible() {
		t.Errorf("detail: %v, %v", detail, err)
	}
}
