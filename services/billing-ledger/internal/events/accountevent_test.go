package events

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/kin"
)

const (
	aWallet = "0x52908400098527886E0F7030069857D2E4169EE7"
	aPayee  = "0xde709f2102306220921060314715629080e2fb77"
)

// notes keeps what producers are told is stored.
type notes struct {
	Bus
	stored []accountevent.ID
}

func (n *notes) Publish(_ context.Context, _ string, data []byte, _ bus.Header) error {
	stored, err := accountevent.DecodeNote(data)
	n.stored = append(n.stored, stored...)
	return err
}

// message is an event as it travels.
func message(t *testing.T, kind accountevent.Kind, data string) (accountevent.ID, bus.Msg) {
	t.Helper()
	id, err := accountevent.NewID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject, body, err := accountevent.Event{ID: id, Kind: kind, Provider: ids.ProviderID{1}, At: time.Now(),
		Data: []byte(data)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return id, bus.Msg{Subject: subject, Data: body}
}

func evidence(t *testing.T, address string) kin.Evidence {
	t.Helper()
	e, err := kin.OfAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheAddressesOfAProviderMarkItAndAreToldToNobody(t *testing.T) {
	t.Parallel()
	payout, first := message(t, accountevent.PayoutConfirmed, `{"payout_id": "p"}`)
	both, second := message(t, accountevent.Addresses, `{"wallet": "`+aWallet+`", "payout_address": "`+aPayee+`"}`)
	none, third := message(t, accountevent.Addresses, `{"wallet": "", "payout_address": ""}`)
	_, broken := message(t, accountevent.Addresses, `{"wallet": "`+aWallet+`", "payout_address": "0xde709f"}`)
	_, odd := message(t, accountevent.Addresses, `{"wallet": 5}`)
	var kept []accountevent.Event
	var marks []kin.Mark
	var log bytes.Buffer
	told := &notes{}
	a := &AccountEvents{Bus: told, Log: slog.New(slog.NewTextHandler(&log, nil)), Wake: func() {},
		Keep: func(_ context.Context, list []accountevent.Event) error { kept = append(kept, list...); return nil },
		Mark: func(_ context.Context, list []kin.Mark) error { marks = append(marks, list...); return nil }}
	if err := a.Handle(t.Context(), []bus.Msg{first, broken, second, odd, third}); err != nil {
		t.Fatal(err)
	}
	want := []kin.Mark{
		{Provider: ids.ProviderID{1}, Cause: kin.Wallet, Evidence: evidence(t, aWallet)},
		{Provider: ids.ProviderID{1}, Cause: kin.PayoutAddress, Evidence: evidence(t, aPayee)},
	}
	if !slices.Equal(marks, want) {
		t.Errorf("marks: got %v, want %v", marks, want)
	}
	if len(kept) != 1 {
		t.Fatalf("events for webhooks: got %d, want 1", len(kept))
	}
	if kept[0].ID != payout {
		t.Errorf("event for webhooks: got %s, want %s", kept[0].ID, payout)
	}
	noted := []accountevent.ID{payout, both, none}
	for _, list := range [][]accountevent.ID{told.stored, noted} {
		slices.SortFunc(list, func(a, b accountevent.ID) int { return bytes.Compare(a[:], b[:]) })
	}
	if !slices.Equal(told.stored, noted) {
		t.Errorf("noted: got %v, want %v", told.stored, noted)
	}
	for _, address := range []string{aWallet, aPayee[:8]} {
		if strings.Contains(log.String(), address) {
			t.Errorf("log: got %q, want nothing of %s", log.String(), address)
		}
	}
}

// Else the hub would repeat the event for ever, and the wallet that signed would not mark.
func TestAZeroAddressMarksNobodyAndKeepsNoOtherAddressFromMarking(t *testing.T) {
	t.Parallel()
	id, m := message(t, accountevent.Addresses,
		`{"wallet": "`+aWallet+`", "payout_address": "0x`+strings.Repeat("0", 40)+`"}`)
	var marks []kin.Mark
	told := &notes{}
	a := &AccountEvents{Bus: told, Log: slog.New(slog.DiscardHandler), Wake: func() {},
		Keep: func(context.Context, []accountevent.Event) error { return nil },
		Mark: func(_ context.Context, list []kin.Mark) error { marks = append(marks, list...); return nil }}
	if err := a.Handle(t.Context(), []bus.Msg{m}); err != nil {
		t.Fatal(err)
	}
	want := []kin.Mark{{Provider: ids.ProviderID{1}, Cause: kin.Wallet, Evidence: evidence(t, aWallet)}}
	if !slices.Equal(marks, want) {
		t.Errorf("marks: got %v, want %v", marks, want)
	}
	if noted := []accountevent.ID{id}; !slices.Equal(told.stored, noted) {
		t.Errorf("noted: got %v, want %v", told.stored, noted)
	}
}

func TestAddressesThatCouldNotBeKeptAreNotNoted(t *testing.T) {
	t.Parallel()
	_, m := message(t, accountevent.Addresses, `{"wallet": "`+aWallet+`", "payout_address": ""}`)
	told := &notes{}
	lost := errors.New("the database is gone")
	a := &AccountEvents{Bus: told, Log: slog.New(slog.DiscardHandler), Wake: func() {},
		Keep: func(context.Context, []accountevent.Event) error { return nil },
		Mark: func(context.Context, []kin.Mark) error { return lost }}
	if err := a.Handle(t.Context(), []bus.Msg{m}); !errors.Is(err, lost) {
		t.Errorf("got the error %v, want %v", err, lost)
	}
	if len(told.stored) != 0 {
		t.Errorf("noted: got %d, want 0", len(told.stored))
	}
}
