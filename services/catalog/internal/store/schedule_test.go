package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/catalog/internal/change"
	"svc.internal/services/catalog/internal/entry"
)

// later is the moment of the tests' changes, whose catalogs begin at noon.
var later = noon.Add(time.Hour)

// dear is what the model "old" is to cost from later on.
var dear = money.Rates{Input: 40, PayoutInput: 36}

// planner is the scheduler of one catalog on the tables.
type planner struct {
	*change.Scheduler
	clock *clock.Manual
}

// planner is a catalog that fails the test where it logs an error, as where two catalogs get in each
// other's way.
func (r *rig) planner(t *testing.T) planner {
	t.Helper()
	c := clock.NewManual(noon)
	log := slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelError})
	return planner{&change.Scheduler{Store: New(r.app), Clock: c, Random: rand.Reader, Log: slog.New(log)}, c}
}

// failing is a log of which each line fails the test.
type failing struct{ t *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.t.Errorf("logged: %s", line)
	return len(line), nil
}

// oldDraft is the model "old" as setup made it.
func oldDraft() entry.Draft {
	return entry.Draft{ID: "old", ContextTokens: 8192, Capabilities: []string{"chat"}}
}

func byAlice(t *testing.T) context.Context {
	t.Helper()
	return actor.WithOperator(t.Context(), "alice@ops")
}

