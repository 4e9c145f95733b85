// Package contract speaks with the collateral contract (services/settlement/contracts): it writes calls, and reads
// logs. It sends and reads nothing by itself.
//
// A provider is known to the contract by 32 bytes: the 16 of its id, and zeros. A penalty's id on a chain is that
// of one position, because the contract uses each id once.
package contract

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/crypto/sha3"

	"svc.internal/pkg/ids"
	"svc.internal/services/settlement/internal/chain"
)

// Word is a value of the contract's machine.
type Word [32]byte

// Subject returns a provider as the contract knows it.
func Subject(id ids.ProviderID) Word {
	var w Word
	copy(w[:], id[:])
	return w
}

// Provider returns the provider that a subject can be; ok is false for what is no provider's id, a UUID of version 7.
func Provider(subject Word) (id ids.ProviderID, ok bool) {
	for _, b := range subject[len(id):] {
		if b != 0 {
			return ids.ProviderID{}, false
		}
	}
	copy(id[:], subject[:])
	if id[6]>>4 != 7 || id[8]>>6 != 2 {
		return ids.ProviderID{}, false
	}
	return id, true
}

// PartID returns the id, on a chain, of what a penalty takes of a position. The verdict's id comes first, as 16 bytes.
func PartID(penalty [16]byte, on chain.ID, subject Word, depositor chain.Address) Word {
	return keccak(penalty[:], binary.BigEndian.AppendUint64(nil, uint64(on)), subject[:], depositor[:])
}

// CardPartID returns the id of what a penalty takes of what was paid by card.
func CardPartID(penalty [16]byte) Word { return keccak(penalty[:], []byte("card")) }

func keccak(parts ...[]byte) (sum Word) {
	k := sha3.NewLegacyKeccak256()
	for _, p := range parts {
		k.Write(p) // it never fails
	}
	k.Sum(sum[:0])
	return sum
}

// call encodes a call of a function whose arguments are words.
func call(signature string, words ...Word) []byte {
	selector := keccak([]byte(signature))
	data := make([]byte, 0, 4+len(words)*len(Word{}))
	data = append(data, selector[:4]...)
	for _, w := range words {
		data = append(data, w[:]...)
	}
	return data
}

func ofAddress(a chain.Address) (w Word) {
	copy(w[len(w)-len(a):], a[:])
	return w
}

func ofBool(b bool) (w Word) {
	if b {
		w[len(w)-1] = 1
	}
	return w
}

// Deposit is the call by which a depositor puts an amount behind a provider.
func Deposit(subject Word, amount chain.Amount) []byte {
	return call("deposit(bytes32,uint256)", subject, amount.Bytes())
}

// Approve is the call of a token by which its owner lets the contract take an amount.
func Approve(contract chain.Address, amount chain.Amount) []byte {
	return call("approve(address,uint256)", ofAddress(contract), amount.Bytes())
}

// RequestRefund is the operator's request to pay a position back.
func RequestRefund(subject Word, depositor chain.Address) []byte {
	return call("requestRefund(bytes32,address)", subject, ofAddress(depositor))
}

// CancelRefund takes the operator's request back.
func CancelRefund(subject Word, depositor chain.Address) []byte {
	return call("cancelRefund(bytes32,address)", subject, ofAddress(depositor))
}

// ExecuteRefund pays a position back.
func ExecuteRefund(subject Word, depositor chain.Address) []byte {
	return call("executeRefund(bytes32,address)", subject, ofAddress(depositor))
}

// ProposeSlash moves an amount of a position into escrow.
func ProposeSlash(part, subject Word, depositor chain.Address, amount chain.Amount) []byte {
	return call("proposeSlash(bytes32,bytes32,address,uint256)", part, subject, ofAddress(depositor), amount.Bytes())
}

// Appeal stops a penalty's clock.
func Appeal(part Word) []byte { return call("appeal(bytes32)", part) }

// ExecuteSlash pays to the treasury what nobody has appealed.
func ExecuteSlash(part Word) []byte { return call("executeSlash(bytes32)", part) }

// Resolve decides an appeal.
func Resolve(part Word, upheld bool) []byte {
	return call("resolve(bytes32,bool)", part, ofBool(upheld))
}

// Lapse frees what nobody has ended in time.
func Lapse(part Word) []byte { return call("lapse(bytes32)", part) }

// PositionOf is the question for a position.
func PositionOf(subject Word, depositor chain.Address) []byte {
	return call("positionOf(bytes32,address)", subject, ofAddress(depositor))
}

// ReadPosition reads what the contract answers to PositionOf.
func ReadPosition(answer []byte) (free, escrow chain.Amount, ok bool) {
	const words = 4 // free, escrow, and the times of two requests
	if len(answer) != words*len(Word{}) {
		return chain.Amount{}, chain.Amount{}, false
	}
	free, err := chain.AmountOf(answer[:len(Word{})])
	if err != nil {
		return chain.Amount{}, chain.Amount{}, false
	}
	escrow, err = chain.AmountOf(answer[len(Word{}) : 2*len(Word{})])
	return free, escrow, err == nil
}

