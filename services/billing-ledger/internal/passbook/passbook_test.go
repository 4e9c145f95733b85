package passbook_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/passbook"
)

var noon = time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)

func TestAPeriodIsDaysOrInstantsWithinItsBound(t *testing.T) {
	t.Parallel()
	day := func(text string) time.Time {
		d, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, tc := range map[string]struct {
		from, to string
		want     passbook.Period
	}{
		"none":         {"", "", passbook.Period{From: day("2026-02-14"), To: day("2026-03-16")}},
		"one day":      {"2026-03-08", "2026-03-08", passbook.Period{From: day("2026-03-08"), To: day("2026-03-09")}},
		"a leap day":   {"2024-02-29", "2024-02-29", passbook.Period{From: day("2024-02-29"), To: day("2024-03-01")}},
		"without from": {"", "2026-03-08", passbook.Period{From: day("2026-02-07"), To: day("2026-03-09")}},
		"instants": {"2026-03-08T02:30:00-05:00", "2026-03-08T09:00:00Z", passbook.Period{
			From: day("2026-03-08").Add(7*time.Hour + 30*time.Minute), To: day("2026-03-08").Add(9 * time.Hour)}},
		"the whole 400": {"2025-01-01", "2026-02-04", passbook.Period{From: day("2025-01-01"), To: day("2026-02-05")}},
	} {
		got, err := passbook.PeriodOf(tc.from, tc.to, noon)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		} else if !got.From.Equal(tc.want.From) {
			t.Errorf("%s: got from %v, want %v", name, got.From, tc.want.From)
		} else if !got.To.Equal(tc.want.To) {
			t.Errorf("%s: got to %v, want %v", name, got.To, tc.want.To)
		}
	}
	for name, tc := range map[string][2]string{
		"401 days": {"2025-01-01", "2026-02-05"}, "backwards": {"2026-03-09", "2026-03-08"}, "a word": {"x", ""},
		"no such day": {"2026-02-30", ""}, "too early": {"1999-12-31", ""}, "too late": {"", "9999-01-01"},
		"overlong": {"", "2026-03-08T09:00:00Z" + strings.Repeat(" ", 100)},
		"nothing":  {"2026-03-08T09:00:00Z", "2026-03-08T09:00:00Z"},
	} {
		if _, err := passbook.PeriodOf(tc[0], tc[1], noon); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %v", name, err, fault.InvalidValue)
		}
	}
	if _, err := passbook.DaysOf("2026-03-08T09:00:00Z", "", noon); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("an instant for a day: got the error %v, want %v", err, fault.InvalidValue)
	}
}

func FuzzAPeriodIsBounded(f *testing.F) {
	f.Add("2026-03-08", "2026-03-08T09:00:00Z")
	f.Fuzz(func(t *testing.T, from, to string) {
		p, err := passbook.PeriodOf(from, to, noon)
		if err != nil {
			return
		}
		if d := p.To.Sub(p.From); d <= 0 || d > passbook.MaxDays*24*time.Hour {
			t.Errorf("%q to %q: got %v, want more than nothing and at most 400 days", from, to, d)
		}
	})
}

func TestACursorIsGoodForItsAccountAndListAlone(t *testing.T) {
	t.Parallel()
	c := passbook.NewCursors([]byte("secret"))
	mine, other := ids.AccountID{1}, ids.AccountID{2}
	place := passbook.Place{At: noon.Add(time.Microsecond), N: 7}
	text := c.Of(passbook.Ledger, mine, place)
	got, err := c.Read(passbook.Ledger, mine, text)
	if err != nil {
		t.Fatal(err)
	}
	if *got != place {
		t.Errorf("got %v, want %v", *got, place)
	}
	refused := map[string]func() error{
		"of another account": func() error { _, err := c.Read(passbook.Ledger, other, text); return err },
		"of another list":    func() error { _, err := c.Read(passbook.Requests, mine, text); return err },
		"of another secret": func() error {
			_, err := passbook.NewCursors([]byte("x")).Read(passbook.Ledger, mine, text)
			return err
		},
		"cut":     func() error { _, err := c.Read(passbook.Ledger, mine, text[1:]); return err },
		"longer":  func() error { _, err := c.Read(passbook.Ledger, mine, text+"A"); return err },
		"a word":  func() error { _, err := c.Read(passbook.Ledger, mine, "next"); return err },
		"changed": func() error { _, err := c.Read(passbook.Ledger, mine, "B"+text[1:]); return err },
	}
	for name, read := range refused {
		if err := read(); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %v", name, err, fault.InvalidValue)
		}
	}
	if got, err := c.Read(passbook.Ledger, mine, ""); err != nil || got != nil {
		t.Errorf("none: got %v, %v, want nil and no error", got, err)
	}
}

