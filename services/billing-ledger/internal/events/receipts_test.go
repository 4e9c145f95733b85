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
		t.Errorf("kept %v", s.voids)
	}
	questions, voids := workReceipts(s).sort(t.Context(), []bus.Msg{{Subject: bus.SubjectWorkReceipt("hub-1")}, void,
		{Subject: bus.SubjectWorkReceipt("hub-2")}})
	if len(questions) != 2 || len(voids) != 1 || voids[0].Attempt != 2 || voids[0].Hub != "hub-1" {
		t.Errorf("%d questions, %+v", len(questions), voids)
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
	if len(s.voids) != 0 || len(said.subjects) != 0 {
		t.Errorf("hub-2 speaks for hub-1: kept %v, answered on %v", s.voids, said.subjects)
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
		t.Errorf("%v", err)
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
		if err == nil && (v.Attempt < 1 || v.Attempt > maxAttempt || v.Hub == "" || len(v.Hub) > 64) {
			t.Errorf("%x is taken as %+v", data, v)
		}
	})
}
