package bus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
)

// facts is a stream of which the last message of each subject is kept.
var facts = bus.StreamConfig{Name: "FACTS", Subjects: []string{"fact.*"}, LastOnly: true, MaxBytes: 1 << 20}

// readAll reads a stream and returns the messages by subject.
func readAll(t *testing.T, c *bus.Conn, cfg bus.StreamConfig) (map[string]string, int) {
	t.Helper()
	got := map[string]string{}
	n, err := c.ReadLast(t.Context(), cfg, func(m bus.Message) { got[m.Subject] = string(m.Data) })
	if err != nil {
		t.Fatalf("read %s: got the error %v, want none", cfg.Name, err)
	}
	return got, n
}

func TestTheLastMessageOfEachSubjectIsReadAndNoOther(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	if err := conn.EnsureStream(t.Context(), facts); err != nil {
		t.Fatal(err)
	}
	const subjects, rounds = 250, 3 // more subjects than one request brings
	for round := range rounds {
		for n := range subjects {
			text := fmt.Sprintf("%d of %d", round, n)
			if _, err := conn.PublishStream(t.Context(), fmt.Sprint("fact.", n), text, []byte(text), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 { // a reading leaves all messages to the next one
		got, n := readAll(t, conn, facts)
		if n != subjects {
			t.Errorf("messages read: got %d, want %d", n, subjects)
		}
		for i := range subjects {
			if want := fmt.Sprintf("%d of %d", rounds-1, i); got[fmt.Sprint("fact.", i)] != want {
				t.Fatalf("fact.%d: got %q, want %q", i, got[fmt.Sprint("fact.", i)], want)
			}
		}
	}
}

func TestReadingAStreamThatIsMissingCreatesItAndFindsNothing(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	if _, n := readAll(t, conn, facts); n != 0 {
		t.Errorf("messages read: got %d, want 0", n)
	}
	if _, err := conn.PublishStream(t.Context(), "fact.1", "a", []byte("a"), nil); err != nil {
		t.Errorf("publish afterwards: got the error %v, want none", err)
	}
}

func TestWhatWasSaidLastSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	conn := bustest.Connect(t, server)
	if err := conn.EnsureStream(t.Context(), facts); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PublishStream(t.Context(), "fact.1", "a", []byte("kept"), nil); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	elsewhere := server.Config()
	elsewhere.Port = 0 // another process may have taken the old one
	again, err := natsserver.Start(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	if got, _ := readAll(t, bustest.Connect(t, again), facts); got["fact.1"] != "kept" {
		t.Errorf("fact.1: got %q, want %q", got["fact.1"], "kept")
	}
}

// A fact that made room for another would look like a fact that nobody ever said.
func TestAFullStreamOfFactsForgetsNoneAndStillChangesThose(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	small := facts
	small.MaxBytes = 16 << 10
	if err := conn.EnsureStream(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	say := func(subject, id string) error {
		_, err := conn.PublishStream(t.Context(), subject, id, make([]byte, 1<<10), nil)
		return err
	}
	kept := 0
	for ; kept < 64 && say(fmt.Sprintf("fact.%02d", kept), fmt.Sprintf("%02d", kept)) == nil; kept++ {
	}
	if kept < 1 || kept > 16 {
		t.Fatalf("facts in 16 KiB: got %d of 1 KiB, want 1 to 16", kept)
	}
	if err := say("fact.00", "-0"); err != nil {
		t.Errorf("a newer fact on a subject that is there: got the error %v, want none", err)
	}
	if _, n := readAll(t, conn, small); n != kept {
		t.Errorf("facts read: got %d, want the %d that were stored", n, kept)
	}
}

func TestARouterReadsTrustWithWhatTheTableAllows(t *testing.T) {
	t.Parallel()
	id := bus.Identity{Services: []string{"router"}}
	for name, s := range servers(t) {
		if _, n := readAll(t, s.conn(t, id), bus.TrustStream); n != 0 {
			t.Errorf("%s: messages read: got %d, want 0", name, n)
		}
	}
	server, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Secret: testSecret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	inside := join(t, bus.Config{InProcess: server})
	router := join(t, bus.Config{URL: server.URL(), Secret: testSecret, Identity: &id})
	live := make(chan string, 1)
	if _, err := router.Subscribe(bus.SubjectTrustAll, "", func(_ context.Context, m bus.Message) {
		live <- string(m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	if err := inside.EnsureStream(t.Context(), bus.TrustStream); err != nil {
		t.Fatal(err)
	}
	if _, err := inside.PublishStream(t.Context(), bus.SubjectTrust("p-1"), "1", []byte("word"), nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := readAll(t, router, bus.TrustStream); got[bus.SubjectTrust("p-1")] != "word" {
		t.Errorf("read: got %q, want %q", got[bus.SubjectTrust("p-1")], "word")
	}
	select {
	case got := <-live:
		if got != "word" {
			t.Errorf("heard: got %q, want %q", got, "word")
		}
	case <-time.After(time.Minute):
		t.Error("heard: got nothing, want the message as a core message, too")
	}
}

// A reader that wanted all would never be ready on a busy stream.
func TestAReadingEndsAlthoughMessagesKeepComing(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	if err := conn.EnsureStream(t.Context(), facts); err != nil {
		t.Fatal(err)
	}
	say := func(n int) {
		text := fmt.Sprint(n)
		if _, err := conn.PublishStream(t.Context(), "fact."+text, text, []byte(text), nil); err != nil {
			t.Error(err)
		}
	}
	const first = 3
	for n := range first {
		say(n)
	}
	next := first
	n, err := conn.ReadLast(t.Context(), facts, func(bus.Message) {
		if next < 100 {
			say(next)
			next++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n != first {
		t.Errorf("messages read: got %d, want %d", n, first)
	}
}
