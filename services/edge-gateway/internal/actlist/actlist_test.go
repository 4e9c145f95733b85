package actlist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/acts"
	"svc.internal/pkg/fault"
	actsv1 "svc.internal/proto/svc/acts/v1"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// kept are the acts of a service, as its table answers queries.
type kept struct {
	service string
	acts    []*actsv1.Act
	err     error
	asked   []*actsv1.ActQuery
}

func (k *kept) list(_ context.Context, q *actsv1.ActQuery) ([]*actsv1.Act, error) {
	k.asked = append(k.asked, q)
	if k.err != nil {
		return nil, k.err
	}
	all := slices.SortedFunc(slices.Values(k.acts), func(a, b *actsv1.Act) int {
		return cmp.Or(b.GetAt().AsTime().Compare(a.GetAt().AsTime()), cmp.Compare(b.GetActId(), a.GetActId()))
	})
	var out []*actsv1.Act
	for _, a := range all {
		if after := q.GetAfter(); after != nil {
			at := a.GetAt().AsTime().Compare(after.GetAt().AsTime())
			if at > 0 || at == 0 && a.GetActId() >= after.GetActId() {
				continue
			}
		}
		if len(out) < int(q.GetLimit()) {
			out = append(out, &actsv1.Act{ActId: a.GetActId(), At: a.GetAt()})
		}
	}
	return out, nil
}

func (k *kept) source() Source { return Source{Service: k.service, List: k.list} }

// add adds an act, so many seconds after the start.
func (k *kept) add(seconds int) {
	k.acts = append(k.acts, &actsv1.Act{ActId: int64(len(k.acts) + 1),
		At: timestamppb.New(start.Add(time.Duration(seconds) * time.Second))})
}

func named(a *actsv1.Act) string {
	return fmt.Sprintf("%s %s %d", a.GetAt().AsTime().Format(time.TimeOnly), a.GetService(), a.GetActId())
}

func names(page *actsv1.ListActsResponse) (out []string) {
	for _, a := range page.GetList() {
		out = append(out, named(a))
	}
	return out
}

// pages reads a list to its end.
func pages(t *testing.T, l *List, size int32) (all []string, count int) {
	t.Helper()
	req := &actsv1.ListActsRequest{PageSize: size}
	for {
		page, err := l.ListActs(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.GetList()) > int(size) {
			t.Fatalf("a page: got %d acts, want at most %d", len(page.GetList()), size)
		}
		all = append(all, names(page)...)
		if count++; page.GetNextCursor() == "" {
			return all, count
		}
		req.Cursor = page.GetNextCursor()
	}
}

// The acts of three services share four times: pages of every size have each act once, in the
// order of the list.
func TestPagesOverServicesLoseAndDoubleNothing(t *testing.T) {
	services := []*kept{{service: "verifier"}, {service: "billing-ledger"}, {service: "settlement"}}
	r := rand.New(rand.NewPCG(1, 2))
	var want []string
	for range 60 {
		services[r.IntN(3)].add(r.IntN(4))
	}
	var all []*actsv1.Act
	var sources []Source
	for _, k := range services {
		sources = append(sources, k.source())
		for _, a := range k.acts {
			all = append(all, &actsv1.Act{ActId: a.GetActId(), At: a.GetAt(), Service: k.service})
		}
	}
	slices.SortFunc(all, inOrder)
	for _, a := range all {
		want = append(want, named(a))
	}
	l := New(sources, time.Second)
	for _, size := range []int32{1, 2, 3, 7, 20, 59, 60, 61, 100} {
		got, count := pages(t, l, size)
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: got %q, want %q", size, got, want)
		}
		if most := (60 + int(size) - 1) / int(size); count != most {
			t.Errorf("pages of %d: got %d pages, want %d", size, count, most)
		}
	}
}

