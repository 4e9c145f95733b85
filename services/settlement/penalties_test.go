package settlement

import (
	"context"
	"crypto/rand"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	eventsv1 "svc.internal/proto/svc/events/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/penalty"
)

const penalised = "0192f0c0-0000-7000-8000-000000000001"

func openRequest(t testing.TB) *settlementv1.OpenPenaltyRequest {
	t.Helper()
	id, err := ids.NewRequest(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &settlementv1.OpenPenaltyRequest{
		PenaltyId: id.String(), ProviderId: penalised, ModelId: "acme/tiny-1b", Kind: "misrepresentation",
		ShareBasisPoints: 1_000, Removes: true, Summary: "another quantization", EvidenceHash: make([]byte, 32),
	}
}

func (b *bundle) openPenalty(t *testing.T) *settlementv1.Penalty {
	t.Helper()
	resp, err := b.penalties.OpenPenalty(t.Context(), openRequest(t))
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetPenalty()
}

// elapse has a penalty opened so long ago.
func (b *bundle) elapse(t *testing.T, id string, by time.Duration) {
	t.Helper()
	owner := pgtest.Owner(t, b.pool)
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{
		`SET LOCAL session_replication_role = replica`,
		`UPDATE penalty SET opened_at = opened_at - '` + by.String() + `'::interval,
			appeal_until = appeal_until - '` + by.String() + `'::interval WHERE penalty_id = '` + id + `'`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// changes hears of penalties.
func (b *bundle) changes(t *testing.T) <-chan *eventsv1.PenaltyChanged {
	t.Helper()
	heard := make(chan *eventsv1.PenaltyChanged, 100)
	if _, err := b.bus.Subscribe(bus.SubjectPenalty, "", func(_ context.Context, m bus.Message) {
		var change eventsv1.PenaltyChanged
		if err := proto.Unmarshal(m.Data, &change); err != nil {
			t.Error(err)
		}
		heard <- &change
	}); err != nil {
		t.Fatal(err)
	}
	return heard
}

func next(t *testing.T, heard <-chan *eventsv1.PenaltyChanged) *eventsv1.PenaltyChanged {
	t.Helper()
	select {
	case change := <-heard:
		return change
	case <-time.After(patience):
		t.Fatal("nothing was heard of any penalty")
		return nil
	}
}

func TestAPenaltyThatNobodyAppealsIsExecutedByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	heard := b.changes(t)
	p := b.openPenalty(t)
	switch got := next(t, heard); {
	case got.GetState() != "proposed":
		t.Errorf("opened: got %v, want %s proposed, revision 1", got, p.GetPenaltyId())
	case got.GetRevision() != 1:
		t.Errorf("opened: got %v, want %s proposed, revision 1", got, p.GetPenaltyId())
	case got.GetPenaltyId() != p.GetPenaltyId():
		t.Errorf("opened: got %v, want %s proposed, revision 1", got, p.GetPenaltyId())
	}
	if got := p.GetAppealUntil().AsTime().Sub(p.GetOpenedAt().AsTime()); got != penalty.Window {
		t.Errorf("open to appeal: got %s, want %s", got, penalty.Window)
	}
	b.elapse(t, p.GetPenaltyId(), penalty.Window)
	switch got := next(t, heard); {
	case got.GetState() != "executed":
		t.Errorf("later: got %v, want it executed, revision 2", got)
	case got.GetRevision() != 2:
		t.Errorf("later: got %v, want it executed, revision 2", got)
	case got.GetProviderId() != penalised:
		t.Errorf("later: got %v, want it executed, revision 2", got)
	}
	list, err := b.penalties.ListPenalties(t.Context(), &settlementv1.ListPenaltiesRequest{ProviderId: penalised})
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(list.GetList()) != 1:
		t.Errorf("got %v, want one that is executed", list)
	case list.GetList()[0].GetExecutedAt() == nil:
		t.Errorf("got %v, want one that is executed", list)
	}
}

func TestAnUpheldPenaltyIsExecutedByItself(t *testing.T) {
	t.Parallel()
	b := setup(t)
	heard := b.changes(t)
	p := b.openPenalty(t)
	if _, err := b.penalties.Appeal(t.Context(), &settlementv1.AppealRequest{PenaltyId: p.GetPenaltyId(),
		ProviderId: penalised, Text: "It was the engine."}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.penaltyAdmin.ResolvePenalty(t.Context(), &settlementv1.ResolvePenaltyRequest{
		PenaltyId: p.GetPenaltyId(), Uphold: true, Reason: "replayed"}); err != nil {
		t.Fatal(err)
	}
	// The execution may be published before the decision from which it follows.
	want := map[int64]string{1: "proposed", 2: "appealed", 3: "upheld", 4: "executed"}
	got := map[int64]string{}
	for range want {
		change := next(t, heard)
		got[change.GetRevision()] = change.GetState()
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// Whoever missed all that reads it by opening the same penalty again.
	again := openRequest(t)
	again.PenaltyId = p.GetPenaltyId()
	resp, err := b.penalties.OpenPenalty(t.Context(), again)
	switch {
	case err != nil:
		t.Errorf("opened again: got the error %v, want none", err)
	case resp.GetPenalty().GetState() != settlementv1.PenaltyState_PENALTY_STATE_EXECUTED:
		t.Errorf("opened again: got %v, want it as it stands", resp)
	}
}

func TestCallsAboutPenaltiesThatCannotBeReadAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const ofVersion4 = "0192f0c0-0000-4000-8000-000000000001"
	for field, change := range map[string]func(*settlementv1.OpenPenaltyRequest){
		"penalty_id":         func(r *settlementv1.OpenPenaltyRequest) { r.PenaltyId = ofVersion4 },
		"provider_id":        func(r *settlementv1.OpenPenaltyRequest) { r.ProviderId = "x" },
		"evidence_hash":      func(r *settlementv1.OpenPenaltyRequest) { r.EvidenceHash = make([]byte, 31) },
		"kind":               func(r *settlementv1.OpenPenaltyRequest) { r.Kind = "" },
		"share_basis_points": func(r *settlementv1.OpenPenaltyRequest) { r.ShareBasisPoints = 3_001 },
		"summary":            func(r *settlementv1.OpenPenaltyRequest) { r.Summary = strings.Repeat("x", 501) },
	} {
		req := openRequest(t)
		change(req)
		_, err := b.penalties.OpenPenalty(t.Context(), req)
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("%s: got the error %v, want %s", field, err, fault.InvalidValue)
		case f.Reason != fault.InvalidValue:
			t.Errorf("%s: got the error %v, want %s", field, err, fault.InvalidValue)
		case f.Param != field:
			t.Errorf("%s: got the error %v, want %s", field, err, fault.InvalidValue)
		}
	}
	for _, id := range []string{"x", "", "0192f0c0-0000-7000-8000-000000000009"} {
		_, err := b.penalties.Appeal(t.Context(), &settlementv1.AppealRequest{PenaltyId: id, ProviderId: penalised,
			Text: "no"})
		if !fault.Is(err, penalty.NotFound) {
			t.Errorf("an appeal against %q: got the error %v, want %s", id, err, penalty.NotFound)
		}
		_, err = b.penaltyAdmin.ResolvePenalty(t.Context(), &settlementv1.ResolvePenaltyRequest{PenaltyId: id, Reason: "no"})
		if !fault.Is(err, penalty.NotFound) {
			t.Errorf("a decision about %q: got the error %v, want %s", id, err, penalty.NotFound)
		}
	}
	p := b.openPenalty(t)
	for _, reason := range []string{"", "two\nlines", strings.Repeat("x", 501)} {
		_, err := b.penaltyAdmin.ResolvePenalty(t.Context(), &settlementv1.ResolvePenaltyRequest{
			PenaltyId: p.GetPenaltyId(), Reason: reason})
		if !fault.Is(err, fault.InvalidValue) {
			t.Errorf("the reason %.10q: got the error %v, want %s", reason, err, fault.InvalidValue)
		}
	}
	_, err := b.penaltyAdmin.ListAllPenalties(t.Context(), &settlementv1.ListAllPenaltiesRequest{State: 99})
	if !fault.Is(err, fault.InvalidValue) {
		t.Errorf("a state that is none: got the error %v, want %s", err, fault.InvalidValue)
	}
}
