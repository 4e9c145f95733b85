package providerhub_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/fakeagent"
)

// Opcodes and bits of RFC 6455.
const (
	opContinue, opText, opBinary, opClose, opPing, opPong = 0, 1, 2, 8, 9, 10

	fin, masked = 0x80, 0x80
)

// Close codes of RFC 6455.
const (
	codeProtocol, codeUnsupported, codeInvalid, codePolicy, codeTooBig = 1002, 1003, 1007, 1008, 1009
)

// frame is one WebSocket frame, masked with zeros.
func raw(first byte, payload []byte) []byte {
	return append(header(first, masked, uint64(len(payload))), payload...)
}

// header declares a length whether or not so much follows.
func header(first, mask byte, n uint64) []byte {
	b := []byte{first}
	switch {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), n)
	}
	if mask != 0 {
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

func closeFrame(code uint16, reason string) []byte {
	return raw(fin|opClose, append(binary.BigEndian.AppendUint16(nil, code), reason...))
}

// wire is a socket without a library.
type wire struct {
	t      testing.TB
	conn   net.Conn
	opened time.Time
	acked  chan struct{} // closed when a message with success has come
	ended  chan struct{}
	code   int    // of the hub's close frame, 0 without one
	reason string //
	pongs  int
	err    error
	age    time.Duration
}

// wire upgrades a connection by hand.
func (w *v1World) wire(protocol string) *wire {
	w.t.Helper()
	opened := time.Now() // no later than the hub's own count begins
	conn, err := (&net.Dialer{}).DialContext(w.t.Context(), "tcp", w.front.Listener.Addr().String())
	must(w.t, err)
	must(w.t, conn.SetDeadline(time.Now().Add(2*patience)))
	ask := "GET /ws HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	if protocol != "" {
		ask += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	_, err = io.WriteString(conn, ask+"\r\n")
	must(w.t, err)
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	must(w.t, err)
	if answer.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("upgrade: got %d, want 101", answer.StatusCode)
	}
	x := &wire{t: w.t, conn: conn, opened: opened, acked: make(chan struct{}), ended: make(chan struct{})}
	go x.read(r)
	w.t.Cleanup(func() { conn.Close(); <-x.ended })
	return x
}

// read takes the hub's frames until it closes.
func (x *wire) read(r *bufio.Reader) {
	defer close(x.ended)
	defer func() { x.age = time.Since(x.opened) }()
	for acked := false; ; {
		var h [2]byte
		if _, x.err = io.ReadFull(r, h[:]); x.err != nil {
			return
		}
		n := uint64(h[1] & 0x7f)
		wide := map[uint64]int{126: 2, 127: 8}[n]
		var length [8]byte
		if _, x.err = io.ReadFull(r, length[8-wide:]); x.err != nil {
			return
		}
		if wide > 0 {
			n = binary.BigEndian.Uint64(length[:])
		}
		switch {
		case h[1]&masked != 0:
			x.t.Errorf("the hub sent a frame that begins: h[1]&masked: got %d, want 0", h[1]&masked)
			return
		case h[0]&0x70 != 0:
			x.t.Errorf("the hub sent a frame that begins: h[0]&0x70: got %d, want 0", h[0]&0x70)
			return
		case n > 16<<20:
			x.t.Errorf("n: got %d, want at most 16<<20", n)
			return
		}
		payload := make([]byte, n)
		if _, x.err = io.ReadFull(r, payload); x.err != nil {
			return
		}
		switch h[0] & 0x0f {
		case opClose:
			if len(payload) >= 2 {
				x.code, x.reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
			}
		case opPong:
			x.pongs++
		case opText:
			if bytes.Contains(payload, []byte(`"success":true`)) && !acked {
				acked = true
				close(x.acked)
			}
		}
	}
}

// write sends; a hub that has closed already is told by its close frame.
func (x *wire) write(b []byte) { _, _ = x.conn.Write(b) }

// flood sends the same again and again until the hub has closed.
func (x *wire) flood(begin, again []byte, times int) {
	x.write(begin)
	for range times {
		if _, err := x.conn.Write(again); err != nil {
			return
		}
	}
}

// register makes the socket a live one of dialect v1.
func (x *wire) register(m member, node string) {
	x.t.Helper()
	x.write(raw(fin|opText, fmt.Appendf(nil,
		`{"type":"register","request_id":"r","payload":{"node_id":%q,"token":%q,"models":[%q]}}`, node, m.key, testModel)))
	wait(x.t, "the ack", x.acked)
}

// witness is another provider whose stream goes on meanwhile.
type witness struct {
	t    testing.TB
	call *call
	say  func(string) error
	end  func()
	n    int
}

// still says a word and hears it, or fails the test.
func (o *witness) still(what string) {
	o.t.Helper()
	o.n++
	word := fmt.Sprintf("word-%d ", o.n)
	must(o.t, o.say(word))
	if e := o.call.event(); !strings.Contains(string(e.GetJson()), word) {
		o.t.Errorf("%s: the other provider's stream goes: got %q, want %q in it", what, string(e.GetJson()), word)
	}
}