func FuzzNoCursorIsReadThatWasNotGiven(f *testing.F) {
	c := passbook.NewCursors([]byte("secret"))
	given := c.Of(passbook.Ledger, ids.AccountID{1}, passbook.Place{At: noon, N: 1})
	f.Add(given)
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := c.Read(passbook.Ledger, ids.AccountID{1}, text); err == nil && p != nil && text != given {
			t.Errorf("%q: got the place %v, want an error", text, *p)
		}
	})
}

func TestTheBurnIsTheMeanOfTheLastDays(t *testing.T) {
	t.Parallel()
	old := noon.AddDate(-1, 0, 0)
	for name, tc := range map[string]struct {
		opened             time.Time
		charged, available money.NanoUSD
		perDay             money.NanoUSD
		left               float64
	}{
		"over six days and a half": {old, 13 * money.USD, 20 * money.USD, 2 * money.USD, 10},
		"of a young account":       {noon.Add(-48 * time.Hour), 2 * money.USD, 3 * money.USD, money.USD, 3},
		"of the first hour":        {noon.Add(-time.Hour), 2 * money.USD, money.USD, 2 * money.USD, 0.5},
		"of nothing":               {old, 0, money.USD, 0, -1},
		"without credit":           {noon.Add(-48 * time.Hour), 2 * money.USD, 0, money.USD, 0},
	} {
		b := passbook.BurnOf(noon, tc.opened, tc.charged, tc.available)
		if b.PerDay != tc.perDay {
			t.Errorf("%s: got %v a day, want %v", name, b.PerDay, tc.perDay)
		}
		if b.DaysLeft != tc.left {
			t.Errorf("%s: got %v days left, want %v", name, b.DaysLeft, tc.left)
		}
	}
}

// hostile is a store of requests whose key has a name that a spreadsheet would run.
type hostile struct {
	passbook.Store
	n int32
}

func (h hostile) Served(
	_ context.Context, _ ids.AccountID, _ passbook.UsageFilter, w passbook.Walk,
) ([]passbook.Served, error) {
	var list []passbook.Served
	at := int32(0)
	if w.Behind != nil {
		at = w.Behind.N
	}
	for at < h.n && len(list) < w.Limit {
		at++
		list = append(list, passbook.Served{Place: passbook.Place{At: noon, N: at}, KeyName: "=cmd|' /C calc'!A0, \"x\"\n",
			Model: "@m"})
	}
	return list, nil
}

func TestAnExportIsWholeAndSafeInASpreadsheet(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	var rows int64
	err := passbook.ExportServed(t.Context(), hostile{n: 2_001}, ids.AccountID{1}, passbook.UsageFilter{},
		func(piece []byte, n int64) error {
			whole.Write(piece)
			rows = n
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if rows != 2_001 {
		t.Errorf("got %d rows, want 2001", rows)
	}
	read, err := csv.NewReader(&whole).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(read) != 2_002 {
		t.Fatalf("got %d rows with the header, want 2002", len(read))
	}
	if got, want := strings.Join(read[0], ",")+"\r\n", passbook.UsageHeader; got != want {
		t.Errorf("header: got %q, want %q", got, want)
	}
	for _, row := range read[1:] {
		for i, cell := range row {
			if cell != "" && strings.ContainsRune("=+@\t\r", rune(cell[0])) {
				t.Fatalf("column %d: got %q, want no cell that is run", i, cell)
			}
		}
	}
	if got := read[1][0]; got != "2026-03-15T12:00:00Z" {
		t.Errorf("time: got %q, want one in UTC", got)
	}
}

func TestExportsAreBoundedForAnAccountAndAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := passbook.NewExports()
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			e.Run(ctx)
			close(stopped)
		}()
		ended := make(chan error)
		hold := func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		begun := 0
		begin := func(id ids.AccountID) {
			begun++
			go func() { ended <- e.Do(t.Context(), id, hold) }()
			synctest.Wait()
		}
		want := func(name string, id ids.AccountID, reason fault.Reason) {
			t.Helper()
			if err := e.Do(t.Context(), id, func(context.Context) error { return nil }); !fault.Is(err, reason) {
				t.Errorf("%s: got the error %v, want %v", name, err, reason)
			}
		}
		for range 2 {
			begin(ids.AccountID{1})
		}
		want("a third of one account", ids.AccountID{1}, fault.ConcurrencyLimitExceeded)
		for n := range byte(14) {
			begin(ids.AccountID{2 + n})
		}
		want("one more of all", ids.AccountID{99}, fault.ConcurrencyLimitExceeded)

		stop()
		<-stopped
		for range begun {
			if err := <-ended; !fault.Is(err, fault.ServiceUnavailable) {
				t.Errorf("when the process stops: got the error %v, want %v", err, fault.ServiceUnavailable)
			}
		}
		want("after the stop", ids.AccountID{1}, fault.ServiceUnavailable)
	})
}

func TestAnExportEndsAfterItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := passbook.NewExports().Do(t.Context(), ids.AccountID{1}, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got the error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}
