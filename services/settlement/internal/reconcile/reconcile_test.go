package reconcile

import (
	"testing"
	"time"

	"svc.internal/pkg/ids"
)

var (
	day   = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	alice = Slot{day, ids.ProviderID{1}}
	bob   = Slot{day, ids.ProviderID{2}}
	later = Slot{day.AddDate(0, 0, 1), ids.ProviderID{1}}
)

func TestEqualSidesHaveNoDifference(t *testing.T) {
	side := map[Slot]Sum{alice: {10, 1}, bob: {20, 2}}
	report := Compare(side, nil, side, day)
	switch {
	case !report.Equal():
		t.Errorf("report.Equal(): got false, want true, with %+v", report)
	case report.Compared != 2:
		t.Errorf("report.Compared: got %d, want 2", report.Compared)
	case report.Lines != 30:
		t.Errorf("report.Lines: got %v, want 30", report.Lines)
	case report.Accruals != 30:
		t.Errorf("report.Accruals: got %v, want 30", report.Accruals)
	}
	if !Compare(nil, nil, nil, day).Equal() {
		t.Error("two empty sides differ")
	}
}

func TestEveryDifferenceIsNamedOnceAndInOrder(t *testing.T) {
	lines := map[Slot]Sum{later: {5, 1}, alice: {10, 1}, bob: {20, 2}}
	accruals := map[Slot]Sum{alice: {10, 2}, bob: {20, 2}, {day, ids.ProviderID{3}}: {1, 1}}
	report := Compare(lines, nil, accruals, day)
	want := []Slot{alice, {day, ids.ProviderID{3}}, later}
	if report.Compared != 4 {
		t.Fatalf("report.Compared: got %d, want 4", report.Compared)
	}
	if len(report.Differences) != len(want) {
		t.Fatalf("len(report.Differences): got %d, want %d, in %+v", len(report.Differences), len(want), report)
	}
	for i, slot := range want {
		if report.Differences[i].Slot != slot {
			t.Errorf("difference %d: got %+v, want %+v", i, report.Differences[i].Slot, slot)
		}
	}
}

func TestOnlyADifferenceThatStaysIsStanding(t *testing.T) {
	var watch Watch
	moving := func(lines, accruals Sum) Report {
		return Compare(map[Slot]Sum{alice: lines}, nil, map[Slot]Sum{alice: accruals}, day)
	}
	if got := watch.Persistent(moving(Sum{10, 1}, Sum{})); len(got) != 0 {
		t.Errorf("standing, of a first sight: got %d, want 0, in %+v", len(got), got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{10, 1})); len(got) != 0 {
		t.Errorf("standing, of usage under way: got %d, want 0, in %+v", len(got), got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{10, 1})); len(got) != 1 {
		t.Errorf("standing, of a difference that stayed: got %d, want 1, in %+v", len(got), got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{15, 2})); len(got) != 1 {
		t.Errorf("standing, of lines still behind moving accruals: got %d, want 1, in %+v", len(got), got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{20, 2})); len(got) != 0 {
		t.Errorf("standing, of equal sides: got %d, want 0, in %+v", len(got), got)
	}
}

func TestFilledLinesAreCountedApart(t *testing.T) {
	side := map[Slot]Sum{alice: {10, 2}, bob: {20, 2}}
	report := Compare(side, map[Slot]Sum{alice: {5, 1}, bob: {20, 2}}, map[Slot]Sum{alice: {10, 3}, bob: {20, 2}}, day)
	if want := (Sum{25, 3}); report.Filled != want {
		t.Errorf("got %+v filled, want %+v", report.Filled, want)
	}
	if len(report.Differences) != 1 {
		t.Errorf("got differences %+v, want one", report.Differences)
	} else if report.Differences[0].Filled != 1 {
		t.Errorf("got the difference %+v, want a filled line", report.Differences[0])
	}
}
