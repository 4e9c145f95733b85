package intruder

import (
	"bytes"
	"math/bits"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// zeros is a source of ids.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestAForgedTicketDiffersByOneBitAndNamesItsRequest(t *testing.T) {
	request, err := ids.NewRequest(time.UnixMilli(1_790_000_000_000), zeros{})
	if err != nil {
		t.Fatal(err)
	}
	genuine := append(append([]byte{1}, request[:]...), "the rest"...)
	said := &eventsv1.UsageEvent{RequestId: request.String(), Ticket: genuine, Seal: []byte("seal")}
	e := Event{Hub: "hub-1", said: said}
	for _, forged := range []bool{true, false} {
		data, invented, err := e.Invented(forged)
		if err != nil {
			t.Fatal(err)
		}
		var u eventsv1.UsageEvent
		if err := proto.Unmarshal(data, &u); err != nil {
			t.Fatal(err)
		}
		if got := u.GetRequestId(); got != invented {
			t.Errorf("request: got %s, want %s", got, invented)
		}
		if invented == request.String() {
			t.Errorf("invented request: got %s, want another", invented)
		}
		if len(u.GetSeal()) > 0 {
			t.Errorf("seal: got %q, want none", u.GetSeal())
		}
		id, err := ids.ParseRequest(invented)
		if err != nil {
			t.Fatal(err)
		}
		if names := bytes.Contains(u.GetTicket(), id[:]); names != forged {
			t.Errorf("the ticket names the invented request: got %t, want %t", names, forged)
		}
		changed := 0
		for i, b := range u.GetTicket() {
			changed += bits.OnesCount8(b ^ genuine[i])
		}
		if want := map[bool]int{true: 1}[forged]; changed != want {
			t.Errorf("changed bits of the ticket: got %d, want %d", changed, want)
		}
	}
	e.said.Ticket = []byte("of another")
	if _, _, err := e.Invented(true); err == nil {
		t.Error("a ticket without its request: got no error, want one")
	}
}