// witnesses are a stream of each dialect.
func (w *v1World) witnesses() []*witness {
	w.t.Helper()
	m := w.active()
	second := w.dial(m, fakeagent.Options{})
	call2 := w.call(order(m, second, true))
	r2 := received(w.t, second)
	must(w.t, r2.Text("hello"))
	call2.content()
	first := w.join(w.active(), fakeagent.V1Options{NodeName: "witness"})
	call1 := w.call(w.order(first, true))
	r1 := first.request()
	must(w.t, r1.Text("hello"))
	call1.content()
	return []*witness{
		{t: w.t, call: call2, say: r2.Text, end: func() {
			must(w.t, r2.Finish("stop"))
			must(w.t, r2.Done())
			must(w.t, r2.End(200, true))
		}},
		{t: w.t, call: call1, say: r1.Text, end: func() {
			must(w.t, r1.Finish("stop"))
			must(w.t, r1.Done())
			must(w.t, r1.End())
			first.alive()
		}},
	}
}

// goOnToTheirEnds lets the witnesses' streams come to their good ends.
func goOnToTheirEnds(all []*witness) {
	for _, o := range all {
		o.end()
		if end := o.call.rest(); end.finished == nil {
			o.t.Errorf("the other provider's stream: %v", end.failed)
		}
	}
}

// violation is what a peer writes and the code that it is told.
type violation struct {
	bytes []byte
	code  int
}

// violations are written with messages of the kind that the dialect takes.
func violations(kind byte) map[string]violation {
	v := map[string]violation{
		"an unmasked frame":              {append(header(fin|kind, 0, 2), "{}"...), codeProtocol},
		"the first reserved bit":         {raw(fin|0x40|kind, []byte("{}")), codeProtocol},
		"the second reserved bit":        {raw(fin|0x20|kind, []byte("{}")), codeProtocol},
		"the third reserved bit":         {raw(fin|0x10|kind, []byte("{}")), codeProtocol},
		"a fragmented ping":              {raw(opPing, nil), codeProtocol},
		"a fragmented close":             {raw(opClose, []byte{3, 232}), codeProtocol},
		"a ping of 126 bytes":            {raw(fin|opPing, make([]byte, 126)), codeProtocol},
		"a pong of 64 KiB":               {raw(fin|opPong, make([]byte, 64<<10)), codeProtocol},
		"a close of 126 bytes":           {closeFrame(1000, strings.Repeat("x", 124)), codeProtocol},
		"a close of one byte":            {raw(fin|opClose, []byte{3}), codeProtocol},
		"a close reason that is no text": {closeFrame(1000, "\xff\xfe"), codeInvalid},
		"a fragment of nothing":          {raw(fin|opContinue, []byte("x")), codeProtocol},
		"a message within another":       {append(raw(kind, []byte("{")), raw(fin|kind, []byte("{}"))...), codeProtocol},
		"text that is no UTF-8":          {raw(fin|kind, []byte("{\"type\":\"\xc3\x28\"}")), codeInvalid},
		"text with a surrogate":          {raw(fin|kind, []byte("\"\xed\xa0\x80\"")), codeInvalid},
		"text cut in a letter":           {raw(fin|kind, []byte("\"\xe8\xaa")), codeInvalid},
		"a letter cut in two fragments, and the rest not a letter": {append(raw(kind, []byte("\"\xe8")),
			raw(fin|opContinue, []byte("\x28\""))...), codeInvalid},
		"a message of the other kind": {raw(fin|opText+opBinary-kind, []byte("{}")),
			codeUnsupported},
		"a length of 1 GiB":   {header(fin|kind, masked, 1<<30), codeTooBig},
		"a length of 2^63-1":  {header(fin|kind, masked, 1<<63-1), codeTooBig},
		"a length above 2^63": {header(fin|kind, masked, 1<<63), codeProtocol},
	}
	for op := byte(3); op < 16; op++ {
		if op < opClose || op > opPong {
			v[fmt.Sprintf("opcode %d", op)] = violation{raw(fin|op, nil), codeProtocol}
		}
	}
	for _, code := range []uint16{0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535} {
		v[fmt.Sprintf("a close with %d", code)] = violation{closeFrame(code, ""), codeProtocol}
	}
	for _, code := range []uint16{1000, 1001, 1008, 1012, 3000, 4999} {
		v[fmt.Sprintf("a good close with %d", code)] = violation{closeFrame(code, "bye"), int(code)}
	}
	return v
}