func TestAnActThatIsAddedMeanwhileMovesNoLaterPage(t *testing.T) {
	k, other := &kept{service: "catalog"}, &kept{service: "verifier"}
	for i := range 4 {
		k.add(i)
		other.add(i)
	}
	l := New([]Source{k.source(), other.source()}, time.Second)
	first, err := l.ListActs(t.Context(), &actsv1.ListActsRequest{PageSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	k.add(9)
	second, err := l.ListActs(t.Context(), &actsv1.ListActsRequest{PageSize: 3, Cursor: first.GetNextCursor()})
	if err != nil {
		t.Fatal(err)
	}
	got := names(second)
	if want := []string{"00:00:02 verifier 3", "00:00:01 catalog 2", "00:00:01 verifier 2"}; !slices.Equal(got, want) {
		t.Errorf("the second page: got %q, want %q", got, want)
	}
}

func TestAServiceThatIsAwayIsNamedAndHidesNoOther(t *testing.T) {
	away := &kept{service: "settlement", err: fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")}
	there := &kept{service: "catalog"}
	there.add(1)
	l := New([]Source{away.source(), there.source()}, time.Second)
	page, err := l.ListActs(t.Context(), &actsv1.ListActsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(page), []string{"00:00:01 catalog 1"}; !slices.Equal(got, want) {
		t.Errorf("the list: got %q, want %q", got, want)
	}
	if !slices.Equal(page.GetMissing(), []string{"settlement"}) {
		t.Errorf("missing: got %q, want settlement", page.GetMissing())
	}
	if _, err := l.ListActs(t.Context(), &actsv1.ListActsRequest{Service: "settlement"}); !fault.Is(err,
		fault.ServiceUnavailable) {
		t.Errorf("no service that was asked answers: got %v, want %s", err, fault.ServiceUnavailable)
	}
}

func TestAServiceThatHangsIsAwayAfterTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := Source{Service: "verifier", List: func(ctx context.Context, _ *actsv1.ActQuery) ([]*actsv1.Act, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		there := &kept{service: "catalog"}
		there.add(1)
		begun := time.Now()
		page, err := New([]Source{hangs, there.source()}, Timeout).ListActs(t.Context(), &actsv1.ListActsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != Timeout {
			t.Errorf("the page took %v, want %v", took, Timeout)
		}
		if got, want := names(page), []string{"00:00:01 catalog 1"}; !slices.Equal(got, want) {
			t.Errorf("the list: got %q, want %q", got, want)
		}
		if !slices.Equal(page.GetMissing(), []string{"verifier"}) {
			t.Errorf("missing: got %q, want verifier", page.GetMissing())
		}
	})
}

func TestAFilterGoesToTheServicesThatItIsFor(t *testing.T) {
	k, other := &kept{service: "catalog"}, &kept{service: "verifier"}
	l := New([]Source{k.source(), other.source()}, time.Second)
	req := &actsv1.ListActsRequest{Service: "catalog", Operator: "alice@0189", Subject: "a/b",
		Since: "2026-11-01T01:00:00+01:00", Until: "2026-11-01T01:00:00Z", PageSize: acts.MaxPage}
	if _, err := l.ListActs(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if len(other.asked) != 0 {
		t.Errorf("the other service: got %d calls, want 0", len(other.asked))
	}
	q := k.asked[0]
	if got, want := q.GetOperator()+" on "+q.GetSubject(), "alice@0189 on a/b"; got != want {
		t.Errorf("the query: got %s, want %s", got, want)
	}
	if got := q.GetSince().AsTime(); !got.Equal(start) {
		t.Errorf("since: got %v, want %v", got, start)
	}
	if got, want := q.GetUntil().AsTime(), start.Add(time.Hour); !got.Equal(want) {
		t.Errorf("until: got %v, want %v", got, want)
	}
	if q.GetLimit() != acts.MaxLimit {
		t.Errorf("the query's limit: got %d, want %d", q.GetLimit(), acts.MaxLimit)
	}
}

// A service that answers with more than it was asked for makes no page longer.
func TestAnAnswerIsCutAtItsLimit(t *testing.T) {
	var many []*actsv1.Act
	for i := range 500 {
		many = append(many, &actsv1.Act{ActId: int64(1000 - i), At: timestamppb.New(start)})
	}
	s := Source{Service: "catalog", List: func(context.Context, *actsv1.ActQuery) ([]*actsv1.Act, error) {
		return many, nil
	}}
	answers := New([]Source{s}, time.Second).ask(t.Context(), []Source{s}, func(string) *actsv1.ActQuery {
		return &actsv1.ActQuery{Limit: 3}
	})
	if got := len(answers[0].list); got != 3 {
		t.Errorf("acts that are kept: got %d, want 3", got)
	}
}

func TestWhatIsNoRequestIsRefused(t *testing.T) {
	k := &kept{service: "catalog"}
	l := New([]Source{k.source()}, time.Second)
	for name, req := range map[string]*actsv1.ListActsRequest{
		"an operator in capitals": {Operator: "Alice"},
		"an unknown service":      {Service: "router"},
		"a long subject":          {Subject: string(make([]byte, 300))},
		"a long page":             {PageSize: acts.MaxPage + 1},
		"a page below zero":       {PageSize: -1},
		"no cursor":               {Cursor: "?"},
		"a cursor of nothing":     {Cursor: "e30"},
		"a day":                   {Since: "2026-11-01"},
		"no time":                 {Until: "yesterday"},
	} {
		if _, err := l.ListActs(t.Context(), req); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got %v, want %s", name, err, fault.InvalidValue)
		}
	}
	if len(k.asked) != 0 {
		t.Errorf("the service: got %d calls, want 0", len(k.asked))
	}
	k.err = fault.New(fault.Invalid, fault.InvalidValue, "no")
	if _, err := l.ListActs(t.Context(), &actsv1.ListActsRequest{}); !errors.Is(err, k.err) {
		t.Errorf("a refusal of a service: got %v, want it", err)
	}
}
