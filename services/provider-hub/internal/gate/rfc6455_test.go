package gate

import (
	"bytes"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/fakeagent"
	"svc.internal/services/provider-hub/internal/wsconn"
)

// long is the head of a frame with a length of eight bytes, which is masked with zeros.
func long(opcode byte, length uint64) []byte {
	head := binary.BigEndian.AppendUint64([]byte{finBit | opcode, maskBit | 127}, length)
	return append(head, 0, 0, 0, 0)
}

func TestHostile38_EachBreachOfRFC6455HasItsStatusOnTheWire(t *testing.T) {
	within := slices.Concat(masked(opText, []byte("{")), masked(finBit|opText, []byte("}")))
	endless := slices.Concat(masked(opText, []byte("x")), bytes.Repeat(masked(opContinuation, []byte("x")), 200))
	for name, c := range map[string]struct {
		bytes  []byte
		repeat int
		want   uint16
	}{
		"an unmasked frame":               {[]byte{finBit | opPing, 0}, 1, 1002},
		"the first reserved bit":          {masked(finBit|0x40|opText, nil), 1, 1002},
		"the second reserved bit":         {masked(finBit|0x20|opText, nil), 1, 1002},
		"the third reserved bit":          {masked(finBit|0x10|opText, nil), 1, 1002},
		"a reserved opcode of data":       {masked(finBit|0x3, nil), 1, 1002},
		"a reserved control opcode":       {masked(finBit|0xB, nil), 1, 1002},
		"a ping of 126 bytes":             {masked(finBit|opPing, make([]byte, 126)), 1, 1002},
		"a ping in fragments":             {masked(opPing, nil), 1, 1002},
		"a continuation of nothing":       {masked(finBit|opContinuation, nil), 1, 1002},
		"a message within another":        {within, 1, 1002},
		"a length that is not minimal":    {[]byte{finBit | opText, maskBit | 126, 0, 5, 0, 0, 0, 0}, 1, 1002},
		"a length of 2^63":                {long(opText, 1<<63), 1, 1002},
		"a close with half a status":      {masked(finBit|opClose, []byte{3}), 1, 1002},
		"a close with status 999":         {masked(finBit|opClose, []byte{3, 0xe7}), 1, 1002},
		"a close with status 1004":        {masked(finBit|opClose, []byte{3, 0xec}), 1, 1002},
		"a close with status 1005":        {masked(finBit|opClose, []byte{3, 0xed}), 1, 1002},
		"a close with status 1006":        {masked(finBit|opClose, []byte{3, 0xee}), 1, 1002},
		"a close with status 1015":        {masked(finBit|opClose, []byte{3, 0xf7}), 1, 1002},
		"a close with status 2999":        {masked(finBit|opClose, []byte{0x0b, 0xb7}), 1, 1002},
		"a close with status 5000":        {masked(finBit|opClose, []byte{0x13, 0x88}), 1, 1002},
		"a close whose reason is no text": {masked(finBit|opClose, []byte{3, 0xe8, 0xff, 0xfe}), 1, 1007},
		"a message of 64 KiB and a bit":   {masked(finBit|opText, make([]byte, 128<<10+1)), 1, 1009},
		"a message of 1 GiB":              {long(opText, 1<<30), 1, 1009},
		"fragments of a byte for ever":    {endless, 500, 1002},
		"empty fragments for ever":        {bytes.Repeat(masked(opContinuation, nil), 200), 500, 1008},
		"a good close":                    {masked(finBit|opClose, []byte{3, 0xe8, 'b', 'y', 'e'}), 1, 1000},
		"an empty close":                  {masked(finBit|opClose, nil), 1, wsconn.StatusNone},
		"a private status":                {masked(finBit|opClose, []byte{0x0f, 0xa0}), 1, 4000},
	} {
		for _, subprotocol := range []string{"", agentwire.Subprotocol} {
			t.Run(name+" "+subprotocol, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first := bytes.Clone(c.bytes)
					if name == "empty fragments for ever" {
						first = append(masked(opText, nil), first...)
					}
					if got := closedWith(t, subprotocol, first, c.bytes, c.repeat); got != c.want {
						t.Errorf("status of the close: got %d, want %d", got, c.want)
					}
				})
			})
		}
	}
}

// closedWith returns the status with which the hub closes a socket on which an agent
// writes first, and then bytes until it has written repeat times.
func closedWith(t *testing.T, subprotocol string, first, bytes []byte, repeat int) uint16 {
	t.Helper()
	e := serve(t, Config{})
	conn, r := e.plainConn(t, subprotocol)
	if subprotocol != "" && first[0]&opcodeBits == opText {
		first[0] = first[0]&^opcodeBits | opBinary
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range repeat {
			if _, err := conn.Write(first); err != nil {
				return
			}
			first = bytes
		}
	}()
	status := closeFrame(r)
	_ = conn.Close()
	<-written
	return status
}

