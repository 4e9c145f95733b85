package store_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/store"
	"svc.internal/services/billing-ledger/internal/usage"
	"svc.internal/services/billing-ledger/internal/webhook"
)

// hooks are the endpoints of a ledger's accounts.
type hooks struct {
	*env
	kept  store.Webhooks
	owner *webhook.Endpoints
}

func newHooks(t testing.TB) *hooks {
	t.Helper()
	e := setup(t, unlimited)
	sealer, err := webhook.NewSealer(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	kept := store.Webhooks{Store: e.store}
	return &hooks{e, kept, &webhook.Endpoints{Store: kept, Sealer: sealer, Clock: clock.System, Random: rand.Reader,
		Wake: func() {}}}
}

// endpoint adds an endpoint.
func (h *hooks) endpoint(t testing.TB, c consumer, kinds ...accountevent.Kind) webhook.Endpoint {
	t.Helper()
	e, _, err := h.owner.Create(t.Context(), webhook.Endpoint{Account: c.account, URL: "https://example.org/hook",
		Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// happen has so many events happen to an account, and hands them out.
func (h *hooks) happen(t testing.TB, c consumer, n int) (dropped int) {
	t.Helper()
	if _, err := h.pool.Exec(t.Context(), `INSERT INTO account_event (id, account_id, kind, data)
		SELECT gen_random_uuid(), $1, 'payout.confirmed', '{}' FROM generate_series(1, $2)`, c.account, n); err != nil {
		t.Fatal(err)
	}
	return h.fanOut(t)
}

func (h *hooks) fanOut(t testing.TB) (dropped int) {
	t.Helper()
	for {
		n, more, err := h.kept.FanOut(t.Context(), webhook.FanBatch)
		if err != nil {
			t.Fatal(err)
		}
		if dropped += n; !more {
			return dropped
		}
	}
}

// turns takes what is due.
func (h *hooks) turns(t testing.TB, busy ...ids.AccountID) []webhook.Turn {
	t.Helper()
	turns, err := h.kept.TakeTurns(t.Context(), webhook.Room{Full: busy, All: 100, Failing: 100})
	if err != nil {
		t.Fatal(err)
	}
	return turns
}

func (h *hooks) turn(t testing.TB) webhook.Turn {
	t.Helper()
	turns := h.turns(t)
	if len(turns) != 1 {
		t.Fatalf("turns: got %d, want 1", len(turns))
	}
	return turns[0]
}

func (h *hooks) end(t testing.TB, turn webhook.Turn, status int) webhook.Next {
	t.Helper()
	r := webhook.Result{Status: status}
	if status/100 != 2 {
		r.Problem = webhook.BadStatus
	}
	next, err := h.kept.EndTurn(t.Context(), turn, r)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// pass lets time pass for all endpoints.
func (h *hooks) pass(t testing.TB, d time.Duration) {
	t.Helper()
	h.exec(t, `UPDATE webhook SET next_at = next_at - $1::interval, busy_until = busy_until - $1::interval,
		paused_until = paused_until - $1::interval, failing_since = failing_since - $1::interval`, d)
	h.exec(t, `UPDATE webhook_delivery SET due_at = due_at - $1::interval, first_at = first_at - $1::interval`, d)
}

// told counts the events of a kind that an account is to hear.
func (h *hooks) told(t testing.TB, c consumer, kind accountevent.Kind) int64 {
	t.Helper()
	return scan[int64](t, h.env, `SELECT count(*) FROM account_event WHERE account_id = $1 AND kind = $2`, c.account, kind)
}

func (h *hooks) spend(t testing.TB, c consumer, tokens int64) {
	t.Helper()
	r := h.reservation(t, c, tokens)
	h.admitOne(t, r, hold.Admitted)
	h.settle(t, usage.Settled, h.served(t, r, tokens))
}

func TestALowBalanceIsToldByTheTransactionThatSettlesAndOnceUntilItHasRisen(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, money.USD)
	if err := h.owner.SetLow(t.Context(), c.account, 50*cent); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func()
		want int64
	}{
		{"49 cents spent of a dollar", func() { h.spend(t, c, 49) }, 0},
		{"a cent more", func() { h.spend(t, c, 1) }, 0},
		{"and one more, which falls below 50", func() { h.spend(t, c, 1) }, 1},
		{"another", func() { h.spend(t, c, 1) }, 1},
		{"risen by 4 cents, less than a tenth above", func() { h.grant(t, c, 4*cent); h.spend(t, c, 4) }, 1},
		{"risen to 55 cents", func() { h.grant(t, c, 7*cent) }, 1},
		{"fallen again", func() { h.spend(t, c, 6) }, 2},
		{"set above the balance", func() {
			if err := h.owner.SetLow(t.Context(), c.account, money.USD); err != nil {
				t.Error(err)
			}
			h.spend(t, c, 1)
		}, 2},
		{"never", func() {
			if err := h.owner.SetLow(t.Context(), c.account, 0); err != nil {
				t.Error(err)
			}
			h.spend(t, c, 1)
		}, 2},
	} {
		step.do()
		if got := h.told(t, c, accountevent.BalanceLow); got != step.want {
			t.Errorf("%s: events: got %d, want %d", step.name, got, step.want)
		}
	}
	want := fmt.Sprintf(`{"account_id": "%s", "balance_usd_str": "0.49", "threshold_usd_str": "0.50"}`, c.account)
	if got := scan[string](t, h.env, `SELECT data::text FROM account_event ORDER BY at LIMIT 1`); got != want {
		t.Errorf("data: got %s, want %s", got, want)
	}
	h.sound(t)
}

func (h *hooks) grant(t testing.TB, c consumer, amount money.NanoUSD) {
	t.Helper()
	if _, _, err := h.accounts.Grant(t.Context(), c.account, amount, rand.Text(), "test"); err != nil {
		t.Fatal(err)
	}
}

func TestAnEndpointHearsItsKindsAndNothingWhileItIsNotEnabled(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c, other := h.consumer(t, 0), h.consumer(t, 0)
	all, low := h.endpoint(t, c), h.endpoint(t, c, accountevent.BalanceLow)
	off, foreign := h.endpoint(t, c), h.endpoint(t, other)
	no := false
	if _, err := h.owner.Change(t.Context(), c.account, off.ID, webhook.Change{Enabled: &no}); err != nil {
		t.Fatal(err)
	}
	h.happen(t, c, 1)
	for name, tc := range map[string]struct {
		id   webhook.ID
		want int64
	}{"of all kinds": {all.ID, 1}, "of another kind": {low.ID, 0}, "not enabled": {off.ID, 0}, "another's": {foreign.ID, 0}} {
		got := scan[int64](t, h.env, `SELECT count(*) FROM webhook_delivery WHERE webhook_id = $1`, tc.id)
		if got != tc.want {
			t.Errorf("an endpoint %s: deliveries: got %d, want %d", name, got, tc.want)
		}
	}
	if _, err := h.owner.Change(t.Context(), other.account, all.ID, webhook.Change{}); !fault.Is(err, fault.WebhookNotFound) {
		t.Errorf("another's change: got %v, want the reason %s", err, fault.WebhookNotFound)
	}
	if err := h.owner.Delete(t.Context(), other.account, all.ID); !fault.Is(err, fault.WebhookNotFound) {
		t.Errorf("another's deletion: got %v, want the reason %s", err, fault.WebhookNotFound)
	}
}

func TestAnAccountHasTenEndpointsAtMostHoweverManyAreAddedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	var group sync.WaitGroup
	for range 14 {
		group.Go(func() {
			_, _, err := h.owner.Create(t.Context(), webhook.Endpoint{Account: c.account, URL: "https://example.org/"})
			if err != nil && !fault.Is(err, fault.TooManyWebhooks) {
				t.Errorf("got %v, want none or the reason %s", err, fault.TooManyWebhooks)
			}
		})
	}
	group.Wait()
	if n := scan[int64](t, h.env, `SELECT count(*) FROM webhook`); n != webhook.MaxEndpoints {
		t.Errorf("endpoints: got %d, want %d", n, webhook.MaxEndpoints)
	}
}

func TestAnEventIsTriedFiveTimesWithinADayAndThenGivenUp(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	id := h.endpoint(t, c).ID
	h.happen(t, c, 1)
	pauses := []time.Duration{5 * time.Minute, 25 * time.Minute, 3*time.Hour + 30*time.Minute, 20 * time.Hour}
	for i, pause := range pauses {
		turn := h.turn(t)
		if turn.Attempt != i+1 {
			t.Errorf("attempt: got %d, want %d", turn.Attempt, i+1)
		}
		h.end(t, turn, 500)
		h.pass(t, pause-30*time.Second)
		if n := len(h.turns(t)); n != 0 {
			t.Errorf("turns half a minute before try %d: got %d, want 0", i+2, n)
		}
		h.pass(t, 30*time.Second)
	}
	h.end(t, h.turn(t), 500)
	h.pass(t, 48*time.Hour)
	if n := len(h.turns(t)); n != 0 {
		t.Errorf("turns after the fifth try: got %d, want 0", n)
	}
	list, _, err := h.owner.Deliveries(t.Context(), c.account, id, webhook.Place{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if d := list[0]; d.State != webhook.Failed || d.Attempt != 5 || d.Status != 500 {
		t.Errorf("delivery: got %+v, want failed after 5 tries, status 500", d)
	}
}

// Whoever dies between the sending and its mark has sent a message that is sent again, and
// none is lost.
func TestATurnThatNobodyEndsIsTakenAgainAfterItsLease(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	h.endpoint(t, c)
	h.happen(t, c, 1)
	died := h.turn(t)
	if n := len(h.turns(t)); n != 0 {
		t.Fatalf("turns within the lease: got %d, want 0", n)
	}
	h.pass(t, webhook.Lease)
	again := h.turn(t)
	if again.Message.ID != died.Message.ID {
		t.Errorf("message: got %s, want %s again", again.Message.ID, died.Message.ID)
	}
	h.end(t, died, 500) // it was only slow, and its lease is another's
	if got := h.end(t, again, 200).State; got != webhook.Delivered {
		t.Errorf("state: got %s, want %s", got, webhook.Delivered)
	}
	if n := scan[int64](t, h.env, `SELECT attempt FROM webhook_delivery`); n != 1 {
		t.Errorf("attempts that count: got %d, want 1", n)
	}
}

func TestTwoReplicasNeverSendToOneEndpointAtOnce(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	for range 20 {
		c := h.consumer(t, 0)
		h.endpoint(t, c)
		h.happen(t, c, 2)
	}
	var mu sync.Mutex
	taken := map[webhook.ID]int{}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			turns, err := h.kept.TakeTurns(t.Context(), webhook.Room{All: 100, Failing: 100})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, turn := range turns {
				taken[turn.Endpoint]++
			}
		})
	}
	group.Wait()
	for _, turn := range h.turns(t) {
		taken[turn.Endpoint]++
	}
	if len(taken) != 20 {
		t.Errorf("endpoints with a turn: got %d, want 20", len(taken))
	}
	for id, n := range taken {
		if n != 1 {
			t.Errorf("turns of %s: got %d, want 1", id, n)
		}
	}
}

// Hostile: 10,000 events of one account wait beside one of another.
func TestAFloodOfOneAccountIsBoundedAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	loud, quiet := h.consumer(t, 0), h.consumer(t, 0)
	flooded := h.endpoint(t, loud)
	h.endpoint(t, loud)
	small := h.endpoint(t, quiet)
	dropped := h.happen(t, loud, 5000) // on each of two endpoints
	h.happen(t, quiet, 1)
	if want := 2*5000 - webhook.MaxWaiting; dropped != want {
		t.Errorf("dropped: got %d, want %d", dropped, want)
	}
	turns := h.turns(t)
	if len(turns) != 2 {
		t.Errorf("turns in the first round: got %d, want one of each account", len(turns))
	}
	served := false
	for _, turn := range turns {
		served = served || turn.Endpoint == small.ID
	}
	if !served {
		t.Error("the other account is served in the first round: got false, want true")
	}
	if n := len(h.turns(t, loud.account)); n != 0 {
		t.Errorf("turns beside an account that has enough: got %d, want 0", n)
	}
	list, _, err := h.owner.List(t.Context(), loud.account)
	if err != nil {
		t.Fatal(err)
	}
	if got := list[0].Dropped + list[1].Dropped; got != dropped {
		t.Errorf("the owner is told of: got %d, want %d", got, dropped)
	}
	if n := scan[int64](t, h.env, `SELECT count(*) FROM webhook_delivery WHERE state = 'waiting' AND webhook_id = $1`,
		flooded.ID); n > webhook.MaxWaiting {
		t.Errorf("waiting: got %d, want at most %d", n, webhook.MaxWaiting)
	}
}

