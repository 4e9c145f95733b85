package events

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usagebundle"
	"svc.internal/pkg/usageseal"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

const (
	recorded   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unrecorded = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// requestsIn are the requests of the events in a message.
func requestsIn(t *testing.T, message []byte) []string {
	t.Helper()
	var found []string
	for _, event := range usagebundle.Split(message) {
		e := &eventsv1.UsageEvent{}
		if err := proto.Unmarshal(event, e); err != nil {
			t.Fatal(err)
		}
		found = append(found, e.GetRequestId())
	}
	return found
}

func TestUsageThatWaitsTogetherIsOneMessageAndIsSettledByRequest(t *testing.T) {
	f := setup(t)
	key, err := usageseal.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	f.usage.keys = &Keys{}
	f.usage.keys.current.Store(&key)
	var served []string
	for range 3 {
		served = append(served, f.serveIn(t, unrecorded).Request.String())
	}
	f.usage.publish(t.Context(), batch(f.usage.queue, <-f.usage.queue))
	m := f.next(t)
	if got := requestsIn(t, m.Data); !slices.Equal(got, served) {
		t.Errorf("requests in the message: got %v, want %v", got, served)
	}
	if want := served[0] + "+2"; m.ID != want {
		t.Errorf("id of the message: got %q, want %q", m.ID, want)
	}
	for i, event := range usagebundle.Split(m.Data) {
		if !key.Opens(event) {
			t.Errorf("event %d is sealed by itself: got false, want true", i)
		}
	}
	middle, err := ids.ParseRequest(served[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := f.usage.Settled([]ids.RequestID{middle}); err != nil {
		t.Fatal(err)
	}
	if got := f.usage.Unsettled(); got != 2 {
		t.Errorf("unsettled once one is settled: got %d, want 2", got)
	}
	f.clock.Advance(time.Hour)
	f.usage.sweep(t.Context(), f.clock.Now())
	if got, want := requestsIn(t, f.next(t).Data), []string{served[0], served[2]}; !slices.Equal(got, want) {
		t.Errorf("requests that are published again: got %v, want %v", got, want)
	}
}

func TestUsageThatIsAloneIsNoBundle(t *testing.T) {
	f := setup(t)
	o := f.serveIn(t, unrecorded)
	w := <-f.usage.queue
	f.usage.publish(t.Context(), batch(f.usage.queue, w))
	m := f.next(t)
	if !bytes.Equal(m.Data, w.payload) {
		t.Errorf("message: got %x, want %x", m.Data, w.payload)
	}
	if m.ID != o.Request.String() {
		t.Errorf("id: got %q, want %q", m.ID, o.Request.String())
	}
	if got := m.Header.Get("traceparent"); got != unrecorded {
		t.Errorf("traceparent: got %q, want %q", got, unrecorded)
	}
}

func TestUsageOfARecordedTraceIsAMessageOfItsOwn(t *testing.T) {
	var all []waiting
	for i, trace := range []string{unrecorded, recorded, "", recorded, unrecorded} {
		all = append(all, waiting{id: fmt.Sprint(i), traceparent: trace})
	}
	var got []string
	for _, message := range bundles(t.Context(), all) {
		together := ""
		for _, w := range message {
			together += w.id
		}
		got = append(got, together)
	}
	if want := []string{"024", "1", "3"}; !slices.Equal(got, want) {
		t.Errorf("messages: got %v, want %v", got, want)
	}
}

func TestBundlesAreBounded(t *testing.T) {
	for name, size := range map[string]int{"small": 300, "large": 20 << 10, "as large as may be": 64 << 10} {
		all := make([]waiting, usageBatch)
		for i := range all {
			all[i].payload = make([]byte, size)
		}
		n := 0
		for _, message := range bundles(t.Context(), all) {
			n += len(message)
			bytes := 0
			for _, w := range message {
				bytes += len(w.payload) + usageseal.Size
			}
			if len(message) > usagebundle.MaxEvents {
				t.Errorf("%s: events: got %d, want at most %d", name, len(message), usagebundle.MaxEvents)
			}
			if bytes > usagebundle.MaxBytes && len(message) > 1 {
				t.Errorf("%s: bytes of %d events: got %d, want at most %d", name, len(message), bytes, usagebundle.MaxBytes)
			}
		}
		if n != len(all) {
			t.Errorf("%s: events in all messages: got %d, want %d", name, n, len(all))
		}
	}
}

func TestRareUsageIsPublishedAtOnceAndFrequentUsageTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := NewUsage("hub-a", nil, 0, UsageDeps{Clock: clock.System, Log: discard})
		began := time.Now()
		if got := u.gather(t.Context(), waiting{}); len(got) != 1 {
			t.Errorf("usage that comes first: got %d, want 1", len(got))
		}
		if got := time.Since(began); got != 0 {
			t.Errorf("wait of usage that comes first: got %v, want 0", got)
		}
		u.queue <- waiting{}
		u.queue <- waiting{}
		if got := u.gather(t.Context(), waiting{}); len(got) != 3 {
			t.Errorf("usage right behind it: got %d, want 3", len(got))
		}
		if got := time.Since(began); got != gatherTime {
			t.Errorf("wait of usage right behind it: got %v, want %v", got, gatherTime)
		}
		for range usageBatch {
			u.queue <- waiting{}
		}
		full := time.Now()
		if got := u.gather(t.Context(), waiting{}); len(got) != usageBatch {
			t.Errorf("usage of a full batch: got %d, want %d", len(got), usageBatch)
		}
		if got := time.Since(full); got != 0 {
			t.Errorf("wait of a full batch: got %v, want 0", got)
		}
		<-u.queue
		rest := time.NewTimer(gatherTime)
		<-rest.C
		before := time.Now()
		u.gather(t.Context(), waiting{})
		if got := time.Since(before); got != 0 {
			t.Errorf("wait of usage after a pause: got %v, want 0", got)
		}
	})
}