func TestMessagesOfTheOtherKindAndTextThatIsNoneAreRefused(t *testing.T) {
	rune := slices.Concat(masked(opText, []byte("{\"type\":\"\xc3")), masked(finBit|opContinuation, []byte("\xa9\"}")))
	for name, c := range map[string]struct {
		subprotocol string
		bytes       []byte
		want        uint16
	}{
		"a binary message in v1":  {"", masked(finBit|opBinary, []byte("{}")), 1003},
		"a text message in v2":    {agentwire.Subprotocol, masked(finBit|opText, []byte("{}")), 1003},
		"text that is not UTF-8":  {"", masked(finBit|opText, []byte("{\"type\":\"\xff\"}")), 1007},
		"text that is not JSON":   {"", masked(finBit|opText, []byte("hello")), 1008},
		"a rune in two fragments": {"", rune, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, Config{})
			conn, r := e.plainConn(t, c.subprotocol)
			began := time.Now()
			if _, err := conn.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			if c.want == 0 {
				if _, err := conn.Write(masked(finBit|opClose, []byte{3, 0xe8})); err != nil {
					t.Fatal(err)
				}
				c.want = wsconn.StatusNormal
			} else if age := time.Since(began); c.subprotocol == "" && age > 0 {
				t.Errorf("%s: written after %v", name, age)
			}
			if got := closeFrame(r); got != c.want {
				t.Errorf("%s: closed: got %d, want %d", name, got, c.want)
			}
			if age := time.Since(began); c.subprotocol == "" && c.want != wsconn.StatusNormal && age < 2*time.Second {
				t.Errorf("%s: a socket of %v was closed", name, age)
			}
		})
	}
}

func TestPingsAreAnsweredAsTheyWereSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		conn, r := e.plainConn(t, "")
		// Between two fragments, too.
		ping := masked(finBit|opPing, []byte("are you there"))
		if _, err := conn.Write(append(masked(opText, []byte("{")), ping...)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2+len("are you there"))
		switch _, err := io.ReadFull(r, got); {
		case err != nil:
			t.Errorf("got the error %v, want none", err)
		case got[0] != finBit|opPong:
			t.Errorf("got[0]: got %d, want %d", got[0], finBit|opPong)
		case string(got[2:]) != "are you there":
			t.Errorf(`got[2:]: got %q, want "are you there"`, string(got[2:]))
		}
	})
}

// raw sends a frame header of one's own making over a fresh connection and
// reports whether the hub closed it.
func raw(t *testing.T, after []byte, repeat int) (closed bool) {
	t.Helper()
	e := serve(t, Config{})
	a := e.mustDial(t, fakeagent.Options{})
	defer a.Close()
	for range repeat {
		if _, err := a.NetConn().Write(after); err != nil {
			break
		}
	}
	select {
	case <-a.Closed():
		return true
	case <-time.After(time.Minute):
		return false
	}
}

func TestHostile38_BrokenWebSocketsAreClosedWithBoundedMemory(t *testing.T) {
	piece, last := []byte{0x02, 0x81, 0, 0, 0, 0, 1}, []byte{0x00, 0x81, 0, 0, 0, 0, 1}
	for name, c := range map[string]struct {
		bytes  []byte
		repeat int
	}{
		"a message of 1 GiB":            {long(opBinary, 1<<30), 1},
		"a length of 2^63":              {long(opBinary, 1<<63), 1},
		"an unmasked frame":             {[]byte{0x82, 1, 0}, 1},
		"a compressed frame":            {[]byte{0xc2, 0x81, 0, 0, 0, 0, 0}, 1},
		"a reserved opcode":             {[]byte{0x83, 0x80, 0, 0, 0, 0}, 1},
		"a fragment of nothing":         {[]byte{0x80, 0x80, 0, 0, 0, 0}, 1},
		"fragments of a byte for ever":  {append(piece, bytes.Repeat(last, 100)...), 1000},
		"a flood of pings":              {bytes.Repeat([]byte{0x89, 0x80, 0, 0, 0, 0}, 50), 1000},
		"a ping of 126 bytes":           {append([]byte{0x89, 0x80 | 126, 0, 126, 0, 0, 0, 0}, make([]byte, 126)...), 1},
		"a text message":                {[]byte{0x81, 0x81, 0, 0, 0, 0, 'x'}, 1},
		"garbage that is no frame":      {[]byte{0x82, 0x81, 0, 0, 0, 0, 0xff}, 1},
		"a message of 64 KiB and a bit": {append(long(opBinary, 65537), make([]byte, 65537)...), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if !raw(t, c.bytes, c.repeat) {
					t.Error("the connection stays open")
				}
			})
		})
	}
}

func TestOnlyTheTwoDialectsAreUpgraded(t *testing.T) {
	e := serve(t, Config{})
	upgrade := func(path, protocol string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if protocol != "-" {
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Sec-WebSocket-Protocol", protocol)
		}
		w := httptest.NewRecorder()
		e.gate.ServeHTTP(w, r)
		return w
	}
	for _, c := range []struct {
		path, protocol string
		want           int
	}{
		{"/ws", "-", 400}, {"/ws", "other", 400}, {"/", "svc.agent.v1", 400}, {"/prefix/ws", "svc.agent.v3", 400},
		{"/other", agentwire.Subprotocol, 404}, {"/wsx", agentwire.Subprotocol, 404},
	} {
		w := upgrade(c.path, c.protocol)
		switch {
		case w.Code != c.want:
			t.Errorf("%s %q: w.Code: got %d, want %d", c.path, c.protocol, w.Code, c.want)
		case c.want == 400 && !strings.Contains(w.Body.String(), agentwire.Subprotocol):
			t.Errorf("%s %q: w.Body: got %q, want %q in it, where c.want == 400", c.path, c.protocol, w.Body.String(),
				agentwire.Subprotocol)
		case !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain"):
			t.Errorf(`%s %q: w.Header().Get("Content-Type"): got %q, want the prefix "text/plain"`, c.path, c.protocol,
				w.Header().Get("Content-Type"))
		}
	}
}
