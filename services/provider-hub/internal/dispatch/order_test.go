package dispatch

import (
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

func TestWhatTheLedgerSealedIsBounded(t *testing.T) {
	sound := func() *Order {
		return &Order{Request: ids.RequestID{1}, Attempt: 1, Provider: ids.ProviderID{1}, Node: "n", Model: "m",
			Body: []byte("{}"), MaxOutput: 1, Choices: 1, LedgerMAC: make([]byte, 16), Ticket: make([]byte, 512)}
	}
	if err := sound().Check(); err != nil {
		t.Errorf("a ticket of 512 bytes: got %v, want no error", err)
	}
	for param, change := range map[string]func(*Order){
		"ticket":     func(o *Order) { o.Ticket = make([]byte, 513) },
		"ledger_mac": func(o *Order) { o.LedgerMAC = make([]byte, 257) },
	} {
		o := sound()
		change(o)
		f, ok := fault.As(o.Check())
		if !ok {
			t.Fatalf("%s beyond its bound: got %v, want a fault", param, o.Check())
		}
		if f.Kind != fault.Invalid {
			t.Errorf("%s beyond its bound: kind: got %v, want %v", param, f.Kind, fault.Invalid)
		}
		if f.Param != param {
			t.Errorf("%s beyond its bound: parameter: got %q, want %q", param, f.Param, param)
		}
	}
}
