package upgrade

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/usagebundle"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/provider-hub/hubsim"
)

// journals are copies of hubs' journals under load, as the death of the hub would have
// left them. Unsettled counts the attempts with usage that is not settled, the attempts
// with a void event that NATS has not taken, and the committed attempts without an end.
// An attempt that was not committed is void once the journal is opened.
var journals = []struct {
	folder, hub string
	unsettled   int
}{
	{"hub-1", "hub-1", 62 + 1 + 6},
	{"hub-1-later", "hub-1", 10 + 3},
	{"hub-2", "hub-2", 19 + 2 + 1},
}

// opened is the time at which the hubs start, soon after the copies were made,
// because a hub gives up a void event after two days.
var opened = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestAHubFindsWhatIsUnsettledInAJournal(t *testing.T) {
	for _, j := range journals {
		hub, _ := openJournal(t, j.folder, j.hub)
		waiting, open, final := hub.Unsettled()
		if got, want := [3]int{waiting, open, final}, [3]int{j.unsettled, 0, j.unsettled}; got != want {
			t.Errorf("%s: got %v waiting, open and final, want %v", j.folder, got, want)
		}
	}
}

func TestAHubPublishesAJournalAsTheEarlierVersionDid(t *testing.T) {
	for _, j := range journals {
		hub, got := openJournal(t, j.folder, j.hub)
		hub.Publish(t.Context())
		hub.Earlier(t.Context())
		want := readMessages(t, "published", j.folder+".jsonl")
		if len(got.messages) != len(want) {
			t.Errorf("%s: got %d messages, want %d", j.folder, len(got.messages), len(want))
			continue
		}
		for i := range want {
			compare(t, got.messages[i], want[i])
		}
	}
}

// compare names the fields in which two messages differ.
func compare(t *testing.T, got, want message) {
	t.Helper()
	if got.ID != want.ID || got.Subject != want.Subject {
		t.Errorf("got message %q on %s, want %q on %s", got.ID, got.Subject, want.ID, want.Subject)
	}
	if bytes.Equal(got.Data, want.Data) {
		return
	}
	g, w := eventOf(t, got.Subject), eventOf(t, want.Subject)
	if err := errors.Join(proto.Unmarshal(got.Data, g), proto.Unmarshal(want.Data, w)); err != nil {
		t.Error(err)
	}
	t.Errorf("%s: got  %s\nwant %s", got.ID, prototext.Format(g), prototext.Format(w))
}

// openJournal starts a hub on a copy of a journal.
func openJournal(t *testing.T, folder, hub string) (*hubsim.Hub, *recorder) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "journal", folder, "*.seg"))
	if err != nil {
		t.Fatalf("list %s: got the error %v, want none", folder, err)
	}
	if len(files) == 0 {
		t.Fatalf("list %s: len(files): got 0, want at least 1", folder)
	}
	disk := hubsim.NewDisk()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		disk.Put(filepath.Base(file), content)
	}
	said := &recorder{}
	h, err := hubsim.Open(hub, disk, said, clock.NewManual(opened), nobody{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return h, said
}

// recorder is a hub's connection to a NATS that takes everything.
type recorder struct{ messages []message }

func (*recorder) EnsureStream(context.Context, bus.StreamConfig) error { return nil }

func (r *recorder) PublishStreamAsync(
	_ context.Context, subject, id string, data []byte, _ bus.Header,
) (*bus.Future, error) {
	// The earlier version published each event as a message of its own, whose id began with that of the event's
	// request. The id of a bundle begins with that of its first request, and ends with the number of the others.
	events := usagebundle.Split(data)
	_, again, repeated := strings.Cut(strings.Split(id, "+")[0], "/")
	for _, event := range events {
		if len(events) > 1 {
			e := &eventsv1.UsageEvent{}
			if err := proto.Unmarshal(event, e); err != nil {
				return nil, err
			}
			if id = e.GetRequestId(); repeated {
				id += "/" + again
			}
		}
		r.messages = append(r.messages, message{id, subject, slices.Clone(event)})
	}
	return bus.Outcome(false, nil), nil
}

func (*recorder) Subscribe(string, string, func(context.Context, bus.Message)) (*bus.Subscription, error) {
	return nil, errors.New("nothing is heard here")
}

// nobody is a world without sessions.
type nobody struct{}

func (nobody) Bound(*hubsim.Order) bool                         { return false }
func (nobody) External(*hubsim.Order) bool                      { return false }
func (nobody) OpenStream(*hubsim.Attempt) error                 { return hubsim.ErrGone }
func (nobody) After(d time.Duration, f func()) (t hubsim.Timer) { return time.AfterFunc(d, f) }