func TestTheSecretBeforeSignsUntilItsOverlapIsOver(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	e := h.endpoint(t, c)
	h.happen(t, c, 2)
	rotated, secret, err := h.owner.Rotate(t.Context(), c.account, e.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(rotated.Former) != 1 {
		t.Errorf("former secrets: got %d, want 1", len(rotated.Former))
	}
	if secret.Reveal() == "" {
		t.Error("the new secret: got none, want one")
	}
	turn := h.turn(t)
	if n := len(turn.Secrets); n != 2 {
		t.Errorf("secrets that sign: got %d, want 2", n)
	}
	h.end(t, turn, 200)
	h.exec(t, `UPDATE webhook SET previous_until = now()`)
	if n := len(h.turn(t).Secrets); n != 1 {
		t.Errorf("secrets that sign after the overlap: got %d, want 1", n)
	}
	if n := scan[int64](t, h.env, `SELECT count(*) FROM webhook WHERE position($1::bytea IN secret) > 0`,
		[]byte(webhook.SecretPrefix)); n != 0 {
		t.Errorf("secrets that can be read in the database: got %d, want 0", n)
	}
}

// TestEachFormerSecretSignsForItsWholeOverlap changes a secret more often than the table has room for.
func TestEachFormerSecretSignsForItsWholeOverlap(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	e := h.endpoint(t, c)
	h.happen(t, c, 3)
	rotate := func() error {
		_, _, err := h.owner.Rotate(t.Context(), c.account, e.ID)
		return err
	}
	sign := func(when string, want int) {
		turn := h.turn(t)
		if n := len(turn.Secrets); n != want {
			t.Errorf("%s: secrets that sign: got %d, want %d", when, n, want)
		}
		for i, sealed := range turn.Secrets {
			if slices.ContainsFunc(turn.Secrets[:i], func(other []byte) bool { return bytes.Equal(other, sealed) }) {
				t.Errorf("%s: secret %d: got one that signs already, want another", when, i)
			}
		}
		h.end(t, turn, 200)
	}
	for n := range webhook.MaxFormer {
		if err := rotate(); err != nil {
			t.Errorf("change %d: got the error %v, want none", n+1, err)
		}
	}
	sign("after two changes", 3)
	refused, ok := fault.As(rotate())
	if !ok {
		t.Fatal("a third change: got no fault, want one")
	}
	if refused.Reason != fault.TransitionNotAllowed {
		t.Errorf("reason of a third change: got %s, want %s", refused.Reason, fault.TransitionNotAllowed)
	}
	if refused.Kind != fault.Precondition {
		t.Errorf("kind of a third change: got %v, want %v", refused.Kind, fault.Precondition)
	}
	text := "another text"
	if _, err := h.owner.Change(t.Context(), c.account, e.ID, webhook.Change{Description: &text}); err != nil {
		t.Fatal(err)
	}
	sign("after a refusal and another change", 3)
	h.exec(t, `UPDATE webhook SET earlier_until = now()`)
	if err := rotate(); err != nil {
		t.Errorf("a change after the first overlap: got the error %v, want none", err)
	}
	sign("after three changes and one overlap", 3)
}

func TestWhatIsDeletedOrDroppedWhileItIsSentEndsQuietly(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	deleted := h.endpoint(t, c)
	h.happen(t, c, 1)
	turn := h.turn(t)
	if err := h.owner.Delete(t.Context(), c.account, deleted.ID); err != nil {
		t.Fatal(err)
	}
	h.end(t, turn, 200)

	h.endpoint(t, c)
	h.happen(t, c, 2)
	turn = h.turn(t)
	h.exec(t, `UPDATE webhook_delivery SET state = 'dropped', due_at = NULL WHERE event_id = $1`, turn.Message.ID)
	h.end(t, turn, 200)
	if next := h.turn(t); next.Message.ID == turn.Message.ID {
		t.Errorf("next message: got %s again, want the other", next.Message.ID)
	}
	h.exec(t, `UPDATE webhook_delivery SET state = 'dropped', due_at = NULL`)
	h.pass(t, webhook.Lease)
	if n := len(h.turns(t)); n != 0 {
		t.Errorf("turns without a delivery: got %d, want 0", n)
	}
	if n := scan[int64](t, h.env, `SELECT count(*) FROM webhook WHERE next_at IS NOT NULL OR busy_until IS NOT NULL`); n != 0 {
		t.Errorf("endpoints that wait for nothing: got %d, want 0", n)
	}
}

func TestAnEventOfAProviderIsKeptOnceForTheAccountOfItsUser(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	provider, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h.exec(t, `INSERT INTO app_user VALUES (gen_random_uuid(), 'a@x', '', '$argon2id$v=19$m=1', $1, $2)`, c.account, provider)
	nobody, err := ids.NewProvider(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var list []accountevent.Event
	for _, p := range []ids.ProviderID{provider, nobody} {
		id, err := accountevent.NewID(time.Now(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, accountevent.Event{ID: id, Kind: accountevent.PayoutConfirmed, Provider: p, At: time.Now(),
			Data: []byte(`{"a":1}`)})
	}
	for range 2 {
		if err := h.kept.KeepEvents(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.told(t, c, accountevent.PayoutConfirmed); n != 1 {
		t.Errorf("events of the account: got %d, want 1", n)
	}
	if n := scan[int64](t, h.env, `SELECT count(*) FROM account_event`); n != 1 {
		t.Errorf("events: got %d, want 1", n)
	}
}

func TestDeliveriesAreListedByPagesNewestFirst(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	id := h.endpoint(t, c).ID
	h.happen(t, c, 7)
	seen := map[accountevent.ID]bool{}
	var place webhook.Place
	for pages := 1; ; pages++ {
		list, more, err := h.owner.Deliveries(t.Context(), c.account, id, place, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			seen[d.Event] = true
			place = webhook.Place{Made: d.Made, Event: d.Event}
		}
		if !more {
			if pages != 3 {
				t.Errorf("pages: got %d, want 3", pages)
			}
			break
		}
	}
	if len(seen) != 7 {
		t.Errorf("deliveries: got %d, want 7", len(seen))
	}
}

func TestATestIsSentOnceInTenSeconds(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	c := h.consumer(t, 0)
	id := h.endpoint(t, c, accountevent.PenaltyCreated).ID
	event, err := h.owner.Test(t.Context(), c.account, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.owner.Test(t.Context(), c.account, id); !fault.Is(err, fault.RateLimitExceeded) {
		t.Errorf("a second: got %v, want the reason %s", err, fault.RateLimitExceeded)
	}
	turn := h.turn(t)
	if turn.Message.ID != event {
		t.Errorf("message: got %s, want %s", turn.Message.ID, event)
	}
	if turn.Message.Kind != accountevent.Test {
		t.Errorf("kind: got %s, want %s", turn.Message.Kind, accountevent.Test)
	}
	if dropped := h.fanOut(t); dropped != 0 || scan[int64](t, h.env, `SELECT count(*) FROM webhook_delivery`) != 1 {
		t.Errorf("a test is handed out again: got %d dropped and more deliveries, want none", dropped)
	}
}
