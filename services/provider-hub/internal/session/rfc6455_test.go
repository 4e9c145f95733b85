package session

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// masked is a frame as a client sends it.
func masked(first byte, payload []byte) []byte {
	head := appendHead([]byte{}, 0, len(payload))
	head[0], head[1] = first, head[1]|maskBit
	key := [4]byte{0x11, 0x22, 0x33, 0x44}
	body := bytes.Clone(payload)
	unmask(key, 0, body)
	return append(append(head, key[:]...), body...)
}

// plainConn upgrades a connection by hand, so that anything can be written to
// it.
func (e *endpoint) plainConn(t *testing.T, subprotocol string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := e.pipes.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	head := "GET /ws HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	if subprotocol != "" {
		head += "Sec-WebSocket-Protocol: " + subprotocol + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Sec-WebSocket-Protocol") != subprotocol {
		t.Fatalf("upgraded with %v, %v", answer, err)
	}
	return conn, r
}

// readServerFrame reads a short frame.
func readServerFrame(r *bufio.Reader) (opcode byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := int(head[1])
	if n == 126 {
		long := make([]byte, 2)
		if _, err := io.ReadFull(r, long); err != nil {
			return 0, nil, err
		}
		n = int(binary.BigEndian.Uint16(long))
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0] & opcodeBits, payload, err
}

// closeFrame reads frames until one that closes, and gives its status; 0 for
// none.
func closeFrame(r *bufio.Reader) uint16 {
	for {
		opcode, payload, err := readServerFrame(r)
		switch {
		case err != nil:
			return 0
		case opcode == opClose && len(payload) == 0:
			return statusNone
		case opcode == opClose:
			return binary.BigEndian.Uint16(payload)
		}
	}
}

func TestHostile38_EachBreachOfRFC6455HasItsStatusOnTheWire(t *testing.T) {
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
		"a message within another":        {append(masked(opText, []byte("{")), masked(finBit|opText, []byte("}"))...), 1, 1002},
		"a length that is not minimal":    {[]byte{finBit | opText, maskBit | 126, 0, 5, 0, 0, 0, 0}, 1, 1002},
		"a length of 2^63":                {append([]byte{finBit | opText, maskBit | 127, 0x80}, make([]byte, 11)...), 1, 1002},
		"a close with half a status":      {masked(finBit|opClose, []byte{3}), 1, 1002},
		"a close with status 999":         {masked(finBit|opClose, []byte{3, 0xe7}), 1, 1002},
		"a close with status 1004":        {masked(finBit|opClose, []byte{3, 0xec}), 1, 1002},
		"a close with status 1005":        {masked(finBit|opClose, []byte{3, 0xed}), 1, 1002},
		"a close with status 1006":        {masked(finBit|opClose, []byte{3, 0xee}), 1, 1002},
		"a close with status 1015":        {masked(finBit|opClose, []byte{3, 0xf7}), 1, 1002},
		"a close with status 2999":        {masked(finBit|opClose, []byte{0x0b, 0xb7}), 1, 1002},
		"a close with status 5000":        {masked(finBit|opClose, []byte{0x13, 0x88}), 1, 1002},
		"a close whose reason is no text": {masked(finBit|opClose, []byte{3, 0xe8, 0xff, 0xfe}), 1, 1007},
		"a message of 64 KiB and a bit":   {masked(finBit|opText, make([]byte, v1Anonymous+1)), 1, 1009},
		"a message of 1 GiB":              {append(binary.BigEndian.AppendUint64([]byte{finBit | opText, maskBit | 127}, 1<<30), 0, 0, 0, 0), 1, 1009},
		"fragments of a byte for ever":    {append(masked(opText, []byte("x")), bytes.Repeat(masked(opContinuation, []byte("x")), 200)...), 500, 1002},
		"empty fragments for ever":        {bytes.Repeat(masked(opContinuation, nil), 200), 500, 1008},
		"a good close":                    {masked(finBit|opClose, []byte{3, 0xe8, 'b', 'y', 'e'}), 1, 1000},
		"an empty close":                  {masked(finBit|opClose, nil), 1, statusNone},
		"a private status":                {masked(finBit|opClose, []byte{0x0f, 0xa0}), 1, 4000},
	} {
		for _, subprotocol := range []string{"", Subprotocol} {
			t.Run(name+" "+subprotocol, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := serveSessions(t, Config{})
					conn, r := e.plainConn(t, subprotocol)
					data := bytes.Clone(c.bytes)
					if name == "empty fragments for ever" {
						data = append(masked(opText, nil), data...)
						if subprotocol != "" {
							data[0] = opBinary
						}
					}
					if subprotocol != "" && data[0]&opcodeBits == opText {
						data[0] = data[0]&^opcodeBits | opBinary
					}
					written := make(chan struct{})
					go func() {
						defer close(written)
						for range c.repeat {
							if _, err := conn.Write(data); err != nil {
								return
							}
							data = c.bytes
						}
					}()
					if got := closeFrame(r); got != c.want {
						t.Errorf("closed with %d, want %d", got, c.want)
					}
					_ = conn.Close()
					<-written
				})
			})
		}
	}
}

