package contract_test

import (
	"bytes"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/contracts"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/contract"
)

var (
	provider  = ids.ProviderID{1, 2, 3, 4, 5, 6, 0x70, 8, 0x90, 10, 11, 12, 13, 14, 15, 16}
	subject   = contract.Subject(provider)
	part      = contract.Word{31: 9, 0: 7}
	depositor = chain.Address{19: 3, 0: 4}
	other     = chain.Address{19: 8}
)

func described(t testing.TB) abi.ABI {
	t.Helper()
	a, err := contracts.Collateral()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := abi.JSON(bytes.NewReader(a.ABI))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestCallsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	of := described(t)
	amount := chain.NewAmount(12_345)
	who, n := common.Address(depositor), big.NewInt(12_345)
	for name, c := range map[string]struct {
		got  []byte
		args []any
	}{
		"deposit":       {contract.Deposit(subject, amount), []any{[32]byte(subject), n}},
		"requestRefund": {contract.RequestRefund(subject, depositor), []any{[32]byte(subject), who}},
		"cancelRefund":  {contract.CancelRefund(subject, depositor), []any{[32]byte(subject), who}},
		"executeRefund": {contract.ExecuteRefund(subject, depositor), []any{[32]byte(subject), who}},
		"proposeSlash": {contract.ProposeSlash(part, subject, depositor, amount),
			[]any{[32]byte(part), [32]byte(subject), who, n}},
		"appeal":       {contract.Appeal(part), []any{[32]byte(part)}},
		"executeSlash": {contract.ExecuteSlash(part), []any{[32]byte(part)}},
		"resolve":      {contract.Resolve(part, true), []any{[32]byte(part), true}},
		"lapse":        {contract.Lapse(part), []any{[32]byte(part)}},
	} {
		want, err := of.Pack(name, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.got, want) {
			t.Errorf("%s: got %x, want %x", name, c.got, want)
		}
	}
}

// logOf writes a log as the contract does.
func logOf(t testing.TB, name string, topics []common.Hash, values ...any) ([][32]byte, []byte) {
	t.Helper()
	e := described(t).Events[name]
	data, err := e.Inputs.NonIndexed().Pack(values...)
	if err != nil {
		t.Fatal(err)
	}
	all := [][32]byte{e.ID}
	for _, topic := range topics {
		all = append(all, topic)
	}
	return all, data
}

func TestEventsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	due := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	n, at := big.NewInt(7), big.NewInt(due.Unix())
	of := []common.Hash{common.Hash(subject), common.BytesToHash(depositor[:])}
	ofPart := append([]common.Hash{common.Hash(part)}, of...)
	base := contract.Event{Subject: subject, Depositor: depositor}
	with := func(kind contract.Kind, change func(*contract.Event)) contract.Event {
		e := base
		e.Kind = kind
		if change != nil {
			change(&e)
		}
		return e
	}
	seven := chain.NewAmount(7)
	for name, c := range map[string]struct {
		topics []common.Hash
		values []any
		want   contract.Event
	}{
		"Deposited": {of, []any{n}, with(contract.Deposited, func(e *contract.Event) { e.Amount = seven })},
		"RefundRequested": {of, []any{at}, with(contract.RefundRequested,
			func(e *contract.Event) { e.Until = due })},
		"RefundCancelled": {of, nil, with(contract.RefundCancelled, nil)},
		"ExitRequested":   {of, []any{at}, with(contract.ExitRequested, func(e *contract.Event) { e.Until = due })},
		"ExitCancelled":   {of, nil, with(contract.ExitCancelled, nil)},
		"Refunded":        {of, []any{n}, with(contract.Refunded, func(e *contract.Event) { e.Amount = seven })},
		"SlashProposed": {ofPart, []any{n, at}, with(contract.SlashProposed,
			func(e *contract.Event) { e.Penalty, e.Amount, e.Until = part, seven, due })},
		"SlashAppealed": {ofPart, []any{common.Address(other), at}, with(contract.SlashAppealed,
			func(e *contract.Event) { e.Penalty, e.By, e.Until = part, other, due })},
		"SlashExecuted": {ofPart, []any{n, true}, with(contract.SlashExecuted,
			func(e *contract.Event) { e.Penalty, e.Amount, e.Upheld = part, seven, true })},
		"SlashReversed": {ofPart, []any{n}, with(contract.SlashReversed,
			func(e *contract.Event) { e.Penalty, e.Amount = part, seven })},
		"SlashLapsed": {ofPart, []any{n}, with(contract.SlashLapsed,
			func(e *contract.Event) { e.Penalty, e.Amount = part, seven })},
	} {
		topics, data := logOf(t, name, c.topics, c.values...)
		got, ok, err := contract.Read(topics, data)
		if err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		} else if !ok {
			t.Errorf("%s: got no event, want %+v", name, c.want)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
		if _, _, err := contract.Read(topics[:len(topics)-1], data); err == nil {
			t.Errorf("%s with a topic less: got no error, want one", name)
		}
		if _, _, err := contract.Read(topics, append(data, 0)); err == nil {
			t.Errorf("%s with a byte more: got no error, want one", name)
		}
	}
}

