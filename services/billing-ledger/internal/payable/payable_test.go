package payable

import (
	"errors"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func TestOneInvoiceHasOneNumberHoweverItIsTyped(t *testing.T) {
	for text, want := range map[string]Number{
		"INV-7": "INV-7", " inv-7 ": "INV-7", "2026/11 #4": "2026/11 #4", "a": "A",
		"": "", "  ": "", "-7": "", "7-": "", "ä7": "", "a\nb": "", "a\x00b": "",
		strings.Repeat("1", 64): Number(strings.Repeat("1", 64)), strings.Repeat("1", 65): "",
	} {
		n, ok := ParseNumber(text)
		if ok != (want != "") {
			t.Errorf("%q: got ok %t, want %t", text, ok, want != "")
		}
		if ok && n != want {
			t.Errorf("%q: got %q, want %q", text, n, want)
		}
	}
}

func TestWhatIsNoInvoiceIsRefused(t *testing.T) {
	good := Invoice{Vendor: ids.ProviderID{1}, Number: "1", Amount: money.USD, Counted: money.USD + 1, Note: "n"}
	if err := good.validate(); err != nil {
		t.Fatalf("a good invoice: got the error %v, want none", err)
	}
	for name, spoil := range map[string]func(*Invoice){
		"nothing":          func(i *Invoice) { i.Amount = 0 },
		"less":             func(i *Invoice) { i.Amount = -money.USD },
		"part of a cent":   func(i *Invoice) { i.Amount++ },
		"more than booked": func(i *Invoice) { i.Amount = 500_000_001 * money.USD },
		"nothing counted":  func(i *Invoice) { i.Counted = 0 },
		"too much counted": func(i *Invoice) { i.Counted = 500_000_001 * money.USD },
		"no note":          func(i *Invoice) { i.Note = "" },
		"a long note":      func(i *Invoice) { i.Note = strings.Repeat("n", 201) },
	} {
		spoiled := good
		spoil(&spoiled)
		if err := spoiled.validate(); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.InvalidValue)
		}
	}
	if _, err := (&Payables{}).Pay(t.Context(), good); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("an operator without a name: got the error %v, want %s", err, fault.InvalidValue)
	}
}

func TestWhatACallForAnInvoiceDoes(t *testing.T) {
	const alice, bob, machine = "operator:alice@1", "operator:bob@2", "operator:bot"
	p := &Payables{NewEntry: func() (ids.EntryID, error) { return ids.EntryID{1}, nil }}
	of := func(amount, counted money.NanoUSD) Invoice {
		return Invoice{Vendor: ids.ProviderID{1}, Number: "1", Amount: amount, Counted: counted, Note: "n"}
	}
	paid := func(i Invoice) *Payment { return &Payment{Invoice: i, AskedBy: alice, PaidBy: alice} }
	asked := func(i Invoice) *Payment { return &Payment{Invoice: i, AskedBy: alice} }
	small, same, large := of(3*money.USD, 2*money.USD), of(2*money.USD, 2*money.USD), of(One+1, One+1)
	for name, tc := range map[string]struct {
		invoice Invoice
		before  *Payment
		owed    money.NanoUSD
		by      string
		state   State
		entries int
		err     error
	}{
		"a small one":                          {same, nil, 2 * money.USD, machine, Paid, 1, nil},
		"a small one that differs":             {small, nil, 2 * money.USD, machine, Paid, 2, nil},
		"more than is owed":                    {small, nil, 2*money.USD - 1, alice, "", 0, ErrNotOwed},
		"a small one again, when all is paid":  {same, paid(same), 0, bob, Paid, 0, nil},
		"a paid one with another amount":       {small, paid(same), One, alice, "", 0, ErrDiffers},
		"a paid one with another count":        {of(2*money.USD, 1), paid(same), One, alice, "", 0, ErrDiffers},
		"exactly the bound":                    {of(One, One), nil, One, machine, Paid, 1, nil},
		"a large one":                          {large, nil, 2 * One, alice, Waiting, 0, nil},
		"a large one of a machine":             {large, nil, 2 * One, machine, "", 0, ErrMachine},
		"a large one again":                    {large, asked(large), 0, alice, Waiting, 0, nil},
		"a large one by a second":              {large, asked(large), 2 * One, bob, Paid, 1, nil},
		"a large one by a second, not owed":    {large, asked(large), One, bob, "", 0, ErrNotOwed},
		"a large one by a second, a machine":   {large, asked(large), 2 * One, machine, "", 0, ErrMachine},
		"a large one that differs by a second": {of(One+2, One+2), asked(large), 2 * One, bob, Waiting, 0, nil},
		"a small one in place of a large one":  {same, asked(large), 2 * One, bob, Paid, 1, nil},
		"all of it, of which nothing counted":  {of(One, 1), nil, One, alice, Waiting, 0, nil},
		"the same of a machine":                {of(One, 1), nil, One, machine, "", 0, ErrMachine},
		"nothing of it, of which all counted":  {of(cent, One), nil, One, machine, "", 0, ErrMachine},
		"the same by a second":                 {of(One, 1), asked(of(One, 1)), One, bob, Paid, 2, nil},
		"a tenth more":                         {of(5_500*money.USD, 5_000*money.USD), nil, One, machine, Paid, 2, nil},
		"a tenth less":                         {of(4_500*money.USD, 5_000*money.USD), nil, One, machine, Paid, 2, nil},
		"more than a tenth more": {of(5_500*money.USD+cent, 5_000*money.USD), nil, One, machine, "", 0,
			ErrMachine},
		"more than a tenth less": {of(4_500*money.USD-cent, 5_000*money.USD), nil, One, machine, "", 0,
			ErrMachine},
		"a hundred dollars, and little counted": {of(MaxCorrection, cent), nil, One, machine, Paid, 2, nil},
		"more, and little counted":              {of(MaxCorrection+2*cent, cent), nil, One, machine, "", 0, ErrMachine},
	} {
		step, err := p.decide(tc.invoice, Standing{Before: tc.before, Owed: tc.owed}, tc.by)
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: got the error %v, want %v", name, err, tc.err)
		}
		if err != nil || tc.err != nil {
			continue
		}
		if got := step.Payment.State(); got != tc.state {
			t.Errorf("%s: got %s, want %s", name, got, tc.state)
		}
		if got := len(step.Entries); got != tc.entries {
			t.Errorf("%s: got %d entries, want %d", name, got, tc.entries)
		}
	}
}

