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
	if !report.Equal() || report.Compared != 2 || report.Lines != 30 || report.Accruals != 30 {
		t.Errorf("%+v", report)
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
	if report.Compared != 4 || len(report.Differences) != len(want) {
		t.Fatalf("%+v", report)
	}
	for i, slot := range want {
		if report.Differences[i].Slot != slot {
			t.Errorf("difference %d is %+v, want %+v", i, report.Differences[i].Slot, slot)
		}
	}
}

func TestOnlyADifferenceThatStaysIsStanding(t *testing.T) {
	var watch Watch
	moving := func(lines, accruals Sum) Report {
		return Compare(map[Slot]Sum{alice: lines}, nil, map[Slot]Sum{alice: accruals}, day)
	}
	if got := watch.Persistent(moving(Sum{10, 1}, Sum{})); len(got) != 0 {
		t.Errorf("a first sight is standing: %+v", got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{10, 1})); len(got) != 0 {
		t.Errorf("usage under way is standing: %+v", got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{10, 1})); len(got) != 1 {
		t.Errorf("a difference that stayed is not standing: %+v", got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{15, 2})); len(got) != 1 {
		t.Errorf("lines that stand still behind moving accruals are not standing: %+v", got)
	}
	if got := watch.Persistent(moving(Sum{20, 2}, Sum{20, 2})); len(got) != 0 {
		t.Errorf("equal sides have standing differences: %+v", got)
	}
}

func TestFilledLinesAreCountedApart(t *testing.T) {
	side := map[Slot]Sum{alice: {10, 2}, bob: {20, 2}}
	report := Compare(side, map[Slot]Sum{alice: {5, 1}, bob: {20, 2}}, map[Slot]Sum{alice: {10, 3}, bob: {20, 2}}, day)
	if want := (Sum{25, 3}); report.Filled != want {
		t.Errorf("got %+v filled, want %+v", report.Filled, want)
	}
	if len(report.Differences) != 1 || report.Differences[0].Filled != 1 {
		t.Errorf("got differences %+v, want one with a filled line", report.Differences)
	}
}