func TestAnEventOfNoPositionIsNone(t *testing.T) {
	t.Parallel()
	for _, topics := range [][][32]byte{nil, {{1}}, {{1}, {2}, {3}}} {
		if _, ok, err := contract.Read(topics, nil); ok {
			t.Errorf("%x: got an event, want none", topics)
		} else if err != nil {
			t.Errorf("%x: got the error %v, want none", topics, err)
		}
	}
}

func TestAProviderIsKnownByItsIDAndZeros(t *testing.T) {
	t.Parallel()
	if got, ok := contract.Provider(subject); !ok {
		t.Errorf("got no provider, want %s", provider)
	} else if got != provider {
		t.Errorf("got %s, want %s", got, provider)
	}
	for name, w := range map[string]contract.Word{"text": {'p', '1'}, "a byte behind it": func() contract.Word {
		w := subject
		w[31] = 1
		return w
	}(), "zero": {}} {
		if got, ok := contract.Provider(w); ok {
			t.Errorf("%s: got %s, want no provider", name, got)
		}
	}
}

func TestEachPositionHasItsOwnPenalty(t *testing.T) {
	t.Parallel()
	penalty := [16]byte{1}
	first := contract.PartID(penalty, chain.Base, subject, depositor)
	for name, id := range map[string]contract.Word{
		"another penalty":   contract.PartID([16]byte{2}, chain.Base, subject, depositor),
		"another chain":     contract.PartID(penalty, chain.Ethereum, subject, depositor),
		"another provider":  contract.PartID(penalty, chain.Base, contract.Word{1}, depositor),
		"another depositor": contract.PartID(penalty, chain.Base, subject, other),
		"the card":          contract.CardPartID(penalty),
	} {
		if id == first {
			t.Errorf("%s: got the same id, want another one", name)
		}
	}
}

func FuzzALogIsReadOrRefused(f *testing.F) {
	for _, e := range described(f).Events {
		f.Add(e.ID[:], bytes.Repeat([]byte{0}, 96), bytes.Repeat([]byte{0}, 64))
	}
	f.Fuzz(func(t *testing.T, id, rest, data []byte) {
		topics := [][32]byte{}
		for all := append(id, rest...); len(all) >= 32 && len(topics) < 5; all = all[32:] {
			topics = append(topics, [32]byte(all))
		}
		e, ok, err := contract.Read(topics, data)
		if ok && err != nil {
			t.Errorf("got %+v with the error %v, want one of them", e, err)
		} else if ok && e.Kind == "" {
			t.Errorf("got %+v, want an event of a kind", e)
		}
	})
}