// Held is the question for the sum of all positions.
func Held() []byte { return call("held()") }

// Kind says what an event tells.
type Kind string

// The kinds of events that concern positions.
const (
	Deposited       Kind = "deposited"
	RefundRequested Kind = "refund_requested"
	RefundCancelled Kind = "refund_cancelled"
	ExitRequested   Kind = "exit_requested"
	ExitCancelled   Kind = "exit_cancelled"
	Refunded        Kind = "refunded"
	SlashProposed   Kind = "slash_proposed"
	SlashAppealed   Kind = "slash_appealed"
	SlashExecuted   Kind = "slash_executed"
	SlashReversed   Kind = "slash_reversed"
	SlashLapsed     Kind = "slash_lapsed"
)

// Event is what a log of the contract tells. What an event does not have is zero.
type Event struct {
	Kind      Kind
	Subject   Word
	Depositor chain.Address
	// Penalty is the penalty's id on the chain.
	Penalty Word
	Amount  chain.Amount
	// Until is when a request is due, or when an appeal is possible no more, or when an appealed penalty lapses.
	Until time.Time
	// By is who appealed.
	By chain.Address
	// Upheld reports whether an appeal was lost.
	Upheld bool
}

// shape is how an event is written: its topics behind the first one, and the words of its data.
type shape struct {
	kind      Kind
	signature string
	// penalty reports whether the first topic is a penalty's id.
	penalty bool
	// words name the words of the data, one letter each: a amount, t time, b who, u upheld.
	words string
}

var shapes = func() map[Word]shape {
	all := map[Word]shape{}
	for _, s := range []shape{
		{Deposited, "Deposited(bytes32,address,uint256)", false, "a"},
		{RefundRequested, "RefundRequested(bytes32,address,uint256)", false, "t"},
		{RefundCancelled, "RefundCancelled(bytes32,address)", false, ""},
		{ExitRequested, "ExitRequested(bytes32,address,uint256)", false, "t"},
		{ExitCancelled, "ExitCancelled(bytes32,address)", false, ""},
		{Refunded, "Refunded(bytes32,address,uint256)", false, "a"},
		{SlashProposed, "SlashProposed(bytes32,bytes32,address,uint256,uint256)", true, "at"},
		{SlashAppealed, "SlashAppealed(bytes32,bytes32,address,address,uint256)", true, "bt"},
		{SlashExecuted, "SlashExecuted(bytes32,bytes32,address,uint256,bool)", true, "au"},
		{SlashReversed, "SlashReversed(bytes32,bytes32,address,uint256)", true, "a"},
		{SlashLapsed, "SlashLapsed(bytes32,bytes32,address,uint256)", true, "a"},
	} {
		all[keccak([]byte(s.signature))] = s
	}
	return all
}()

// Read reads a log of the contract. ok is false for an event that concerns no position, as those of its roles. It fails
// for a log that the contract cannot have written.
func Read(topics [][32]byte, data []byte) (e Event, ok bool, err error) {
	if len(topics) == 0 {
		return Event{}, false, nil
	}
	s, known := shapes[topics[0]]
	if !known {
		return Event{}, false, nil
	}
	want := 3
	if s.penalty {
		want = 4
	}
	if len(topics) != want || len(data) != len(s.words)*len(Word{}) {
		return Event{}, false, fmt.Errorf("a log %s has %d topics and %d bytes", s.kind, len(topics), len(data))
	}
	e.Kind = s.kind
	topics = topics[1:]
	if s.penalty {
		e.Penalty, topics = topics[0], topics[1:]
	}
	e.Subject = topics[0]
	good := true
	read := func(ok bool) { good = good && ok }
	e.Depositor, ok = toAddress(topics[1])
	read(ok)
	for i, c := range s.words {
		w := Word(data[i*len(Word{}) : (i+1)*len(Word{})])
		switch c {
		case 'a':
			e.Amount, err = chain.AmountOf(w[:])
			read(err == nil)
		case 't':
			e.Until, ok = toTime(w)
			read(ok)
		case 'b':
			e.By, ok = toAddress(w)
			read(ok)
		case 'u':
			e.Upheld = w == ofBool(true)
			read(e.Upheld || w == ofBool(false))
		}
	}
	if !good {
		return Event{}, false, fmt.Errorf("a log %s has a word that cannot be read", s.kind)
	}
	return e, true, nil
}

func toAddress(w Word) (a chain.Address, ok bool) {
	copy(a[:], w[len(w)-len(a):])
	return a, ofAddress(a) == w
}

// maxTime is the end of the year 9999, in seconds.
const maxTime = 253_402_300_799

func toTime(w Word) (at time.Time, ok bool) {
	seconds := binary.BigEndian.Uint64(w[len(w)-8:])
	if [24]byte(w[:24]) != [24]byte{} || seconds > maxTime {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), 0).UTC(), true
}

// Topics returns the first topics of the events that Read reads.
func Topics() [][]byte {
	all := make([][]byte, 0, len(shapes))
	for topic := range shapes {
		all = append(all, topic[:])
	}
	return all
}
