package journal

import (
	"bytes"
	"testing"
)

func FuzzDecodeRecordAcceptsOnlyWhatEncodes(f *testing.F) {
	sums := newChecksummer()
	for kind := KindDispatch; kind <= KindVoid; kind++ {
		r := record{kind: kind, key: Key{Request: [16]byte{1, 2}, Attempt: 3}, at: 4}
		switch kind {
		case KindDispatch, KindFinal:
			r.payload = []byte("payload")
		case KindProgress:
			r.payload = Progress{Tokens: 5, Bytes: 6}.encode()
		default:
		}
		f.Add(sums.appendRecord(nil, 7, headerSize, r), uint64(7), int64(headerSize))
	}
	f.Add([]byte{}, uint64(0), int64(0))
	f.Add(bytes.Repeat([]byte{0xff}, recordOverhead), uint64(1), int64(-1))
	f.Fuzz(func(t *testing.T, b []byte, segment uint64, offset int64) {
		r, n, err := sums.decodeRecord(b, segment, offset)
		if err != nil {
			return
		}
		if got := sums.appendRecord(nil, segment, offset, r); !bytes.Equal(got, b[:n]) {
			t.Fatalf("decoded: got %x, want %x", got, b[:n])
		}
	})
}

func FuzzScanAccountsForEveryByte(f *testing.F) {
	sums := newChecksummer()
	sound := sums.appendHeader(nil, 1)
	for i := range 3 {
		r := record{kind: KindFinal, key: Key{Attempt: uint32(i)}, payload: []byte("usage")}
		sound = sums.appendRecord(sound, 1, int64(len(sound)), r)
	}
	f.Add(sound)
	f.Add(sound[:len(sound)-1])
	f.Add(append(bytes.Clone(sound), make([]byte, 50)...))
	f.Add([]byte("HUBJRNL\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		covered := 0
		gaps, err := sums.scan(b, 1, func(offset int64, size int, _ record) {
			if !sums.verifies(b[offset:], 1, offset) {
				t.Fatalf("record at %d was visited and does not verify", offset)
			}
			covered += size
		})
		if err != nil {
			return
		}
		for _, g := range gaps {
			covered += int(g.to - g.from)
		}
		if sums.checkHeader(b, 1) == nil {
			covered += headerSize
		}
		if covered != len(b) {
			t.Fatalf("records and gaps cover: got %d, want %d", covered, len(b))
		}
	})
}

func TestRecordVerifiesOnlyWhereItWasWritten(t *testing.T) {
	sums := newChecksummer()
	b := sums.appendRecord(nil, 3, 100, record{kind: KindFinal, payload: []byte("usage")})
	if !sums.verifies(b, 3, 100) {
		t.Fatal("record does not verify in its place")
	}
	if sums.verifies(b, 4, 100) {
		t.Fatal("a record in another place: sums.verifies(b, 4, 100): got true, want false")
	}
	if sums.verifies(b, 3, 101) {
		t.Fatal("a record in another place: sums.verifies(b, 3, 101): got true, want false")
	}
}

func TestEveryStateAnswersEveryKind(t *testing.T) {
	type answer struct {
		to    state
		write bool
		err   error
	}
	want := map[state]map[Kind]answer{
		stateAbsent: {
			KindDispatch: {stateOpen, true, nil},
			KindCommit:   {stateAbsent, false, ErrUnknown},
			KindProgress: {stateAbsent, false, ErrUnknown},
			KindFinal:    {stateAbsent, false, ErrUnknown},
			KindSettled:  {stateAbsent, false, nil},
			KindVoid:     {stateAbsent, false, nil},
		},
		stateOpen: {
			KindDispatch: {stateOpen, false, ErrDuplicate},
			KindCommit:   {stateOpen, true, nil},
			KindProgress: {stateOpen, true, nil},
			KindFinal:    {stateFinal, true, nil},
			KindSettled:  {stateAbsent, true, nil},
			KindVoid:     {stateAbsent, true, nil},
		},
		stateFinal: {
			KindDispatch: {stateFinal, false, ErrDuplicate},
			KindCommit:   {stateFinal, false, nil},
			KindProgress: {stateFinal, false, nil},
			KindFinal:    {stateFinal, false, nil},
			KindSettled:  {stateAbsent, true, nil},
			KindVoid:     {stateFinal, false, ErrBillable},
		},
	}
	for from, row := range want {
		for kind, w := range row {
			to, write, err := from.transition(kind)
			if (answer{to, write, err}) != w {
				t.Errorf("state %d on %v: got %d %v %v, want %+v", from, kind, to, write, err, w)
			}
		}
	}
}
