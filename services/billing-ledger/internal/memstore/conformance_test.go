package memstore_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/pgtest"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/memstore"
	"svc.internal/services/billing-ledger/internal/orphan"
	"svc.internal/services/billing-ledger/internal/slice"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const (
	lease      = time.Minute
	orphanFor  = 10 * time.Minute
	maxHold    = time.Hour
	concurrent = 4
	// sliced is the consumer who has credit for slices. Owners are alive for longer than a story takes by
	// the clock of this machine, so that both stores see the same ones die.
	sliced = 3
	alive  = 16 * time.Minute
	cent   = 10_000_000 * money.NanoUSD(1)
)

var centRates = money.Rates{Input: 10_000_000_000, Output: 10_000_000_000, PayoutInput: 7_000_000_000,
	PayoutOutput: 7_000_000_000}

// ever is when everything is over that is now.
var ever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// ledger is what both stores do.
type ledger interface {
	hold.Decider
	hold.ReportStore
	hold.Leases
	orphan.Store
	usage.Store
	slice.Keeper
	WritePins(ctx context.Context, pins []hold.Pin) error
	ReclaimSlices(ctx context.Context, asOf time.Time, limit int) (int, error)
	ExpireHolds(ctx context.Context, asOf time.Time, limit int) (int, error)
}

// pair is both of them, with the same accounts.
type pair struct {
	real   *store.Store
	memory *memstore.Store
	owner  *pgxpool.Pool
	price  ids.PriceVersionID
	// passed is how much time was made to pass.
	passed    time.Duration
	consumers []consumer
	// turned are the slices that the last turns in PostgreSQL left.
	turned []int64
}

type consumer struct {
	account ids.AccountID
	key     ids.KeyID
}

