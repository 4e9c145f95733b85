package events

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/billing-ledger/internal/orphan"
)

var sound = &eventsv1.VoidEvent{
	RequestId: ids.RequestID{1, 6: 0x70, 8: 0x80}.String(), Attempt: 2, HubId: "hub-1", ProviderId: ids.ProviderID{2,
		6: 0x70, 8: 0x80}.String(),
}

func encoded(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shelf notes what it is given, and can fail.
type shelf struct {
	voids []orphan.Void
	fail  error
}

func (s *shelf) KeepVoids(_ context.Context, all []orphan.Void) ([]orphan.Void, error) {
	s.voids = append(s.voids, all...)
	return nil, s.fail
}

func (s *shelf) KeepWorkReceipts(
	context.Context, []orphan.WorkReceipt, func(orphan.WorkReceipt, *orphan.Request) orphan.Verdict,
) error {
	return nil
}

func workReceipts(s *shelf) *WorkReceipts {
	log := slog.New(slog.DiscardHandler)
	return &WorkReceipts{Keeper: &orphan.Keeper{Store: s, Log: log}, Voids: &orphan.Voids{Store: s, Log: log}, Log: log}
}

func TestWordOfVoidAttemptsIsPartedFromQuestions(t *testing.T) {
	s := &shelf{}
	void := bus.Msg{Subject: bus.SubjectVoid("hub-1"), Data: encoded(t, sound)}
	broken := bus.Msg{Subject: bus.SubjectVoid("hub-1"), Data: []byte{0xff}}
	if err := workReceipts(s).Handle(t.Context(), []bus.Msg{broken, void, void}); err != nil {
		t.Fatal(err)
	}
	if len(s.voids) != 2 {
		t.Errorf("kept: got %d, want 2, in %v", len(s.voids), s.voids)
	}
	questions, voids := workReceipts(s).sort(t.Context(), []bus.Msg{{Subject: bus.SubjectWorkReceipt("hub-1")}, void,
		{Subject: bus.SubjectWorkReceipt("hub-2")}})
	switch {
	case len(questions) != 2:
		t.Errorf("len(questions): got %d, want 2", len(questions))
	case len(voids) != 1:
		t.Errorf("len(voids): got %d, want 1, in %+v", len(voids), voids)
	case voids[0].Attempt != 2:
		t.Errorf("voids[0].Attempt: got %d, want 2", voids[0].Attempt)
	case voids[0].Hub != "hub-1":
		t.Errorf(`voids[0].Hub: got %q, want "hub-1"`, voids[0].Hub)
	}
}

func TestAHubSpeaksOfReceiptsAndVoidAttemptsForItselfAlone(t *testing.T) {
	s := &shelf{}
	d := workReceipts(s)
	said := &published{}
	d.Bus = said
	question := encoded(t, &eventsv1.WorkReceiptEvent{RequestId: "x", HubId: "hub-1"})
	if err := d.Handle(t.Context(), []bus.Msg{
		{Subject: bus.SubjectVoid("hub-2"), Data: encoded(t, sound)},
		{Subject: bus.SubjectWorkReceipt("hub-2"), Data: question},
	}); err != nil {
		t.Fatal(err)
	}
	if len(s.voids) != 0 {
		t.Errorf("hub-2 speaks for hub-1: kept: len(s.voids): got %d, want 0, in %v", len(s.voids), s.voids)
	} else if len(said.subjects) != 0 {
		t.Errorf("hub-2 speaks for hub-1: len(said.subjects): got %d, want 0, in %v", len(said.subjects), said.subjects)
	}
	if err := d.Handle(t.Context(), []bus.Msg{{Subject: bus.SubjectWorkReceipt("hub-1"), Data: question}}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(said.subjects, []string{bus.SubjectWorkReceiptDone("hub-1")}) {
		t.Errorf("hub-1 is answered on %v", said.subjects)
	}
}

// published notes the subjects of what is published.
type published struct {
	Bus
	subjects []string
}

func (p *published) Publish(_ context.Context, subject string, _ []byte, _ bus.Header) error {
	p.subjects = append(p.subjects, subject)
	return nil
}

func TestABatchWhoseVoidsCannotBeKeptComesAgain(t *testing.T) {
	s := &shelf{fail: errors.New("the database is away")}
	void := bus.Msg{Subject: bus.SubjectVoid("hub-1"), Data: encoded(t, sound)}
	if err := workReceipts(s).Handle(t.Context(), []bus.Msg{void}); !errors.Is(err, s.fail) {
		t.Errorf("got the error %v, want %v", err, s.fail)
	}
}

func FuzzWordOfAVoidAttemptIsSoundOrRefused(f *testing.F) {
	f.Add(encoded(f, sound))
	for _, change := range []func(*eventsv1.VoidEvent){
		func(e *eventsv1.VoidEvent) { e.RequestId = "x" }, func(e *eventsv1.VoidEvent) { e.ProviderId = "" },
		func(e *eventsv1.VoidEvent) { e.HubId = "Not A Hub" }, func(e *eventsv1.VoidEvent) { e.Attempt = 0 },
		func(e *eventsv1.VoidEvent) { e.Attempt = 1<<31 + 1 },
	} {
		e := proto.CloneOf(sound)
		change(e)
		data := encoded(f, e)
		f.Add(data)
		if v, err := voidFrom(data); err == nil {
			f.Errorf("%v is taken as %+v", e, v)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := voidFrom(data)
		switch {
		case err == nil && v.Attempt < 1:
			t.Errorf("v.Attempt: got %d, want at least 1, with %x", v.Attempt, data)
		case err == nil && v.Attempt > maxAttempt:
			t.Errorf("v.Attempt: got %d, want at most %d, with %x", v.Attempt, maxAttempt, data)
		case err == nil && v.Hub == "":
			t.Errorf(`v.Hub: got "", want some text, with %x`, data)
		case err == nil && len(v.Hub) > 64:
			t.Errorf("len(v.Hub): got %d, want at most 64, with %x", len(v.Hub), data)
		}
	})
}
