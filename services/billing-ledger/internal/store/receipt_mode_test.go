package store_test

import (
	"testing"

	"svc.internal/services/billing-ledger/internal/usage"
)

// A receipt names the mode of usage from before the column, whose providers all had a WebSocket.
func TestAReceiptKeepsHowItsProviderWasReached(t *testing.T) {
	e := setup(t, unlimited)
	c := e.consumer(t, 100*cent)
	for name, tc := range map[string]struct {
		mode int16
		old  bool
		want int16
	}{
		"by WebSocket": {1, false, 1}, "external": {2, false, 2}, "of a later release": {9, false, 9},
		"not known": {0, false, 0}, "before the column": {1, true, 1},
	} {
		reservation := e.reservation(t, c, 10)
		e.admit(t, reservation)
		served := e.served(t, reservation, 1)
		served.Event.Mode = tc.mode
		e.settle(t, usage.Settled, served)
		if tc.old {
			e.exec(t, `UPDATE usage_settlement SET connection_mode = NULL WHERE request_id = $1`, [16]byte(reservation.Request))
		}
		r, err := e.store.Receipt(t.Context(), reservation.Request, c.account)
		switch {
		case err != nil:
			t.Fatal(err)
		case r == nil:
			t.Fatalf("%s: the receipt: got nil, want a value", name)
		case r.Usage.Mode != tc.want:
			t.Errorf("%s: got %d, want %d", name, r.Usage.Mode, tc.want)
		}
	}
	e.sound(t)
}