func newPair(t *testing.T) *pair {
	t.Helper()
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	none := int32(limit.Unlimited)
	p := &pair{owner: pgtest.Owner(t, pool), real: store.New(pool, limit.Defaults{
		LLMPerMinute: none, MultimodalPerMinute: none, EmbeddingPerMinute: none, ZeroPricedPerMinute: none,
		ImagePerMinute: none, AudioPerMinute: none, Concurrent: concurrent,
	}, store.Terms{Lease: lease, Orphan: orphanFor, MaxHold: maxHold})}
	// Both number slices alike.
	if _, err := p.owner.Exec(t.Context(), `CREATE SEQUENCE epoch; GRANT USAGE ON epoch TO `+store.Role+`;
		ALTER TABLE slice ALTER epoch SET DEFAULT nextval('epoch')`); err != nil {
		t.Fatal(err)
	}
	if _, err := p.real.EnsurePartitions(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	p.memory = memstore.New(func() time.Time { return time.Now().Add(p.passed) }, concurrent,
		memstore.Terms{Lease: lease, Orphan: orphanFor, MaxHold: maxHold})
	var err error
	if p.price, err = ids.NewPriceVersion(time.Now(), crand.Reader); err != nil {
		t.Fatal(err)
	}
	accounts := &account.Accounts{Store: p.real, Clock: clock.System, Random: crand.Reader}
	keys := &key.Keys{Store: p.real, Peppers: apikey.Only(apikey.Pepper{}), Clock: clock.System, Random: crand.Reader,
		MaxKeys: 9, Announce: func(context.Context, ids.KeyID) {}}
	p.memory.SliceTerms.Lease = alive
	for i := range 4 {
		credit := 25 * cent
		if i == sliced {
			credit = 100 * money.USD
		}
		a, err := accounts.Create(t.Context(), "test", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := accounts.Grant(t.Context(), a.ID, credit, fmt.Sprintf("%s/%d", a.ID, i+1), "test"); err != nil {
			t.Fatal(err)
		}
		k, _, err := keys.Issue(t.Context(), key.IssueRequest{Account: a.ID})
		if err != nil {
			t.Fatal(err)
		}
		p.memory.Open(a.ID, k.ID, credit)
		p.consumers = append(p.consumers, consumer{a.ID, k.ID})
	}
	return p
}

// own gives an account and a provider the same owner, in both stores.
func (p *pair) own(t *testing.T, account ids.AccountID, provider ids.ProviderID) {
	t.Helper()
	if _, err := p.owner.Exec(t.Context(),
		`INSERT INTO app_user (id, email, display_name, password_hash, account_id, provider_id)
		VALUES (gen_random_uuid(), 'a@x', '', '$argon2id$v=19$m=1', $1, $2)`, [16]byte(account),
		[16]byte(provider)); err != nil {
		t.Fatal(err)
	}
	p.memory.Own(account, provider)
}

// pass lets time pass in both: in the database by moving all that is there into
// the past.
func (p *pair) pass(t *testing.T, d time.Duration) {
	t.Helper()
	p.passed += d
	tx, err := p.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE hold SET admitted_at = admitted_at - $1::interval, expires_at = expires_at - $1::interval,
			closed_at = closed_at - $1::interval`,
		`UPDATE request_report SET recorded_at = recorded_at - $1::interval`,
		`UPDATE renewal SET renewed_at = renewed_at - $1::interval`,
		`UPDATE orphan_review SET next_at = next_at - $1::interval`,
		`UPDATE usage_settlement SET settled_at = settled_at - $1::interval`,
		`UPDATE entry SET at = at - $1::interval`,
		`UPDATE slice SET alive_until = alive_until - $1::interval, reclaim_at = reclaim_at - $1::interval`,
	} {
		if _, err := tx.Exec(t.Context(), sql, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// story is a sequence of random operations.
type story struct {
	*pair
	dice         *rand.Rand
	reservations []hold.Reservation
	providers    []ids.ProviderID
	published    []usage.Event
	// epoch is the last one that a turn returned.
	epoch int64
}

// operation is a random one, to be done on both stores; what it returns is what
// came of it.
func (s *story) operation(t *testing.T) (name string, do func(ctx context.Context, l ledger) (any, error)) {
	t.Helper()
	switch s.dice.IntN(13) {
	case 0, 1:
		reservations := s.someReservations(t)
		return "admit", func(ctx context.Context, l ledger) (any, error) {
			decisions, err := l.Admit(ctx, reservations)
			if open, ok := hold.AsSliceOpen(err); ok {
				return open, nil
			}
			return outcomes(decisions), err
		}
	case 9, 10:
		return "turn", s.turn(t)
	case 11:
		pins := s.pins(t, s.consumers[s.dice.IntN(4)])
		return "write pins", func(ctx context.Context, l ledger) (any, error) { return nil, l.WritePins(ctx, s.by(l, pins)) }
	case 12:
		return "reclaim", func(ctx context.Context, l ledger) (any, error) { return l.ReclaimSlices(ctx, ever, 100) }
	case 2:
		w := s.reports(t)
		return "conclude", func(ctx context.Context, l ledger) (any, error) {
			released, unwritten, err := l.Conclude(ctx, w)
			return fmt.Sprint(released, unwritten), err
		}
	case 3:
		r := s.renewals(t)
		return "renew", func(ctx context.Context, l ledger) (any, error) {
			lapsed, unwritten, err := l.Renew(ctx, r)
			slices.SortFunc(lapsed, func(a, b ids.RequestID) int { return bytes.Compare(a[:], b[:]) })
			return fmt.Sprint(lapsed, unwritten), err
		}
	case 4, 5:
		batch := s.deliveries(t)
		return "settle", func(ctx context.Context, l ledger) (any, error) {
			return (&usage.Settler{Store: l}).Settle(ctx, batch, nil)
		}
	case 6:
		return "expire", func(ctx context.Context, l ledger) (any, error) { return l.ExpireHolds(ctx, ever, 100) }
	case 7:
		return "review", func(ctx context.Context, l ledger) (any, error) {
			cases, failed, err := l.OpenReviews(ctx, 100)
			var all []usage.Event
			for _, c := range cases {
				all = append(all, c.Event())
			}
			return s.publish(all, failed), err
		}
	default:
		return "publish again", func(ctx context.Context, l ledger) (any, error) {
			again, err := l.SettledReviews(ctx, 100)
			var all []usage.Event
			for _, p := range again {
				all = append(all, p.Event)
			}
			return s.publish(all, 0), err
		}
	}
}

// turn is a turn of one of two owners, who may be wrong about the epoch.
func (s *story) turn(t *testing.T) func(ctx context.Context, l ledger) (any, error) {
	t.Helper()
	owner := slice.Owner{ID: [16]byte{byte(1 + s.dice.IntN(2))}, Address: "10.0.0.1:7001"}
	var turns []slice.Turn
	for _, i := range s.dice.Perm(4)[:1+s.dice.IntN(3)] {
		turn := slice.Turn{Account: s.consumers[i].account, Want: money.NanoUSD(s.dice.IntN(900)) * cent,
			Places: int64(s.dice.IntN(9)), Close: s.dice.IntN(4) == 0}
		if s.dice.IntN(3) > 0 {
			turn.Epoch = s.epoch
		}
		if s.dice.IntN(2) == 0 {
			turn.Pins = s.pins(t, s.consumers[i])
		}
		turns = append(turns, turn)
	}
	return func(ctx context.Context, l ledger) (any, error) {
		turns := slices.Clone(turns)
		for i := range turns {
			turns[i].Pins = s.by(l, turns[i].Pins)
		}
		states, err := l.Turn(ctx, owner, turns)
		text := ""
		for _, st := range states {
			if l == ledger(s.real) {
				s.turned = append(s.turned, st.Epoch)
			}
			s.epoch = max(s.epoch, st.Epoch)
			text += fmt.Sprintln(st.Epoch, st.Plain, st.Amount, st.Places, st.Account.Free, st.Account.Open, st.Account.MaxOpen,
				st.Account.Lease)
			for _, k := range st.Keys { // rates are not in memory
				text += fmt.Sprintln(k.ID, k.Refusal, k.Models, k.Limits, k.Until)
			}
		}
		return text, err
	}
}

// pins are of requests of a consumer, mostly from the last slice, and some of them of one that was admitted already or
// of another consumer's key.
func (s *story) pins(t *testing.T, of consumer) (pins []hold.Pin) {
	t.Helper()
	for _, r := range s.someReservations(t) {
		if s.dice.IntN(5) > 0 {
			r.Key = of.key
		}
		at := time.Now().Add(time.Duration(s.dice.IntN(2)-1) * time.Second)
		pins = append(pins, r.Pin(hold.Admission{Account: of.account, Billing: r.Billing, Held: r.Amount, Price: r.Price,
			Rates: r.Rates}, at, max(s.epoch-int64(s.dice.IntN(2)), 1)))
	}
	return pins
}

// by returns pins with their times by the clock of a store.
func (s *story) by(l ledger, pins []hold.Pin) []hold.Pin {
	if l != ledger(s.memory) {
		return pins
	}
	pins = slices.Clone(pins)
	for i := range pins {
		pins[i].AdmittedAt = pins[i].AdmittedAt.Add(s.passed)
	}
	return pins
}

// lives has the owners that took a turn just now live on in PostgreSQL as they do in memory.
func (p *pair) lives(t *testing.T) {
	t.Helper()
	if _, err := p.owner.Exec(t.Context(), `UPDATE slice SET alive_until = now() + $1::interval
		WHERE state = 'open' AND epoch = ANY ($2)`, alive, p.turned); err != nil {
		t.Fatal(err)
	}
	p.turned = nil
}

// publish keeps what is to be delivered, and prints it without the times, which
// the two stores take from two clocks.
func (s *story) publish(all []usage.Event, failed int) string {
	slices.SortFunc(all, func(a, b usage.Event) int { return slices.Compare(a.Request[:], b.Request[:]) })
	text := fmt.Sprint(failed)
	for _, e := range all {
		e.EndedAt, e.DispatchedAt = time.Time{}, time.Time{}
		s.published = append(s.published, e)
		text += fmt.Sprintf(" %+v", e)
	}
	return text
}

func outcomes(decisions []hold.Decision) (out []string) {
	for _, v := range decisions {
		text := string(v.Outcome)
		if v.Outcome == hold.Admitted || v.Outcome == hold.Repeated {
			text += fmt.Sprint(v.Admission.Account, v.Admission.Held, v.Admission.Rates, v.Admission.Billing)
		}
		out = append(out, text)
	}
	return out
}

func (s *story) someReservations(t *testing.T) []hold.Reservation {
	t.Helper()
	reservations := make([]hold.Reservation, 1+s.dice.IntN(3))
	for i := range reservations {
		if len(s.reservations) > 0 && s.dice.IntN(5) == 0 {
			reservations[i] = s.reservations[s.dice.IntN(len(s.reservations))]
			continue
		}
		tokens := int64(s.dice.IntN(8))
		request, err := ids.NewRequest(time.Now(), crand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		reservations[i] = hold.Reservation{
			AdmitRequest: hold.AdmitRequest{
				Request: request, Key: s.consumers[s.dice.IntN(4)].key, Model: "acme/large", PromptTokens: 2,
				MaxCompletionTokens: tokens,
			},
			Class: limit.LLM, Billing: hold.PayAsYouGo, Price: s.price, Rates: centRates, Amount: money.NanoUSD(tokens) * cent,
		}
		s.inSomeUnit(&reservations[i])
		s.reservations = append(s.reservations, reservations[i])
	}
	return reservations
}

// inSomeUnit leaves two of three reservations in tokens. A cent buys an image, or a
// second and a half of audio.
func (s *story) inSomeUnit(c *hold.Reservation) {
	switch n := c.MaxCompletionTokens; s.dice.IntN(6) {
	case 0:
		c.Class, c.PromptTokens, c.Images = limit.Image, 0, int32(n)
		c.Rates = money.Rates{Unit: money.Image, Output: centRates.Output, PayoutOutput: centRates.PayoutOutput}
	case 1:
		c.Class, c.PromptTokens, c.MaxCompletionTokens = limit.Audio, 1500*n, 0
		c.Rates = money.Rates{Unit: money.AudioMinute, Input: 400_000_000_000, PayoutInput: 300_000_000_001}
	}
}

// counts are of a reservation's unit, and may be beyond what it holds.
func (s *story) counts(c hold.Reservation) money.Tokens {
	counts := money.Tokens{Prompt: int64(s.dice.IntN(4)), Completion: int64(s.dice.IntN(9))}
	switch c.Rates.Unit {
	case money.Image:
		counts.Prompt = 0
	case money.AudioMinute:
		counts = money.Tokens{Prompt: int64(s.dice.IntN(9 * 1500))}
	case money.Token:
	}
	return counts
}

// some is a request that may have been admitted, mostly a young one.
func (s *story) some(t *testing.T) hold.Reservation {
	t.Helper()
	if len(s.reservations) == 0 {
		s.someReservations(t)
	}
	from := max(0, len(s.reservations)-8)
	if s.dice.IntN(5) == 0 {
		from = 0
	}
	return s.reservations[from+s.dice.IntN(len(s.reservations)-from)]
}

func (s *story) provider() ids.ProviderID { return s.providers[s.dice.IntN(len(s.providers))] }

func (s *story) reports(t *testing.T) []hold.RequestReport {
	t.Helper()
	w := hold.RequestReport{
		Request: s.some(t).Request, Outcome: []string{"completed", "failed", "client_gone"}[s.dice.IntN(3)], HTTPStatus: 200,
		RouteMode: "auto", Attempts: []hold.Attempt{}, CommittedAttempt: int32(s.dice.IntN(2)),
	}
	if w.CommittedAttempt > 0 {
		w.RelayedTokens = int64(s.dice.IntN(6))
		w.RelayedBytes = max(w.RelayedTokens, 1) * int64(s.dice.IntN(3)) // a transcript has bytes and no tokens
		w.Attempts = []hold.Attempt{{Attempt: 1, ProviderID: s.provider().String(), HubID: "hub-1"}}
		if s.dice.IntN(2) == 0 {
			w.Metered = &money.Tokens{Prompt: int64(s.dice.IntN(4)), Completion: int64(s.dice.IntN(6))}
		}
	}
	return []hold.RequestReport{w}
}

func (s *story) renewals(t *testing.T) []hold.Renewal {
	t.Helper()
	r := hold.Renewal{Request: s.some(t).Request}
	if s.dice.IntN(3) > 0 {
		r.CommittedAttempt, r.Hub, r.Provider = 1, "hub-1", s.provider()
		r.RelayedTokens = int64(s.dice.IntN(6))
		r.RelayedBytes = 3 * r.RelayedTokens
	}
	return []hold.Renewal{r}
}

func (s *story) deliveries(t *testing.T) []usage.Delivery {
	t.Helper()
	var batch []usage.Delivery
	for range 1 + s.dice.IntN(2) {
		c := s.some(t)
		e := usage.Event{
			Request: c.Request, Attempt: 1, Hub: "hub-1", Provider: s.provider(), Epoch: 7, Model: c.Model, Price: c.Price,
			Rates:          c.Rates,
			EvidenceSource: usage.Hub, Ending: "completed", ClaimState: "valid",
			Billable: s.counts(c),
		}
		if len(s.published) > 0 && s.dice.IntN(3) == 0 {
			e = s.published[s.dice.IntN(len(s.published))]
		}
		sum := e.Hash()
		batch = append(batch, usage.Delivery{Event: e, Payload: sum[:]})
	}
	return batch
}

func TestItDoesWhatPostgreSQLDoes(t *testing.T) {
	for seed := range uint64(3) {
		p := newPair(t)
		s := &story{pair: p, dice: rand.New(rand.NewPCG(seed, 3))}
		for range 2 {
			provider, err := ids.NewProvider(time.Now(), crand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			s.providers = append(s.providers, provider)
		}
		p.own(t, p.consumers[0].account, s.providers[0])
		for step := range 300 {
			if s.dice.IntN(8) == 0 {
				p.pass(t, []time.Duration{20 * time.Second, 2 * time.Minute, 11 * time.Minute, 3 * time.Hour}[s.dice.IntN(4)])
			}
			name, do := s.operation(t)
			where := fmt.Sprintf("seed %d, step %d: after %s", seed, step, name)
			before := len(s.published)
			want, err := do(t.Context(), p.real)
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			s.published = s.published[:before]
			got, err := do(t.Context(), p.memory)
			if err != nil {
				t.Fatalf("%s: got the error %v, want none", where, err)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: fmt.Sprint(got): got %q, want %q", where, fmt.Sprint(got), fmt.Sprint(want))
			}
			p.lives(t)
			p.compare(t, where)
		}
		p.compareExports(t)
	}
}

// compare looks at money, holds, lines and counters.
func (p *pair) compare(t *testing.T, where string) {
	t.Helper()
	for _, c := range p.consumers {
		var posted, held int64
		var open int
		err := p.owner.QueryRow(t.Context(),
			`SELECT w.posted, w.held, f.n FROM wallet w JOIN key_inflight f ON f.key_id = $2 WHERE w.account_id = $1`,
			[16]byte(c.account), [16]byte(c.key)).Scan(&posted, &held, &open)
		if err != nil {
			t.Fatal(err)
		}
		w := p.memory.Wallet(c.account)
		switch {
		case int64(w.Posted) != posted:
			t.Fatalf("%s: w.Posted: got %d, want %d", where, int64(w.Posted), posted)
		case int64(w.Held) != held:
			t.Fatalf("%s: w.Held: got %d, want %d", where, int64(w.Held), held)
		case p.memory.OpenOf(c.key) != open:
			t.Fatalf("%s: p.memory.OpenOf(c.key): got %d, want %d", where, p.memory.OpenOf(c.key), open)
		}
	}
	var states, lines string
	err := p.owner.QueryRow(t.Context(), `SELECT
		(SELECT coalesce(string_agg(request_id || ' ' || state, ', ' ORDER BY request_id), '') FROM hold),
		(SELECT coalesce(string_agg(request_id || ' ' || source || ' ' || evidence_source || ' ' || charged || ' ' ||
			shortfall || ' ' || payout || ' ' || coalesce(rule, ''), ', ' ORDER BY request_id), '')
			FROM usage_settlement LEFT JOIN held_earning USING (request_id, day, account_id, provider_id, payout))`).Scan(
		&states, &lines)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.states(); got != states {
		t.Fatalf("%s: holds are\n%s, in PostgreSQL\n%s", where, got, states)
	}
	if got := p.lines(); got != lines {
		t.Fatalf("%s: lines are\n%s, in PostgreSQL\n%s", where, got, lines)
	}
}

func (p *pair) states() string {
	var all []string
	for _, h := range p.memory.Holds() {
		all = append(all, fmt.Sprintf("%s %s", h.Request, h.State))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (p *pair) lines() string {
	var all []string
	for _, l := range p.memory.Lines() {
		all = append(all, fmt.Sprintf("%s %s %s %d %d %d %s", l.Event.Request, l.Source, l.Event.EvidenceSource, l.Charged,
			l.Shortfall, l.Payout, l.Held))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