// TestRFC6455_ViolationsGetTheirCloseCode has sockets of dialect v1 break the
// protocol before and after they are registered.
func TestRFC6455_ViolationsGetTheirCloseCode(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]bool{"anonymous": false, "registered": true} {
		t.Run(name, func(t *testing.T) {
			w := setupV1(t)
			others := w.witnesses()
			m := w.active()
			wires := map[string]*wire{}
			for name, v := range violations(opText) {
				x := w.wire("")
				if live {
					x.register(m, fakeagent.V1NodeKey(name))
				}
				x.write(v.bytes)
				wires[name] = x
			}
			for name, v := range violations(opText) {
				x := wires[name]
				wait(t, name+": the close", x.ended)
				good := strings.HasPrefix(name, "a good close")
				if x.code != v.code {
					t.Errorf("%s: closed: got %d %q after %v (%v), want %d", name, x.code, x.reason, x.age, x.err, v.code)
				}
				if !good && x.age < closedYoung {
					t.Errorf("%s: closed after %v", name, x.age)
				}
			}
			for _, o := range others {
				o.still(name)
			}
			goOnToTheirEnds(others)
		})
	}
}

// TestRFC6455_V2ViolationsGetTheirCloseCode is the same of dialect v2, but for
// what concerns text.
func TestRFC6455_V2ViolationsGetTheirCloseCode(t *testing.T) {
	t.Parallel()
	w := setupV1(t)
	others := w.witnesses()
	wires := map[string]*wire{}
	for name, v := range violations(opBinary) {
		if text := v.code == codeInvalid && v.bytes[0]&0x0f != opClose; !text {
			wires[name] = w.wire(agentwire.Subprotocol)
			wires[name].write(v.bytes)
		}
	}
	for name, x := range wires {
		wait(t, name+": the close", x.ended)
		if want := violations(opBinary)[name].code; x.code != want {
			t.Errorf("%s: closed: got %d %q (%v), want %d", name, x.code, x.reason, x.err, want)
		}
	}
	for _, o := range others {
		o.still("v2")
	}
	goOnToTheirEnds(others)
}

// TestHostile38_FloodsEndWithBoundedMemory has a live socket send what never
// ends.
func TestHostile38_FloodsEndWithBoundedMemory(t *testing.T) {
	const mib = 1 << 20
	floods := map[string]struct {
		anonymous bool
		begin     []byte
		again     []byte
		times     int
	}{
		"1 GiB in one frame": {begin: header(fin|opText, masked, 1<<30), again: make([]byte, mib), times: 1024},
		"1 GiB in one frame, anonymous": {anonymous: true, begin: header(fin|opText, masked, 1<<30),
			again: make([]byte, mib), times: 1024},
		"fragments of 17 bytes": {begin: raw(opText, []byte(`{"type":"`)),
			again: bytes.Repeat(raw(opContinue, []byte("xxxxxxxxxxxxxxxxx")), 1000), times: 1200},
		"fragments of one byte, anonymous": {anonymous: true, begin: raw(opText, []byte(`{`)),
			again: bytes.Repeat(raw(opContinue, []byte(" ")), 1000), times: 1000},
		"fragments of nothing": {begin: raw(opText, []byte(`{`)), again: bytes.Repeat(raw(opContinue, nil), 1000),
			times: 4000},
		"fragments of nothing, anonymous": {anonymous: true, begin: raw(opText, []byte(`{`)),
			again: bytes.Repeat(raw(opContinue, nil), 1000), times: 4000},
		"pings": {again: bytes.Repeat(raw(fin|opPing, []byte("x")), 1000), times: 2000},
		"pings, anonymous": {anonymous: true, again: bytes.Repeat(raw(fin|opPing, []byte("x")), 1000),
			times: 2000},
		"pongs":               {again: bytes.Repeat(raw(fin|opPong, nil), 1000), times: 2000},
		"empty messages":      {again: bytes.Repeat(raw(fin|opText, nil), 1000), times: 2000},
		"messages of no type": {again: bytes.Repeat(raw(fin|opText, []byte(`{"type":"x"}`)), 1000), times: 2000},
	}
	w := setupV1(t)
	others := w.witnesses()
	m := w.active()
	wires := map[string]*wire{}
	for name, c := range floods {
		wires[name] = w.wire("")
		if !c.anonymous {
			wires[name].register(m, fakeagent.V1NodeKey(name))
		}
	}
	before := heap()
	var writers sync.WaitGroup
	for name, x := range wires {
		writers.Go(func() { x.flood(floods[name].begin, floods[name].again, floods[name].times) })
	}
	for name, x := range wires {
		for _, o := range others {
			o.still(name)
		}
		wait(t, name+": the end", x.ended)
	}
	writers.Wait()
	if grown := heap() - before; grown > 64*mib {
		t.Errorf("the heap grew: got %d, want at most %d", grown, 64*mib)
	}
	for name, x := range wires {
		if x.code != codePolicy && x.code != codeTooBig {
			t.Errorf("%s: closed: got %d, want %d or %d", name, x.code, codePolicy, codeTooBig)
		} else if x.pongs > 3000 {
			t.Errorf("%s: x.pongs: got %d, want at most 3000", name, x.pongs)
		}
	}
	goOnToTheirEnds(others)
}

// heap is what is in use, after a collection.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
