package node

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
)

// rewindSecret lets identities into the test's NATS, with no more than theirs.
const rewindSecret = "0123456789abcdef"

// joined is a connection as a service to the server.
func joined(t *testing.T, s *natsserver.Server, name string) *bus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := bus.Connect(ctx, bus.Config{URL: s.URL(), Secret: rewindSecret,
		Identity: &bus.Identity{Services: []string{name}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestRewindIsDoneAsTheServiceItselfAndRefusesWhatItCannotDo(t *testing.T) {
	s, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), Secret: rewindSecret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	ledger := joined(t, s, BillingLedger)
	for _, stream := range []bus.StreamConfig{bus.UsageStream, bus.WorkReceiptStream} {
		if err := ledger.EnsureStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	for n := range 3 {
		if _, err := ledger.PublishStream(t.Context(), bus.SubjectUsageLedger, fmt.Sprint(n), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	settings := []string{"SVC_NATS_URL=" + s.URL(), "SVC_NATS_SECRET=" + rewindSecret}
	try := func(r Rewinder, environ []string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		r.Program = &program{Config: DefaultConfig(), specs: []Spec{{Name: r.Name, Bus: true}}}
		code := r.run(t.Context(), args, environ, &out, &errs)
		return code, out.String(), errs.String()
	}
	billing := Rewinder{Name: BillingLedger, Durable: bus.DurableBilling, Streams: []string{bus.UsageStream.Name,
		bus.WorkReceiptStream.Name}}
	settlement := Rewinder{Name: Settlement, Durable: bus.DurableSettlement, Streams: []string{bus.UsageStream.Name}}
	since, early := begun.Format(time.RFC3339Nano), begun.Add(-time.Hour).Format(time.RFC3339)

	code, out, errs := try(billing, settings, "-since", since)
	switch {
	case code != 0:
		t.Errorf("billing-ledger: got exit %d, %q %q: code: got %d, want 0", code, out, errs, code)
	case !strings.Contains(out, "USAGE: 3 messages"):
		t.Errorf(`billing-ledger: got exit %d, %q %q: out: got %q, want "USAGE: 3 messages" in it`, code, out, errs, out)
	case !strings.Contains(out, "RECEIPTS: 0 messages"):
		t.Errorf(`billing-ledger: got exit %d, %q %q: out: got %q, want "RECEIPTS: 0 messages" in it`, code, out, errs, out)
	}
	if code, out, errs := try(settlement, settings, "-since", since, "-stream", "USAGE"); code != 0 {
		t.Errorf("settlement: got exit %d, %q %q: code: got %d, want 0", code, out, errs, code)
	} else if wanted := "USAGE: 3 messages since " + begun.UTC().Format(time.RFC3339Nano) +
		" are delivered again\n"; out != wanted {
		t.Errorf("settlement: got exit %d, %q %q: out: got %q, want %q", code, out, errs, out, wanted)
	}
	if code, out, errs := try(billing, settings, "-since", early); code != 2 || out != "" ||
		!strings.Contains(errs, "its oldest message is of ") {
		t.Errorf("too old: got exit %d, %q %q, want nothing done and the oldest message named", code, out, errs)
	}
	stranger := settlement
	stranger.Durable = bus.DurableBilling // another service's consumer
	if code, out, _ := try(stranger, settings, "-since", since); code != 2 || out != "" {
		t.Errorf("another service's consumer: got exit %d, %q, want it refused", code, out)
	}
	for _, args := range [][]string{nil, {"-since", "yesterday"}, {"-since", since, "more"},
		{"-since", since, "-stream", "RECEIPTS"}, {"-unknown"}} {
		if code, _, errs := try(settlement, settings, args...); code != 2 ||
			!strings.Contains(errs, "usage: settlement rewind") {
			t.Errorf("%v: got exit %d, %q, want the usage", args, code, errs)
		}
	}
	if code, _, errs := try(billing, nil, "-since", since); code != 2 {
		t.Errorf("without settings: exit: got %d, want 2", code)
	} else if !strings.Contains(errs, "nats_url") {
		t.Errorf(`without settings: errs: got %q, want "nats_url" in it`, errs)
	}
}
