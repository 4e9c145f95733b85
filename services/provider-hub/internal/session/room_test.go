package session

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
)

func TestOneNetworkHoldsAQuarterOfARoomThatIsCrowded(t *testing.T) {
	d := newDoor(4096, clock.NewManual(time.UnixMilli(1_790_000_000_000)))
	sixty4 := func(net, host byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 7: net, 15: host})
	}
	for _, c := range []struct {
		name    string
		address func(i int) netip.Addr
		want    int
	}{
		// Agents behind one address dial for the first time, and there is room.
		{"an address", func(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, 1}) }, 2048},
		{"a /64", func(i int) netip.Addr { return sixty4(1, byte(i)) }, 1024},
	} {
		let := 0
		for i := range 3000 {
			if d.enter(c.address(i)) {
				let++
			}
		}
		if let != c.want {
			t.Errorf("%s holds %d places", c.name, let)
		}
	}
	if !d.enter(sixty4(2, 1)) || !d.enter(netip.AddrFrom4([4]byte{10, 0, 0, 2})) {
		t.Error("others are sent away")
	}
	if n := len(d.held); n != 4 {
		t.Errorf("%d networks are kept", n)
	}
	// Places that are given up are there for others of the network.
	d.leave(sixty4(1, 9), false)
	d.admitted(sixty4(1, 8))
	if !d.enter(sixty4(1, 7)) || !d.enter(sixty4(1, 6)) || d.enter(sixty4(1, 5)) {
		t.Error("two places that are free again are not two")
	}
	for range 1024 {
		d.leave(sixty4(1, 1), false)
	}
	if _, kept := d.held[network(sixty4(1, 1))]; kept {
		t.Error("a network that holds nothing is kept")
	}
	small := newDoor(60, clock.System)
	for range 60 {
		if !small.enter(sixty4(1, 1)) {
			t.Fatal("a small room is divided")
		}
	}
}

func TestRefusedSocketsMakeRoomWhereOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{MaxWaiting: 8})
		var refused []*old
		for i := range 8 {
			a := e.oldAgent(t)
			if m := a.register("bad", fmt.Sprintf("node-000%d", i)); m.Type != "error" {
				t.Fatalf("heard %v", m)
			}
			refused = append(refused, a)
		}
		if _, err := e.dialOld(t); err == nil {
			t.Fatal("a ninth of eight waits")
		}
		time.Sleep(4 * time.Second) //nolint:forbidigo // of a synctest bubble
		good := e.oldAgent(t)
		if m := good.register("good", "node-0009"); m.Payload["success"] != true {
			t.Errorf("heard %v", m)
		}
		early := 0
		for _, a := range refused {
			select {
			case <-a.gone:
				early++
			default:
			}
		}
		if early < 5 { // then it is not crowded any more
			t.Errorf("%d of them are closed", early)
		}
	})
}

func TestRegistrationsThatGoAwayCostTheOthersNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(Config{HandshakeRate: 1, HandshakeBurst: 1}.WithDefaults(), &desk{}, clock.System)
		q.open()
		if err := q.turn(t.Context(), netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 1000 {
			if q.turn(gone, netip.Addr{}) == nil {
				t.Fatal("one that is gone has its turn")
			}
		}
		began := time.Now()
		if err := q.turn(t.Context(), netip.Addr{}); err != nil || time.Since(began) > time.Second {
			t.Errorf("waited %v for 1,000 that did not: %v", time.Since(began), err)
		}
	})
}

func TestAgentsAreToldToComeBackOverATimeThatGrowsWithThem(t *testing.T) {
	c := Config{}.WithDefaults()
	for agents, over := range map[int]time.Duration{1: 5 * time.Millisecond, 100: 500 * time.Millisecond, 4000: 20 * time.Second, 10_000: 20 * time.Second} {
		latest := time.Duration(0)
		for range 1000 {
			after := c.spread(agents)
			if after < soonest || after >= soonest+over {
				t.Fatalf("one of %d after %v", agents, after)
			}
			latest = max(latest, after)
		}
		if latest < over*9/10 {
			t.Errorf("%d agents are all back within %v", agents, latest)
		}
	}
}

// reading is an intake of a live v1 session that reads what is there.
func reading(t *testing.T, s *Session, data []byte) *intake {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	e := holdSessions(t, Config{})
	return &intake{conn: near, br: bufio.NewReader(bytes.NewReader(data)), session: s, buffers: &e.server.buffers, budget: e.server.budget}
}