func TestWhatAVendorWasPaidLatelyCountsAsOneInvoiceWithTheNext(t *testing.T) {
	const alice, machine = "operator:alice@1", "operator:bot"
	p := &Payables{NewEntry: func() (ids.EntryID, error) { return ids.EntryID{1}, nil }}
	of := func(amount, counted money.NanoUSD) Invoice {
		return Invoice{Vendor: ids.ProviderID{1}, Number: "1", Amount: amount, Counted: counted, Note: "n"}
	}
	const half = One / 2
	asked := &Payment{Invoice: of(half, half), AskedBy: alice}
	for name, tc := range map[string]struct {
		invoice Invoice
		lately  Sum
		before  *Payment
		by      string
		state   State
		err     error
	}{
		"up to the bound":                {of(half, half), of(half, half).sum(), nil, machine, Paid, nil},
		"above it":                       {of(half, half), of(half+cent, half+cent).sum(), nil, alice, Waiting, nil},
		"above it, a machine":            {of(half, half), of(half+cent, half+cent).sum(), nil, machine, "", ErrMachine},
		"above it by count":              {of(half, half), of(half, half+cent).sum(), nil, machine, "", ErrMachine},
		"above it, asked again":          {of(half, half), of(One, One).sum(), asked, alice, Waiting, nil},
		"no longer above it":             {of(half, half), Sum{}, asked, alice, Paid, nil},
		"a correction after a large one": {of(2*cent, cent), of(MaxCorrection, 1).sum(), nil, machine, "", ErrMachine},
		"corrections up and down": {of(MaxCorrection, cent), of(cent, MaxCorrection).sum(), nil, machine, "",
			ErrMachine},
		"a large correction behind a large count": {of(400*money.USD, cent), of(half, half).sum(), nil, machine, "",
			ErrMachine},
	} {
		step, err := p.decide(tc.invoice, Standing{Before: tc.before, Owed: One, Lately: tc.lately}, tc.by)
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: got the error %v, want %v", name, err, tc.err)
		}
		if err != nil || tc.err != nil {
			continue
		}
		if got := step.Payment.State(); got != tc.state {
			t.Errorf("%s: got %s, want %s", name, got, tc.state)
		}
	}
}