func TestMessagesOfTheOtherKindAndTextThatIsNoneAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		subprotocol string
		bytes       []byte
		want        uint16
	}{
		"a binary message in v1":  {"", masked(finBit|opBinary, []byte("{}")), 1003},
		"a text message in v2":    {Subprotocol, masked(finBit|opText, []byte("{}")), 1003},
		"text that is not UTF-8":  {"", masked(finBit|opText, []byte("{\"type\":\"\xff\"}")), 1007},
		"text that is not JSON":   {"", masked(finBit|opText, []byte("hello")), 1008},
		"a rune in two fragments": {"", append(masked(opText, []byte("{\"type\":\"\xc3")), masked(finBit|opContinuation, []byte("\xa9\"}"))...), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serveSessions(t, Config{})
			conn, r := e.plainConn(t, c.subprotocol)
			began := time.Now()
			if _, err := conn.Write(c.bytes); err != nil {
				t.Fatal(err)
			}
			if c.want == 0 {
				if _, err := conn.Write(masked(finBit|opClose, []byte{3, 0xe8})); err != nil {
					t.Fatal(err)
				}
				c.want = statusNormal
			} else if age := time.Since(began); c.subprotocol == "" && age > 0 {
				t.Errorf("%s: written after %v", name, age)
			}
			if got := closeFrame(r); got != c.want {
				t.Errorf("%s: closed with %d, want %d", name, got, c.want)
			}
			if age := time.Since(began); c.subprotocol == "" && c.want != statusNormal && age < 2*time.Second {
				t.Errorf("%s: a socket of %v was closed", name, age)
			}
		})
	}
}

func TestPingsAreAnsweredAsTheyWereSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serveSessions(t, Config{})
		conn, r := e.plainConn(t, "")
		// Between two fragments, too.
		if _, err := conn.Write(append(masked(opText, []byte("{")), masked(finBit|opPing, []byte("are you there"))...)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2+len("are you there"))
		if _, err := io.ReadFull(r, got); err != nil || got[0] != finBit|opPong || string(got[2:]) != "are you there" {
			t.Errorf("answered %q, %v", got, err)
		}
	})
}

func TestUnmaskingIsIndifferentToWhereAPartBegins(t *testing.T) {
	plain := []byte(strings.Repeat("0123456789", 10))
	key := [4]byte{1, 0xfe, 3, 0x80}
	want := bytes.Clone(plain)
	for i := range want {
		want[i] ^= key[i&3]
	}
	for cut := range len(plain) {
		got := bytes.Clone(plain)
		unmask(key, 0, got[:cut])
		unmask(key, cut, got[cut:])
		if !bytes.Equal(got, want) {
			t.Fatalf("cut at %d: %x", cut, got)
		}
	}
}

// FuzzReadHead reads beginnings of any content: what is taken for a frame is
// within the standard's bounds.
func FuzzReadHead(f *testing.F) {
	f.Add(masked(finBit|opText, []byte("x")))
	f.Add(masked(opBinary, make([]byte, 300)))
	f.Add(masked(finBit|opBinary, make([]byte, 70_000))[:14])
	f.Add([]byte{finBit | opPing, maskBit | 127, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		h, err := readHead(r)
		if err != nil {
			return
		}
		read := len(data) - r.Buffered()
		if r.Buffered() == 0 && len(data) > 4096 {
			return
		}
		again := appendHead(nil, h.opcode, int(h.length))
		if !h.final {
			again[0] &^= finBit
		}
		again[1] |= maskBit
		again = append(again, h.mask[:]...)
		if read <= len(data) && len(data) <= 4096 && !bytes.Equal(again, data[:len(data)-r.Buffered()]) {
			t.Fatalf("read %+v of %x", h, data)
		}
		if h.length < 0 || h.opcode >= opClose && h.length > maxControlPayload {
			t.Fatalf("read %+v", h)
		}
	})
}