// schedule has "old" be dear from later on.
func (p planner) schedule(t *testing.T) change.Change {
	t.Helper()
	c, err := p.Schedule(byAlice(t), oldDraft(), dear, later)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (p planner) applyDue(t *testing.T) {
	t.Helper()
	if err := p.ApplyDue(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// only is the one change of "old".
func (p planner) only(t *testing.T) change.Change {
	t.Helper()
	list, err := p.List(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("got %d changes, want 1", len(list))
	}
	return list[0]
}

// input is the price in force of "old".
func (r *rig) input(t *testing.T) int64 {
	t.Helper()
	return r.number(t, "SELECT input_pico_usd FROM price_version WHERE model_id = 'old' AND valid_to IS NULL")
}

func (r *rig) number(t *testing.T, query string) int64 {
	t.Helper()
	var n int64
	if err := r.app.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// acts are the actions on "old" beside put_model, with their actors, in their order.
func (r *rig) acts(t *testing.T) string {
	t.Helper()
	var said string
	if err := r.app.QueryRow(t.Context(), `SELECT coalesce(string_agg(actor || ' ' || action, ', ' ORDER BY id), '')
		FROM operator_action WHERE model_id = 'old' AND action <> 'put_model'`).Scan(&said); err != nil {
		t.Fatal(err)
	}
	return said
}

func TestAChangeHoldsFromItsMomentAndNotBefore(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	draft := oldDraft()
	draft.Name, draft.DeprecatedAt, draft.Parameters = "dear", later.Add(entry.Notice), []string{"seed"}
	written, err := p.Schedule(byAlice(t), draft, dear, later)
	if err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Hour - time.Microsecond)
	p.applyDue(t)
	switch got := p.only(t); {
	case got.State != change.Scheduled:
		t.Fatalf("before the moment: got %s, want %s", got.State, change.Scheduled)
	case !got.From.Equal(later):
		t.Errorf("what waits, from: got %v, want %v", got.From, later)
	case !got.Draft.Equal(written.Draft):
		t.Errorf("what waits: got %+v, want %+v", got.Draft, written.Draft)
	case got.Rates != dear:
		t.Errorf("what waits: got %+v, want %+v", got.Rates, dear)
	case !got.Base.Same(written.Base):
		t.Errorf("the base: got %+v, want %+v", got.Base, written.Base)
	}
	p.clock.Advance(time.Microsecond)
	p.applyDue(t)
	_, models, _, err := r.store.Load(t.Context(), -1)
	if err != nil {
		t.Fatal(err)
	}
	switch m := models[0]; {
	case !m.Equal(written.Draft):
		t.Errorf("the model: got %+v, want %+v", m.Draft, written.Draft)
	case m.Price.Rates != dear:
		t.Errorf("the price: got %+v, want %+v", m.Price.Rates, dear)
	case !m.Price.ValidFrom.Equal(later):
		t.Errorf("the price is valid from: got %v, want %v", m.Price.ValidFrom, later)
	case !m.Coming.From.IsZero():
		t.Errorf("a price to come: got %+v, want none", m.Coming)
	}
	switch done := p.only(t); {
	case done.State != change.Applied:
		t.Errorf("the change: got %s, want %s", done.State, change.Applied)
	case done.Price != models[0].Price.ID:
		t.Errorf("its price version: got %s, want %s", done.Price, models[0].Price.ID)
	case done.EndedBy != "":
		t.Errorf("ended by: got %q, want nobody but the catalog", done.EndedBy)
	}
	const want = "operator:alice@ops schedule_model_change, operator:alice@ops apply_model_change"
	if got := r.acts(t); got != want {
		t.Errorf("audit entries: got %q, want %q", got, want)
	}
}

func TestALookForChangesIsLeftOutOnlyWhileNoneIsDue(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	st := New(r.app)
	still := st.ChangeDue()
	still.Holds(t.Context()) // the first look is made
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"without a change", func() {}, true},
		{"with a change whose moment has passed on the server", func() { p.schedule(t) }, false},
		{"after it was applied", func() { p.clock.Advance(time.Hour); p.applyDue(t) }, true},
	} {
		step.do()
		st.lull.Wrote()
		if got := still.Holds(t.Context()); got != step.want {
			t.Errorf("%s: got a look left out %v, want %v", step.name, got, step.want)
		}
	}
}

func TestAPriceToComeIsLoadedWithTheModel(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	before := r.number(t, "SELECT revision FROM revision")
	c := p.schedule(t)
	coming := func() entry.Model {
		t.Helper()
		_, models, changed, err := r.store.Load(t.Context(), before)
		switch {
		case err != nil:
			t.Fatal(err)
		case !changed:
			t.Fatal("the revision did not move")
		}
		return models[0]
	}
	switch m := coming(); {
	case !m.Coming.From.Equal(later):
		t.Errorf("to come from: got %v, want %v", m.Coming.From, later)
	case m.Coming.Rates != dear:
		t.Errorf("to come: got %+v, want %+v", m.Coming.Rates, dear)
	case m.Price.Rates.Input != 20:
		t.Errorf("in force: got %d, want 20", m.Price.Rates.Input)
	}
	before = r.number(t, "SELECT revision FROM revision")
	if _, err := p.Cancel(byAlice(t), "old", c.ID); err != nil {
		t.Fatal(err)
	}
	if m := coming(); !m.Coming.From.IsZero() {
		t.Errorf("to come once it is cancelled: got %+v, want none", m.Coming)
	}
	named := oldDraft()
	named.Name = "named"
	if _, err := p.Schedule(byAlice(t), named, money.Rates{Input: 20, PayoutInput: 18}, later); err != nil {
		t.Fatal(err)
	}
	if m := coming(); !m.Coming.From.IsZero() {
		t.Errorf("to come of a change of the name alone: got %+v, want none", m.Coming)
	}
}

// Two catalogs look at once, again and again: the change is applied by one of them.
func TestOneOfSeveralCatalogsAppliesAChange(t *testing.T) {
	r := setup(t)
	first := r.planner(t)
	first.schedule(t)
	var all sync.WaitGroup
	for range 8 {
		p := r.planner(t)
		p.clock.Advance(time.Hour)
		all.Go(func() {
			for range 3 {
				if err := p.ApplyDue(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := first.only(t); got.State != change.Applied {
		t.Errorf("the change: got %s, want %s", got.State, change.Applied)
	}
	if n := r.number(t, "SELECT count(*) FROM price_version WHERE input_pico_usd = 40"); n != 1 {
		t.Errorf("versions of the new price: got %d, want 1", n)
	}
	if got := strings.Count(r.acts(t), "apply_model_change"); got != 1 {
		t.Errorf("audit entries that it was applied: got %d, want 1", got)
	}
}

func TestACatalogThatWasAwayAppliesWhatIsDue(t *testing.T) {
	r := setup(t)
	r.planner(t).schedule(t)
	again := r.planner(t) // another process, days later
	again.clock.Advance(72 * time.Hour)
	again.applyDue(t)
	if got := r.input(t); got != 40 {
		t.Errorf("the price: got %d, want 40", got)
	}
	if n := r.number(t, `SELECT count(*) FROM price_version
		WHERE valid_to IS NULL AND valid_from = '2026-11-24 12:00:00Z'`); n != 1 {
		t.Errorf("versions that are valid from when it was applied: got %d, want 1", n)
	}
}

func TestAChangeByAnOperatorRefusesTheOneThatWaits(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	p.schedule(t)
	r.put(t, "old", money.Rates{Input: 20, PayoutInput: 18}, ids.PriceVersionID{3}) // changes nothing
	if got := p.only(t); got.State != change.Scheduled {
		t.Fatalf("after a put that changes nothing: got %s, want %s", got.State, change.Scheduled)
	}
	r.put(t, "old", money.Rates{Input: 30, PayoutInput: 18}, ids.PriceVersionID{4})
	got := p.only(t)
	switch {
	case got.State != change.Refused:
		t.Errorf("got %s, want %s", got.State, change.Refused)
	case !strings.Contains(got.Reason, "input_price"):
		t.Errorf("the reason: got %q, want input_price in it", got.Reason)
	case got.EndedBy != actor.Operator:
		t.Errorf("ended by: got %q, want %q", got.EndedBy, actor.Operator)
	}
	p.clock.Advance(time.Hour)
	p.applyDue(t)
	if input := r.input(t); input != 30 {
		t.Errorf("the price: got %d, want the later wish, 30", input)
	}
}

func TestAChangeByHandRefusesTheOneThatWaitsAtItsMoment(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	p.schedule(t)
	if _, err := r.owner.Exec(t.Context(), "UPDATE model SET name = 'by hand'"); err != nil {
		t.Fatal(err)
	}
	p.clock.Advance(time.Hour)
	p.applyDue(t)
	if got := p.only(t); got.State != change.Refused {
		t.Errorf("got %s, want %s", got.State, change.Refused)
	} else if !strings.HasSuffix(got.Reason, ": name") {
		t.Errorf("the reason: got %q, want it to end in the name", got.Reason)
	}
	if input := r.input(t); input != 20 {
		t.Errorf("the price: got %d, want what it was, 20", input)
	}
	const want = "operator:alice@ops schedule_model_change, operator:alice@ops refuse_model_change"
	if got := r.acts(t); got != want {
		t.Errorf("audit entries: got %q, want %q", got, want)
	}
}

func TestAChangeThatTheDatabaseDoesNotTakeIsRefused(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	taken := oldDraft()
	taken.Slug = "taken"
	r.putDraft(t, entry.Draft{ID: "other", Slug: "taken", ContextTokens: 1}, money.Rates{}, ids.PriceVersionID{5})
	_, err := p.Schedule(byAlice(t), taken, dear, later)
	if f, ok := fault.As(err); !ok {
		t.Fatalf("another model's slug: got the error %v, want a fault", err)
	} else if f.Param != "slug" {
		t.Fatalf("another model's slug: got a fault of %q, want of slug", f.Param)
	}
	if n := r.number(t, "SELECT count(*) FROM model_change"); n != 0 {
		t.Fatalf("changes that were refused when they were written: got %d kept, want 0", n)
	}
	// Taken only after the change was written, and the change behind is not held up.
	taken.Slug = "free-as-yet"
	if _, err := p.Schedule(byAlice(t), taken, dear, later); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Schedule(byAlice(t), entry.Draft{ID: "other", Slug: "taken", ContextTokens: 2}, money.Rates{},
		later.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	r.putDraft(t, entry.Draft{ID: "third", Slug: "free-as-yet", ContextTokens: 1}, money.Rates{}, ids.PriceVersionID{6})
	p.clock.Advance(2 * time.Hour)
	p.applyDue(t)
	if got := p.only(t); got.State != change.Refused {
		t.Errorf("got %s, want %s", got.State, change.Refused)
	} else if got.Reason != "slug is another model's" {
		t.Errorf("the reason: got %q, want that the slug is another model's", got.Reason)
	}
	if input := r.input(t); input != 20 {
		t.Errorf("the price: got %d, want what it was, 20", input)
	}
	if n := r.number(t, "SELECT context_tokens FROM model WHERE model_id = 'other'"); n != 2 {
		t.Errorf("the other model's window: got %d, want 2", n)
	}
}

// Whoever is first wins: a change that an operator could cancel never changed a price.
func TestACancelAndTheMomentNeverBothWin(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	for i := range 10 {
		before := r.input(t)
		after := before + 1
		from := p.clock.Now().Add(time.Hour)
		c, err := p.Schedule(byAlice(t), oldDraft(), money.Rates{Input: money.PicoUSD(after), PayoutInput: 1}, from)
		if err != nil {
			t.Fatal(err)
		}
		p.clock.Advance(time.Hour)
		var refused error
		var both sync.WaitGroup
		both.Go(func() { _, refused = p.Cancel(byAlice(t), "old", c.ID) })
		both.Go(func() {
			if err := p.ApplyDue(t.Context()); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		want := before
		if refused != nil {
			want = after
			if !fault.Is(refused, fault.TransitionNotAllowed) {
				t.Errorf("round %d: got the error %v, want %s", i, refused, fault.TransitionNotAllowed)
			}
		}
		if got := r.input(t); got != want {
			t.Errorf("round %d, cancelled %t: got the price %d, want %d", i, refused == nil, got, want)
		}
	}
}

func TestACancelledChangeIsOverAndAnotherModelsIsNotFound(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	c := p.schedule(t)
	r.put(t, "other", money.Rates{}, ids.PriceVersionID{5})
	for name, try := range map[string]struct {
		model string
		id    ids.ChangeID
	}{"another model's": {"other", c.ID}, "none": {"old", ids.ChangeID{9}}, "no model's": {"none", c.ID},
		"no id": {"old\x00", c.ID}} {
		if _, err := p.Cancel(byAlice(t), try.model, try.id); !fault.Is(err, fault.ChangeNotFound) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.ChangeNotFound)
		}
	}
	for range 2 {
		done, err := p.Cancel(actor.WithOperator(t.Context(), "bob"), "old", c.ID)
		switch {
		case err != nil:
			t.Fatal(err)
		case done.State != change.Cancelled:
			t.Errorf("got %s, want %s", done.State, change.Cancelled)
		case done.EndedBy != "operator:bob":
			t.Errorf("ended by: got %q, want operator:bob", done.EndedBy)
		}
	}
	p.clock.Advance(time.Hour)
	p.applyDue(t)
	if input := r.input(t); input != 20 {
		t.Errorf("the price: got %d, want what it was, 20", input)
	}
	const want = "operator:alice@ops schedule_model_change, operator:bob cancel_model_change"
	if got := r.acts(t); got != want {
		t.Errorf("audit entries: got %q, want %q", got, want)
	}
	for _, id := range []string{"none", "", "old\x00"} {
		if _, err := p.List(t.Context(), id); !fault.Is(err, fault.ModelNotFound) {
			t.Errorf("changes of %q: got the error %v, want %s", id, err, fault.ModelNotFound)
		}
	}
}

func TestOfOneModelOneChangeWaits(t *testing.T) {
	r := setup(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for i := range 6 {
		p := r.planner(t)
		all.Go(func() {
			_, err := p.Schedule(byAlice(t), oldDraft(), money.Rates{Input: money.PicoUSD(50 + i), PayoutInput: 1}, later)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				outcomes["written"]++
			case fault.Is(err, fault.AlreadyExists):
				outcomes["refused"]++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if want := (map[string]int{"written": 1, "refused": 5}); !maps.Equal(outcomes, want) {
		t.Errorf("six at once: got %v, want %v", outcomes, want)
	}
}

// insertWaiting adds changes of as many models by hand, as %d is replaced by.
const insertWaiting = `INSERT INTO model_change (change_id, model_id, state, effective_from, draft, pricing_unit,
		input_pico_usd, output_pico_usd, payout_input_pico_usd, payout_output_pico_usd, payout_cached_input_pico_usd,
		base, base_price_version_id, scheduled_by, scheduled_at)
	SELECT gen_random_uuid(), m.model_id, 'scheduled', '2026-11-21 13:00Z', '{}', 'per_1m_tokens', 0, 0, 0, 0, 0, '{}',
		p.price_version_id, 'operator', '2026-11-21 12:00Z'
	FROM model m JOIN price_version p ON p.model_id = m.model_id AND p.valid_to IS NULL
	WHERE m.model_id <> 'old' ORDER BY m.model_id LIMIT %d`

func TestAtMostAThousandChangesWait(t *testing.T) {
	r := setup(t)
	if _, err := r.owner.Exec(t.Context(), `BEGIN;
		INSERT INTO model SELECT 'm' || n, 'm' || n, 'm', 'llm', 'open', 'free', true, 1, 1, '{}', '{}', now(), NULL
			FROM generate_series(1, 1000) AS n;
		INSERT INTO price_version SELECT gen_random_uuid(), model_id, 0, 0, 0, 0, now(), NULL
			FROM model WHERE model_id <> 'old';
		COMMIT`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.app.Exec(t.Context(), fmt.Sprintf(insertWaiting, change.MaxWaiting)); err != nil {
		t.Fatal(err)
	}
	p := r.planner(t)
	if _, err := p.Schedule(byAlice(t), oldDraft(), dear, later); !fault.Is(err, fault.TooManyChanges) {
		t.Errorf("one more: got the error %v, want %s", err, fault.TooManyChanges)
	}
	if due, err := r.store.Due(t.Context(), later, change.MaxWaiting); err != nil {
		t.Error(err)
	} else if len(due) != change.MaxWaiting {
		t.Errorf("due at once: got %d, want all %d", len(due), change.MaxWaiting)
	}
}

func TestAListOfChangesIsBoundedAndHasTheNewestFirst(t *testing.T) {
	r := setup(t)
	p := r.planner(t)
	var last ids.ChangeID
	for range change.MaxListed + 1 {
		p.clock.Advance(time.Millisecond)
		c := p.schedule(t)
		if _, err := p.Cancel(byAlice(t), "old", c.ID); err != nil {
			t.Fatal(err)
		}
		last = c.ID
	}
	list, err := p.List(t.Context(), "old")
	switch {
	case err != nil:
		t.Error(err)
	case len(list) != change.MaxListed:
		t.Errorf("got %d, want %d", len(list), change.MaxListed)
	case list[0].ID != last:
		t.Errorf("the first: got %s, want the newest, %s", list[0].ID, last)
	}
}

// The application's role speaks SQL, as an injected statement would.
func TestTheDatabaseKeepsScheduledChanges(t *testing.T) {
	r := setup(t)
	r.put(t, "other", money.Rates{}, ids.PriceVersionID{5})
	p := r.planner(t)
	c := p.schedule(t)
	insert := func(from, to string) string {
		return strings.Replace(fmt.Sprintf(insertWaiting, 1), from, to, 1)
	}
	if err := r.try(t, r.app, insert("'{}'", "'{}'")); err != nil {
		t.Fatalf("an honest change: %v", err)
	}
	end := "UPDATE model_change SET state = 'cancelled', ended_by = 'operator', ended_at = now()"
	if err := r.try(t, r.app, end); err != nil {
		t.Fatalf("an honest end: %v", err)
	}
	for _, statement := range []string{
		insert("<> 'old'", "= 'old'"), // a second that waits
		insert("'2026-11-21 13:00Z'", "'2026-11-21 12:00:59Z'"), insert("'2026-11-21 13:00Z'", "'2027-02-19 12:00:01Z'"),
		insert("'scheduled'", "'applied'"), insert("'scheduled'", "'waiting'"), insert("'{}'", "'[]'"),
		insert("'{}'", "jsonb_build_object('x', repeat('x', 16384))"), insert("'per_1m_tokens'", "'per_token'"),
		insert("0, 0, 0, 0, 0", "1, 0, 2, 0, 0"), insert("'operator'", "'alice'"),
		"UPDATE model_change SET state = 'cancelled'",
		"UPDATE model_change SET state = 'refused', ended_at = now()",
		"UPDATE model_change SET state = 'applied', ended_at = now(), price_version_id = NULL",
		"UPDATE model_change SET state = 'applied', ended_at = '2026-11-21 12:59:59Z', " +
			"price_version_id = base_price_version_id",
		"UPDATE model_change SET input_pico_usd = 1", "UPDATE model_change SET effective_from = now()",
		"DELETE FROM model_change", "TRUNCATE model_change",
	} {
		if err := r.try(t, r.app, statement); err == nil {
			t.Errorf("the application role may: %s", statement)
		}
	}
	if _, err := p.Cancel(byAlice(t), "old", c.ID); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"UPDATE model_change SET state = 'scheduled', ended_at = NULL, ended_by = ''",
		"UPDATE model_change SET ended_by = 'operator:eve'", "UPDATE model_change SET input_pico_usd = 1",
		"DELETE FROM model_change", "TRUNCATE model_change",
	} {
		if err := r.try(t, r.owner, statement); err == nil {
			t.Errorf("the owner may, once it has ended: %s", statement)
		}
	}
}