func TestMessageInManyFragmentsIsNotCopiedForEach(t *testing.T) {
	s := liveOld(t, Config{})
	st, id := ask(t, s, false)
	text := large(id, 8<<20)
	var data []byte
	opcode := opText
	for piece := range slices.Chunk([]byte(text), 4<<10) {
		data = append(data, masked(opcode, piece)...)
		opcode = opContinuation
	}
	data = append(data, masked(finBit|opContinuation, nil)...)
	in := reading(t, s, data)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := in.next(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 {
		t.Errorf("%d MiB were allocated for 8", took>>20)
	}
	if got, end, err := st.Take(); len(got) < 8<<20 || end == nil || err != nil {
		t.Errorf("%d bytes, %+v, %v", len(got), end, err)
	}
	if left := left(in.budget); left != 256<<20 {
		t.Errorf("%d bytes of the budget are left", left)
	}
}

func TestLengthOfAFragmentCannotOverflowTheBoundOfAMessage(t *testing.T) {
	s := liveOld(t, Config{})
	endless := append(binary.BigEndian.AppendUint64([]byte{finBit | opContinuation, maskBit | 127}, 1<<63-1), 0, 0, 0, 0)
	in := reading(t, s, slices.Concat(masked(opText, []byte("{")), endless, make([]byte, 32<<20)))
	if v, ok := violationIn(in.next()); !ok || v.status != statusTooBig {
		t.Errorf("read with %v", v)
	}
}

func TestMessageThatIsThrownAwayIsBoundedAsAnyOther(t *testing.T) {
	s := liveOld(t, Config{})
	in := reading(t, s, nil)
	in.budget.left = 0
	half := masked(opText, make([]byte, v1MaxAnswer/2+1))
	rest := masked(finBit|opContinuation, make([]byte, v1MaxAnswer/2))
	in.br = bufio.NewReader(bytes.NewReader(slices.Concat(half, rest)))
	if v, ok := violationIn(in.next()); !ok || v.status != statusTooBig {
		t.Errorf("read with %v", v)
	}
}

func TestWholeAnswerThatIsNotTakenYetCostsNoStreamItsPlace(t *testing.T) {
	s := liveOld(t, Config{ConnWindow: 64 << 10})
	whole, wholeID := ask(t, s, false)
	stream, streamID := ask(t, s, true)
	tell(t, s, answer(wholeID, `,"response":{"x":"`+strings.Repeat("y", 100<<10)+`"}`))
	tell(t, s, chunk(streamID, `{}`, false))
	if _, _, err := stream.Take(); err != nil {
		t.Errorf("a stream beside a whole answer: %v", err)
	}
	if got, end, err := whole.Take(); len(got) < 100<<10 || end == nil || err != nil || s.held != 0 {
		t.Errorf("%d bytes, %+v, %v; %d bytes are held", len(got), end, err, s.held)
	}
}

func TestStatusThatIsNoneOfHTTPIsNotPassedOn(t *testing.T) {
	s := liveOld(t, Config{})
	for _, said := range []string{`"code":-5`, `"code":9999999999`, `"code":1000`} {
		st, id := ask(t, s, true)
		tell(t, s, `{"type":"error","request_id":"`+id+`","payload":{`+said+`,"message":"x"}}`)
		if _, end, _ := st.Take(); end == nil || end.Status != 0 {
			t.Errorf("%s: %+v", said, end)
		}
	}
}

func TestSlotThatOutlivesItsRequestIsTold(t *testing.T) {
	s := liveOld(t, Config{})
	d := s.house.registrar.(*desk)
	st, id := ask(t, s, true)
	before := d.touched
	st.Close(true)
	if v, _ := s.View(); d.touched != before+1 || v.Offers[0].InFlight != 1 {
		t.Errorf("told %d times of a slot that stays taken, %d in flight", d.touched-before, v.Offers[0].InFlight)
	}
	tell(t, s, streamEnd(id, ""))
	if v, _ := s.View(); d.touched != before+2 || v.Offers[0].InFlight != 0 {
		t.Errorf("told %d times in all, %d in flight", d.touched-before, v.Offers[0].InFlight)
	}
	// One that ends as its request does is none.
	st, id = ask(t, s, true)
	tell(t, s, streamEnd(id, ""))
	st.Close(false)
	if d.touched != before+2 {
		t.Errorf("told of a slot that ended with its request")
	}
}

func TestAFullModelThatHasASlotAgainIsToldAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveOld(t, Config{})
		d := s.house.registrar.(*desk)
		told := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.touched
		}
		type request struct {
			st *Stream
			id string
		}
		var open []request
		fill := func() {
			for s.models["m"].inFlight < s.models["m"].offer.Capacity {
				st, id := ask(t, s, true)
				open = append(open, request{st, id})
			}
		}
		end := func() {
			r := open[0]
			open = open[1:]
			tell(t, s, streamEnd(r.id, ""))
			r.st.Close(false)
		}
		fill()
		before := told()
		end()
		end() // it was not full
		if told() != before+1 {
			t.Errorf("told %d times", told()-before)
		}
		for range 5 {
			fill()
			end()
		}
		if told() != before+1 {
			t.Errorf("told %d times within a second", told()-before)
		}
		wait := func() {
			timer := time.NewTimer(freedEvery + 1)
			<-timer.C
			synctest.Wait()
		}
		wait()
		if told() != before+2 {
			t.Errorf("told %d times when it was over", told()-before)
		}
		wait()
		if told() != before+2 {
			t.Errorf("told %d times although nothing was freed", told()-before)
		}
	})
}
