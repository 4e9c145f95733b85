package serve

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/resolver"

	billingv1 "svc.internal/proto/svc/billing/v1"
)

// countedLooks is a resolver, and its builder, that counts.
type countedLooks struct {
	looks, closed int
	refuse        error
}

// Build returns the resolver itself.
func (c *countedLooks) Build(
	resolver.Target, resolver.ClientConn, resolver.BuildOptions,
) (resolver.Resolver, error) {
	return c, c.refuse
}

// Scheme is that of DNS.
func (*countedLooks) Scheme() string { return "dns" }

// ResolveNow counts a look.
func (c *countedLooks) ResolveNow(resolver.ResolveNowOptions) { c.looks++ }

// Close counts.
func (c *countedLooks) Close() { c.closed++ }

func TestANameIsLookedUpAgainUntilItsClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inner countedLooks
		r, err := lookingBuilder{Builder: &inner, interval: LookAgain}.Build(resolver.Target{}, nil, resolver.BuildOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*LookAgain + time.Second) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		if inner.looks != 3 {
			t.Errorf("looks in %v: got %d, want 3", 3*LookAgain, inner.looks)
		}
		r.Close()
		time.Sleep(3 * LookAgain) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		if inner.looks != 3 {
			t.Errorf("looks after the client was closed: got %d more, want none", inner.looks-3)
		}
		if inner.closed != 1 {
			t.Errorf("times that the inner resolver was closed: got %d, want 1", inner.closed)
		}
	})
}

// heardStates is a client that counts the addresses of each state.
type heardStates struct {
	resolver.ClientConn
	addresses []int
}

// UpdateState counts.
func (h *heardStates) UpdateState(s resolver.State) error {
	h.addresses = append(h.addresses, len(s.Addresses))
	return nil
}

func TestReplicasAreKeptWhileTheirNameLeadsNowhere(t *testing.T) {
	var heard heardStates
	client := &keeping{ClientConn: &heard}
	one, two := resolver.Address{Addr: "127.0.0.1:1"}, resolver.Address{Addr: "127.0.0.2:1"}
	for _, addresses := range [][]resolver.Address{nil, {one}, nil, {one, two}, nil} {
		if err := client.UpdateState(resolver.State{Addresses: addresses}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{0, 1, 2}; !slices.Equal(heard.addresses, want) {
		t.Errorf("numbers of addresses: got %v, want %v", heard.addresses, want)
	}
}

func TestANameThatCannotBeResolvedIsNotLookedUp(t *testing.T) {
	refused := errors.New("refused")
	inner := countedLooks{refuse: refused}
	_, err := lookingBuilder{Builder: &inner, interval: LookAgain}.Build(resolver.Target{}, nil, resolver.BuildOptions{})
	if !errors.Is(err, refused) {
		t.Errorf("error: got %v, want %v", err, refused)
	}
}

// nameServer answers for every name with the addresses that it was given last.
type nameServer struct {
	conn net.PacketConn
	mu   sync.Mutex
	ips  [][4]byte
}

func newNameServer(t *testing.T, ips ...[4]byte) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, ips: ips}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return s
}

// set makes the name lead to other addresses.
func (s *nameServer) set(ips ...[4]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ips = ips
}

func (s *nameServer) serve() {
	buf := make([]byte, 512)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := s.answer(buf[:n]); answer != nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

const (
	headerBytes = 12
	typeA       = 1
)

// answer answers a question for addresses of IPv4, and says of any other that there is
// nothing. The question is the first after the header, and a name ends with a zero.
func (s *nameServer) answer(question []byte) []byte {
	end := headerBytes
	for end < len(question) && question[end] != 0 {
		end += 1 + int(question[end])
	}
	end += 5 // the zero, the type and the class
	if end > len(question) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ips [][4]byte
	if question[end-3] == typeA {
		ips = s.ips
	}
	answer := append([]byte{question[0], question[1], 0x84, 0, 0, 1, 0, byte(len(ips)), 0, 0, 0, 0},
		question[headerBytes:end]...)
	for _, ip := range ips {
		answer = append(answer, 0xc0, headerBytes, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4) // lives for no second
		answer = append(answer, ip[:]...)
	}
	return answer
}

// replicasOnOnePort starts replicas at addresses of loopback that share a port.
func replicasOnOnePort(t *testing.T, creds *Credentials, ips ...[4]byte) (port int, replicas []*keyServer) {
	t.Helper()
	for try := range 10 {
		replicas, port = nil, 0
		for _, ip := range ips {
			lis, err := net.Listen("tcp", net.JoinHostPort(net.IP(ip[:]).String(), strconv.Itoa(port)))
			if err != nil {
				t.Logf("try %d: %v", try, err) // another program has the port there
				break
			}
			port = lis.Addr().(*net.TCPAddr).Port
			replicas = append(replicas, replicaOn(t, lis, nil, creds, keyCallers))
		}
		if len(replicas) == len(ips) {
			return port, replicas
		}
	}
	t.Fatal("a port that is free at all addresses: got none, want one")
	return 0, nil
}

// TestAReplicaThatIsStartedIsFoundBeforeTheLastOneStops plays a rolling update: the only
// replica that the client knows says that it stops, and loses no connection.
func TestAReplicaThatIsStartedIsFoundBeforeTheLastOneStops(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only the loopback of Linux has several addresses")
	}
	dir := t.TempDir()
	first, second := [4]byte{127, 0, 0, 1}, [4]byte{127, 0, 0, 2}
	port, replicas := replicasOnOnePort(t, credsOf(t, dir, "billing-ledger"), first, second)
	names := newNameServer(t, first)
	conn, err := Dial(Target{Service: "billing-ledger", Addresses: []string{
		"dns://" + names.conn.LocalAddr().String() + "/ledger.test.:" + strconv.Itoa(port)}}, quiet(t),
		credsOf(t, dir, "edge-gateway"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	client := billingv1.NewKeyServiceClient(conn)
	if err := ask(t, client); err != nil {
		t.Fatal(err)
	}
	names.set(first, second)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for replicas[1].calls.Load() == 0 {
		if err := ask(t, client); err != nil {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			t.Fatalf("calls to the replica that was started: got none in %v, want one", patience)
		}
	}
	replicas[0].health.Shutdown()
	for range 20 {
		if err := ask(t, client); err != nil {
			t.Errorf("a call while the first replica says that it stops: got %v, want no error", err)
		}
	}
}
